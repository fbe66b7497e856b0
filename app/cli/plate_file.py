"""A delimited file with a column of plates: its lines as the bytes they are, and their plates.

Nothing is decoded but the header and the plates, so that a line can be written again unchanged.
"""

import codecs
import csv
from collections.abc import Iterator, Sequence
from typing import BinaryIO, NamedTuple, cast

from app.errors import OperatorError
from app.registers.formats.csv_format import declared_separator, likely_separator
from app.registers.formats.lines import LINE_BYTES_MAX, OverlongLine, line_blocks, windows_1252
from app.registers.formats.suggesting.names import plate_columns
from app.registers.reading.streams import Content
from app.vehicles.answer_cells import COLUMN_PREFIX

UTF_8 = "utf-8"
WINDOWS_1252 = "cp1252"
BLANK, RAGGED, MALFORMED = "blank_line", "ragged_line", "malformed_line"
_DELIMITERS = ",;\t|"
_CHUNK_BYTES = 1024 * 1024
_BYTE_ORDER_MARK = codecs.BOM_UTF8
_NOT_CSV = {
    b"PK\x03\x04": "an Excel workbook or a zip",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook",
    b"\x1f\x8b": "compressed with gzip",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}


class Line(NamedTuple):
    """One record: a line, or several that a quoted line break joins."""

    content: bytes
    """The bytes of the file, without the line end."""
    end: bytes
    """LF, CRLF or CR; empty if the file ends without one."""
    plate: str
    """The plate as written in the file; empty if there is a fault."""
    fault: str = ""
    """`blank_line`, `ragged_line` or `malformed_line`."""
    missing: int = 0
    """How many fields fewer than the header the line has."""


class PlateFile:
    """A CSV file of plates that is being read: first the header, then its lines by iteration.

    Args:
        stream: a file that can be read twice, because its encoding is only known at its end.
        name: for messages.
        column: the column with the plates; found by its name if None.

    Raises OperatorError if this is not such a file, or if the column cannot be found; later, if a
    line is too long or a quote is never closed.
    """

    def __init__(self, stream: BinaryIO, name: str, column: str | None) -> None:
        self._name = name
        self.encoding = _encoding(stream, name)
        self.start = _BYTE_ORDER_MARK if stream.read(3) == _BYTE_ORDER_MARK else b""
        """What is before the header: a byte order mark, blank lines, a line such as `sep=;`."""
        stream.seek(0)
        # NOTE: this limit is for the whole process and for a field; our limit of a record is lower.
        csv.field_size_limit(2 * LINE_BYTES_MAX)
        self._lines = _physical_lines(stream, name)
        self._number = 0
        self._pending: list[bytes] = []
        self._is_begun = self._is_open = False
        declared = None
        for line in self._lines:
            self._number += 1
            text = line.decode("latin-1")
            if line.strip() and (declared or not (declared := declared_separator(text))):
                break
            self.start += line
        else:
            raise OperatorError(f"{name}: the file has no header")
        likely = likely_separator(text, _DELIMITERS)
        self.delimiter = (declared or likely).encode()
        self._reader = csv.reader(self._fed(), delimiter=self.delimiter.decode(), strict=True)
        fields = self._fields(line)
        if fields is None:
            raise OperatorError(f"{name}: the header is malformed CSV")
        self.header, self.header_end = _split_end(b"".join(self._pending))
        self._width = len(fields)
        self._place = _plate_column([self._decoded(field) for field in fields], name, column)

    def __iter__(self) -> Iterator[Line]:
        delimiter, delimiters, place = self.delimiter, self._width - 1, self._place
        decoded = self._decoded
        for line in self._lines:
            self._number += 1
            if b'"' in line:
                yield self._quoted(line)
                continue
            content, end = _split_end(line)
            found = content.count(delimiter)
            if found == delimiters and (found or content.strip()):
                # PERF: only as many fields are split as are needed.
                yield Line(content, end, decoded(content.split(delimiter, place + 1)[place]))
            else:
                fault = RAGGED if content.strip() else BLANK
                yield Line(content, end, "", fault, max(delimiters - found, 0))

    def _quoted(self, line: bytes) -> Line:
        """Return the record that begins with a line with quotes."""
        fields = self._fields(line)
        content, end = _split_end(b"".join(self._pending))
        if fields is None:
            return Line(content, end, "", MALFORMED)
        if len(fields) != self._width:
            return Line(content, end, "", RAGGED, max(self._width - len(fields), 0))
        return Line(content, end, self._decoded(fields[self._place]))

    def _fields(self, line: bytes) -> list[bytes] | None:
        """Split a record into fields; None if it is malformed. Its lines are in `_pending` then."""
        self._pending = [line]
        self._is_begun = self._is_open = False
        first = self._number
        try:
            return [field.encode("latin-1") for field in next(self._reader)]
        except csv.Error:
            if self._is_open:
                raise OperatorError(
                    f"{self._name}: a quote in line {first} is never closed, "
                    f"or not within {LINE_BYTES_MAX:,} bytes"
                ) from None
            return None

    def _fed(self) -> Iterator[str]:
        """Feed the CSV reader: the pending line, then the next ones as long as a quote is open.

        Every byte becomes one character: the characters that the reader looks for are ASCII.
        """
        size = 0
        while True:
            if not self._is_begun:
                self._is_begun = True
                size = len(self._pending[0])
            else:
                line = next(self._lines, b"")
                self._number += 1
                size += len(line)
                if not line or size > LINE_BYTES_MAX:
                    self._is_open = True
                    return
                self._pending.append(line)
            yield _split_end(self._pending[-1])[0].decode("latin-1") + "\n"

    def _decoded(self, field: bytes) -> str:
        return (field.decode() if self.encoding == UTF_8 else windows_1252(field)).strip()


def _encoding(stream: BinaryIO, name: str) -> str:
    """Read a file to its end; return UTF-8 if all of it is valid, otherwise Windows-1252.

    Raises OperatorError if the file is empty, or not text.
    """
    decoder = codecs.getincrementaldecoder(UTF_8)()
    encoding, size = UTF_8, 0
    while chunk := stream.read(_CHUNK_BYTES):
        for magic, what in _NOT_CSV.items():
            if not size and chunk.startswith(magic):
                raise OperatorError(f"{name} is {what}: save it as CSV (UTF-8)")
        if b"\0" in chunk:
            raise OperatorError(f"{name} is not text: it has NUL bytes; save it as CSV (UTF-8)")
        size += len(chunk)
        encoding = encoding if _decodes(decoder, chunk) else WINDOWS_1252
    if not size:
        raise OperatorError(f"{name}: the file is empty")
    stream.seek(0)
    return encoding if _decodes(decoder, b"", is_final=True) else WINDOWS_1252


def _decodes(decoder: codecs.IncrementalDecoder, chunk: bytes, *, is_final: bool = False) -> bool:
    try:
        decoder.decode(chunk, is_final)
    except UnicodeDecodeError:
        return False
    return True


def _physical_lines(stream: BinaryIO, name: str) -> Iterator[bytes]:
    """Yield lines with their ends, without a byte order mark at the beginning and ^Z at the end."""
    content = cast(BinaryIO, Content(stream, name, lambda _: None))
    for block in line_blocks(content):
        if isinstance(block, OverlongLine):
            raise OperatorError(f"{name}: a line is longer than {LINE_BYTES_MAX:,} bytes")
        yield from block.splitlines(keepends=True)


def _split_end(line: bytes) -> tuple[bytes, bytes]:
    """Return a line without its end, and its end."""
    if line.endswith(b"\r\n"):
        return line[:-2], b"\r\n"
    if line.endswith((b"\n", b"\r")):
        return line[:-1], line[-1:]
    return line, b""


def _plate_column(names: Sequence[str], name: str, column: str | None) -> int:
    """Return the index of the column with the plates. Raises OperatorError if that is not clear."""
    ours = [each for each in names if each.casefold().startswith(COLUMN_PREFIX)]
    if ours:
        raise OperatorError(f"{name} was answered before: it has the column {ours[0]}")
    if column is not None:
        places = [
            at for at, each in enumerate(names) if each.casefold() == column.strip().casefold()
        ]
        wanted = f"column {column}"
    else:
        places = plate_columns(names)
        wanted = "column that is named like a registration"
    if len(places) > 1:
        candidates = ", ".join(names[place] for place in places)
        raise OperatorError(
            f"{name} has more than one {wanted}: {candidates}; "
            + ("name another with --column" if column else "name one with --column")
        )
    if not places:
        raise OperatorError(
            f"{name} has no {wanted}; it has {', '.join(names)}"
            + ("" if column else "; name one with --column")
        )
    return places[0]
