"""Opens the files of a load: plain files, gzip, zip and standard input.

Nothing is unpacked to disk. The first bytes of a file decide what it is, never its name.
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

from app.registers.formats.columns import FileFault
from app.registers.formats.format import HEAD_BYTES
from app.registers.reading.streams import (
    CONTAINER_FAULTS,
    Content,
    GuardedStream,
    OnData,
    raising_file_faults,
)
from app.text import printable

DATED_PART = "-light-vehicle_"
"""In any case, all names that the DVSA gives to its files have this part."""
_DATED_NAME = re.compile(
    rf"(?P<type>bulk|delta){DATED_PART}"
    r"(?P<day>[0-9]{2})-(?P<month>[0-9]{2})-(?P<year>[0-9]{4})"
    r"[^/\\]*\Z",
    re.IGNORECASE,
)

T = TypeVar("T")


def sorted_by_date(files: Sequence[T], name_of: Callable[[T], str]) -> list[T]:
    """Return files sorted by the date in their names, with a bulk file before deltas of its day.

    If any name has no such date, the files keep their order.
    """
    if not all(date_of(name_of(file)) for file in files):
        return list(files)
    return sorted(files, key=lambda file: date_of(name_of(file)) or ())


def date_of(name: str) -> tuple[str, ...] | None:
    """Return what files of the DVSA are sorted by, None if a name is not one of theirs."""
    # The dates do not sort as texts: 30-06-2025 comes before 01-07-2025.
    found = _DATED_NAME.search(name)
    return found and (found["year"], found["month"], found["day"], found["type"].lower())


ZIP_MAGIC = (b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08")
"""The first bytes of a zip."""
_DATA_ENDINGS = (".csv", ".tsv", ".json", ".ndjson", ".jsonl")
_IS_ENCRYPTED = 0x1
_READ_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)
_UNREAD_METHODS = {
    9: "Deflate64, as Windows Explorer does with more than 2 GB",
    93: "zstd",  # Python 3.14 reads it.
    95: "xz",
    98: "PPMd",
}
_SPREADSHEETS = {
    "xl/workbook.xml": "an Excel workbook",
    "xl/workbook.bin": "an Excel workbook",
    "content.xml": "an OpenDocument spreadsheet, such as LibreOffice's .ods",
    "Index/Document.iwa": "a spreadsheet of Apple's Numbers",
}
"""What a zip is that has this member."""
_NAMES_SHOWN = 5


def _zip_members(file: BinaryIO, zip_name: str) -> Iterator[tuple[str, BinaryIO, zipfile.ZipInfo]]:
    """Yield the name, the stream and the directory entry of each data member of a zip.

    Members of the DVSA come sorted by the date in their names, others in the order of the zip.
    Raises FileFault and CONTAINER_FAULTS.
    """
    with zipfile.ZipFile(file) as archive:
        for info in _data_members(archive.infolist(), zip_name):
            name = f"{zip_name}: {printable(info.filename)}"
            if info.flag_bits & _IS_ENCRYPTED:
                raise FileFault("The member is encrypted.", name)
            try:
                with raising_file_faults(name):
                    member = archive.open(info)
            except FileFault as fault:
                is_known = info.compress_type in _READ_METHODS
                if is_known or not isinstance(fault.__cause__, NotImplementedError):
                    raise
                method = _UNREAD_METHODS.get(info.compress_type, f"method {info.compress_type}")
                raise FileFault(
                    f"The zip is compressed with {method}. "
                    "Compress the file with gzip, or as a zip with Deflate; 7-Zip can do both.",
                    name,
                ) from fault.__cause__
            with member:
                yield name, cast(BinaryIO, member), info


def unpacked_zip_bytes(file: BinaryIO, packed_magic: bytes) -> int | None:
    """Return the total size of the data members.

    Return None if any of them begins with `packed_magic`, because the zip then has only its
    compressed size. Raises FileFault and CONTAINER_FAULTS.
    """
    with zipfile.ZipFile(file) as archive:
        infos = _data_members(archive.infolist(), "")
        starts = (archive.open(info).read(len(packed_magic)) for info in infos)
        is_known = all(start != packed_magic for start in starts)
    return sum(info.file_size for info in infos) if is_known else None


def _data_members(infos: list[zipfile.ZipInfo], zip_name: str) -> list[zipfile.ZipInfo]:
    """Return the members whose names end like data files, or the only member if there is just one.

    SEC: a name is only compared and shown. It is never used as a path.
    """
    files = [info for info in infos if not _is_ignored(info.filename)]
    data = [
        info for info in files if info.filename.lower().removesuffix(".gz").endswith(_DATA_ENDINGS)
    ]
    if not data and len(files) == 1:
        return files
    if not data:
        for info in files:
            if info.filename in _SPREADSHEETS:
                what = _SPREADSHEETS[info.filename]
                raise FileFault(f"The file is {what}; save it as CSV.", zip_name)
        shown = ", ".join(printable(info.filename) for info in files[:_NAMES_SHOWN])
        endings = ", ".join(_DATA_ENDINGS)
        raise FileFault(
            f"The zip has no member that ends in {endings}, with or without .gz. "
            f"It has {len(files)} files{': ' if shown else ''}{shown}.",
            zip_name,
        )
    return sorted_by_date(data, lambda info: info.filename)


def _is_ignored(member_name: str) -> bool:
    *folders, name = member_name.replace("\\", "/").split("/")
    return not name or name.startswith(".") or "__MACOSX" in folders


STANDARD_INPUT = "-"
_GZIP_MAGIC = b"\x1f\x8b"
_COMPRESSED = "The file is compressed with {}; decompress it first."
_UNREADABLE = {
    **dict.fromkeys(
        ZIP_MAGIC,
        "A zip can be read only from a regular file, not from standard input, a pipe or another "
        "container. Save it as a file and load that.",
    ),
    _GZIP_MAGIC: "The file is compressed with gzip twice; decompress it once.",
    b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1": "The file is an old Excel workbook; save it as CSV.",
    b"BZh": _COMPRESSED.format("bzip2"),
    b"\xfd7zXZ\x00": _COMPRESSED.format("xz"),
    b"\x28\xb5\x2f\xfd": _COMPRESSED.format("zstd"),
    b"7z\xbc\xaf\x27\x1c": _COMPRESSED.format("7-Zip"),
    b"PAR1": "The file is Parquet; write it as CSV.",
    b"ARROW1\0\0": "The file is Arrow or Feather; write it as CSV.",
    b"SQLite format 3\0": "The file is an SQLite database; write a table of it as CSV.",
    b"%PDF-": "The file is a PDF; get the data as CSV.",
}
"""What is wrong with a stream that begins with these bytes, as a container that is not read."""
_LINE_ENDS = (b"\n", b"\r")


@dataclass(frozen=True, slots=True)
class InputFile:
    """A register file to read: a plain file, a gzip file, or a member of a zip."""

    name: str
    """The name in messages. It is never a path to open."""
    stream: BinaryIO
    """The decompressed content. Reading it raises FileFault if the container is damaged."""
    head: bytes
    """The first HEAD_BYTES of the stream. Reading the stream returns them again."""
    bytes_total: int | None
    """The size on disk of the file that the operator named; None for a pipe."""
    bytes_read: Callable[[], int]
    """Returns how many of these bytes have been read."""
    is_terminated: Callable[[], bool]
    """Returns whether the last line has a line end, after the stream was read to its end."""
    unpacked_bytes: int | None
    """The size of the stream; None if it is unknown until the end is read."""


def open_files(
    files: Sequence[str], on_data: OnData, *, are_trusted: bool = True
) -> Generator[InputFile]:
    """Yield all files of a load, with the members of zips. Files of the DVSA come sorted by date.

    It takes the arguments of `open_members` and raises its errors.
    """
    for file in sorted_by_date(files, str):
        yield from open_members(os.fspath(file), on_data, is_trusted=are_trusted)


def open_members(
    path: str, on_data: OnData = lambda _: None, *, is_trusted: bool = True
) -> Generator[InputFile]:
    """Yield a file, or each member of a zip. Read each one before you ask for the next.

    Args:
        on_data: is called with all decompressed bytes, in order.
        is_trusted: whether links and pipes are read too, besides regular files.

    Raises FileFault with the name of the file. The file is missing, cut off, damaged, encrypted, in
    an unsupported container, or changed while it was read.
    """
    if path == STANDARD_INPUT:
        yield _piped(cast(BinaryIO, sys.stdin.buffer), "standard input", on_data)
        return
    name = printable(path)
    with raising_file_faults(name), open_file(path, is_trusted=is_trusted) as file:
        if not file.seekable():
            yield _piped(file, name, on_data)
            return
        before = size, _ = _state(file)

        def bytes_read() -> int:
            return size if file.closed else file.tell()

        if file.peek(len(ZIP_MAGIC[0])).startswith(ZIP_MAGIC):
            for member_name, member, info in _zip_members(file, name):
                guarded = GuardedStream(member, member_name, partial(int, info.compress_size))
                yield _input_file(guarded, size, bytes_read, on_data, info.file_size)
        else:
            yield _input_file(GuardedStream(file, name), size, bytes_read, on_data, size)
        if _state(file) != before:
            raise FileFault("The file was changed while it was read.", name)


def open_file(path: str | Path, *, is_trusted: bool) -> io.BufferedReader:
    """Open a file for reading. Raises OSError.

    Args:
        is_trusted: whether to follow links, and to wait for the writer of a pipe.
    """
    if is_trusted:
        return open(path, "rb")
    # SEC: others can write to the directory, and could have put a link or a pipe in its place.
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return open(descriptor, "rb")


def unpacked_bytes_of(path: str, *, is_trusted: bool = True) -> int | None:
    """Return how many decompressed bytes a file has, or None if that is unknown until it is read.

    The size that a gzip file states is not reliable.
    """
    size = file_size(path)
    if size is None:
        return None
    try:
        with open_file(path, is_trusted=is_trusted) as file:
            start = file.peek(len(ZIP_MAGIC[0]))
            if start.startswith(ZIP_MAGIC):
                return unpacked_zip_bytes(file, _GZIP_MAGIC)
            return None if start.startswith(_GZIP_MAGIC) else size
    except (FileFault, *CONTAINER_FAULTS):  # Reading the file reports the fault.
        return None


def file_size(path: str) -> int | None:
    """Return the size of a file in bytes, or None for a pipe and if the file does not exist."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) and path != STANDARD_INPUT else None


def _state(file: BinaryIO) -> tuple[int, int]:
    """Return the size and the modification time of a file, which change with its content."""
    status = os.fstat(file.fileno())
    return status.st_size, status.st_mtime_ns


def _piped(pipe: BinaryIO, name: str, on_data: OnData) -> InputFile:
    guarded = GuardedStream(pipe, name)
    return _input_file(guarded, None, lambda: guarded.bytes_out, on_data)


def _input_file(
    guarded: GuardedStream,
    bytes_total: int | None,
    bytes_read: Callable[[], int],
    on_data: OnData,
    unpacked_bytes: int | None = None,
) -> InputFile:
    """Return a stream as an input file. Unpack it if it is gzip.

    Args:
        bytes_total: the size on disk of the file that the operator named; None for a pipe.
        unpacked_bytes: the size of the stream; None if it is unknown. It is not used for gzip.
    """
    name, stream = guarded.name, io.BufferedReader(guarded, HEAD_BYTES)
    if stream.peek(1).startswith(_GZIP_MAGIC):
        packed, unpacked_bytes = guarded, None
        unpacked = cast(BinaryIO, gzip.GzipFile(fileobj=stream))
        guarded = GuardedStream(unpacked, name, lambda: packed.bytes_out)
        stream = io.BufferedReader(guarded, HEAD_BYTES)
    # `Content` would call blocks of NULs, which such files have, an incomplete upload.
    start = stream.peek(1)
    for magic, fault in _UNREADABLE.items():
        if start.startswith(magic):
            raise FileFault(fault, name)
    content = Content(cast(BinaryIO, stream), name, on_data)
    buffered = io.BufferedReader(content, HEAD_BYTES)
    # One peek fills the whole buffer, which has HEAD_BYTES.
    head = buffered.peek(HEAD_BYTES)[:HEAD_BYTES]
    return InputFile(
        name,
        cast(BinaryIO, buffered),
        head,
        bytes_total,
        bytes_read,
        lambda: content.last_byte in _LINE_ENDS,
        unpacked_bytes,
    )
