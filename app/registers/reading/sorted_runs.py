"""Changes in the order of their keys, however many there are, in bounded memory.

Sorted rows meet each page of a register's tree once. Changes of one key keep the order of the
file (formats 0.10). One run is sorted in memory at a time; when there are more, they wait on disk.
"""

import os
import tempfile
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import chain, islice
from operator import eq, itemgetter
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from app.registers.reading.dumping import dump, undump

Columns = tuple[Any, ...]

_CHUNK_ROWS = 128
"""Rows of each run that are held in memory while runs are merged: 100 kB, and 40 million vehicles
are 490 runs."""
_BATCH_ROWS = 10_000
_RUNS_SAMPLED = 8


class Order(NamedTuple):
    """How changes are sorted: each begins with the columns of its group, all of them texts.

    Rows of different keys in one group can be told apart; other changes can meet all of them.
    """

    group_columns: int
    key_columns: int
    row_columns: int
    """What is as long as this is a row, and longer by one if it is narrow; other changes are
    shorter (see `rows`)."""
    met_columns: int = 1
    """A change that is no row meets the rows that begin with as many columns as it does."""

    def group_of(self) -> Callable[[Columns], str]:
        """Return what takes the group out of a change."""
        return _first(self.group_columns)

    def key_of(self) -> Callable[[Columns], str]:
        """Return what takes the key out of a row."""
        return _first(self.key_columns)

    def sort(self, changes: list[Columns]) -> list[Columns]:
        """Return the changes of one run sorted; of rows of one key only the last one."""
        if set(map(len, changes)) == {self.row_columns}:
            key_of = self.key_of()
            changes.sort(key=key_of)
            keys = list(map(key_of, changes))
            if any(map(eq, keys, islice(keys, 1, None))):
                return list(dict(zip(keys, changes, strict=True)).values())
            return changes
        changes.sort(key=self.group_of())
        return changes


def _first(columns: int) -> Callable[[Columns], str]:
    """Return what takes the first columns out of a change, as one text that sorts as they do."""
    if columns == 1:
        return itemgetter(0)
    # PERF: texts are sorted three times as fast as tuples; no text of a row has a NUL.
    return lambda change: "\0".join(change[:columns])


class Runs:
    """Takes changes a run at a time, in the order of the file, and gives all of them back sorted.

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
        """What the runs take on disk, those in memory left out."""

    def add(self, changes: list[Columns]) -> None:
        """Sort a run; it stays in memory until another one comes."""
        self._spill()
        self._latest = self.order.sort(changes)

    def add_file(self, file: BinaryIO, at: int) -> None:
        """Add a run that `write_run` wrote somewhere in a file of ours."""
        self._spill()
        self._files.append((file, at))
        self.size_bytes += os.fstat(file.fileno()).st_size

    def new_file(self) -> BinaryIO:
        """Return an empty file without a name, for a run."""
        return tempfile.TemporaryFile(dir=self._directory)

    def _spill(self) -> None:
        if self._latest:
            file = self.new_file()
            self._files.append((file, 0))
            try:
                write_run(self._latest, self.order, file)
                file.flush()
            except OSError as error:  # Which tells no name: the file has none.
                raise OSError(error.errno, error.strerror, os.fspath(self._directory)) from None
            self.size_bytes += file.tell()
            self._latest = []

    @property
    def files(self) -> list[BinaryIO]:
        """What the runs wait in, for a child process that gives them back as well."""
        return [file for file, _ in self._files]

    def sample(self) -> list[Columns]:
        """Return some rows of several runs, which stand for all; no deletions or the like."""
        files = self._files[:: 1 + len(self._files) // _RUNS_SAMPLED]
        chunks = [undump(file, undump(file, at)[1])[0] or [] for file, at in files]
        rows = chain.from_iterable([*chunks, self._latest[:_CHUNK_ROWS]])
        return [row for row in rows if len(row) >= self.order.row_columns]

    def middle(self) -> str | None:
        """Return a group that about half of the changes come up to; None if they are few.

        After this no run can be added.
        """
        if self._files:
            self._open()
        middles = sorted(run.middle for run in self._runs)
        return middles[len(middles) // 2] if middles else None

    def batches(
        self, after: str | None = None, until: str | None = None
    ) -> Iterator[list[Columns]]:
        """Yield all changes sorted, once, in lists that hold each group as a whole.

        Args:
            after: leave out what comes up to this group.
            until: the last group; called again, this goes on behind it.
        """
        if self._files:
            self._open()
            if after is not None:
                self._leave_out(after)
            merged = _merged(self._runs, self.order, until)
        else:
            merged = iter([self._latest] if self._latest else [])
        for changes in merged:
            yield from _parted(changes, self.order)

    def _open(self) -> None:
        if not self._runs:
            self._spill()
            self._runs = [_Run(file, at, self.order) for file, at in self._files]

    def _leave_out(self, until: str) -> None:
        for run in self._runs:
            for _ in run.take(until):
                pass

    def close(self) -> None:
        """Give up the files."""
        for file in self.files:
            with suppress(OSError):  # On a full disk: what waits to be written is not wanted.
                file.close()


def write_run(changes: Sequence[Columns], order: Order, file: BinaryIO) -> None:
    """Write a sorted run, to be read back by this process or a child: its middle comes first."""
    dump(order.group_of()(changes[len(changes) // 2]) if changes else "", file)
    for start in range(0, len(changes), _CHUNK_ROWS):
        # NOTE: marshal knows no subclasses of tuple.
        dump(list(map(tuple, changes[start : start + _CHUNK_ROWS])), file)


class _Run:
    """A run that is read back a chunk at a time."""

    def __init__(self, file: BinaryIO, at: int, order: Order) -> None:
        self._file = file
        self._at = at
        self._group_of = order.group_of()
        self.middle: str = self._next()
        self._chunk: list[Columns] = self._next() or []

    @property
    def last_group(self) -> str:
        """The group of the last change in memory; the run must not be at its end."""
        return self._group_of(self._chunk[-1])

    def __bool__(self) -> bool:
        return bool(self._chunk)

    def take(self, until: str) -> Iterator[list[Columns]]:
        """Yield the changes that are left up to a group, this one included."""
        while self._chunk:
            end = bisect_right(self._chunk, until, key=self._group_of)
            yield self._chunk[:end]
            if end < len(self._chunk):
                self._chunk = self._chunk[end:]
                return
            self._chunk = self._next() or []

    def _next(self) -> Any:
        value, self._at = undump(self._file, self._at)
        return value


def _merged(runs: list[_Run], order: Order, last: str | None) -> Iterator[list[Columns]]:
    """Merge sorted runs; of two changes of one group that of the earlier run comes first.

    PERF: everything below a group somewhere in the middle of what is in memory is sorted at
    once, and sorting runs that are sorted merges them: 0.8 us a row, with heapq 4 us.
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


def _parted(changes: list[Columns], order: Order) -> Iterator[list[Columns]]:
    """Cut a list where a group ends."""
    group_of = order.group_of()
    start = 0
    while start < len(changes):
        end = min(start + _BATCH_ROWS, len(changes))
        end = bisect_right(changes, group_of(changes[end - 1]), lo=end, key=group_of)
        yield changes[start:end]
        start = end
