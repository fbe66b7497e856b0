"""Writes and reads values in temporary files, which only a load and its child processes use."""

import marshal
import os
from collections.abc import Iterable
from functools import partial
from itertools import groupby
from typing import Any, BinaryIO

from app.registers.formats.changes import INCOMPLETE, Columns

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
