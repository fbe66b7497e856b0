"""The progress of a load at a terminal."""

import os
import pty
import re
import subprocess
import sys
import termios

import pytest

from tests.system.processes import environment

ROWS = 400_000


@pytest.mark.parametrize("mode", [pytest.param("merge", marks=pytest.mark.system_long), "replace"])
def test_reading_and_writing_are_shown(world, mode):
    """It has percentage, rows per second and time left; two processes share one bar."""
    file = world.directory / "cars.csv"
    lines = (f"AB{n:06},{'FORD' * 20}\n" for n in range(ROWS))
    file.write_text("registration,make\n" + "".join(lines))
    ours, terminal = pty.openpty()
    termios.tcsetwinsize(terminal, (24, 120))
    settings = {"database_url": world.config.database_url, "state_dir": world.config.state_dir}
    load = subprocess.Popen(
        [sys.executable, "-m", "app", "import", str(file), "--mode", mode],
        env=environment(**settings),
        stdout=subprocess.DEVNULL,
        stderr=terminal,
    )
    os.close(terminal)
    shown = everything_of(ours)
    assert load.wait() == 0
    states = [line for line in re.split(r"[\r\n]+", shown) if "rows/s" in line]
    read, *_, written = states
    assert re.match(r"cars\.csv: +\d+%.*B/s, [\d,]+ rows/s", read), states
    assert re.match(r"writing: +\d+%.*k/400k .* rows/s", written), states
    # The progress of writing has its own name.
    percent = [int(found[1]) for line in states if (found := re.match(r"writing: +(\d+)%", line))]
    assert len({each for each in percent if 0 < each < 100}) > 1, states
    assert not [line for line in states if line.startswith("cars.csv") and "/400k" in line]
    assert [line for line in states if re.search(r"\[\d\d:\d\d<\d\d:\d\d", line)], "the time left"


def everything_of(terminal: int) -> str:
    """Read all output until no process can write any more."""
    shown = b""
    while True:
        try:
            shown += os.read(terminal, 65_536)
        except OSError:  # This error means that the other end was closed.
            os.close(terminal)
            return shown.decode()
