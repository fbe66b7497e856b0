"""Values in files that only a load and its child processes read."""

import marshal
import os
from typing import Any, BinaryIO

_LENGTH_BYTES = 8


def dump(value: Any, file: BinaryIO) -> None:
    """Write a value for `undump`, of lists, tuples, texts, numbers, flags and nothing."""
    data = marshal.dumps(value)
    file.write(len(data).to_bytes(_LENGTH_BYTES) + data)


def undump(file: BinaryIO, at: int = 0) -> tuple[Any, int]:
    """Return the value at a place in a file of this load, and where the next one begins.

    At the end of the file that is None. Where the file itself stands does not matter: it is the
    same for a process and its children.
    """
    # PERF: marshal.load() would ask the file for each text and number: 23 us a row, not 1 us.
    length = int.from_bytes(os.pread(file.fileno(), _LENGTH_BYTES, at))
    data = os.pread(file.fileno(), length, at + _LENGTH_BYTES)
    value = marshal.loads(data) if data else None  # noqa: S302 - written by ourselves
    return value, at + _LENGTH_BYTES + length
