"""Reads the rejects file of a load again, for the console (D135)."""

import csv
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from app.registers.reading.streams import printable


class Rejected(NamedTuple):
    """A rejected record, with all texts made printable."""

    file: str
    line: str
    reason: str
    record: str


def first_rejected(path: Path, most: int) -> list[Rejected]:
    """Return the first records of a rejects file. Raises OSError.

    SEC: they are register data, which only operators may read. The load may still be writing the
    file, so its last line can be incomplete.
    """
    return list(islice(_rejected(path), most))


def _rejected(path: Path) -> Iterator[Rejected]:
    with open(path, newline="", encoding="utf-8", errors="replace") as file:
        rows = csv.reader(file)
        next(rows, None)  # The header.
        for row in rows:
            if len(row) == len(Rejected._fields):
                yield Rejected(*map(printable, row))
