"""Opens what the operator names: files, gzip, zip, standard input; nothing is unpacked to disk.

What a file is, is seen from its first bytes and never from its name.
"""

import gzip
import io
import lzma
import os
import re
import struct
import sys
import zipfile
import zlib
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, BinaryIO, TypeVar, cast

from app.registers.formats.interface import HEAD_BYTES, FileFault

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
# SEC: registers are packed 5 to 30 times smaller, a bomb 1,000 times; it would fill the disk.
_RATIO_MAX = 200
_UNPACKED_BYTES_FREE = 64 * 1024 * 1024
# What the standard library raises over a container that is cut off or damaged.
_CONTAINER_FAULTS = (
    EOFError,
    OSError,
    ValueError,
    IndexError,
    RuntimeError,
    struct.error,
    zlib.error,
    lzma.LZMAError,
    zipfile.BadZipFile,
    zipfile.LargeZipFile,
)


T = TypeVar("T")
Heard = Callable[[bytes], object]


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


def members(path: str, heard: Heard = lambda _: None) -> Generator[Member]:
    """Yield what a file holds; each is to be read before the next one is asked for.

    Args:
        heard: is given all bytes that are read, decompressed, in their order.

    Raises FileFault, with the file's name, for what is missing, empty, cut off, damaged,
    encrypted, in a container that we do not read, or changed by somebody meanwhile.
    """
    if path == STANDARD_INPUT:
        yield _piped(cast(BinaryIO, sys.stdin.buffer), "standard input", heard)
        return
    with _faults_of(path):
        file = open(path, "rb")  # noqa: SIM115
    with file:
        if not file.seekable():
            yield _piped(file, path, heard)
            return
        with _faults_of(path):
            before = size, _ = _state(file)
            start = file.peek(len(_ZIP[0]))

        def bytes_read() -> int:
            return size if file.closed else file.tell()

        if start.startswith(_ZIP):
            for name, member, packed_bytes in _zip_members(file, path):
                guarded = _Guarded(member, name, partial(int, packed_bytes))
                yield _member(guarded, size, bytes_read, heard)
        else:
            yield _member(_Guarded(file, path), size, bytes_read, heard)
        with _faults_of(path):
            if _state(file) != before:
                raise FileFault("The file was changed while it was read.", path)


def _state(file: BinaryIO) -> tuple[int, int]:
    """Return what changes with a file: its size, and when it was written to."""
    found = os.fstat(file.fileno())
    return found.st_size, found.st_mtime_ns


def _piped(pipe: BinaryIO, name: str, heard: Heard) -> Member:
    counted = _Counted(pipe)
    return _member(_Guarded(cast(BinaryIO, counted), name), None, counted.tell, heard)


def _member(
    guarded: "_Guarded", bytes_total: int | None, bytes_read: Callable[[], int], heard: Heard
) -> Member:
    name, stream = guarded.name, io.BufferedReader(guarded, HEAD_BYTES)
    if stream.peek(1).startswith(_GZIP):
        packed = guarded
        unpacked = cast(BinaryIO, gzip.GzipFile(fileobj=stream))
        guarded = _Guarded(unpacked, name, lambda: packed.bytes_out)
        stream = io.BufferedReader(guarded, HEAD_BYTES)
    # The buffer is HEAD_BYTES long and filled at once.
    head = stream.peek(HEAD_BYTES)[:HEAD_BYTES]
    heard(head)
    guarded.heard = heard
    if not head:
        raise FileFault("The file is empty.", name)
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
    return Member(name, cast(BinaryIO, stream), head, bytes_total, bytes_read)


def _zip_members(file: BinaryIO, path: str) -> Iterator[tuple[str, BinaryIO, int]]:
    """Open the data members of a zip in the order of its directory; yield packed sizes, too."""
    with _faults_of(path):
        archive = zipfile.ZipFile(file)
    with archive:
        for info in _data_members(archive.infolist(), path):
            name = f"{path}: {_printable(info.filename)}"
            if info.flag_bits & _IS_ENCRYPTED:
                raise FileFault("The member is encrypted.", name)
            with _faults_of(name):
                member = archive.open(info)
            with member:
                yield name, cast(BinaryIO, member), info.compress_size


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
        shown = ", ".join(_printable(info.filename) for info in files[:_NAMES_SHOWN])
        endings = ", ".join(_DATA_ENDINGS)
        raise FileFault(
            f"The zip has no member that ends in {endings}, with or without .gz. "
            f"It has {len(files)} files{': ' if shown else ''}{shown}.",
            path,
        )
    return in_order_of_dates(data, lambda info: info.filename)


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


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text)


@contextmanager
def _faults_of(name: str) -> Iterator[None]:
    """Turn what the operating system and the containers raise into FileFault."""
    try:
        yield
    except _CONTAINER_FAULTS as error:
        raise FileFault(_reason(error), name) from error


def _reason(error: Exception) -> str:
    if isinstance(error, EOFError):
        return "The file is cut off."
    if isinstance(error, OSError) and error.strerror:
        return f"The file cannot be read: {error.strerror}."
    if isinstance(error, NotImplementedError):
        return f"The zip uses something that we do not read: {error}."
    return f"The file is damaged: {error}."


class _Counted(io.RawIOBase):
    """A pipe that knows how much was read from it."""

    def __init__(self, pipe: BinaryIO) -> None:
        super().__init__()
        self._pipe = pipe
        self._bytes_read = 0

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._bytes_read

    def read(self, size: int = -1) -> bytes:
        data = self._pipe.read(size)
        self._bytes_read += len(data)
        return data


class _Guarded(io.RawIOBase):
    """Fills every buffer to its end, and raises nothing but FileFault.

    Args:
        bytes_in: how many bytes came into what unpacks `inner`, if something does.
    """

    def __init__(
        self, inner: BinaryIO, name: str, bytes_in: Callable[[], int] | None = None
    ) -> None:
        super().__init__()
        self.name = name
        self.bytes_out = 0
        self.heard: Heard | None = None
        self._inner = inner
        self._bytes_in = bytes_in

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        filled = 0
        with _faults_of(self.name):
            while filled < len(buffer):
                data = self._inner.read(len(buffer) - filled)
                if not data:
                    break
                buffer[filled : filled + len(data)] = data
                filled += len(data)
        self.bytes_out += filled
        if self.heard is not None:
            self.heard(buffer[:filled])
        if self._bytes_in is not None and self.bytes_out > _UNPACKED_BYTES_FREE:
            self._require_no_bomb(self._bytes_in())
        return filled

    def _require_no_bomb(self, bytes_in: int) -> None:
        if self.bytes_out > _RATIO_MAX * bytes_in:
            raise FileFault(
                f"It unpacks to more than {_RATIO_MAX} times its size, as no register does.",
                self.name,
            )
