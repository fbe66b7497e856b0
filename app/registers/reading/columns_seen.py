"""The columns that the files of a load have, beside those that their format declares (D65)."""

import shlex
from collections.abc import Collection, Iterable, Sequence
from difflib import get_close_matches
from typing import Protocol

from app.errors import OperatorError
from app.registers.formats import FileFault
from app.registers.formats.changes import Columns, NarrowRow
from app.registers.formats.columns import Column, Declared
from app.registers.formats.values import shown

_NAMED_MAX = 10
# SEC: neither many names nor long ones may fill the memory.
_UNKNOWN_MAX = 1_000
_NAME_CHARACTERS_MAX = 100


class Notes(Protocol):
    """Takes what the operator should know of a file."""

    def note(self, text: str) -> None:
        """Note a sentence."""


class ColumnsSeen:
    """Takes the names of the columns of each file, or the members of its rows.

    Args:
        allowed: what `--allow-missing` names.
        keeps_absent: members that a file has no column for keep the values that are held.
    """

    def __init__(
        self, declared: Declared, allowed: Collection[str], notes: Notes, *, keeps_absent: bool
    ) -> None:
        self._declared = declared
        self._allowed = allowed
        self._notes = notes
        self._keeps_absent = keeps_absent and declared.is_partial
        self._known: set[str] = set()
        self._unknown: dict[str, None] = {}
        self._noted = 0

    def add(self, names: Iterable[str]) -> None:
        """Take some names; raises FileFault if they are a header that lacks what it should have."""
        names = [name.strip()[:_NAME_CHARACTERS_MAX] for name in names]
        unknown = self._declared.unknown(names)
        self._known.update(map(self._declared.fold, set(names).difference(unknown)))
        if len(self._unknown) < _UNKNOWN_MAX:
            self._unknown.update(dict.fromkeys(filter(None, unknown)))
        if self._declared.has_header:
            missing = self._declared.missing(names, self._allowed)
            if missing:
                raise FileFault(f"The header has no column {self._listed(missing, unknown)}")

    def end_file(self) -> None:
        """Note the unknown names that no file before had."""
        new = list(self._unknown)[self._noted :]
        self._noted = len(self._unknown)
        if new:
            what = "unknown column is" if len(new) == 1 else "unknown columns are"
            more = f" and {len(new) - _NAMED_MAX:,} more" if len(new) > _NAMED_MAX else ""
            names = ", ".join(map(shown, new[:_NAMED_MAX]))
            self._notes.note(f"{len(new):,} {what} not read: {names}{more}")

    def require_expected(self, rows: int) -> None:
        """Raise OperatorError if no row of the load has a member that it should have.

        Args:
            rows: how many were read.
        """
        if self._declared.has_header or not (self._known or self._unknown) or not rows:
            return
        missing = self._declared.missing(self._known, self._allowed, rows)
        if missing:
            raise OperatorError(f"no row has the member {self._listed(missing, self._unknown)}")

    def narrowed(self, rows: list[Columns], header: Collection[str] | None = None) -> list[Columns]:
        """Return rows as they are, or as narrow ones if columns of theirs are absent (D66).

        Args:
            header: that of their file. None once all of the load has been read: of formats
                without headers all rows have what any row has.
        """
        if not self._keeps_absent or self._declared.has_header == (header is None):
            return rows
        absent = self._declared.absent(self._known if header is None else header)
        return [NarrowRow((*row, absent)) for row in rows] if absent else rows

    def _listed(self, missing: Sequence[Column], unknown: Iterable[str]) -> str:
        """Return the rest of a sentence: what is missing, how it may be called now, what to do."""
        by_folded = {self._declared.fold(name): name for name in unknown}
        labels = []
        for column in missing:
            alike = get_close_matches(self._declared.fold(column.label), by_folded, 1)
            labels.append(column.label + (f" (is it now {by_folded[alike[0]]}?)" if alike else ""))
        options = " ".join(f"--allow-missing {shlex.quote(column.label)}" for column in missing)
        return f"{', '.join(labels)}; if that is right, repeat it with {options}"
