"""Opens the files of a load: plain files, gzip, zip, standard input.

Nothing is unpacked to disk. The first bytes of a file say what it is, never its name.
"""

import errno
import gzip
import io
import os
import stat
import sys
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO, cast

from app.registers.formats.faults import FileFault
from app.registers.formats.format import HEAD_BYTES
from app.registers.reading.dated_names import in_order_of_dates
from app.registers.reading.streams import (
    CONTAINER_FAULTS,
    CountedPipe,
    GuardedStream,
    OnData,
    printable,
    raising_file_faults,
)
from app.registers.reading.zips import ZIP_MAGIC, open_zip_members, unpacked_zip_bytes

STANDARD_INPUT = "-"
_GZIP_MAGIC = b"\x1f\x8b"
_UNREAD_CONTAINERS = {
    b"BZh": "bzip2",
    b"\xfd7zXZ\x00": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"7z\xbc\xaf\x27\x1c": "7-Zip",
}
_LINE_ENDS = (b"\n", b"\r")


@dataclass(frozen=True, slots=True)
class Member:
    """A register file to read: a plain file, a gzip file, or a member of a zip."""

    name: str
    """For messages; never a path to open."""
    stream: BinaryIO
    """Decompressed, from the first byte on. Faults of the container are raised as FileFault."""
    head: bytes
    """The first HEAD_BYTES of the stream, which it still returns."""
    bytes_total: int | None
    """The size of the whole file that the operator named; None for a pipe."""
    bytes_read: Callable[[], int]
    """Returns how many bytes of that file, still compressed, have been read."""
    is_terminated: Callable[[], bool]
    """Tells, once the stream has been read to its end, whether its last line has an end."""
    unpacked_bytes: int | None
    """The size of the stream; None if only reading it can tell."""


def open_files(
    files: Sequence[str], on_data: OnData, *, are_trusted: bool = True
) -> Generator[Member]:
    """Yield the members of all files of a load; those of the DVSA in the order of their dates.

    The arguments and faults are those of `open_members`.
    """
    for file in in_order_of_dates(files, str):
        yield from open_members(os.fspath(file), on_data, is_trusted=are_trusted)


def open_members(
    path: str, on_data: OnData = lambda _: None, *, is_trusted: bool = True
) -> Generator[Member]:
    """Yield what a file contains. Read each member before you ask for the next one.

    Args:
        on_data: is called with all bytes that are read, decompressed, in their order.
        is_trusted: whether links and pipes are read as well as regular files.

    Raises FileFault, with the name of the file, if it is missing, cut off, damaged, encrypted, in a
    container that we do not read, or changed while it is read.
    """
    if path == STANDARD_INPUT:
        yield _piped(cast(BinaryIO, sys.stdin.buffer), "standard input", on_data)
        return
    with raising_file_faults(path):
        file = open_file(path, is_trusted=is_trusted)
    with file:
        if not file.seekable():
            yield _piped(file, printable(path), on_data)
            return
        with raising_file_faults(path):
            before = size, _ = _state(file)
            start = file.peek(len(ZIP_MAGIC[0]))

        def bytes_read() -> int:
            return size if file.closed else file.tell()

        if start.startswith(ZIP_MAGIC):
            for name, member, info in open_zip_members(file, path):
                guarded = GuardedStream(member, name, partial(int, info.compress_size))
                yield _member(guarded, size, bytes_read, on_data, info.file_size)
        else:
            yield _member(GuardedStream(file, printable(path)), size, bytes_read, on_data, size)
        with raising_file_faults(path):
            if _state(file) != before:
                raise FileFault("The file was changed while it was read.", printable(path))


def open_file(path: str | Path, *, is_trusted: bool) -> io.BufferedReader:
    """Open a file for reading. Raises OSError.

    Args:
        is_trusted: whether to follow links and to wait for the writer of a pipe.
    """
    if is_trusted:
        return open(path, "rb")
    # SEC: whoever can write to the directory may have put a link or a pipe in its place by now.
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return open(descriptor, "rb")


def unpacked_bytes_of(path: str, *, is_trusted: bool = True) -> int | None:
    """Return how many bytes `open_members` will read of a file; None if only reading it can tell.

    No size can be relied on that a gzip file gives.
    """
    size = file_size(path)
    if size is None:
        return None
    try:
        with open_file(path, is_trusted=is_trusted) as file:
            start = file.peek(len(ZIP_MAGIC[0]))
            if start.startswith(ZIP_MAGIC):
                return unpacked_zip_bytes(file, path, _GZIP_MAGIC)
            return None if start.startswith(_GZIP_MAGIC) else size
    except (FileFault, *CONTAINER_FAULTS):  # It is reported when the file is read.
        return None


def file_size(path: str) -> int | None:
    """Return the size of a file in bytes; None for a pipe, and if it cannot be found."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return found.st_size if stat.S_ISREG(found.st_mode) and path != STANDARD_INPUT else None


def _state(file: BinaryIO) -> tuple[int, int]:
    """Return what changes whenever a file does: its size, and when it was written to."""
    found = os.fstat(file.fileno())
    return found.st_size, found.st_mtime_ns


def _piped(pipe: BinaryIO, name: str, on_data: OnData) -> Member:
    counted = CountedPipe(pipe)
    return _member(GuardedStream(cast(BinaryIO, counted), name), None, counted.tell, on_data)


def _member(
    guarded: GuardedStream,
    bytes_total: int | None,
    bytes_read: Callable[[], int],
    on_data: OnData,
    unpacked_bytes: int | None = None,
) -> Member:
    name, stream = guarded.name, io.BufferedReader(guarded, HEAD_BYTES)
    if stream.peek(1).startswith(_GZIP_MAGIC):
        packed, unpacked_bytes = guarded, None
        unpacked = cast(BinaryIO, gzip.GzipFile(fileobj=stream))
        guarded = GuardedStream(unpacked, name, lambda: packed.bytes_out)
        stream = io.BufferedReader(guarded, HEAD_BYTES)
    # The buffer is HEAD_BYTES long and filled at once.
    head = stream.peek(HEAD_BYTES)[:HEAD_BYTES]
    on_data(head)
    guarded.on_data = on_data
    _require_readable(head, name)
    return Member(
        name,
        cast(BinaryIO, stream),
        head,
        bytes_total,
        bytes_read,
        lambda: guarded.last_byte in _LINE_ENDS,
        unpacked_bytes,
    )


def _require_readable(head: bytes, name: str) -> None:
    """Raise FileFault if the content of a file or member is a container that we do not read."""
    if head.startswith(ZIP_MAGIC):
        raise FileFault(
            "A zip has its directory at the end: it can be read from a file of its own, "
            "not from standard input, a pipe, or inside another container.",
            name,
        )
    if head.startswith(_GZIP_MAGIC):
        raise FileFault("It is compressed with gzip twice.", name)
    for magic, container in _UNREAD_CONTAINERS.items():
        if head.startswith(magic):
            raise FileFault(f"It is compressed with {container}; decompress it first.", name)
