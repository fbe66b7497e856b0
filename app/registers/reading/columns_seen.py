"""Compares the columns of the files of a load with the columns that the format knows (D65)."""

from collections.abc import Collection, Iterable
from typing import Protocol

from app.errors import OperatorError
from app.registers.formats import FileFault
from app.registers.formats.changes import Columns, NarrowRow
from app.registers.formats.columns import KnownColumns
from app.registers.formats.values import quoted
from app.registers.reading.missing_columns import header_fault, lacking

_NAMED_MAX = 10
# SEC: a file with many or long names must not fill the memory.
_UNKNOWN_MAX = 1_000
_NAME_CHARACTERS_MAX = 100


class Notes(Protocol):
    """Receives what the operator should know about a file."""

    def note(self, text: str) -> None:
        """Note a sentence."""


class ColumnsSeen:
    """Collects the names of the columns or JSON members of all files of a load.

    Args:
        known: the columns that the format knows.
        allowed: the columns that `--allow-missing` names.
        keeps_absent: whether the load keeps stored values whose column a file lacks.
    """

    def __init__(
        self, known: KnownColumns, allowed: Collection[str], notes: Notes, *, keeps_absent: bool
    ) -> None:
        self._known_columns = known
        self._allowed = allowed
        self._notes = notes
        self._keeps_absent = keeps_absent and known.is_partial
        self._seen: set[str] = set()
        self._unknown: dict[str, None] = {}
        self._noted = 0

    def add(self, names: Iterable[str]) -> None:
        """Add names. Raises FileFault if they are a header that lacks columns it must have."""
        names = [name.strip()[:_NAME_CHARACTERS_MAX] for name in names]
        unknown = self._known_columns.unknown(names)
        self._seen.update(map(self._known_columns.fold, set(names).difference(unknown)))
        if len(self._unknown) < _UNKNOWN_MAX:
            self._unknown.update(dict.fromkeys(filter(None, unknown)))
        if self._known_columns.has_header:
            missing = self._known_columns.missing(names, self._allowed)
            if missing:
                raise FileFault(header_fault(self._known_columns, names, missing))

    def end_file(self) -> None:
        """Note the unknown names that no earlier file of the load had."""
        new = list(self._unknown)[self._noted :]
        self._noted = len(self._unknown)
        if new:
            columns = "unknown column is" if len(new) == 1 else "unknown columns are"
            more = f" and {len(new) - _NAMED_MAX:,} more" if len(new) > _NAMED_MAX else ""
            names = ", ".join(map(quoted, new[:_NAMED_MAX]))
            self._notes.note(f"{len(new):,} {columns} not read: {names}{more}")

    def require_expected(self, rows: int) -> None:
        """Raise OperatorError if no row of a JSON load has an expected member.

        Args:
            rows: how many rows were read.
        """
        if self._known_columns.has_header or not (self._seen or self._unknown) or not rows:
            return
        missing = self._known_columns.missing(self._seen, self._allowed, rows)
        if missing:
            raise OperatorError(f"no row has the member {lacking(missing, self._unknown)}")

    def narrowed(self, rows: list[Columns], header: Collection[str] | None = None) -> list[Columns]:
        """Return the rows, as narrow rows if their file lacks columns (D66).

        Args:
            header: the header of their file. None after the whole load has been read: in JSON, a
                member counts as present in all rows if any row of the load has it.
        """
        if not self._keeps_absent or self._known_columns.has_header == (header is None):
            return rows
        absent = self._known_columns.absent(self._seen if header is None else header)
        return [NarrowRow((*row, absent)) for row in rows] if absent else rows
