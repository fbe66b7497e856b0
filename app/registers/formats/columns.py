"""Names of columns, and how a source's columns become the values of a row."""

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from app.registers.formats.changes import Row
from app.registers.formats.format import FileFault

SOCRATA_COLUMNS = frozenset({"id", "created_at", "updated_at", "version"})
"""What the platform of the RDW and of New York adds if it is asked to, normalised."""
_OTHER_CHARACTERS = re.compile("[^a-z0-9]+")
SPARSE_ROWS_MIN = 100
"""So many JSON rows must lack a sparse member before it counts as missing (D65)."""


def normalised(name: str) -> str:
    """Return the form in which names of columns are compared (formats 0.3)."""
    return _OTHER_CHARACTERS.sub("_", name.lower()).strip("_")


class Presence(Enum):
    """What a format makes of a file that lacks a column (D65)."""

    REQUIRED = auto()
    """The file cannot be read."""
    EXPECTED = auto()
    """The load is refused, unless the operator allows it."""
    SPARSE = auto()
    """As EXPECTED; but a few JSON rows may all lack the member, for they leave out empty ones."""
    OPTIONAL = auto()
    """There may be such files."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column that a source is asked for."""

    label: str
    """How messages call it."""
    names: frozenset[str]
    """Its names, folded as the layout folds them."""
    read: Callable[[str], Any]
    """Takes the text as it stands, empty if missing; raises RowFault."""
    presence: Presence = Presence.OPTIONAL
    read_all: Callable[[list[str]], list[Any]] | None = None
    """PERF: reads many texts at once, as `read` would each; raises RowFault if one is faulty."""
    is_whole: bool = False
    """A JSON number with a fraction or an exponent rejects the row: it may have lost digits."""
    is_constant: bool = False
    """Every row has the same value; no column of the file is read for it."""


@dataclass(frozen=True, slots=True)
class Declared:
    """The columns that a format knows, by which those of a file are judged (D65).

    Args:
        columns: those that are read; none if the format has no names of columns.
        ignored: names, normalised, of the source's other columns; None if all others are.
        has_header: a header names all columns of a file. Else a JSON member is there if any
            row of the load has it.
        is_partial: the columns are those of a row, in its order, and a merge keeps the values of
            those that a file lacks (D66).
    """

    columns: tuple[Column, ...] = ()
    ignored: frozenset[str] | None = None
    fold: Callable[[str], str] = normalised
    has_header: bool = False
    is_partial: bool = False

    def missing(
        self, names: Iterable[str], allowed: Collection[str], rows: int | None = None
    ) -> list[Column]:
        """Return the columns that a load should have and has not.

        Args:
            names: the file's own, or all members of all rows.
            allowed: labels or names of columns that may be missing.
            rows: of JSON, how many rows there are; None where a header tells all.
        """
        there = set(map(self.fold, [*names, *allowed]))
        labels = set(map(self.fold, allowed))
        lacking = [
            column
            for column in self.columns
            if column.names.isdisjoint(there) and self.fold(column.label) not in labels
        ]
        expected = [each for each in lacking if each.presence == Presence.EXPECTED]
        sparse = [each for each in lacking if each.presence == Presence.SPARSE]
        is_judged = expected or rows is None or rows >= SPARSE_ROWS_MIN
        return [*expected, *sparse] if is_judged else []

    def unknown(self, names: Iterable[str]) -> list[str]:
        """Return the names that the format does not know."""
        if self.ignored is None:
            return []
        known = self.ignored.union(*(column.names for column in self.columns))
        return [name for name in names if self.fold(name) not in known]

    def absent(self, names: Collection[str]) -> tuple[int, ...]:
        """Return the places in a row whose values a merge is to keep, for the file lacks them."""
        if not self.is_partial:
            return ()
        folded = set(map(self.fold, names))
        return tuple(
            place
            for place, column in enumerate(self.columns)
            if not column.is_constant and column.names.isdisjoint(folded)
        )


@dataclass(frozen=True, slots=True)
class Layout:
    """How one file's records become rows; made anew for each file, for its readers remember.

    The first column is the registration; `finish` takes the values of all columns in order
    and raises RowFault.
    """

    columns: tuple[Column, ...]
    finish: Callable[[Iterable[Any]], Row]
    fold: Callable[[str], str] = normalised
    """In what form names are compared."""
    finish_all: Callable[[list[list[Any]]], list[Any]] | None = None
    """PERF: takes many rows' values, column by column, and returns what `finish` would of each.

    None where most blocks of a file have records that are no rows: reading them at once is in vain.
    """

    @property
    def reads(self) -> tuple[Callable[[str], Any], ...]:
        """The readers of all columns, in order."""
        return tuple(column.read for column in self.columns)

    def values(self, texts: Sequence[list[str]]) -> list[list[Any]]:
        """Return what `finish_all` takes, of records whose texts are given column by column.

        Raises RowFault if one cannot be read.
        """
        return [
            column.read_all(cells) if column.read_all else list(map(column.read, cells))
            for column, cells in zip(self.columns, texts, strict=True)
        ]

    def places(self, header: Sequence[str]) -> list[int]:
        """Return where in a record each column stands, -1 if nowhere.

        Raises FileFault for a required column that is missing and any that is there twice.
        """
        names = [self.fold(name) for name in header]
        return [_place(column, names) for column in self.columns]


def _place(column: Column, names: list[str]) -> int:
    places = [place for place, name in enumerate(names) if name in column.names]
    if len(places) > 1:
        raise FileFault(f"The header has the column {column.label} more than once.")
    if not places and column.presence == Presence.REQUIRED:
        raise FileFault(f"The header has no column {column.label}.")
    return places[0] if places else -1
