"""A wrong clock for real processes, by Debian's libfaketime.

The time since the boot stays the real one, as it does when somebody sets the clock of a host. Times
of files that the kernel writes stay real, too.
"""

import json
from pathlib import Path

from tests.system import debian
from tests.system.processes import ROOT

_LIBRARY = "usr/lib/*/faketime/libfaketimeMT.so.1"
# Debian's libfaketime fails clock_nanosleep() until a monotonic time, which time.sleep() uses.
_SITE = """
import select
import time

time.sleep = lambda seconds: select.select([], [], [], seconds)
"""


class WrongClock:
    """The clock of all processes that run under `words`; a test can set it while they run.

    Skips the test if libfaketime cannot be had. Example:

        wrong = WrongClock(tmp_path)
        service = serve(command=(*wrong.words, *SERVE))
        wrong.set(3 * 365 * 86_400)
        run_command("usage", before=wrong.words, **settings)

    Args:
        directory: for the file that the processes read.
    """

    def __init__(self, directory: Path) -> None:
        (library,) = debian.unpacked("libfaketime").glob(_LIBRARY)
        self._file = directory / "wrong-clock"
        self.set(0)
        site = directory / "wrong-clock-site"
        site.mkdir()
        (site / "sitecustomize.py").write_text(_SITE)
        self.words = (
            "env",
            f"LD_PRELOAD={library}",
            f"FAKETIME_TIMESTAMP_FILE={self._file}",
            "FAKETIME_NO_CACHE=1",
            "DONT_FAKE_MONOTONIC=1",
            "NO_FAKE_STAT=1",
            f"PYTHONPATH={site}:{ROOT}",
        )

    def set(self, ahead_seconds: int) -> None:
        """Set the clock so many seconds ahead of the real time; less than 0 is behind."""
        new = self._file.with_name("wrong-clock.new")
        new.write_text(f"{ahead_seconds:+}\n")
        new.rename(self._file)


def pretend_boot(data_dir: Path) -> None:
    """Let what is known of the clock be from an earlier boot of the host."""
    path = data_dir / "clock.json"
    known = json.loads(path.read_bytes())
    path.write_text(json.dumps(known | {"boot": "an earlier boot"}))
