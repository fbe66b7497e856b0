"""Runs a command and measures it: wall and CPU time, and the memory of all its processes."""

import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.bench.processes import memory_bytes

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
    most_bytes = 0
    while not (ended := os.wait4(process.pid, os.WNOHANG))[0]:
        most_bytes = max(most_bytes, memory_bytes(process.pid))
        time.sleep(_SAMPLED_EVERY_SECONDS)
    wall_seconds = time.monotonic() - started
    _, status, usage = ended
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)}: {output.read_text()}")
    return Cost(wall_seconds, usage.ru_utime + usage.ru_stime, most_bytes / 2**20)
