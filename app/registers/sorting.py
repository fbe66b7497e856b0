"""Rows in the order of their keys, each key once, however many there are (formats 0.10).

Sorted rows meet each page of a register's tree once, and a key that comes twice in a file must
not look like a change. Up to one run is sorted in memory; more runs wait on disk.
"""

import heapq
import marshal
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from itertools import chain, islice
from operator import itemgetter
from pathlib import Path
from typing import Any, BinaryIO

Columns = tuple[Any, ...]

RUN_ROWS = 200_000
"""Rows held in memory at once; about 100 MB."""
_CHUNK_ROWS = 1_000


def sorted_unique(
    rows: Iterable[Columns], key_columns: int, directory: Path, run_rows: int = RUN_ROWS
) -> Iterator[Columns]:
    """Return the rows sorted by their first columns; of one key the row that came last.

    Args:
        key_columns: how many of the first columns, all texts, make the key.
        directory: where runs wait, in files without a name that end with the process.

    Raises OSError if the disk is full.
    """
    key_of = itemgetter(slice(key_columns))
    iterator = iter(rows)
    with ExitStack() as files:
        runs: list[Iterator[Columns]] = []
        while run := _next_run(iterator, key_of, run_rows):
            ahead = list(islice(iterator, 1))
            if not ahead and not runs:
                return iter(run)
            iterator = chain(ahead, iterator)
            runs.append(_read_back(files.enter_context(_written(run, directory))))
        files.pop_all()  # From here on each is closed when it has been read.
    # The merge is stable: of equal keys the one of the later run comes last.
    return _last_of_each(heapq.merge(*runs, key=key_of), key_of)


def _next_run(
    iterator: Iterator[Columns], key_of: Callable[[Columns], Columns], run_rows: int
) -> list[Columns]:
    latest = {key_of(row): row for row in islice(iterator, run_rows)}
    return sorted(latest.values(), key=key_of)


def _written(run: list[Columns], directory: Path) -> BinaryIO:
    file = tempfile.TemporaryFile(dir=directory)  # noqa: SIM115 - closed when it has been read
    for start in range(0, len(run), _CHUNK_ROWS):
        # NOTE: marshal knows no subclasses of tuple, and is ours to read back at once.
        marshal.dump([tuple(row) for row in run[start : start + _CHUNK_ROWS]], file)
    file.seek(0)
    return file


def _read_back(file: BinaryIO) -> Iterator[Columns]:
    with file:
        while True:
            try:
                chunk = marshal.load(file)  # noqa: S302 - written by this process
            except EOFError:
                return
            yield from chunk


def _last_of_each(
    rows: Iterable[Columns], key_of: Callable[[Columns], Columns]
) -> Iterator[Columns]:
    held: Columns | None = None
    for row in rows:
        if held is not None and key_of(held) != key_of(row):
            yield held
        held = row
    if held is not None:
        yield held
