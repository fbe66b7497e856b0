"""Splits a stream into blocks of whole lines, in bounded memory."""

import io
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple, cast

from app.registers.formats.columns import FileFault

LINE_BYTES_MAX = 1024 * 1024
"""The limit for the size of one record: a missing line end must not fill memory."""
BLOCK_BYTES = 256 * 1024
SHOWN_BYTES = 1000
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# The upper half of Windows-1252. Its five undefined bytes stay C1 control characters.
_WINDOWS_1252 = {
    byte: bytes([byte]).decode("cp1252")
    for byte in range(0x80, 0xA0)
    if byte not in (0x81, 0x8D, 0x8F, 0x90, 0x9D)
}


class OverlongLine(NamedTuple):
    """A line over the limit. Only its beginning is kept in memory."""

    start: bytes
    """Its first bytes."""
    quotes: int
    """The number of double quotes in it."""
    is_cut_off: bool = False
    """Whether the file ends before the line does."""


def line_blocks(stream: BinaryIO) -> Iterator[bytes | OverlongLine]:
    """Yield a stream in blocks of whole lines, which end with LF, CRLF or CR.

    The last line can lack a line end. A byte order mark at the beginning is removed. A line over
    `LINE_BYTES_MAX` is yielded as an `OverlongLine`.
    """
    rest = stream.read(BLOCK_BYTES).removeprefix(BYTE_ORDER_MARK)
    while chunk := stream.read(BLOCK_BYTES):
        buffer = rest + chunk
        # Only the first line can exceed the limit, because all others begin in the last chunk.
        if len(buffer) > LINE_BYTES_MAX and not 0 <= _line_end(buffer) <= LINE_BYTES_MAX:
            overlong, rest = _skip_line(stream, buffer)
            yield overlong
            continue
        # A CR at the end of the buffer can be the first half of a CRLF.
        cut = buffer.rfind(b"\n") + 1 or buffer.rfind(b"\r", 0, -1) + 1
        if cut:
            yield buffer[:cut]
        rest = buffer[cut:]
    if rest:
        yield rest


def windows_1252(record: bytes) -> str:
    """Decode a record that is not UTF-8. This never fails."""
    return record.decode("latin-1").translate(_WINDOWS_1252)


def decoded_text(record: bytes) -> str:
    """Decode a record as UTF-8, or as Windows-1252 if it is not valid UTF-8."""
    try:
        return record.decode()
    except UnicodeDecodeError:
        return windows_1252(record)


def cut_off_fault(
    line: int, lack: str = "is incomplete and", *, is_padded: bool = False
) -> FileFault:
    """Return the fault of a file whose last record, which begins on this line, is incomplete.

    Args:
        lack: what it lacks besides its line end.
        is_padded: whether the file ends in NULs.
    """
    reason = f"{lack} has no line end, so the file is cut off; get the complete file."
    if is_padded:
        reason = (
            "ends in NUL bytes: the upload is incomplete, or another program padded the file. "
            "Upload it again, without padding."
        )
    return FileFault(f"The last record, in line {{line}}, {reason}", line=line)


def unclosed_quote_fault(line: int) -> FileFault:
    """Return the fault of a file with an open quote in the record that begins on this line."""
    reason = (
        "A quote opened in the record of line {line} is never closed, "
        f"or not within {LINE_BYTES_MAX:,} bytes."
    )
    return FileFault(reason, line=line)


def _line_end(buffer: bytes) -> int:
    """Return the position of the first LF or CR, or -1 if there is none."""
    end = buffer.find(b"\n")
    carriage_return = buffer.find(b"\r", 0, end if end >= 0 else len(buffer))
    return carriage_return if carriage_return >= 0 else end


def _skip_line(stream: BinaryIO, buffer: bytes) -> tuple[OverlongLine, bytes]:
    """Read to the end of the overlong line at the start of `buffer`.

    Return the line, and the bytes after it that have been read.
    """
    start = buffer[:SHOWN_BYTES]
    quotes = 0
    while (end := _line_end(buffer)) < 0:
        quotes += buffer.count(b'"')
        buffer = stream.read(BLOCK_BYTES)
        if not buffer:
            return OverlongLine(start, quotes, is_cut_off=True), b""
    quotes += buffer.count(b'"', 0, end)
    rest = buffer[end:]
    if rest == b"\r":
        rest += stream.read(BLOCK_BYTES)
    return OverlongLine(start, quotes), rest[2 if rest.startswith(b"\r\n") else 1 :]


# A stream whose beginning has already been read.

_BUFFER_BYTES = 64 * 1024


def joined_stream(start: bytes, rest: BinaryIO) -> BinaryIO:
    """Return a stream of some bytes and then the rest of another stream."""
    return cast(BinaryIO, io.BufferedReader(_JoinedStream(start, rest), _BUFFER_BYTES))


class _JoinedStream(io.RawIOBase):
    def __init__(self, start: bytes, rest: BinaryIO) -> None:
        super().__init__()
        self._start = io.BytesIO(start)
        self._rest = rest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._start.read(len(buffer)) or self._rest.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)
