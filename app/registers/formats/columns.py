"""Columns: which ones a source has, and how the texts in them become the values of a row."""

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from app.registers.formats.changes import Row
from app.registers.formats.faults import FileFault

SOCRATA_COLUMNS = frozenset({"id", "created_at", "updated_at", "version"})
"""Columns that the platform of RDW and New York City adds on request, normalised."""
SPARSE_ROWS_MIN = 100
"""A sparse member counts as missing if at least this many JSON rows all lack it (D65)."""
_OTHER_CHARACTERS = re.compile("[^a-z0-9]+")


def normalised(name: str) -> str:
    """Return a column's name in the form in which names are compared (formats 0.3)."""
    return _OTHER_CHARACTERS.sub("_", name.lower()).strip("_")


class Presence(Enum):
    """What happens if a file lacks a column (D65)."""

    REQUIRED = auto()
    """The file cannot be read."""
    EXPECTED = auto()
    """The load is refused, unless the operator allows it."""
    SPARSE = auto()
    """As EXPECTED, but a few JSON rows may all lack the member: sources leave out empty ones."""
    OPTIONAL = auto()
    """Nothing; some files do not have it."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column that is read from a file."""

    label: str
    """Its name in messages."""
    names: frozenset[str]
    """The names that a file may give it, folded as the layout folds names."""
    parse: Callable[[str], Any]
    """Takes the text as it stands, empty if missing; returns a value, or raises RowFault."""
    presence: Presence = Presence.OPTIONAL
    parse_many: Callable[[list[str]], list[Any]] | None = None
    """PERF: parses many texts at once, as `parse` would; raises RowFault if any is invalid."""
    is_whole: bool = False
    """A JSON number with a fraction or an exponent is rejected: it may have lost digits."""
    is_constant: bool = False
    """Every row has the same value, which does not come from a column of the file."""


@dataclass(frozen=True, slots=True)
class KnownColumns:
    """The columns that a format knows; the columns of a file are compared with them (D65).

    Args:
        columns: those that are read; none if the columns of the format have no names.
        ignored: normalised names of the source's other columns. None: all others are ignored.
        fold: returns a name in the form in which names are compared.
        has_header: a header names all columns of a file. Otherwise a JSON member counts as present
            if any row of the load has it.
        is_partial: the columns are those of a row, in its order, and a merge keeps the held values
            of the columns that a file lacks (D66).
    """

    columns: tuple[Column, ...] = ()
    ignored: frozenset[str] | None = None
    fold: Callable[[str], str] = normalised
    has_header: bool = False
    is_partial: bool = False

    def missing(
        self, names: Iterable[str], allowed: Collection[str], rows: int | None = None
    ) -> list[Column]:
        """Return the columns that a load should have but lacks.

        Args:
            names: the columns of the file, or the members of all rows.
            allowed: labels or names of columns that may be missing.
            rows: how many JSON rows there are; None for a file with a header.
        """
        present = set(map(self.fold, [*names, *allowed]))
        allowed_labels = set(map(self.fold, allowed))
        lacking = [
            column
            for column in self.columns
            if column.names.isdisjoint(present) and self.fold(column.label) not in allowed_labels
        ]
        expected = [column for column in lacking if column.presence == Presence.EXPECTED]
        sparse = [column for column in lacking if column.presence == Presence.SPARSE]
        is_judged = expected or rows is None or rows >= SPARSE_ROWS_MIN
        return [*expected, *sparse] if is_judged else []

    def unknown(self, names: Iterable[str]) -> list[str]:
        """Return the names that the format does not know."""
        if self.ignored is None:
            return []
        known = self.ignored.union(*(column.names for column in self.columns))
        return [name for name in names if self.fold(name) not in known]

    def absent(self, names: Collection[str]) -> tuple[int, ...]:
        """Return the positions in a row of the columns that a file lacks, for a merge to keep."""
        if not self.is_partial:
            return ()
        present = set(map(self.fold, names))
        return tuple(
            position
            for position, column in enumerate(self.columns)
            if not column.is_constant and column.names.isdisjoint(present)
        )


@dataclass(frozen=True, slots=True)
class Layout:
    """How the records of one file become rows.

    Make a new one for each file: its parsers cache what they have parsed. The first column is the
    registration.
    """

    columns: tuple[Column, ...]
    build: Callable[[Iterable[Any]], Row]
    """Takes the values of all columns, in order; returns a row, or raises RowFault or RowSkip."""
    fold: Callable[[str], str] = normalised
    """Returns a name in the form in which names are compared."""
    build_many: Callable[[list[list[Any]]], list[Any]] | None = None
    """PERF: takes the values of many rows, column by column, with the results of `build`.

    None for a source of which most blocks hold records that are no rows: those blocks are read
    record by record anyway.
    """

    @property
    def parsers(self) -> tuple[Callable[[str], Any], ...]:
        """The parsers of all columns, in order."""
        return tuple(column.parse for column in self.columns)

    def values(self, texts: Sequence[list[str]]) -> list[list[Any]]:
        """Return the values of many records, column by column, as `build_many` takes them.

        Args:
            texts: the texts of the records, column by column.

        Raises RowFault if any text is invalid.
        """
        return [
            column.parse_many(cells) if column.parse_many else list(map(column.parse, cells))
            for column, cells in zip(self.columns, texts, strict=True)
        ]

    def positions(self, header: Sequence[str]) -> list[int]:
        """Return the position of each column in a record, -1 for a column that the file lacks.

        Raises FileFault if a required column is missing, or any is there more than once.
        """
        names = [self.fold(name) for name in header]
        return [_position(column, names) for column in self.columns]


def _position(column: Column, names: list[str]) -> int:
    positions = [position for position, name in enumerate(names) if name in column.names]
    if len(positions) > 1:
        raise FileFault(f"The header has the column {column.label} more than once.")
    if not positions and column.presence == Presence.REQUIRED:
        raise FileFault(f"The header has no column {column.label}.")
    return positions[0] if positions else -1
