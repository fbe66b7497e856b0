"""Any other CSV file, read as a mapping file says."""

from collections.abc import Iterator
from typing import BinaryIO

from app.registers.formats.changes import Row
from app.registers.formats.columns import Layout
from app.registers.formats.csv_format import CsvFormat
from app.registers.formats.format import Report
from app.registers.formats.mapping import FileMapping, folded_name
from app.registers.formats.native import LAYOUTS
from app.storage.tables import Kind


class MappedCsv(CsvFormat):
    """CSV with a header whose columns a mapping names; used only if the operator says so."""

    name = "mapped"
    looked_for = "a CSV header"
    is_partial = True

    def __init__(self, mapping: FileMapping) -> None:
        self._mapping = mapping
        self.register = mapping.register or ""
        self.kinds = frozenset([mapping.kind])
        self.separator = mapping.delimiter

    def recognise(self, head: bytes) -> Kind | None:
        """Return the kind of the mapping, whatever the file looks like."""
        return self._mapping.kind

    def kind_of(self, names: frozenset[str]) -> Kind | None:
        """Return the kind of the mapping, whatever the names are."""
        return self._mapping.kind

    def layout(self, kind: Kind) -> Layout:
        """Return the columns that the mapping names."""
        native = LAYOUTS[kind]()
        columns = self._mapping.layout_columns()
        return Layout(columns, native.build, folded_name, native.build_many)

    def rows(self, stream: BinaryIO, kind: Kind, report: Report) -> Iterator[Row]:
        """Yield a row for each record; no reject shows its record."""
        return super().rows(stream, kind, _WithoutRecords(report))


class _WithoutRecords:
    """A report without the records: nobody knows whose names are in their columns (D25)."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self.skip = report.skip
        self.note = report.note
        self.columns = report.columns

    def reject(self, line: int, reason: str, record: str) -> None:
        """Pass on where and why."""
        self._report.reject(line, reason, "")
