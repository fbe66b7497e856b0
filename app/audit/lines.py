"""Reads files of lines whose last line may be incomplete, and cuts such a line off.

A line is incomplete if its process was killed while it wrote, or if power failed. Nobody was
answered for it.
"""

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

BLOCK_BYTES = 1 << 20


def whole_bytes(descriptor: int, size: int) -> int:
    """Return how many of the first `size` bytes of a file are complete lines. Raises OSError."""
    end = size
    while end:
        start = max(0, end - BLOCK_BYTES)
        newline = os.pread(descriptor, end - start, start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        end = start
    return 0


def cut_incomplete(descriptor: int, size: int) -> int:
    """Cut an incomplete last line off a file of this size; return the new size. Raises OSError."""
    if not size or os.pread(descriptor, 1, size - 1) == b"\n":
        return size
    whole = whole_bytes(descriptor, size)
    os.ftruncate(descriptor, whole)
    return whole


def write_whole(descriptor: int, line: bytes, size: int) -> None:
    """Append a line to a file of this size, or leave the file as it was. Raises OSError."""
    written = os.write(descriptor, line)
    if written < len(line):
        os.ftruncate(descriptor, size)
        # The usual reason why a file takes only a part.
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def chunks(path: Path) -> Iterator[bytes]:
    """Yield the content of a file in pieces of 1 MiB. Raises OSError, also if it is no file."""
    with open(path, "rb", buffering=0, opener=_regular) as file:
        while piece := file.read(BLOCK_BYTES):
            yield piece


def _regular(path: str, flags: int) -> int:
    """Open a file of the trail. Somebody may have put a pipe or a link in its place."""
    more = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    descriptor = os.open(path, flags | more)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", path)
    return descriptor


def line_groups(path: Path) -> Iterator[tuple[int, list[bytes]]]:
    """Yield the complete lines of a file in lists, each with the offset of its first line.

    The lines have no line ends. Raises OSError.
    """
    rest, offset = b"", 0
    for piece in chunks(path):
        *lines, rest_of_piece = (rest + piece).split(b"\n")
        if lines:
            yield offset, lines
            offset += len(rest) + len(piece) - len(rest_of_piece)
        rest = rest_of_piece


def lines_beginning_in(descriptor: int, start: int, end: int) -> Iterator[bytes]:
    """Yield the complete lines that begin in a part of a file, without line ends. Raises OSError.

    Args:
        start, end: the part, in bytes.
    """
    # A line begins at `start` only if the byte before it ends another one.
    at = max(0, start - 1)
    data = os.pread(descriptor, end - at, at)
    while not data.endswith(b"\n"):
        more = os.pread(descriptor, end - start, at + len(data))
        if not more:
            break
        # Only the line that begins last in the part is needed whole.
        newline = more.find(b"\n")
        data += more if newline < 0 else more[: newline + 1]
    first = 0 if at == start else data.find(b"\n") + 1
    if at != start and not first:
        return
    offset = at + first
    for line in data[first:].split(b"\n")[:-1]:
        if offset >= end:
            return
        yield line
        offset += len(line) + 1
