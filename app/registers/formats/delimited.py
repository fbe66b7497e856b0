"""Delimited text (CSV): a header, then records of as many fields."""

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from operator import call, itemgetter
from typing import Any, BinaryIO

from app.registers.formats.changes import Row
from app.registers.formats.columns import Layout, normalised
from app.registers.formats.format import FileFault, Report, RowFault, RowSkip
from app.registers.formats.line_blocks import (
    LINE_BYTES_MAX,
    Overlong,
    blocks,
    cut_off,
    windows_1252,
)

_SEPARATORS = ",;\t"
_BLOCK = "\n"
"""Stands for the lines of a block that was read at once; no line is like it."""
_QUOTED = re.compile('"[^"]*"')


class Table:
    """A delimited file being read; iterate to get its records, each a list of fields.

    Where `read_block` is set, a block of lines that it can read comes as a tuple of rows instead.

    Blank lines are no records; ragged and malformed records are rejected (formats 0.4). Raises
    FileFault for a quote that is never closed, which one open over the limit counts as, and for a
    last record that is incomplete (D68).
    """

    def __init__(self, stream: BinaryIO, report: Report, separator: str | None = None) -> None:
        """Read the header; by default its most frequent unquoted separator counts."""
        # NOTE: this limit is the process's and on a field; a record's own limit comes first.
        csv.field_size_limit(2 * LINE_BYTES_MAX)
        self._report = report
        self._in_record = False
        self._is_utf8 = True
        self._line = 0
        self._text = ""
        self._continued: list[str] = []
        self._unended_line = 0
        """The last line, if it has no end."""
        self.header: list[str] = []
        self.read_block: Callable[[list[list[str]]], tuple[Row, ...] | None] | None = None
        """PERF: takes the fields of a block, column by column; None if a record is no row."""
        self._block: tuple[Row, ...] = ()
        self._numbered = self._lines(stream)
        while not self._text.strip():
            self._line, self._text = next(self._numbered, (0, "-"))
        if not self._line:
            raise FileFault("The file has no header.")
        unquoted = _QUOTED.sub("", self._text)
        self._separator = separator or max(_SEPARATORS, key=unquoted.count)
        self._reader = csv.reader(self._quoted_lines(), delimiter=self._separator, strict=True)
        try:
            self.header = self._fields()
        except csv.Error as error:
            raise FileFault(f"The header is malformed CSV: {error}.") from error
        self._header_text = self._text
        self.wanted = len(self.header)
        """PERF: fields beyond these many may come unparted, as one."""

    def __iter__(self) -> Iterator[list[str] | tuple[Row, ...]]:
        separator, separators, wanted = self._separator, len(self.header) - 1, self.wanted
        for line, text in self._numbered:
            if text is _BLOCK:
                yield self._block
                continue
            self._line, self._text = line, text
            if text == self._header_text:
                self.reject("the header again")
                continue
            # PERF: most lines have no quote; split() parts an RDW line in 10 us, csv in 20 us.
            if '"' in text:
                fields = self._quoted_fields()
                if not fields:
                    continue
            elif text.count(separator) == separators and (separators or text.strip()):
                fields = text.split(separator, wanted)
            else:
                if text.strip():
                    self._reject_ragged(text.count(separator) + 1)
                continue
            yield fields if self._is_utf8 else _decoded(fields)

    def reject(self, reason: str) -> None:
        """Report the record that was given out last."""
        text = "\n".join([self._text, *self._continued]) if '"' in self._text else self._text
        self._report.reject(self._line, reason, _decoded([text])[0])

    def skip(self, reason: str) -> None:
        """Report that the record that was given out last has nothing to do here."""
        self._report.skip(self._line, reason)

    def _reject_ragged(self, found: int) -> None:
        last_line = self._line + (len(self._continued) if '"' in self._text else 0)
        if found < len(self.header) and last_line == self._unended_line:
            raise cut_off(self._line)
        self.reject(f"{found} fields where the header has {len(self.header)}")

    def _lines(self, stream: BinaryIO) -> Iterator[tuple[int, str]]:
        """Yield the lines with their numbers, without their ends; or a block that was read."""
        number = 1
        for block in blocks(stream):
            if isinstance(block, Overlong):
                self._reject_overlong(number, block)
                lines = [""]
            else:
                text = self._text_of(block)
                start = 0
                while not self.header and start < len(text):
                    end = text.find("\n", start) % (len(text) + 1)
                    yield number, text[start:end]
                    start = end + 1
                    number += 1
                text = text[start:]
                if self._is_read(text):
                    yield number, _BLOCK
                    number += text.count("\n")
                    continue
                lines = text.split("\n")
                if lines[-1]:
                    self._unended_line = number + len(lines) - 1
                else:
                    lines.pop()
            yield from enumerate(lines, number)
            number += len(lines)

    def _is_read(self, text: str) -> bool:
        """Read a block of lines at once, if each is a record without quotes that becomes a row.

        PERF: 5 us a row of twelve columns; line by line it takes 14 us.
        """
        if not text or not self.read_block or self._in_record or '"' in text or not self._is_utf8:
            return False
        if f"{self._header_text}\n" in text:  # Files were joined: it is rejected line by line.
            return False
        lines = text.count("\n")
        # Each line's end becomes a field of its own: there they stand if no line is ragged.
        fields = text.replace("\n", f"{self._separator}\n{self._separator}").split(self._separator)
        ends = len(self.header)
        if len(fields) != lines * (ends + 1) + 1 or fields[-1]:
            return False
        if fields[ends :: ends + 1].count("\n") != lines:
            return False
        block = self.read_block([fields[place : -1 : ends + 1] for place in range(ends)])
        self._block = block or ()
        return block is not None

    def _text_of(self, block: bytes) -> str:
        try:
            text = block.decode()
        except UnicodeDecodeError:
            # Which record is not UTF-8 is seen once there are records: bytes become surrogates.
            self._is_utf8 = False
            text = block.decode(errors="surrogateescape")
        return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text

    def _reject_overlong(self, line: int, overlong: Overlong) -> None:
        """Reject a line over the limit, unless a quote in it is, or may be, open at its end."""
        if self._in_record or overlong.quotes % 2:
            raise _never_closed(self._line if self._in_record else line)
        if not self.header:
            raise FileFault(f"The header is longer than {LINE_BYTES_MAX} bytes.")
        if overlong.is_cut_off:
            raise cut_off(line)
        reason = f"longer than {LINE_BYTES_MAX} bytes"
        self._report.reject(line, reason, windows_1252(overlong.start))

    def _quoted_fields(self) -> list[str] | None:
        """Return the fields of a record with quotes, or None if it is rejected."""
        try:
            fields = self._fields()
        except csv.Error as error:
            self.reject(f"malformed CSV: {error}")
            return None
        if len(fields) != len(self.header):
            self._reject_ragged(len(fields))
            return None
        return fields

    def _fields(self) -> list[str]:
        """Part the current line, and those that a quoted line break joins to it."""
        self._continued.clear()
        try:
            return next(self._reader)
        finally:
            self._in_record = False

    def _quoted_lines(self) -> Iterator[str]:
        """Feed the CSV reader: first the current line, then, if it asks for more, the next ones."""
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
                    raise _never_closed(self._line)
                self._continued.append(line)
            yield line + "\n"


def header_names(head: bytes) -> frozenset[str]:
    """Return the normalised names of the columns, none if the head is no delimited text."""
    try:
        return frozenset(map(normalised, Table(io.BytesIO(head), _Unheard()).header))
    except FileFault:
        return frozenset()


def columns_in(head: bytes, separator: str | None = None) -> int:
    """Return how many columns a file has by its first bytes, 0 if it is no delimited text."""
    try:
        return len(Table(io.BytesIO(head), _Unheard(), separator).header)
    except FileFault:
        return 0


def rows(
    stream: BinaryIO, layout: Layout, report: Report, separator: str | None = None
) -> Iterator[Row]:
    """Read a delimited file by its header. Raises FileFault (D28)."""
    table = Table(stream, report, separator)
    report.columns(table.header)
    places = layout.places(table.header)
    table.wanted = max(places) + 1
    if layout.finish_all is not None:
        table.read_block = partial(_block_of, layout, places, layout.finish_all)
    # A missing column is read from the empty field that is put at the end of each record.
    pick, reads, finish = itemgetter(*places), layout.reads, layout.finish
    for fields in table:
        if isinstance(fields, tuple):
            yield from fields
            continue
        fields.append("")
        try:
            row = finish(map(call, reads, pick(fields)))
        except RowFault as fault:
            table.reject(str(fault))
        except RowSkip as skip:
            table.skip(str(skip))
        else:
            yield row


def _block_of(
    layout: Layout,
    places: list[int],
    finish_all: Callable[[list[list[Any]]], list[Row]],
    columns: list[list[str]],
) -> tuple[Row, ...] | None:
    """Return the rows of a block, None if one of its records is no row."""
    nothing = [""] * len(columns[0])
    try:
        values = layout.values([columns[at] if at >= 0 else nothing for at in places])
        return tuple(finish_all(values))
    except RowFault:
        return None


class _Unheard:
    """A report for those who only look at the header."""

    def reject(self, line: int, reason: str, record: str) -> None:
        pass

    def skip(self, line: int, reason: str) -> None:
        pass

    def note(self, text: str) -> None:
        pass

    def columns(self, names: Iterable[str]) -> None:
        pass


def _never_closed(line: int) -> FileFault:
    reason = (
        "A quote opened in the record of line {line} is never closed, "
        f"or not within {LINE_BYTES_MAX} bytes."
    )
    return FileFault(reason, line=line)


def _decoded(fields: list[str]) -> list[str]:
    """Return a record as it is if it was UTF-8, else as Windows-1252 (formats 0.5)."""
    try:
        "".join(fields).encode()
    except UnicodeEncodeError:
        return [windows_1252(field.encode(errors="surrogateescape")) for field in fields]
    return fields
