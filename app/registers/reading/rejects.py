"""Counts rejected and skipped records, and writes the rejected ones to a file."""

import csv
import errno
import math
import os
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import NamedTuple, Self

import msgspec

from app.errors import Hindered, OperatorError
from app.registers.formats import Format
from app.registers.formats.dates import OPEN_END
from app.registers.formats.format import RECORD_BYTES_MIN
from app.registers.formats.report import Unreadable
from app.registers.formats.values import without_value
from app.registers.reading.lost_values import LostValues
from app.registers.reading.sources import InputFile, unpacked_bytes_of
from app.storage.file_lock import make_directory
from app.text import counted, csv_line, printable

RECORD_CHARACTERS_MAX = 2_000
FILE_BYTES_MAX = 10_000_000
"""The limit for one load. Further rejects are only counted (D70)."""
FILES_KEPT = 10
REASONS_KEPT = 5
_REJECTS_BETWEEN_CHECKS = 1_000
_DIRECTORY = "rejects"
_HEADER = ("file", "line", "reason", "record")
_FILE_NAME = re.compile(r"[a-z][a-z0-9_]*-(?P<load>[0-9]{1,18})\.csv")


class RejectLimit(NamedTuple):
    """How many rejects a load may have: `N`, or `N%` of its records."""

    number: float
    is_percent: bool

    @classmethod
    def parse(cls, text: str) -> "RejectLimit":
        """Return the limit that a text of the form `N` or `N%` means. Raises ValueError."""
        is_percent = text.endswith("%")
        with suppress(ValueError):
            number = float(text[:-1]) if is_percent else int(text)
            if 0 <= number <= (100 if is_percent else 10**12):
                return cls(number, is_percent)
        raise ValueError("must be N or N%, from 0 to 100%")

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
        reasons: the reasons of the first rejects.
        rejected: how many records were rejected so far.
        rows: the number of all records; None if the load ended before it had read them.
    """

    def __init__(
        self, sentence: str, reasons: list[Reason], rejected: int, rows: int | None
    ) -> None:
        more = rejected - len(reasons)
        so_far = " so far" if rows is None else ""
        rest = [f"and {more:,} more{so_far}"] if more else []
        remedy = _OPEN_END if any(OPEN_END in each.reason for each in reasons) else ""
        remedy = remedy or _remedy(rejected, rows)
        super().__init__("\n".join([sentence, *map(str, reasons), *rest, remedy]))
        self._sentence = sentence

    @property
    def sentence(self) -> str:
        """The message without the reasons of the first rejects and without the advice."""
        return self._sentence


_OPEN_END = (
    "Without these policies their vehicles would be uninsured. If an empty or open validTo means "
    "that a policy has no end, say so in a mapping."
)


def _remedy(rejected: int, rows: int | None) -> str:
    if rows is None:
        return "Correct them, or load the others with a higher --max-rejects."
    if 2 * rejected > rows:
        return "Most records were rejected: check that the file has the right format or mapping."
    percent = math.ceil(100 * rejected / rows)
    return f"Correct them, or load the others with --max-rejects {percent}%."


class RejectsFile:
    """The report of a load. It counts records and writes the rejects to a CSV file.

    The first reject creates the file, or overwrites an earlier rejects file. If the file cannot be
    written, for instance because the disk is full, the load continues.

    Args:
        limit: how many rejects the load may have. The load ends as soon as it certainly exceeds the
            limit.
        named: the file that the operator named; it is then an error if it cannot be opened.
    """

    def __init__(self, limit: RejectLimit, named: Path | None = None) -> None:
        self.path = named
        """The file; None to count only."""
        self.rejected = 0
        self.skipped = 0
        self.notes: list[str] = []
        self.reasons: list[Reason] = []
        """The reasons of the first rejects."""
        self.written = 0
        """How many rejects were written to the file, or would have been if `path` is None."""
        self.file_name = ""
        self.records_max: Callable[[], int | None] = lambda: None
        """Returns the maximum number of records in the load, or None if it is unknown."""
        self.lost = LostValues()
        """The values that cannot be read and count as missing."""
        self._limit = limit
        self._is_named = named is not None
        self._bytes = 0
        self._descriptor: int | None = None
        self._is_closed = False
        self._is_full = False

    def reject(self, line: int, reason: str, record: str) -> None:
        """Count and write a rejected record. Raises TooManyRejects."""
        self.rejected += 1
        if len(self.reasons) < REASONS_KEPT:
            # SEC: reasons reach the journal, and a value in the wrong column can be a registration
            # or a name (D25).
            self.reasons.append(Reason(self.file_name, line, without_value(reason)))
        self._write(self.file_name, line, reason, record[:RECORD_CHARACTERS_MAX])
        if not self._limit.is_percent and self._limit.is_passed(self.rejected, 0):
            many = counted(int(self._limit.number), "record was", "records were")
            raise self._too_many(f"more than {many} rejected")
        if self._limit.is_percent and self.rejected % _REJECTS_BETWEEN_CHECKS == 0:
            self._require_possible()

    def skip(self, records: int = 1) -> None:
        """Count valid records that are not loaded."""
        self.skipped += records

    def note(self, text: str) -> None:
        """Keep a note about the current file for the operator."""
        told = f"{self.file_name}: {text}"
        if told not in self.notes:  # Each piece of a file can tell the same.
            self.notes.append(told)

    def unreadable(self, column: str, found: Unreadable) -> None:
        """Count values of a column that cannot be read and count as missing."""
        self.lost.add(self.file_name, column, found)

    def note_unwritten(self) -> None:
        """Add a note if not all rejects fit in the file."""
        if self._is_full:
            self.notes.append(
                f"of {self.rejected:,} rejects, only the first {self.written:,} are in the file"
            )

    def require_few(self, loaded: int) -> None:
        """Raise TooManyRejects if the load has more than the limit allows, after all was read."""
        rows = loaded + self.rejected + self.skipped
        if self._limit.is_passed(self.rejected, rows):
            were = "was" if self.rejected == 1 else "were"
            records = counted(rows, "record")
            raise self._too_many(
                f"{self.rejected:,} of {records} {were} rejected, more than {self._limit}", rows
            )

    def _require_possible(self) -> None:
        """Raise TooManyRejects if the limit is exceeded even if all other records are valid."""
        rows = self.records_max()
        if rows is not None and self._limit.is_passed(self.rejected, rows):
            raise self._too_many(
                f"{self.rejected:,} records were rejected so far, more than {self._limit} of all "
                f"records that the files can have (at most {rows:,})"
            )

    def _too_many(self, sentence: str, rows: int | None = None) -> TooManyRejects:
        """Return the error.

        Args:
            rows: the number of all records; None if not all were read.
        """
        see = ""
        if self.path and self.written:
            part = f" for the first {self.written:,}" if self.written < self.rejected else ""
            see = f"; see {self.path}{part}"
        told = f"{sentence}; nothing was loaded{see}"
        return TooManyRejects(told, self.reasons, self.rejected, rows)

    def _write(self, *values: object) -> None:
        if self._is_closed:
            return
        header = b"" if self.written else _line(_HEADER)
        line = _line(values)
        if self._bytes + len(header + line) > FILE_BYTES_MAX:
            self._is_closed = self._is_full = True
            return
        try:
            if self.path is not None:
                self._append(self.path, header + line)
        except OSError as error:
            if self._is_named and self._descriptor is None:
                raise
            self._is_closed = True
            self.notes.append(f"the rejects cannot be written to {self.path}: {error.strerror}")
            return
        self._bytes += len(header + line)
        self.written += 1

    def _append(self, path: Path, data: bytes) -> None:
        if self._descriptor is None:
            self._descriptor = _opened(path)
        if os.write(self._descriptor, data) < len(data):
            with suppress(OSError):  # Remove the part of the line that was written.
                os.ftruncate(self._descriptor, self._bytes)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def __enter__(self) -> Self:
        """Raise Hindered if `path` is a file that is not a rejects file."""
        if self.path and self.path.is_file() and self.path.stat().st_size:
            with open(self.path, "rb") as file:
                if not file.read(64).startswith(",".join(_HEADER).encode()):
                    raise Hindered(
                        f"{self.path} exists and is not a rejects file; name another file"
                    )
        return self

    def __exit__(self, *_error: object) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)


def rejects_path(data_dir: Path, register: str, load_id: int) -> Path:
    """Return where the rejects of a load are written by default."""
    return data_dir / _DIRECTORY / f"{register}-{load_id}.csv"


def keep_newest(data_dir: Path) -> None:
    """Remove all but the newest rejects files. Raises OSError."""
    found = []
    with os.scandir(data_dir / _DIRECTORY) as entries:
        for each in entries:
            match = _FILE_NAME.fullmatch(each.name)
            with suppress(FileNotFoundError):  # Another load removed it at the same time.
                if match and each.is_file():
                    # After a restore, the numbers of loads begin again below those of former files.
                    found.append((each.stat().st_mtime_ns, int(match["load"]), each.path))
    for *_, path in sorted(found)[:-FILES_KEPT]:
        with suppress(FileNotFoundError):
            os.unlink(path)


def _opened(path: Path) -> int:
    make_directory(path.parent)
    # SEC: rejected records are register data, which only the operator may read.
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    if path.is_file():
        os.fchmod(descriptor, 0o600)
    return descriptor


def _line(values: Iterable[object]) -> bytes:
    # SEC: whoever sent the file chose its texts.
    return csv_line(map(str, values)).encode()


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
    with open(path, newline="", encoding="utf-8", errors="replace") as file:
        rows = islice(csv.reader(file), 1, None)  # After the header.
        whole = (row for row in rows if len(row) == len(Rejected._fields))
        return [Rejected(*map(printable, row)) for row in islice(whole, most)]


class Remaining:
    """Estimates how many records are still to come while the files of a load are read.

    Args:
        bytes_read: returns how many decompressed bytes of all files have been read.
    """

    def __init__(
        self, files: Sequence[str], bytes_read: Callable[[], int], *, are_trusted: bool = True
    ) -> None:
        sizes = [unpacked_bytes_of(file, is_trusted=are_trusted) for file in files]
        self._bytes_total = None if None in sizes else sum(size or 0 for size in sizes)
        self._bytes_read = bytes_read
        self._bytes_counted = 0
        self.uncounted_bytes_max: int | None = None
        """How many bytes can have been read but not counted; None if `count` counts them."""
        self._file_ends_at: int | None = 0
        self._record_bytes_min = RECORD_BYTES_MIN

    def begin_file(self, file: InputFile, format_: Format) -> None:
        """Go to the next file."""
        size = file.unpacked_bytes
        self._file_ends_at = None if size is None else self._counted_min() + size
        self._record_bytes_min = format_.record_bytes_min(file.head)

    def count(self, size: int) -> None:
        """Count bytes whose records have all been counted."""
        self._bytes_counted += size

    def end_file(self) -> None:
        """Count all bytes of the file."""
        self._bytes_counted, self.uncounted_bytes_max = self._bytes_read(), None

    def records_max(self) -> int | None:
        """Return the maximum number of valid records that can follow, or None if it is unknown."""
        if self._bytes_total is None or self._file_ends_at is None:
            return None
        counted = self._counted_min()
        in_this_file = max(0, self._file_ends_at - counted)
        in_other_files = max(0, self._bytes_total - max(self._file_ends_at, counted))
        # The last record of a file can lack a line end, hence the 1.
        return in_this_file // self._record_bytes_min + in_other_files // RECORD_BYTES_MIN + 1

    def _counted_min(self) -> int:
        """Return the minimum size of the records that were counted so far in all files."""
        if self.uncounted_bytes_max is None:
            return self._bytes_counted
        return max(self._bytes_counted, self._bytes_read() - self.uncounted_bytes_max)
