"""Runs a command and measures it: wall and CPU time, and the memory of all its processes."""

import os
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

_SAMPLED_EVERY_SECONDS = 0.25


class Cost(NamedTuple):
    """The cost of a command; `memory_mb` is the maximum of all its processes together."""

    wall_seconds: float
    cpu_seconds: float
    memory_mb: float

    def __str__(self) -> str:
        return f"{self.wall_seconds:8.1f} s wall {self.cpu_seconds:8.1f} s CPU"


def cost_of(
    command: Sequence[str], directory: Path, environment: Mapping[str, str] | None = None
) -> Cost:
    """Run a command to its end; raise RuntimeError with its output if it fails."""
    output = directory / "output"
    started = time.monotonic()
    with open(output, "wb") as file:
        process = subprocess.Popen(
            command, cwd=directory, env=environment, stdout=file, stderr=subprocess.STDOUT
        )
    most_kb = 0
    while not (ended := os.wait4(process.pid, os.WNOHANG))[0]:
        most_kb = max(most_kb, sum(map(_proportional_kb, _with_descendants(process.pid))))
        time.sleep(_SAMPLED_EVERY_SECONDS)
    wall_seconds = time.monotonic() - started
    _, status, usage = ended
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)}: {output.read_text()}")
    return Cost(wall_seconds, usage.ru_utime + usage.ru_stime, most_kb / 1024)


def _with_descendants(pid: int) -> Iterator[int]:
    yield pid
    with suppress(OSError):  # It has ended.
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            yield from _with_descendants(int(child))


def _proportional_kb(pid: int) -> int:
    """Return the memory of a process; a page shared by n processes counts as one nth."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1])
    return 0
