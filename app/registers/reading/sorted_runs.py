"""Changes in the order of their keys, however many there are, in bounded memory.

Writing sorted rows visits each page of a register's tree once. Changes of one key keep the order
of the file (formats 0.10). One run of changes at a time is sorted in memory; earlier runs wait on
disk.
"""

import os
import tempfile
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import chain, islice
from operator import eq, itemgetter
from pathlib import Path
from typing import BinaryIO, NamedTuple

from app.registers.formats.changes import Columns, NarrowRow, are_complete
from app.registers.reading.dumping import dump, dump_changes, undump, undump_changes

_CHUNK_ROWS = 128
"""Rows of each run that are held in memory while runs are merged: 100 kB per run. 40 million
vehicles are 490 runs."""
_BATCH_ROWS = 10_000
_RUNS_SAMPLED = 8


class Order(NamedTuple):
    """How changes are sorted. The columns of the key come first in a row, and all are texts.

    A group is all the rows that one change can affect: those that begin with the same values.
    """

    group_columns: int
    """How many columns tell groups apart. Every change begins with them."""
    key_columns: int

    def group_of(self) -> Callable[[Columns], str]:
        """Return a function that returns the group of a change."""
        return _first(self.group_columns)

    def key_of(self) -> Callable[[Columns], str]:
        """Return a function that returns the key of a row."""
        return _first(self.key_columns)

    def sort(self, changes: list[Columns]) -> list[Columns]:
        """Return the changes of one run, sorted.

        Complete rows are sorted by key, and of those with the same key only the last is kept.
        Otherwise changes are sorted by group, in each group in the order of the file.
        """
        if are_complete(changes):
            key_of = self.key_of()
            changes.sort(key=key_of)
            keys = list(map(key_of, changes))
            if any(map(eq, keys, islice(keys, 1, None))):
                return list(dict(zip(keys, changes, strict=True)).values())
            return changes
        changes.sort(key=self.group_of())
        return changes


def _first(columns: int) -> Callable[[Columns], str]:
    """Return a function that joins the first columns of a change into a text that sorts alike."""
    if columns == 1:
        return itemgetter(0)
    # PERF: texts are sorted three times as fast as tuples; no text of a row has a NUL.
    return lambda change: "\0".join(change[:columns])


class Runs:
    """Takes changes one run at a time, in the order of the file, and returns them all sorted.

    Args:
        directory: where runs wait, in files without a name that end with the process.

    Every method raises OSError if the disk is full.
    """

    def __init__(self, order: Order, directory: Path) -> None:
        self.order = order
        self._directory = directory
        self._files: list[tuple[BinaryIO, int]] = []
        self._latest: list[Columns] = []
        self._runs: list[_Run] = []
        self.size_bytes = 0
        """Size on disk of the runs that wait there."""

    def add(self, changes: list[Columns]) -> None:
        """Sort a run; it stays in memory until the next one is added."""
        self._spill()
        self._latest = self.order.sort(changes)

    def add_file(self, file: BinaryIO, at: int) -> None:
        """Add a run that `write_run` wrote at this place of a file."""
        self._spill()
        self._files.append((file, at))
        self.size_bytes += os.fstat(file.fileno()).st_size

    def new_file(self) -> BinaryIO:
        """Return an empty file without a name, for a run."""
        return tempfile.TemporaryFile(dir=self._directory)

    def _spill(self) -> None:
        """Write the run that is in memory to a file."""
        if self._latest:
            file = self.new_file()
            self._files.append((file, 0))
            try:
                write_run(self._latest, self.order, file)
                file.flush()
            except OSError as error:  # It names no file: this one has no name.
                raise OSError(error.errno, error.strerror, os.fspath(self._directory)) from None
            self.size_bytes += file.tell()
            self._latest = []

    @property
    def files(self) -> list[BinaryIO]:
        """The files of all runs, for a child process that reads them as well."""
        return [file for file, _ in self._files]

    def sample(self) -> list[Columns]:
        """Return some rows of several runs, to estimate the size of all rows."""
        files = self._files[:: 1 + len(self._files) // _RUNS_SAMPLED]
        chunks = [undump_changes(file, undump(file, at)[1])[0] for file, at in files]
        changes = chain.from_iterable([*chunks, self._latest[:_CHUNK_ROWS]])
        return [c for c in changes if isinstance(c, NarrowRow) or are_complete((c,))]

    def middle(self) -> str | None:
        """Return a group near the middle of all changes; None if all changes are in memory.

        No run can be added afterwards.
        """
        if self._files:
            self._open()
        middles = sorted(run.middle for run in self._runs)
        return middles[len(middles) // 2] if middles else None

    def batches(
        self, after: str | None = None, until: str | None = None
    ) -> Iterator[list[Columns]]:
        """Yield all changes once, sorted, in lists that do not split a group.

        Args:
            after: skip the groups up to and including this one.
            until: stop after this group; a second call goes on from there.
        """
        if self._files:
            self._open()
            if after is not None:
                self._skip(after)
            merged = _merged(self._runs, self.order, until)
        else:
            merged = iter([self._latest] if self._latest else [])
        for changes in merged:
            yield from _split_between_groups(changes, self.order)

    def _open(self) -> None:
        if not self._runs:
            self._spill()
            self._runs = [_Run(file, at, self.order) for file, at in self._files]

    def _skip(self, until: str) -> None:
        for run in self._runs:
            for _ in run.take(until):
                pass

    def close(self) -> None:
        """Close the files, which removes them."""
        for file in self.files:
            with suppress(OSError):  # On a full disk: unwritten data is no longer needed.
                file.close()


def write_run(changes: Sequence[Columns], order: Order, file: BinaryIO) -> None:
    """Write a sorted run for this process or a child to read: its middle group comes first."""
    dump(order.group_of()(changes[len(changes) // 2]) if changes else "", file)
    for start in range(0, len(changes), _CHUNK_ROWS):
        dump_changes(changes[start : start + _CHUNK_ROWS], file)


class _Run:
    """A run that is read back a chunk at a time."""

    def __init__(self, file: BinaryIO, at: int, order: Order) -> None:
        self._file = file
        self._group_of = order.group_of()
        self.middle: str
        self.middle, self._at = undump(file, at)
        self._chunk: list[Columns]
        self._read_chunk()

    @property
    def last_group(self) -> str:
        """The group of the last change in memory; the run must not be at its end."""
        return self._group_of(self._chunk[-1])

    def __bool__(self) -> bool:
        return bool(self._chunk)

    def take(self, until: str) -> Iterator[list[Columns]]:
        """Yield the changes that are left up to and including a group."""
        while self._chunk:
            end = bisect_right(self._chunk, until, key=self._group_of)
            yield self._chunk[:end]
            if end < len(self._chunk):
                self._chunk = self._chunk[end:]
                return
            self._read_chunk()

    def _read_chunk(self) -> None:
        self._chunk, self._at = undump_changes(self._file, self._at)


def _merged(runs: list[_Run], order: Order, last: str | None) -> Iterator[list[Columns]]:
    """Merge sorted runs; within a group, changes of an earlier run come first.

    PERF: all changes up to a group near the middle of those in memory are sorted at once, and
    sorting several sorted runs merges them: 0.8 us a row, with heapq 4 us.
    """
    while runs := [run for run in runs if run]:
        ends = sorted(run.last_group for run in runs)
        until = ends[len(ends) // 2]
        if last is not None:
            until = min(until, last)
        yield order.sort(
            list(chain.from_iterable(chain.from_iterable(r.take(until) for r in runs)))
        )
        if until == last:
            return


def _split_between_groups(changes: list[Columns], order: Order) -> Iterator[list[Columns]]:
    """Split a sorted list into batches, never within a group."""
    group_of = order.group_of()
    start = 0
    while start < len(changes):
        end = min(start + _BATCH_ROWS, len(changes))
        end = bisect_right(changes, group_of(changes[end - 1]), lo=end, key=group_of)
        yield changes[start:end]
        start = end
