"""Ctrl-C at any moment ends a command without a traceback."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.system.processes import DEADLINE_SECONDS, environment, until

MOMENTS = 12
MAIN = [sys.executable, "-m", "app"]
SCRIPT = [str(Path(sys.executable).with_name("verifyd"))]


def handles(process_id: int, how: str, number: int) -> bool:
    """Tell whether a process catches (`Cgt`) or ignores (`Ign`) a signal; False if it has ended."""
    for line in Path(f"/proc/{process_id}/status").read_text().splitlines():
        if line.startswith(f"Sig{how}:"):
            return bool(int(line.split()[1], 16) & 1 << (number - 1))
    return False


def begin(*words: str, **settings: Any) -> subprocess.Popen[str]:
    """Start a command that reads a register file from its standard input."""
    return subprocess.Popen(
        [*words, "import", "-"],
        env=environment(**settings),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for_program(process: subprocess.Popen[str]) -> None:
    """Wait for our first lines to run: before them, Python handles Ctrl-C itself."""
    seen = [False]

    def is_ours() -> bool:
        # Python ignores PIPE a moment before it catches INT, and our first lines let go of INT.
        has_begun = handles(process.pid, "Ign", signal.SIGPIPE)
        seen.append(has_begun and not handles(process.pid, "Cgt", signal.SIGINT))
        return all(seen[-2:])

    until(is_ours, "the program to start")


def wait_for_work(process: subprocess.Popen[str]) -> None:
    """Wait until the program handles Ctrl-C itself, as Python does before it."""
    maps = Path(f"/proc/{process.pid}/maps")

    def is_at_work() -> bool:
        return handles(process.pid, "Cgt", signal.SIGINT) and "apsw" in maps.read_text()

    until(is_at_work, "the command to work")


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(MAIN, id="python -m app", marks=pytest.mark.system_long),
        pytest.param(SCRIPT, id="verifyd"),
    ],
)
def test_ctrl_c_is_no_error_of_the_program(world, command):
    """During imports and work, a command ends with 130, as shells expect."""
    settings = {"database_url": world.config.database_url, "state_dir": world.config.state_dir}
    statuses = set()
    for moment in range(MOMENTS):
        process = begin(*command, **settings)
        wait_for_program(process)
        if moment == MOMENTS - 1:
            wait_for_work(process)
        else:
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(0.03 * moment)
        process.send_signal(signal.SIGINT)
        process.wait(
            DEADLINE_SECONDS
        )  # Its standard input stays open, so that only the signal ends it.
        stdout, stderr = process.communicate()
        assert (stdout, "Traceback" in stderr) == ("", False), stderr
        # A load that has begun logs that it was cancelled.
        logged = [line for line in stderr.splitlines() if line != "interrupted"]
        assert all("KeyboardInterrupt" in json.loads(line)["message"] for line in logged), stderr
        statuses.add(process.returncode)
    # Killed by the signal, which a shell shows as 130, or ended properly.
    assert statuses <= {-signal.SIGINT, 130}
    assert process.returncode == 130


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_signal_that_a_callback_swallows_still_ends_the_command(name):
    """Python cannot raise an exception in a callback, such as of an import."""
    code = f"""
import signal
from app import cli
from app.cli import program
from app.processes import ended_like_ctrl_c

class Swallows:
    def __del__(self):
        signal.raise_signal(signal.{name})

def print_item(*_anything):
    with ended_like_ctrl_c():
        Swallows()
        while True:
            pass

program.print_item = print_item
raise SystemExit(cli.main(["version"], catch_ctrl_c=True))
"""
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )
    status = 128 + getattr(signal, name)
    assert (ended.returncode, ended.stderr) == (status, "interrupted\n")


@pytest.mark.system_long
def test_a_command_that_ignores_ctrl_c_still_does(world):
    """Commands under nohup, or in the background of a script, ignore Ctrl-C."""
    settings = {"database_url": world.config.database_url, "state_dir": world.config.state_dir}
    process = begin("sh", "-c", 'trap "" INT; exec "$@"', "sh", *MAIN, **settings)
    query = "SELECT count(*) FROM register_load"
    cmdline = Path(f"/proc/{process.pid}/cmdline")
    until(lambda: cmdline.read_text().startswith(sys.executable), "the command to run")
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(
        "registration,make\nAB12CDE,FORD\n", timeout=DEADLINE_SECONDS
    )
    assert process.returncode == 0, stderr
    assert "native" in stdout
    assert world.engine.execute_sql(query).fetchone() == (1,)
