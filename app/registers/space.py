"""Checks that the disk has room for a load before the register is written (D57)."""

import os
from pathlib import Path

from app.errors import Hindered
from app.processes import CORES
from app.registers.formats.changes import Columns
from app.registers.history import REPLACE
from app.registers.reading.reader import Progress
from app.registers.reading.sorted_runs import Runs
from app.storage.engine import Engine
from app.storage.files import free_bytes_of, size_text
from app.storage.registers import Entry
from app.storage.stores import store_of
from app.storage.tables import Kind

_FIXED_BYTES = 128 * 1024
"""The size of an empty register, with its log and the index of the log."""
_ROW_OVERHEAD_BYTES = 5
_NUMBER_BYTES = 5
_TABLE_FACTOR = 1.1
"""The size of a table divided by the size of its rows; measured: vehicles 1.07, policies 1.19."""


class TooLittleSpace(Hindered):
    """The disk has less space than a load needs."""

    def __init__(self, message: str, directory: Path, needed_bytes: int) -> None:
        super().__init__(message)
        self.directory = directory
        self.needed_bytes = needed_bytes
        """The space for everything that the load writes, including what it has written already."""


class Space:
    """Estimates the disk space that a load needs, from the rows read so far.

    On Postgres the register is on the server's disk, so only the sorted runs count.

    Args:
        runs: the rows.
        entry: the register's entry; None if it has none.
    """

    def __init__(
        self, engine: Engine, runs: Runs, *, kind: Kind, mode: str, entry: Entry | None
    ) -> None:
        self._runs = runs
        self._directory = engine.scratch_directory
        self._is_local = engine.file is not None
        self._is_replace = mode == REPLACE
        self._held = entry.rows(kind) if entry is not None else 0
        self._carried_bytes = 0
        if self._is_local and entry is not None:
            self._carried_bytes = _carried_bytes(engine, entry, kind)
        self._latest = self._start = Progress(None, 0, None, 0)
        self._row_bytes, self._sampled_bytes = 0.0, -1
        """How many bytes a row takes, by a sample of the runs while they had this size."""

    def require_for_rest(self, progress: Progress) -> None:
        """Refuse a load as early as possible: while it reads a file whose size is known.

        Raises TooLittleSpace if the disk has too little space, Hindered if it has no inodes.
        """
        if not progress.file or not progress.total:
            return
        if progress.file != self._latest.file:
            # The members of one zip are read one after the other. They share its progress.
            is_same_zip = progress.total == self._latest.total
            self._start = self._latest._replace(done=self._latest.done if is_same_zip else 0)
        self._latest = progress
        read_bytes = progress.done - self._start.done
        if read_bytes <= 0 or not self._runs.size_bytes:
            return
        bytes_to_come = progress.total - progress.done
        rows_to_come = int((progress.rows - self._start.rows) * bytes_to_come / read_bytes)
        waiting_bytes = self._runs.size_bytes * rows_to_come // max(progress.rows, 1)
        register_bytes = self._register_bytes(progress.rows + rows_to_come)
        self._require(waiting_bytes + register_bytes)

    def require(self, rows: int) -> None:
        """Refuse a load that has read all its files. Raises the errors of `require_for_rest`."""
        self._require(self._register_bytes(rows))

    def _register_bytes(self, rows: int) -> int:
        """Return how many more bytes the register takes once these rows are loaded."""
        if not self._is_local:
            return 0
        if self._sampled_bytes != self._runs.size_bytes:
            self._row_bytes = _row_bytes(self._runs)
            self._sampled_bytes = self._runs.size_bytes
        if self._is_replace:
            table_bytes = int(rows * self._row_bytes)
            # The upper half of the keys is written to a file of its own, then copied.
            part_bytes = table_bytes // 2 if self._runs.files and CORES > 1 else 0
            return _FIXED_BYTES + self._carried_bytes + table_bytes + part_bytes
        # A merge writes rows twice: to the log, then to the file. As many rows as the register
        # holds may be unchanged, so they need no space.
        added = max(0, rows - self._held)
        return _FIXED_BYTES + 2 * int(added * self._row_bytes)

    def _require(self, needed_bytes: int) -> None:
        """Raise TooLittleSpace or Hindered if the directory cannot take so many more bytes."""
        free_bytes = free_bytes_of(self._directory)
        if free_bytes < needed_bytes:
            raise TooLittleSpace(
                f"the load needs about {size_text(needed_bytes)} of disk space in "
                f"{self._directory.absolute()}, but only {size_text(free_bytes)} are free; make "
                "room, then load again",
                self._directory,
                needed_bytes + self._runs.size_bytes,
            )
        found = os.statvfs(self._directory)
        if found.f_files and not found.f_favail:
            raise Hindered(
                f"the file system of {self._directory.absolute()} has no free inodes; remove some "
                "files, then load again"
            )


def _carried_bytes(engine: Engine, entry: Entry, replaced: Kind) -> int:
    """Return how many bytes of a register's file the other kinds take: a replace copies them."""
    file_bytes = store_of(engine, entry.name).size_bytes(entry.generation)
    total = sum(map(entry.rows, Kind))
    return file_bytes * (total - entry.rows(replaced)) // total if total else 0


def _row_bytes(runs: Runs) -> float:
    """Return how many bytes a row takes in a SQLite table, on average over a sample."""
    rows: list[Columns] = runs.sample()
    if not rows:
        return 0
    sizes = (_ROW_OVERHEAD_BYTES + sum(map(_value_bytes, row)) for row in rows)
    return _TABLE_FACTOR * sum(sizes) / len(rows)


def _value_bytes(value: object) -> int:
    """Return how many bytes a value takes in a SQLite row, including its type."""
    if value is None or isinstance(value, bool):
        return 1
    return 1 + (len(value.encode()) if isinstance(value, str) else _NUMBER_BYTES)
