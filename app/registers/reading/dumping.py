"""Values and changes in files that only a load and its child processes read."""

import marshal
import os
from collections.abc import Iterable
from functools import partial
from itertools import groupby
from typing import Any, BinaryIO

from app.registers.formats.changes import INCOMPLETE, Columns

_LENGTH_BYTES = 8
_TYPES = {type_.__name__: type_ for type_ in INCOMPLETE}


def dump(value: Any, file: BinaryIO) -> None:
    """Write a value for `undump`: lists, tuples, texts, numbers, flags and None."""
    data = marshal.dumps(value)
    file.write(len(data).to_bytes(_LENGTH_BYTES) + data)


def undump(file: BinaryIO, at: int = 0) -> tuple[Any, int]:
    """Return the value at a place in a file of this load, and where the next one begins.

    At the end of the file that is None. The file's own position does not matter: a process and
    its children share it.
    """
    # PERF: marshal.load() would ask the file for each text and number: 23 us a row, not 1 us.
    length = int.from_bytes(os.pread(file.fileno(), _LENGTH_BYTES, at))
    data = os.pread(file.fileno(), length, at + _LENGTH_BYTES)
    value = marshal.loads(data) if data else None  # noqa: S302 - written by ourselves
    return value, at + _LENGTH_BYTES + length


def dump_changes(changes: Iterable[Columns], file: BinaryIO) -> None:
    """Write changes for `undump_changes`."""
    # NOTE: marshal knows no subclass of tuple, so the name of the type stands beside the values.
    parts = [(type_.__name__, list(map(tuple, some))) for type_, some in groupby(changes, type)]
    dump(parts, file)


def undump_changes(file: BinaryIO, at: int) -> tuple[list[Columns], int]:
    """Return the changes at a place in a file, none at its end, and where the next ones begin.

    Complete rows come back as plain tuples, all other changes as what they were.
    """
    parts, end = undump(file, at)
    changes: list[Columns] = []
    for name, values in parts or ():
        type_ = _TYPES.get(name)
        changes += map(partial(tuple.__new__, type_), values) if type_ else values
    return changes, end
