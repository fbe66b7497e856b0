"""Values and changes in files that only a load and its child processes read."""

import marshal
import os
from collections.abc import Sequence
from typing import Any, BinaryIO

from app.registers.formats.changes import INCOMPLETE, Columns, are_complete

_LENGTH_BYTES = 8
_TYPES: tuple[type[Columns], ...] = (tuple, *INCOMPLETE)
_CODES = {type_: code for code, type_ in enumerate(_TYPES)}


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


def dump_changes(changes: Sequence[Columns], file: BinaryIO) -> None:
    """Write changes for `undump_changes`."""
    # NOTE: marshal knows no subclass of tuple, so the types are written beside the values. All
    # complete rows come back as plain tuples.
    types = b"" if are_complete(changes) else bytes(_CODES.get(type(c), 0) for c in changes)
    dump((types, list(map(tuple, changes))), file)


def undump_changes(file: BinaryIO, at: int) -> tuple[list[Columns], int]:
    """Return the changes at a place in a file, none at its end, and where the next ones begin."""
    found, end = undump(file, at)
    types, changes = found or (b"", [])
    if types:
        typed = zip(types, changes, strict=True)
        changes = [tuple.__new__(_TYPES[code], values) for code, values in typed]
    return changes, end
