"""Whether the disk has room for a load, before the register is written (D57)."""

import os
from pathlib import Path

from app.errors import Hindered
from app.registers.forked_worker import CORES
from app.registers.formats.changes import Columns
from app.registers.history import REPLACE
from app.registers.reading.reader import Progress
from app.registers.reading.sorted_runs import Runs
from app.storage.engine import Engine
from app.storage.registers import Entry
from app.storage.stores import store_of
from app.storage.tables import Kind

_FIXED_BYTES = 128 * 1024
"""A register without rows, its log, and the index of that."""
_ROW_OVERHEAD_BYTES = 5
_NUMBER_BYTES = 5
_PAGES_SHARE = 1.1
"""How much larger a table is than its rows: 1.07 for vehicles, 1.19 for policies."""


class TooLittleSpace(Hindered):
    """The disk has less space than a load needs."""

    def __init__(self, message: str, directory: Path, needed_bytes: int) -> None:
        super().__init__(message)
        self.directory = directory
        self.needed_bytes = needed_bytes
        """Of all that the load writes, what it has written so far included."""


class Space:
    """Estimates the disk space that a load needs from the rows read so far.

    On Postgres the register is the server's: what is estimated is where rows wait to be sorted.

    Args:
        entry: the register as it is; None if there is none.
    """

    def __init__(self, engine: Engine, *, kind: Kind, mode: str, entry: Entry | None) -> None:
        self._directory = engine.scratch_directory
        self._is_here = engine.file is not None
        self._is_replace = mode == REPLACE
        self._held = entry.rows(kind) if entry is not None else 0
        self._carried_bytes = 0
        if engine.file is not None and entry is not None:
            self._carried_bytes = _carried_bytes(engine, entry, kind)
        self._latest = self._start = Progress(None, 0, None, 0)

    def require_for_rest(self, progress: Progress, runs: Runs) -> None:
        """Refuse a load that cannot succeed while it still reads a file whose size is known.

        Raises TooLittleSpace with the space that it needs at least, and the space that is free.
        """
        if not progress.file or not progress.total:
            return
        if progress.file != self._latest.file:
            # Members of one zip are read one after the other, out of the same bytes.
            is_same_zip = progress.total == self._latest.total
            self._start = self._latest._replace(done=self._latest.done if is_same_zip else 0)
        self._latest = progress
        read_bytes = progress.done - self._start.done
        if read_bytes <= 0 or not runs.size_bytes:
            return
        to_come = (progress.total - progress.done) / read_bytes
        rows_to_come = int((progress.rows - self._start.rows) * to_come)
        waiting_bytes = runs.size_bytes * rows_to_come // max(progress.rows, 1)
        register_bytes = self._register_bytes(progress.rows + rows_to_come, runs)
        self._require(waiting_bytes + register_bytes, runs)

    def require(self, rows: int, runs: Runs) -> None:
        """Refuse a load that has read all its files. Raises as `require_for_rest` does."""
        self._require(self._register_bytes(rows, runs), runs)

    def _register_bytes(self, rows: int, runs: Runs) -> int:
        if not self._is_here:
            return 0
        if self._is_replace:
            table_bytes = int(rows * _row_bytes(runs))
            # The upper half of the keys is written apart, then copied (D54).
            part_bytes = table_bytes // 2 if runs.files and CORES > 1 else 0
            return _FIXED_BYTES + self._carried_bytes + table_bytes + part_bytes
        # A merge is in the log first. Rows that are held already may be the same: they are free.
        added = max(0, rows - self._held)
        return _FIXED_BYTES + 2 * int(added * _row_bytes(runs))

    def _require(self, needed_bytes: int, runs: Runs) -> None:
        found = os.statvfs(self._directory)
        free_bytes = free_bytes_of(found)
        if free_bytes < needed_bytes:
            raise TooLittleSpace(
                f"the load needs about {size_text(needed_bytes)} of disk space in "
                f"{self._directory.absolute()}, and {size_text(free_bytes)} are free: make room, "
                "then load again",
                self._directory,
                needed_bytes + runs.size_bytes,
            )
        if found.f_files and not found.f_favail:
            raise Hindered(
                f"the file system of {self._directory.absolute()} can hold no more files: remove "
                "some, then load again"
            )


def free_bytes_of(found: os.statvfs_result) -> int:
    """Return how many bytes of a file system a user without privileges may still take."""
    return found.f_bavail * found.f_frsize


def size_text(size_bytes: int) -> str:
    """Return a number of bytes as a person reads it, such as `1.2 MB`."""
    for unit, unit_bytes in (("GB", 10**9), ("MB", 10**6)):
        if size_bytes >= unit_bytes:
            return f"{size_bytes / unit_bytes:,.1f} {unit}"
    return f"{size_bytes / 1000:,.0f} kB"


def _carried_bytes(engine: Engine, entry: Entry, replaced: Kind) -> int:
    """Return what the other kinds take of a register's file: a replace copies them."""
    file_bytes = store_of(engine, entry.name).size_bytes(entry.generation)
    total = sum(map(entry.rows, Kind))
    return file_bytes * (total - entry.rows(replaced)) // total if total else 0


def _row_bytes(runs: Runs) -> float:
    """Return what a row takes on average in a table of SQLite."""
    rows: list[Columns] = runs.sample()
    if not rows:
        return 0
    sizes = (_ROW_OVERHEAD_BYTES + sum(map(_value_bytes, row)) for row in rows)
    return _PAGES_SHARE * sum(sizes) / len(rows)


def _value_bytes(value: object) -> int:
    """Return what a value takes in a row of SQLite, its type included."""
    if value is None or isinstance(value, bool):
        return 1
    return 1 + (len(value.encode()) if isinstance(value, str) else _NUMBER_BYTES)
