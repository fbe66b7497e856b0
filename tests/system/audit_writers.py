"""Processes that write to an audit trail, and that a test kills."""

import random
import subprocess
import sys
import time
from pathlib import Path

from tests.system.processes import environment

# Appends records of one plate and of a bulk, and says which ones were appended.
_WRITER = """
import os, sys, time
from pathlib import Path
from app import clock
from app.audit.owner import claim
from app.audit.record import Plate, Record, time_of
from app.audit.trail import Trail

directory, name = Path(sys.argv[1]), sys.argv[2]
owner = claim(directory, sys.argv[3])
trail = Trail(directory, lambda: owner)
number = 0
while True:
    number += 1
    plates = [Plate(f"{name}N{number}", found=True, insured=True)]
    if number % 20 == 0:
        plates += [Plate(f"{name}B{n}", found=False) for n in range(2_000)]
    trail.append(Record(time=time_of(clock.now_ns()), operation="insurance", plates=plates))
    os.write(1, f"{name}N{number}\\n".encode())
    time.sleep(0.002)  # As long as a look-up takes; otherwise eight processes fill the disk.
"""
_CHANGER = """
import sys
from pathlib import Path
from app import clock
from app.audit import index
from app.audit.prune import AMOUNT, prune
from app.audit.record import time_of
from app.audit.seal import seal

index._FAN_IN = 3
index._RUN_ENTRIES = 1_000
if sys.argv[2] == "seal":
    seal(Path(sys.argv[1]), current=True)
else:
    before = time_of(clock.now_ns() - int(sys.argv[3]))
    prune(Path(sys.argv[1]), "1d", before=before, accepted=[AMOUNT])
"""


class Writer:
    """A process that appends until it is killed."""

    def __init__(
        self, directory: Path, name: str, acknowledged: Path, database: str = "d" * 32
    ) -> None:
        self._acknowledged = acknowledged / name
        with self._acknowledged.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-c", _WRITER, str(directory), name, database],
                env=environment(),
                stdout=output,
            )

    def kill(self) -> None:
        """Kill the process at once."""
        self.process.kill()
        self.process.wait()

    @property
    def has_begun(self) -> bool:
        """Whether a record was appended."""
        return self._acknowledged.stat().st_size > 0

    @property
    def acknowledged(self) -> list[str]:
        """The plates of all records that were appended."""
        text = self._acknowledged.read_text()
        return text[: text.rfind("\n") + 1].split()


def change(directory: Path, *words: object) -> "subprocess.Popen[bytes]":
    """Start to seal or to prune a trail."""
    arguments = [str(directory), *map(str, words)]
    return subprocess.Popen([sys.executable, "-c", _CHANGER, *arguments], env=environment())


def kill_at_random(process: "subprocess.Popen[bytes]", seconds: float) -> None:
    """Kill a process after a random time, unless it has ended."""
    end = time.monotonic() + random.uniform(0, seconds)
    while time.monotonic() < end and process.poll() is None:
        time.sleep(0.001)
    process.kill()
    process.wait()
