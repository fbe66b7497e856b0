"""CSV files with a header: finds the values of a row by the names of its columns."""

import io
from collections.abc import Callable, Iterator
from functools import partial
from operator import call, itemgetter
from typing import Any, BinaryIO

from app.registers.formats.changes import Row
from app.registers.formats.columns import FileFault, Layout, RowFault, RowSkip, normalised
from app.registers.formats.delimited import DelimitedRecords
from app.registers.formats.encodings import ValuesNotUtf8
from app.registers.formats.format import (
    RECORD_BYTES_MIN,
    IgnoringReport,
    NamedFormat,
    Report,
    UnreadableValues,
)
from app.storage.tables import Kind


class CsvFormat(NamedFormat):
    """A CSV file with a header. A subclass declares its columns."""

    has_header = True
    header_lines: int | None = 1
    separator: str | None = None
    """The character between fields. None: it is detected."""
    encoding: str | None = None
    """None: UTF-8, and Windows-1252 for each record that is not UTF-8 (formats 0.5)."""

    def names_in(self, head: bytes) -> frozenset[str]:
        """Return the normalised names of the columns in the header."""
        return header_names(head)

    def rows(self, stream: BinaryIO, kind: Kind, report: Report) -> Iterator[Row]:
        """Yield one row per valid record."""
        return csv_rows(stream, self.layout(kind), report, self.separator, self.encoding)

    def record_bytes_min(self, head: bytes) -> int:
        """Return the size of a record with empty fields only: its separators and line end.

        Such a record is not always rejected: a format may skip it.
        """
        try:
            columns = len(
                DelimitedRecords(io.BytesIO(head), IgnoringReport(), self.separator).header
            )
        except FileFault:
            return RECORD_BYTES_MIN
        return max(RECORD_BYTES_MIN, columns)


def header_names(head: bytes) -> frozenset[str]:
    """Return the normalised names of the columns, or an empty set if the head is not CSV."""
    try:
        return frozenset(
            map(normalised, DelimitedRecords(io.BytesIO(head), IgnoringReport()).header)
        )
    except FileFault:
        return frozenset()


def _header(head: bytes, separator: str | None = None) -> list[str]:
    """Return the names of the columns. Raises FileFault if the head is not CSV."""
    return DelimitedRecords(io.BytesIO(head), IgnoringReport(), separator).header


def csv_rows(
    stream: BinaryIO,
    layout: Layout,
    report: Report,
    separator: str | None = None,
    encoding: str | None = None,
) -> Iterator[Row]:
    """Yield one row per valid record of a CSV file; report all other records.

    Args:
        separator: the character between fields. None: it is detected.
        encoding: None: UTF-8, and Windows-1252 for each record that is not UTF-8.

    Raises FileFault if the header or the file cannot be read.
    """
    records = DelimitedRecords(stream, report, separator, encoding)
    report.columns(records.header)
    positions = layout.positions(records.header)
    lacking = [at for at, position in enumerate(positions) if position < 0]
    unreadable = UnreadableValues(layout.columns, lacking)
    not_utf8 = ValuesNotUtf8(layout.columns)
    records.fields_wanted = max(positions) + 1
    if layout.build_many is not None:
        records.read_block = partial(
            _rows_of_block, layout, positions, layout.build_many, unreadable
        )
    # A column that the file lacks has position -1. So an empty field is appended to each record.
    pick, parsers, build = itemgetter(*positions), layout.parsers, layout.build
    for fields in records:
        if isinstance(fields, tuple):
            yield from fields
            continue
        fields.append("")
        texts = pick(fields)
        try:
            row = build(map(call, parsers, texts))
        except RowFault as fault:
            records.reject(str(fault))
        except RowSkip:
            report.skip()
        else:
            unreadable.add_record(texts, records.line)
            if not records.decoder.is_record_utf8:
                not_utf8.add_record(texts, records.line)
            yield row
    unreadable.report_to(report)
    not_utf8.report_to(report)


def _rows_of_block(
    layout: Layout,
    positions: list[int],
    build_many: Callable[[list[list[Any]]], list[Row]],
    unreadable: UnreadableValues,
    columns: list[list[str]],
    line: int,
) -> tuple[Row, ...] | None:
    """Return the rows of a block of records, or None if any record is invalid.

    Args:
        line: the line of the first record; each record has one line.
    """
    empty = [""] * len(columns[0])
    texts = [columns[position] if position >= 0 else empty for position in positions]
    try:
        values = layout.values(texts)
        rows = tuple(build_many(values))
    except RowFault:
        return None
    unreadable.add_block(texts, values, line)
    return rows
