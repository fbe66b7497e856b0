"""The limit of rejects that a load may have, and the error if it has more."""

import math
from typing import NamedTuple

import msgspec

from app.errors import OperatorError


class RejectLimit(NamedTuple):
    """How many rejects a load may have: `N`, or `N%` of its records (D28)."""

    number: float
    is_percent: bool

    @classmethod
    def parse(cls, text: str) -> "RejectLimit":
        """Return the limit that a text of the form `N` or `N%` means. Raises ValueError."""
        is_percent = text.endswith("%")
        number = float(text[:-1]) if is_percent else int(text)
        if not 0 <= number <= (100 if is_percent else 10**12):
            raise ValueError("must be N or N%, not negative, at most 100%")
        return cls(number, is_percent)

    def is_passed(self, rejected: int, rows: int) -> bool:
        """Return whether `rejected` records of `rows` are too many."""
        return rejected > (rows * self.number / 100 if self.is_percent else self.number)

    def __str__(self) -> str:
        return f"{self.number:g}%" if self.is_percent else f"{self.number:g}"


class Reason(msgspec.Struct, frozen=True):
    """Where a record was rejected and why, without any of its content (D70)."""

    file: str
    line: int
    reason: str

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}: {self.reason}"


class TooManyRejects(OperatorError):
    """More records were rejected than `--max-rejects` allows, so nothing was loaded.

    Args:
        reasons: those of the first rejects.
        rejected: how many records were rejected so far.
        rows: the number of all records; None if the load ended before it had read them.
    """

    def __init__(
        self, sentence: str, reasons: list[Reason], rejected: int, rows: int | None
    ) -> None:
        more = rejected - len(reasons)
        so_far = " so far" if rows is None else ""
        rest = [f"and {more:,} more{so_far}"] if more else []
        super().__init__("\n".join([sentence, *map(str, reasons), *rest, _remedy(rejected, rows)]))
        self._sentence = sentence

    @property
    def sentence(self) -> str:
        """The message without the reasons of the first rejects, and without what to do."""
        return self._sentence


def _remedy(rejected: int, rows: int | None) -> str:
    if rows is None:
        return "Correct them, or load the others with a higher --max-rejects."
    if 2 * rejected > rows:
        return "Most records were rejected: check that the file has the right format or mapping."
    percent = math.ceil(100 * rejected / rows)
    return f"Correct them, or load the others with --max-rejects {percent}%."
