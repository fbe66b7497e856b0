"""Names of columns, and how a source's columns become the values of a row."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from app.registers.formats.interface import FileFault
from app.registers.rows import Row

_OTHER_CHARACTERS = re.compile("[^a-z0-9]+")


def normalised(name: str) -> str:
    """Return the form in which names of columns are compared (formats 0.3)."""
    return _OTHER_CHARACTERS.sub("_", name.lower()).strip("_")


@dataclass(frozen=True, slots=True)
class Column:
    """A column that a source is asked for."""

    label: str
    """How messages call it."""
    names: frozenset[str]
    """Its names, folded as the layout folds them."""
    read: Callable[[str], Any]
    """Takes the text as it stands, empty if missing; raises RowFault."""
    required: bool = False
    read_all: Callable[[list[str]], list[Any]] | None = None
    """PERF: reads many texts at once, as `read` would each; raises RowFault if one is faulty."""
    is_whole: bool = False
    """A JSON number with a fraction or an exponent rejects the row: it may have lost digits."""


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
    if not places and column.required:
        raise FileFault(f"The header has no column {column.label}.")
    return places[0] if places else -1
