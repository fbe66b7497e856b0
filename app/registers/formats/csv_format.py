"""Formats that are CSV files with a header: rows from records, by the names of the columns."""

import io
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from operator import call, itemgetter
from typing import Any, BinaryIO

from app.registers.formats.changes import Row
from app.registers.formats.columns import KnownColumns, Layout, normalised
from app.registers.formats.delimited import DelimitedRecords
from app.registers.formats.faults import FileFault, RowFault, RowSkip
from app.registers.formats.format import RECORD_BYTES_MIN, Format, Report
from app.storage.tables import Kind


class CsvFormat(Format):
    """A CSV file with a header; a subclass says what its columns are."""

    header_lines: int | None = 1
    separator: str | None = None
    """What separates the fields; None: it is detected."""
    ignored_columns: frozenset[str] | None = None
    """Normalised names of the source's columns that are not read; None: any may be there."""
    is_partial = False
    """Whether a merge keeps the values of columns that a file lacks; see `KnownColumns`."""

    @abstractmethod
    def kind_of(self, names: frozenset[str]) -> Kind | None:
        """Return what a file with these columns holds, None if it has another format.

        Args:
            names: the names in the header, normalised.
        """

    @abstractmethod
    def layout(self, kind: Kind) -> Layout:
        """Return how the records of one file become rows; new for each file."""

    def recognise(self, head: bytes) -> Kind | None:
        """Judge by the names of the columns."""
        return self.kind_of(header_names(head))

    def known_columns(self, kind: Kind) -> KnownColumns:
        """Return the columns that a header may name."""
        layout = self.layout(kind)
        return KnownColumns(
            layout.columns,
            self.ignored_columns,
            layout.fold,
            has_header=True,
            is_partial=self.is_partial,
        )

    def rows(self, stream: BinaryIO, kind: Kind, report: Report) -> Iterator[Row]:
        """Yield a row for each record."""
        return csv_rows(stream, self.layout(kind), report, self.separator)

    def record_bytes_min(self, head: bytes) -> int:
        """Count separators and a line end: a record of nothing else may be one to skip."""
        try:
            columns = len(DelimitedRecords(io.BytesIO(head), _NoReport(), self.separator).header)
        except FileFault:
            return RECORD_BYTES_MIN
        return max(RECORD_BYTES_MIN, columns)


def header_names(head: bytes) -> frozenset[str]:
    """Return the normalised names of the columns; none if the head is not delimited text."""
    try:
        return frozenset(map(normalised, DelimitedRecords(io.BytesIO(head), _NoReport()).header))
    except FileFault:
        return frozenset()


def csv_rows(
    stream: BinaryIO, layout: Layout, report: Report, separator: str | None = None
) -> Iterator[Row]:
    """Yield the rows of a delimited file with a header. Raises FileFault."""
    records = DelimitedRecords(stream, report, separator)
    report.columns(records.header)
    positions = layout.positions(records.header)
    records.fields_wanted = max(positions) + 1
    if layout.build_many is not None:
        records.read_block = partial(_rows_of_block, layout, positions, layout.build_many)
    # A column that the file lacks has position -1: the empty field added to each record.
    pick, parsers, build = itemgetter(*positions), layout.parsers, layout.build
    for fields in records:
        if isinstance(fields, tuple):
            yield from fields
            continue
        fields.append("")
        try:
            row = build(map(call, parsers, pick(fields)))
        except RowFault as fault:
            records.reject(str(fault))
        except RowSkip as skip:
            records.skip(str(skip))
        else:
            yield row


def _rows_of_block(
    layout: Layout,
    positions: list[int],
    build_many: Callable[[list[list[Any]]], list[Row]],
    columns: list[list[str]],
) -> tuple[Row, ...] | None:
    """Return the rows of a block of records, None if one of them is no row."""
    empty = [""] * len(columns[0])
    texts = [columns[position] if position >= 0 else empty for position in positions]
    try:
        return tuple(build_many(layout.values(texts)))
    except RowFault:
        return None


class _NoReport:
    """A report for reading a header only."""

    def reject(self, line: int, reason: str, record: str) -> None:
        pass

    def skip(self, line: int, reason: str) -> None:
        pass

    def note(self, text: str) -> None:
        pass

    def columns(self, names: Iterable[str]) -> None:
        pass
