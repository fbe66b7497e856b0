"""The processor time of running processes, above all of servers (proc(5))."""

import os
from contextlib import suppress
from pathlib import Path

from tests.system.processes import descendants

_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
# The positions of utime, stime, cutime and cstime after the name of the process.
_OWN = slice(11, 13)
_WITH_ENDED_CHILDREN = slice(11, 15)


def cpu_seconds(pid: int) -> float:
    """Return the seconds that a process and its descendants used, ended children included."""
    ticks = _ticks(pid, _WITH_ENDED_CHILDREN)
    for descendant in descendants(pid):
        with suppress(OSError):  # It has ended.
            ticks += _ticks(descendant, _OWN)
    return ticks / _TICKS_A_SECOND


def _ticks(pid: int, places: slice) -> int:
    _, _, fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")
    return sum(map(int, fields.split()[places]))
