"""Opens what the operator names: files, gzip, zip, standard input; nothing is unpacked to disk.

What a file is, is seen from its first bytes and never from its name.
"""

import errno
import gzip
import io
import os
import re
import stat
import sys
import zipfile
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO, TypeVar, cast

from app.registers.formats.format import HEAD_BYTES, FileFault
from app.registers.reading.streams import (
    CONTAINER_FAULTS,
    Counted,
    Guarded,
    Heard,
    faults_of,
    printable,
)

STANDARD_INPUT = "-"
_GZIP = b"\x1f\x8b"
_ZIP = (b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08")
_UNREAD_CONTAINERS = {
    b"BZh": "bzip2",
    b"\xfd7zXZ\x00": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"7z\xbc\xaf\x27\x1c": "7-Zip",
}
_DATA_ENDINGS = (".csv", ".tsv", ".json", ".ndjson", ".jsonl")
_DATED_NAME = re.compile(
    r"(?P<what>bulk|delta)-light-vehicle_(?P<day>[0-9]{2})-(?P<month>[0-9]{2})-(?P<year>[0-9]{4})"
    r"[^/\\]*\Z",
    re.IGNORECASE,
)
_IS_ENCRYPTED = 0x1
_NAMES_SHOWN = 5
_LINE_ENDS = (b"\n", b"\r")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Member:
    """One register file to read: a plain or gzip file, or a member of a zip."""

    name: str
    """For messages; never a path to open."""
    stream: BinaryIO
    """Decompressed, from the first byte on; a fault of the container is a FileFault."""
    head: bytes
    """The stream's first HEAD_BYTES, which it still gives."""
    bytes_total: int | None
    """The size of the whole file that the operator named; None if it is a pipe."""
    bytes_read: Callable[[], int]
    """How many bytes of that file, compressed as it is, have been read."""
    is_terminated: Callable[[], bool]
    """Tells, once the stream was read to its end, whether its last line has an end."""
    unpacked_bytes: int | None
    """How many bytes the stream gives in all; None if only reading it can tell."""


def members(
    path: str, heard: Heard = lambda _: None, *, is_trusted: bool = True
) -> Generator[Member]:
    """Yield what a file holds; each is to be read before the next one is asked for.

    Args:
        heard: is given all bytes that are read, decompressed, in their order.
        is_trusted: read links and pipes as well as regular files.

    Raises FileFault, with the file's name, for what is missing, cut off, damaged,
    encrypted, in a container that we do not read, or changed by somebody meanwhile.
    """
    if path == STANDARD_INPUT:
        yield _piped(cast(BinaryIO, sys.stdin.buffer), "standard input", heard)
        return
    with faults_of(path):
        file = opened(path, is_trusted=is_trusted)
    with file:
        if not file.seekable():
            yield _piped(file, printable(path), heard)
            return
        with faults_of(path):
            before = size, _ = _state(file)
            start = file.peek(len(_ZIP[0]))

        def bytes_read() -> int:
            return size if file.closed else file.tell()

        if start.startswith(_ZIP):
            for name, member, info in _zip_members(file, path):
                guarded = Guarded(member, name, partial(int, info.compress_size))
                yield _member(guarded, size, bytes_read, heard, info.file_size)
        else:
            yield _member(Guarded(file, printable(path)), size, bytes_read, heard, size)
        with faults_of(path):
            if _state(file) != before:
                raise FileFault("The file was changed while it was read.", printable(path))


def opened(path: str | Path, *, is_trusted: bool) -> io.BufferedReader:
    """Open a file for reading. Raises OSError.

    Args:
        is_trusted: follow links, and wait for what comes through a pipe.
    """
    if is_trusted:
        return open(path, "rb")
    # SEC: whoever can write to the directory may have put a link or a pipe in its place by now.
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return open(descriptor, "rb")


def _state(file: BinaryIO) -> tuple[int, int]:
    """Return what changes with a file: its size, and when it was written to."""
    found = os.fstat(file.fileno())
    return found.st_size, found.st_mtime_ns


def _piped(pipe: BinaryIO, name: str, heard: Heard) -> Member:
    counted = Counted(pipe)
    return _member(Guarded(cast(BinaryIO, counted), name), None, counted.tell, heard)


def _member(
    guarded: "Guarded",
    bytes_total: int | None,
    bytes_read: Callable[[], int],
    heard: Heard,
    unpacked_bytes: int | None = None,
) -> Member:
    name, stream = guarded.name, io.BufferedReader(guarded, HEAD_BYTES)
    if stream.peek(1).startswith(_GZIP):
        packed, unpacked_bytes = guarded, None
        unpacked = cast(BinaryIO, gzip.GzipFile(fileobj=stream))
        guarded = Guarded(unpacked, name, lambda: packed.bytes_out)
        stream = io.BufferedReader(guarded, HEAD_BYTES)
    # The buffer is HEAD_BYTES long and filled at once.
    head = stream.peek(HEAD_BYTES)[:HEAD_BYTES]
    heard(head)
    guarded.heard = heard
    if head.startswith(_ZIP):
        raise FileFault(
            "A zip has its directory at the end: it can be read from a file of its own, "
            "not from standard input, a pipe, or inside another container.",
            name,
        )
    if head.startswith(_GZIP):
        raise FileFault("It is compressed with gzip twice.", name)
    for magic, container in _UNREAD_CONTAINERS.items():
        if head.startswith(magic):
            raise FileFault(f"It is compressed with {container}; decompress it first.", name)
    return Member(
        name,
        cast(BinaryIO, stream),
        head,
        bytes_total,
        bytes_read,
        lambda: guarded.last_byte in _LINE_ENDS,
        unpacked_bytes,
    )


def unpacked_bytes_of(path: str, *, is_trusted: bool = True) -> int | None:
    """Return how many bytes `members` will give of a file; None if only reading it can tell.

    What is compressed with gzip does not say so in a way that could be relied on.
    """
    size = file_size(path)
    if size is None:
        return None
    try:
        with opened(path, is_trusted=is_trusted) as file:
            if not file.read(len(_ZIP[0])).startswith(_ZIP):
                file.seek(0)
                return None if file.read(len(_GZIP)) == _GZIP else size
            with zipfile.ZipFile(file) as archive:
                infos = _data_members(archive.infolist(), path)
                is_known = all(archive.open(info).read(len(_GZIP)) != _GZIP for info in infos)
            return sum(info.file_size for info in infos) if is_known else None
    except (FileFault, *CONTAINER_FAULTS):  # Whoever reads the file reports it.
        return None


def file_size(path: str) -> int | None:
    """Return the size of a file in bytes; None for a pipe and for what cannot be found."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return found.st_size if stat.S_ISREG(found.st_mode) and path != STANDARD_INPUT else None


def _zip_members(file: BinaryIO, path: str) -> Iterator[tuple[str, BinaryIO, zipfile.ZipInfo]]:
    """Open the data members of a zip in the order of its directory."""
    with faults_of(path):
        archive = zipfile.ZipFile(file)
    with archive:
        for info in _data_members(archive.infolist(), path):
            name = printable(f"{path}: {info.filename}")
            if info.flag_bits & _IS_ENCRYPTED:
                raise FileFault("The member is encrypted.", name)
            with faults_of(name):
                member = archive.open(info)
            with member:
                yield name, cast(BinaryIO, member), info


def _data_members(infos: list[zipfile.ZipInfo], path: str) -> list[zipfile.ZipInfo]:
    """Choose by the ends of the names; a member with another ending counts if it is alone.

    SEC: a name only chooses and is shown; it is never a path.
    """
    files = [info for info in infos if not _is_ignored(info.filename)]
    data = [
        info for info in files if info.filename.lower().removesuffix(".gz").endswith(_DATA_ENDINGS)
    ]
    if not data and len(files) == 1:
        return files
    if not data:
        shown = ", ".join(printable(info.filename) for info in files[:_NAMES_SHOWN])
        endings = ", ".join(_DATA_ENDINGS)
        raise FileFault(
            f"The zip has no member that ends in {endings}, with or without .gz. "
            f"It has {len(files)} files{': ' if shown else ''}{shown}.",
            printable(path),
        )
    return in_order_of_dates(data, lambda info: info.filename)


def is_dated(name: str) -> bool:
    """Tell whether a name is one of the DVSA's, which tells the day that the file is of."""
    return _DATED_NAME.search(name) is not None


def in_order_of_dates(files: Sequence[T], name_of: Callable[[T], str]) -> list[T]:
    """Return files of the DVSA by the date in their names, a bulk before deltas (formats 2).

    Those dates do not sort as texts: of 30-06-2025 and 01-07-2025 the latter must be applied
    last, whatever order they are given in. Unless all files have such a name, they stay as given.
    """
    dates = [_DATED_NAME.search(name_of(file)) for file in files]

    def place(each: tuple[re.Match[str] | None, T]) -> tuple[str, ...]:
        date = each[0]
        return (date["year"], date["month"], date["day"], date["what"].lower()) if date else ()

    if None in dates:
        return list(files)
    return [file for _, file in sorted(zip(dates, files, strict=True), key=place)]


def _is_ignored(member_name: str) -> bool:
    *folders, name = member_name.replace("\\", "/").split("/")
    return not name or name.startswith(".") or "__MACOSX" in folders
