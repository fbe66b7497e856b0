"""Reads any CSV file by means of a mapping file."""

from collections.abc import Iterator
from dataclasses import replace
from typing import BinaryIO

from app.registers.formats.changes import Row
from app.registers.formats.columns import KnownColumns, Layout
from app.registers.formats.csv_format import CsvFormat
from app.registers.formats.format import Report
from app.registers.formats.mapping import FileMapping, folded_name
from app.registers.formats.native import LAYOUTS
from app.storage.tables import Kind


class MappedCsv(CsvFormat):
    """CSV with a header, whose columns a mapping file names (`--map`)."""

    name = "mapped"
    looked_for = "a CSV header"
    is_partial = True

    def __init__(self, mapping: FileMapping, encoding: str | None = None) -> None:
        """Read files by a mapping.

        Args:
            encoding: goes before that of the mapping.
        """
        self._mapping = mapping
        self.register = mapping.register or ""
        self.kinds = frozenset([mapping.kind])
        self.separator = mapping.delimiter
        self.encoding = encoding or mapping.encoding

    def recognise(self, head: bytes) -> Kind | None:
        """Return the kind that the mapping file names, for any file."""
        return self._mapping.kind

    def kind_of(self, names: frozenset[str]) -> Kind | None:
        """Return the kind that the mapping file names, for any names."""
        return self._mapping.kind

    def layout(self, kind: Kind) -> Layout:
        """Return the columns that the mapping file names."""
        native = LAYOUTS[kind]()
        columns = self._mapping.layout_columns()
        return Layout(columns, native.build, folded_name, native.build_many)

    def known_columns(self, kind: Kind) -> KnownColumns:
        """Return the columns that the mapping file names."""
        return replace(super().known_columns(kind), is_mapped=True)

    def rows(self, stream: BinaryIO, kind: Kind, report: Report) -> Iterator[Row]:
        """Yield one row per valid record. Rejects contain no text of their records."""
        return super().rows(stream, kind, _WithoutRecords(report))


class _WithoutRecords:
    """A report that drops the text of rejected records, which can contain personal data (D25)."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self.skip = report.skip
        self.note = report.note
        self.columns = report.columns
        self.unreadable = report.unreadable

    def reject(self, line: int, reason: str, record: str) -> None:
        """Report the line and the reason, without the record."""
        self._report.reject(line, reason, "")
