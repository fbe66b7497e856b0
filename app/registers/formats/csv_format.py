"""CSV files: a header, then records with the same number of fields.

The names of the columns in the header say which field is which value of a row.
"""

import csv
import io
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from operator import itemgetter
from typing import BinaryIO

from app.registers.formats.changes import RowDeletion
from app.registers.formats.columns import FileFault, Layout, RowFault, ValueColumns, normalised
from app.registers.formats.encodings import Decoder
from app.registers.formats.format import RECORD_BYTES_MIN, NamedFormat, rows_of
from app.registers.formats.lines import (
    BYTE_ORDER_MARK,
    LINE_BYTES_MAX,
    OverlongLine,
    cut_off_fault,
    line_blocks,
    unclosed_quote_fault,
    windows_1252,
)
from app.registers.formats.report import IgnoringReport, Report, UnreadableValues
from app.storage.tables import Kind, Row
from app.text import counted

# What separates the fields of a CSV file: Excel's line `sep=;`, or a guess.

SEPARATORS = ",;\t"
_DECLARATION = re.compile(r'("?)sep=(\\t|\t|[^\w\s"])\1\2*', re.IGNORECASE)


def declared_separator(line: str) -> str | None:
    """Return the separator that a line before the header declares, None for any other line.

    A spreadsheet may have added quotes, and empty fields after the declaration.
    """
    match = _DECLARATION.fullmatch(line.strip(" \r\n"))
    return match[2].replace("\\t", "\t") if match else None


def likely_separator(header: str, separators: str = SEPARATORS) -> str:
    """Return the most frequent separator of a header, outside of quotes."""
    unquoted = "".join(header.split('"')[::2])
    return max(separators, key=unquoted.count)


def header_of(data: bytes) -> bytes:
    """Return the first line of a file, and a second one if the first declares the separator.

    The result is empty if there is no such line, or if it is blank.
    """
    end = data.find(b"\n") + 1
    first = data[:end].removeprefix(BYTE_ORDER_MARK)
    begin = end if declared_separator(first.decode("latin-1")) else 0
    end = data.find(b"\n", begin) + 1
    return data[:end] if data[begin:end].removeprefix(BYTE_ORDER_MARK).strip() else b""


_ESCAPE = re.compile(r"\\[tnr\\]")
_ESCAPED = (
    r"values have \t, \n, \r or \\, as some programs write tabs, line ends and backslashes in TSV; "
    "they are stored as written: export CSV with quotes instead"
)
_SWALLOWED = (
    "a quote makes one record of {lines}, each with as many fields as the header: a closing quote "
    "is missing, or a quote in a value is not doubled"
)
_SWALLOWED_FIELDS_MIN = 6
"""Text in quotes, such as an address, can have the separators of a record with fewer fields."""
_READ_BLOCK = "\n"
"""Marks a block of lines that was read at once. No line is equal to it."""


class DelimitedRecords:
    """Iterates over the records of a CSV file. Each record is a list of fields.

    If `read_block` is set, it reads whole blocks of lines, and the iteration also yields the tuples
    of rows that it returns.

    Blank lines are ignored, also those of separators. Malformed records, and records with too few
    or too many fields, are rejected. FileFault is raised for an incomplete last
    record, and for a quote that is not closed within `LINE_BYTES_MAX`.
    """

    def __init__(
        self,
        stream: BinaryIO,
        report: Report,
        separator: str | None = None,
        encoding: str | None = None,
    ) -> None:
        """Read the header.

        Args:
            separator: the character between fields, unless a line before the header declares it.
                None: the most frequent of comma, semicolon and tab in the header, outside of
                quotes.
            encoding: the encoding of the file, as `Decoder` takes it.

        Raises FileFault if there is no header, or if it is malformed.
        """
        # NOTE: this limits the size of a field in the whole process. Our limit on the size of a
        # record is stricter.
        csv.field_size_limit(2 * LINE_BYTES_MAX)
        self._report = report
        self.decoder = Decoder(encoding)
        self._in_record = False
        self._line = 0
        self._text = ""
        self._continued: list[str] = []
        """The other lines of the current record, whose quoted fields contain line breaks."""
        self._unended_line = 0
        """The number of the last line if it has no line end, else 0."""
        self.header: list[str] = []
        self.read_block: Callable[[list[list[str]], int], tuple[Row, ...] | None] | None = None
        """PERF: returns the rows of a block of records. It gets their fields column by column, and
        the line of the first one.

        It returns None if any record is invalid. The records are then yielded one by one.
        """
        self._block: tuple[Row, ...] = ()
        self.separator = separator or ""
        self._has_escapes = False
        self._numbered = self._lines(stream)
        self._next_header_line()
        declared = declared_separator(self._text)
        if declared:
            self._next_header_line()
        self.separator = declared or separator or likely_separator(self._text)
        self._reader = csv.reader(self._quoted_lines(), delimiter=self.separator, strict=True)
        try:
            self.header = self.decoder.fields(self._fields())
        except csv.Error as error:
            raise FileFault(f"The header is malformed CSV: {error}.") from error
        self._header_text = self._text
        self.fields_wanted = len(self.header)
        """PERF: all fields after this number can be yielded as one field, without a split."""

    def __iter__(self) -> Iterator[list[str] | tuple[Row, ...]]:
        separator, separators = self.separator, len(self.header) - 1
        splits_max, decoder = self.fields_wanted, self.decoder
        for line, text in self._numbered:
            if text is _READ_BLOCK:
                yield self._block
                continue
            self._line, self._text = line, text
            if text == self._header_text:
                self.reject("a repetition of the header")
                continue
            # PERF: most lines have no quote. For an RDW line split() takes 10 us, csv takes 20 us.
            if '"' in text:
                fields = self._quoted_fields()
                if not fields:
                    continue
            elif text.count(separator) == separators and (separators or text.strip()):
                fields = text.split(separator, splits_max)
            else:
                if text.strip():
                    self._reject_ragged(text.count(separator) + 1)
                continue
            yield fields if decoder.is_utf8 else decoder.fields(fields)

    @property
    def is_record_utf8(self) -> bool:
        """Whether the record that was yielded last was UTF-8, or the encoding was named."""
        return self.decoder.is_record_utf8

    def line(self) -> int:
        """Return the line of the record that was yielded last."""
        return self._line

    def reject(self, reason: str) -> None:
        """Reject the record that was yielded last, unless it has nothing but separators."""
        if not self._text.strip(f'{self.separator}" \t'):
            return
        text = "\n".join([self._text, *self._continued]) if '"' in self._text else self._text
        self._report.reject(self._line, reason, self.decoder.fields([text])[0])

    def _next_header_line(self) -> None:
        """Go to the next line that is not blank. Raises FileFault if there is none."""
        line = next((each for each in self._numbered if each[1].strip()), None)
        if line is None:
            raise FileFault("The file has no header.")
        self._line, self._text = line

    def _reject_ragged(self, found: int) -> None:
        last_line = self._line + (len(self._continued) if '"' in self._text else 0)
        ragged = f"{counted(found, 'field')} where the header has {len(self.header)}"
        if found < len(self.header) and last_line == self._unended_line:
            raise cut_off_fault(
                self._line, f"has {ragged}, and", is_padded=self._text.endswith("\0")
            )
        self.reject(ragged)

    def _lines(self, stream: BinaryIO) -> Iterator[tuple[int, str]]:
        """Yield lines with their numbers and without line ends; `_READ_BLOCK` for a read block."""
        number = 1
        for block in line_blocks(stream):
            if isinstance(block, OverlongLine):
                self._reject_overlong(number, block)
                lines = [""]
            else:
                text = self.decoder.text(block)
                start = 0
                while not self.header and start < len(text):
                    end = text.find("\n", start)
                    end = len(text) if end < 0 else end
                    yield number, text[start:end]
                    start = end + 1
                    number += 1
                text = text[start:]
                self._note_escapes(text)
                if self._try_block(text, number):
                    yield number, _READ_BLOCK
                    number += text.count("\n")
                    continue
                lines = text.split("\n")
                if lines[-1]:
                    self._unended_line = number + len(lines) - 1
                else:
                    lines.pop()
            yield from enumerate(lines, number)
            number += len(lines)

    def _note_escapes(self, text: str) -> None:
        """Note that values have the escapes of TSV; they are stored as they are."""
        # PERF: nearly all files have no backslash, which shows in 0.1 ms per MB.
        is_tsv = self.separator == "\t" and not self._has_escapes
        if is_tsv and "\\" in text and _ESCAPE.search(text):
            self._has_escapes = True
            self._report.note(_ESCAPED)

    def _try_block(self, text: str, line: int) -> bool:
        """Read a block of lines at once if each line is a valid record without quotes.

        Return whether the block was read.

        Args:
            line: the number of its first line.

        PERF: a row of twelve columns takes 5 us; line by line it takes 14 us.
        """
        if not text or not self.read_block or self._in_record or '"' in text:
            return False
        if not self.decoder.is_utf8:
            return False
        if f"{self._header_text}\n" in text:  # A repeated header is rejected line by line.
            return False
        lines = text.count("\n")
        # Each line end becomes a field of its own. If all lines have the right number of fields,
        # the line ends come at regular intervals.
        separator = self.separator
        fields = text.replace("\n", f"{separator}\n{separator}").split(separator)
        columns = len(self.header)
        if len(fields) != lines * (columns + 1) + 1 or fields[-1]:
            return False
        if fields[columns :: columns + 1].count("\n") != lines:
            return False
        block = self.read_block(
            [fields[column : -1 : columns + 1] for column in range(columns)], line
        )
        self._block = block or ()
        return block is not None

    def _reject_overlong(self, line: int, overlong: OverlongLine) -> None:
        """Reject a line over the limit.

        Raises FileFault if the line has an open quote, is the header, or is cut off.
        """
        if self._in_record or overlong.quotes % 2:
            raise unclosed_quote_fault(self._line if self._in_record else line)
        if not self.header:
            raise FileFault(f"The header is longer than {LINE_BYTES_MAX:,} bytes.")
        if overlong.is_cut_off:
            raise cut_off_fault(line)
        reason = f"longer than {LINE_BYTES_MAX:,} bytes"
        self._report.reject(line, reason, windows_1252(overlong.start))

    def _quoted_fields(self) -> list[str] | None:
        """Return the fields of a record with quotes, or None if the record is rejected."""
        fields: list[str] = []
        fault = ""
        try:
            fields = self._fields()
        except csv.Error as error:
            fault = f"malformed CSV: {error}"
        if self._reject_swallowed():
            return None
        if fault:
            self.reject(fault)
            return None
        if len(fields) != len(self.header):
            self._reject_ragged(len(fields))
            return None
        return fields

    def _reject_swallowed(self) -> bool:
        """Reject the lines of a record that are records of their own.

        Read as one record, they would give its vehicle values of another one. Return whether they
        were rejected.
        """
        if not self._continued or len(self.header) < _SWALLOWED_FIELDS_MIN:
            return False
        lines, separators = [self._text, *self._continued], len(self.header) - 1
        if any(text.count(self.separator) != separators for text in lines):
            return False
        reason = _SWALLOWED.format(lines=counted(len(lines), "line"))
        for line, text in enumerate(lines, self._line):
            self._report.reject(line, reason, self.decoder.fields([text])[0])
        return True

    def _fields(self) -> list[str]:
        """Return the fields of the current line and of the lines that its quoted fields span."""
        self._continued.clear()
        try:
            return next(self._reader)
        finally:
            self._in_record = False

    def _quoted_lines(self) -> Iterator[str]:
        """Yield the current line, and more lines while the CSV reader asks for them."""
        characters = 0
        while True:
            if not self._in_record:
                self._in_record = True
                line = self._text
                characters = len(line)
            else:
                number, line = next(self._numbered, (0, ""))
                characters += len(line) + 1
                if not number or characters > LINE_BYTES_MAX:
                    raise unclosed_quote_fault(self._line)
                self._continued.append(line)
            yield line + "\n"


class CsvFormat(NamedFormat):
    """A CSV file with a header. A subclass declares its columns."""

    header_lines: int | None = 1
    separator: str | None = None
    """The character between fields. None: it is detected."""
    encoding: str | None = None
    """None: UTF-8, and Windows-1252 for each record that is not UTF-8."""

    def names_in(self, head: bytes) -> frozenset[str]:
        return frozenset(map(normalised, _header(head)))

    def rows(self, stream: BinaryIO, kind: Kind, report: Report) -> Iterator[Row | RowDeletion]:
        """Yield one row or deletion per valid record; report all other records."""
        layout = self.layout(kind)
        records = DelimitedRecords(stream, report, self.separator, self.encoding)
        report.columns(records.header)
        positions = layout.positions(records.header)
        lacking = [at for at, position in enumerate(positions) if position < 0]
        unreadable = UnreadableValues(layout.columns, lacking)
        records.fields_wanted = max(positions) + 1
        if layout.build_many is not None:
            records.read_block = partial(
                _rows_of_block, layout, positions, layout.build_many, unreadable
            )
        pick = itemgetter(*positions)

        def texts_of(fields: list[str]) -> Sequence[str]:
            # A column that the file lacks has position -1. So an empty field is appended.
            fields.append("")
            return pick(fields)  # type: ignore[no-any-return] # a tuple of fields

        yield from rows_of(records, texts_of, layout, report, unreadable)

    def record_bytes_min(self, head: bytes) -> int:
        """Return the size of a record with empty fields only: its separators and line end.

        Such a record is not always rejected: a format may skip it.
        """
        return max(RECORD_BYTES_MIN, len(_header(head, self.separator)))


def _header(head: bytes, separator: str | None = None) -> list[str]:
    """Return the names of the columns; none if the head is not CSV."""
    try:
        return DelimitedRecords(io.BytesIO(head), IgnoringReport(), separator).header
    except FileFault:
        return []


def _rows_of_block(
    layout: Layout,
    positions: list[int],
    build_many: Callable[[ValueColumns], list[Row]],
    unreadable: UnreadableValues,
    columns: list[list[str]],
    line: int,
) -> tuple[Row, ...] | None:
    """Return the rows of a block of records, or None if any is invalid or removes a row.

    Args:
        line: the line of the first record; each record has one line.
    """
    empty = [""] * len(columns[0])
    texts = [columns[position] if position >= 0 else empty for position in positions]
    try:
        values = layout.values(texts)
        if layout.key_columns and any(values.pop()):
            return None
        rows = tuple(build_many(values))
    except RowFault:
        return None
    unreadable.add_block(texts, values, line)
    return rows
