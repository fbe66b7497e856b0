"""What becomes of records that are no rows: counted, and the rejected ones written down."""

import csv
import os
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from app.directories import make_directory
from app.errors import Hindered, OperatorError

RECORD_CHARACTERS_MAX = 2_000
_HEADER = ("file", "line", "reason", "record")


class RejectLimit(NamedTuple):
    """How many rejects a load may have: `N`, or `N%` of its records (D28)."""

    number: float
    is_percent: bool

    @classmethod
    def parse(cls, text: str) -> "RejectLimit":
        """Read `N` or `N%`; raises ValueError."""
        is_percent = text.endswith("%")
        number = float(text[:-1]) if is_percent else int(text)
        if not 0 <= number <= (100 if is_percent else 10**12):
            raise ValueError("must be N or N%, not negative, at most 100%")
        return cls(number, is_percent)

    def is_passed(self, rejected: int, rows: int) -> bool:
        """Tell whether so many rejects among so many records are too many."""
        return rejected > (rows * self.number / 100 if self.is_percent else self.number)

    def __str__(self) -> str:
        return f"{self.number:g}%" if self.is_percent else f"{self.number:g}"


class TooManyRejects(OperatorError):
    """More records were rejected than `--max-rejects` allows; nothing was loaded."""


class RejectsFile:
    """Takes the reports of the formats: a CSV of file, line, reason and record.

    The file is made at the first reject; what a former load left there is gone then.

    Args:
        path: None to count only.
        limit: a number is enforced at once, a percentage by `require_few` at the end.
    """

    def __init__(self, path: Path | None, limit: RejectLimit) -> None:
        self.path = path
        self.rejected = 0
        self.skipped = 0
        self.notes: list[str] = []
        self.file_name = ""
        self._limit = limit
        self._file: Any = None
        self._writer: Any = None

    def reject(self, line: int, reason: str, record: str) -> None:
        """Write a record down; raises TooManyRejects."""
        self.rejected += 1
        if self.path is not None:
            writer = self._writer or self._open(self.path)
            writer.writerow((self.file_name, line, reason, record[:RECORD_CHARACTERS_MAX]))
        if not self._limit.is_percent and self._limit.is_passed(self.rejected, 0):
            raise TooManyRejects(f"more than {self._limit} records were rejected{self._see}")

    def skip(self, line: int, reason: str) -> None:
        """Count a record that has nothing to do here."""
        self.skipped += 1

    def note(self, text: str) -> None:
        """Keep what the operator should know of the file."""
        self.notes.append(f"{self.file_name}: {text}")

    def require_few(self, loaded: int) -> None:
        """Raise TooManyRejects if the whole load has more than the limit allows."""
        rows = loaded + self.rejected + self.skipped
        if self._limit.is_passed(self.rejected, rows):
            raise TooManyRejects(
                f"{self.rejected:,} of {rows:,} records were rejected, more than {self._limit}; "
                f"nothing was loaded{self._see}"
            )

    @property
    def _see(self) -> str:
        return f"; see {self.path}" if self.path else ""

    def _open(self, path: Path) -> Any:
        make_directory(path.parent)
        # SEC: rejected records are register data; only the operator may read them.
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        if path.is_file():
            os.fchmod(descriptor, 0o600)
        self._file = open(descriptor, "w", encoding="utf-8", errors="replace", newline="")  # noqa: SIM115
        self._writer = csv.writer(self._file)
        self._writer.writerow(_HEADER)
        return self._writer

    def __enter__(self) -> Self:
        """Take the file's name; raises OperatorError where something else would be lost."""
        if self.path and self.path.is_file() and self.path.stat().st_size:
            with open(self.path, "rb") as file:
                if not file.read(64).startswith(",".join(_HEADER).encode()):
                    raise Hindered(f"{self.path} is there and holds no rejects; name another")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._file is not None:
            self._file.close()
