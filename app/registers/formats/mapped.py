"""Any other CSV, as a mapping file says."""

from collections.abc import Iterator
from typing import BinaryIO

from app.registers.formats import delimited
from app.registers.formats.changes import Row
from app.registers.formats.columns import Declared, Layout
from app.registers.formats.format import Kind, Report, require_kind
from app.registers.formats.mapping import FileMapping, folded_name
from app.registers.formats.native import LAYOUTS


class MappedCsv:
    """CSV with a header whose columns a mapping names; never recognised, always told."""

    name = "mapped"
    header_lines = 1
    looked_for = "a CSV header"

    def __init__(self, mapping: FileMapping) -> None:
        self._mapping = mapping

    @property
    def register(self) -> str:
        """The register that the mapping names, empty if none."""
        return self._mapping.register or ""

    @property
    def delimiter(self) -> str | None:
        """What parts the columns; None if it is found by looking."""
        return self._mapping.delimiter

    def recognise(self, head: bytes) -> Kind | None:
        """Return the mapping's kind: the operator says what the file is."""
        return self._mapping.kind

    def is_snapshot(self, head: bytes) -> bool:
        """The operator says so by `--mode replace`."""
        return True

    def declared(self, kind: Kind) -> Declared:
        """Return the columns that the mapping names; all others are nobody's business."""
        return Declared(
            self._mapping.layout_columns(), None, folded_name, has_header=True, is_partial=True
        )

    def rows(self, stream: BinaryIO, kind: Kind, report: Report) -> Iterator[Row]:
        """Read rows; the columns of the key must be there."""
        require_kind(self.name, kind, self._mapping.kind)
        ours = LAYOUTS[kind]()
        columns = self._mapping.layout_columns()
        layout = Layout(columns, ours.finish, folded_name, ours.finish_all)
        return delimited.rows(stream, layout, _Discreet(report), self._mapping.delimiter)


class _Discreet:
    """Reports without the records: whose names are in the other columns, nobody knows (D25)."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self.skip = report.skip
        self.note = report.note
        self.columns = report.columns

    def reject(self, line: int, reason: str, record: str) -> None:
        """Pass on where and why."""
        self._report.reject(line, reason, "")
