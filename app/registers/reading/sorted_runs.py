"""Sorts any number of changes by key, in bounded memory, by an external merge sort.

Rows that are written in the order of their keys visit each page of a table's tree once. Changes
with the same key keep the order of the file. One run of changes at a time is sorted
in memory; earlier runs are on disk.
"""

import marshal
import os
import tempfile
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence, Set
from contextlib import suppress
from functools import partial
from itertools import chain, groupby, takewhile
from pathlib import Path
from typing import Any, BinaryIO

from app.registers.formats.changes import INCOMPLETE, Columns, NarrowRow, Order, are_complete

# Writes and reads values in temporary files, which only a load and its child processes use.

_LENGTH_BYTES = 8
_TYPES = {type_.__name__: type_ for type_ in INCOMPLETE}


def write_value(value: Any, file: BinaryIO) -> None:
    """Append a value to a file: lists, tuples, texts, numbers, flags and None."""
    data = marshal.dumps(value)
    file.write(len(data).to_bytes(_LENGTH_BYTES) + data)


def read_value(file: BinaryIO, at: int = 0) -> tuple[Any, int]:
    """Return the value at a position in a file, and the position of the next value.

    The value is None at the end of the file. This neither uses nor changes the position of the file
    object, which a process shares with its children.
    """
    # PERF: marshal.load() reads each text and number from the file, which takes 23 us per row. This
    # takes 1 us.
    length = int.from_bytes(os.pread(file.fileno(), _LENGTH_BYTES, at))
    data = os.pread(file.fileno(), length, at + _LENGTH_BYTES)
    value = marshal.loads(data) if data else None  # noqa: S302 - written by ourselves
    return value, at + _LENGTH_BYTES + length


def write_changes(changes: Iterable[Columns], file: BinaryIO) -> None:
    """Append changes to a file."""
    # NOTE: marshal cannot write subclasses of tuple, so the name of the type comes first.
    parts = [(type_.__name__, list(map(tuple, some))) for type_, some in groupby(changes, type)]
    write_value(parts, file)


def read_changes(file: BinaryIO, at: int) -> tuple[list[Columns], int]:
    """Return the changes at a position in a file, and the position of the next ones.

    There are no changes at the end of the file. Complete rows are returned as plain tuples; all
    other changes keep their type.
    """
    parts, end = read_value(file, at)
    changes: list[Columns] = []
    for name, values in parts or ():
        type_ = _TYPES.get(name)
        changes += map(partial(tuple.__new__, type_), values) if type_ else values
    return changes, end


_CHUNK_ROWS = 128
"""How many rows of each run are in memory at least while runs are merged. They take 100 kB per run,
and 40 million vehicles are 490 runs."""
_MERGED_ROWS = 1_000
"""How many rows of all runs are then in memory at least. PERF: each batch of changes has its costs;
larger ones do not stay in the cache of a processor."""
_BATCH_ROWS = 10_000
_RUNS_SAMPLED = 8


class Runs:
    """Takes changes one run at a time, in the order of the file, and returns all of them sorted.

    Every method raises OSError if the disk is full.

    Args:
        directory: the directory for temporary files. They have no names, so they disappear with the
            process.
    """

    def __init__(self, order: Order, directory: Path) -> None:
        self.order = order
        self._directory = directory
        self._files: list[tuple[BinaryIO, int]] = []
        self._latest: list[Columns] = []
        self._runs: list[_Run] = []
        self.size_bytes = 0
        """The size of all runs on disk."""

    def add(self, changes: list[Columns]) -> None:
        """Sort a run. It stays in memory until the next run is added."""
        self._spill()
        self._latest = self.order.sort(changes)

    def add_file(self, file: BinaryIO, at: int) -> None:
        """Add a run that `write_run` wrote at this position of a file."""
        self._spill()
        self._files.append((file, at))
        self.size_bytes += os.fstat(file.fileno()).st_size

    def new_file(self) -> BinaryIO:
        """Return a new temporary file for a run."""
        return tempfile.TemporaryFile(dir=self._directory)

    def _spill(self) -> None:
        """Write the run that is in memory to a file."""
        if self._latest:
            file = self.new_file()
            self._files.append((file, 0))
            try:
                write_run(self._latest, self.order, file)
                file.flush()
            except OSError as error:  # The file has no name, so name the directory.
                raise OSError(error.errno, error.strerror, os.fspath(self._directory)) from None
            self.size_bytes += file.tell()
            self._latest = []

    @property
    def files(self) -> list[BinaryIO]:
        """The files of all runs, which a child process needs to read them too."""
        return [file for file, _ in self._files]

    def sample(self) -> list[Columns]:
        """Return some rows of several runs, to estimate the size of all rows."""
        files = self._files[:: 1 + len(self._files) // _RUNS_SAMPLED]
        chunks = [next(_chunks(*each), []) for each in files]
        return _rows(chain.from_iterable([*chunks, self._latest[:_CHUNK_ROWS]]))

    def plates_among(self, plates: Set[str]) -> set[str]:
        """Return those of these plates that have rows, also of runs that were read before."""
        last = max(plates, default="")
        runs = [
            takewhile(lambda chunk: chunk[0][0] <= last, _chunks(*each)) for each in self._files
        ]
        chunks = chain([self._latest], *runs)
        return {row[0] for each in chunks for row in _rows(c for c in each if c[0] in plates)}

    def middle(self) -> str | None:
        """Return the end of a plate near the middle of all changes; None if all are in memory.

        It sorts after all groups of the plate. No run can be added after this call.
        """
        if self._files:
            self._open()
        middles = sorted(run.middle for run in self._runs)
        # No group splits a plate, so that the answers of a plate are judged once.
        return middles[len(middles) // 2].split("\0")[0] + "\1" if middles else None

    def batches(
        self, after: str | None = None, until: str | None = None
    ) -> Iterator[list[Columns]]:
        """Yield all changes once, sorted, in lists that never split a group.

        Args:
            after: skip all groups up to this one, and this one.
            until: stop after this group. A second call continues after it.
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
            rows = _MERGED_ROWS // len(self._files)
            self._runs = [_Run(file, at, self.order, rows) for file, at in self._files]

    def _skip(self, until: str) -> None:
        for run in self._runs:
            for _ in run.take(until):
                pass

    def close(self) -> None:
        """Close the files, which removes them."""
        for file in self.files:
            with suppress(OSError):  # A full disk does not matter: the data is no longer needed.
                file.close()


def write_run(changes: Sequence[Columns], order: Order, file: BinaryIO) -> None:
    """Append a sorted run to a file: first its middle group, then its changes in chunks."""
    write_value(order.group_of()(changes[len(changes) // 2]) if changes else "", file)
    for start in range(0, len(changes), _CHUNK_ROWS):
        write_changes(changes[start : start + _CHUNK_ROWS], file)


def _chunks(file: BinaryIO, at: int) -> Iterator[list[Columns]]:
    """Yield the changes of a run at a position of a file."""
    _, at = read_value(file, at)
    while (chunk := read_changes(file, at))[0]:
        changes, at = chunk
        yield changes


def _rows(changes: Iterable[Columns]) -> list[Columns]:
    """Return the changes that are rows, complete or not."""
    return [each for each in changes if type(each) is NarrowRow or are_complete((each,))]


class _Run:
    """A run on disk of which some chunks are in memory: as many as have these rows, or one."""

    def __init__(self, file: BinaryIO, at: int, order: Order, rows: int) -> None:
        self._file = file
        self._rows = rows
        self._group_of = order.group_of()
        self.middle: str
        self.middle, self._at = read_value(file, at)
        self._changes: list[Columns]
        self._read()

    @property
    def last_group(self) -> str:
        """The group of the last change in memory. The run must not be at its end."""
        return self._group_of(self._changes[-1])

    def __bool__(self) -> bool:
        return bool(self._changes)

    def take(self, until: str) -> Iterator[list[Columns]]:
        """Yield the remaining changes up to the end of a group."""
        while self._changes:
            end = bisect_right(self._changes, until, key=self._group_of)
            yield self._changes[:end]
            if end < len(self._changes):
                self._changes = self._changes[end:]
                return
            self._read()

    def _read(self) -> None:
        self._changes, self._at = read_changes(self._file, self._at)
        while len(self._changes) < self._rows:
            more, self._at = read_changes(self._file, self._at)
            if not more:
                return
            self._changes += more


def _merged(runs: list[_Run], order: Order, last: str | None) -> Iterator[list[Columns]]:
    """Yield the changes of all runs, sorted. Within a group, earlier runs come first.

    PERF: each step sorts all changes up to a group near the middle of those in memory. Sorting
    several sorted lists merges them. It takes 0.8 us per row; heapq takes 4 us.
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
    """Yield a sorted list in batches that never split a group."""
    group_of = order.group_of()
    start = 0
    while start < len(changes):
        end = min(start + _BATCH_ROWS, len(changes))
        end = bisect_right(changes, group_of(changes[end - 1]), lo=end, key=group_of)
        yield changes[start:end]
        start = end
