"""CSV files with a header: finds the values of a row by the names of its columns."""

import io
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from operator import itemgetter
from typing import BinaryIO

from app.registers.formats.changes import Row
from app.registers.formats.columns import FileFault, Layout, RowFault, ValueColumns, normalised
from app.registers.formats.delimited import DelimitedRecords
from app.registers.formats.format import RECORD_BYTES_MIN, NamedFormat, rows_of
from app.registers.formats.report import IgnoringReport, Report, UnreadableValues
from app.storage.tables import Kind


class CsvFormat(NamedFormat):
    """A CSV file with a header. A subclass declares its columns."""

    header_lines: int | None = 1
    separator: str | None = None
    """The character between fields. None: it is detected."""
    encoding: str | None = None
    """None: UTF-8, and Windows-1252 for each record that is not UTF-8 (formats 0.5)."""

    def names_in(self, head: bytes) -> frozenset[str]:
        """Return the normalised names of the columns in the header."""
        return frozenset(map(normalised, _header(head)))

    def rows(self, stream: BinaryIO, kind: Kind, report: Report) -> Iterator[Row]:
        """Yield one row per valid record."""
        return csv_rows(stream, self.layout(kind), report, self.separator, self.encoding)

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


def _rows_of_block(
    layout: Layout,
    positions: list[int],
    build_many: Callable[[ValueColumns], list[Row]],
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
