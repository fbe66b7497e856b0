"""What was measured, in all rounds; as JSON it can be read again."""

import os
import platform
import sys
from pathlib import Path
from statistics import median

import msgspec
import psutil

from tests.bench.interpreter import description

Sample = dict[str, float]
"""Figures of one round. The end of a name is its unit: `_ms`, `_us`, `_s`, `_mb`."""
Figures = dict[str, dict[str, list[Sample]]]
"""The samples by part and subject, one for each round. A subject is mostly a contestant."""


class Options(msgspec.Struct):
    """How it was measured."""

    vehicles: int
    seconds: int
    rounds: int
    processes: int
    connections: int
    rate: int
    sizes: tuple[int, int]
    interpreter: str = ""
    """That of verifyd; by default the one that measures."""
    before: str = ""
    """The commit that verifyd was compared with."""


class Machine(msgspec.Struct):
    """Where it was measured."""

    processor: str
    cores: int
    memory_gb: int
    kernel: str
    python: str
    load_before: float

    def __str__(self) -> str:
        return (
            f"{self.processor}, {self.cores} cores, {self.memory_gb} GB of memory, Linux "
            f"{self.kernel}, Python {self.python}, load {self.load_before:.1f} at the start"
        )


class Results(msgspec.Struct):
    """A whole run."""

    machine: Machine
    options: Options
    figures: Figures
    left_out: dict[str, str]
    """Contestants that could not run here, with the reason."""

    def value(self, part: str, subject: str, name: str) -> float | None:
        """Return the median of a figure over the rounds; None if it was not measured."""
        samples = self.figures.get(part, {}).get(subject, [])
        values = [sample[name] for sample in samples if name in sample]
        return median(values) if values else None

    def subjects(self, part: str) -> list[str]:
        """Return the subjects of a part, in the order in which they were measured."""
        return list(self.figures.get(part, {}))

    def names(self, part: str) -> list[str]:
        """Return the names of a part's figures."""
        samples = [each[0] for each in self.figures.get(part, {}).values() if each]
        return list(dict.fromkeys(name for sample in samples for name in sample))


def this_machine(interpreter: str = "") -> Machine:
    """Describe this machine, with the interpreter that verifyd runs on."""
    return Machine(
        processor=_processor(),
        cores=os.cpu_count() or 1,
        memory_gb=round(psutil.virtual_memory().total / 1024**3),
        kernel=platform.release(),
        python=description(interpreter or sys.executable),
        load_before=os.getloadavg()[0],
    )


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()  # Arm processors have no such line.
