"""The columns of a source, and how their texts become the values of a row."""

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from app.errors import OperatorError
from app.storage.tables import Row


class FileFault(OperatorError):
    """A file cannot be loaded. The load fails and changes nothing.

    Args:
        reason: a sentence for the operator. `{line}` in it is replaced by `line`.
        name: the file; empty if only the caller knows it.
        line: the number of the line with the fault, counted from 1.
    """

    def __init__(self, reason: str, name: str = "", line: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason if line is None else reason.format(line=line)
        self.name = name
        self._template = reason
        self._line = line

    def moved(self, lines: int) -> "FileFault":
        """Return the same fault with its line number counted from the start of the whole file.

        Args:
            lines: how many lines of the file come before the part that was read.
        """
        line = None if self._line is None else self._line + lines
        return FileFault(self._template, self.name, line)

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}" if self.name else self.reason


class RowFault(Exception):
    """A record cannot be loaded. The message is the reason in the rejects file."""


class RowSkip(Exception):
    """A valid record is not loaded, such as a fine of another state."""


Parse = Callable[[str], Any]
"""Returns the value of a text from a file. The row that it is for says the value's type."""
ParseMany = Callable[[list[str]], list[Any]]
"""Returns the values of many texts of one column."""
Values = Iterable[Any]
"""The values of one record, in the order of the columns of a layout."""
ValueColumns = list[list[Any]]
"""The values of many records, column by column."""
SOCRATA_COLUMNS = frozenset({"id", "created_at", "updated_at", "version"})
"""Normalised names of the columns that Socrata, the platform of RDW and NYC, adds on request."""
SOCRATA_PAGES = frozenset({1_000, 50_000})
"""How many rows its API sends at most: without a limit in the request, and with the greatest."""
DELETED = "deleted"
"""The member of native and mapped files that marks the rows to remove. Rows do not have it."""
SPARSE_ROWS_MIN = 100
"""A sparse member counts as missing only in loads of at least this many JSON rows."""
_OTHER_CHARACTERS = re.compile("[^a-z0-9]+")


def normalised(name: str) -> str:
    """Return the form of a column's name that is used to compare names.

    It is in lower case, with one underscore for each run of other characters.
    """
    return _OTHER_CHARACTERS.sub("_", name.lower()).strip("_")


def is_like_deleted(name: str) -> bool:
    """Tell whether a column's name looks as if it marked the rows to remove."""
    return normalised(name) in ("deleted", "is_deleted", "isdeleted")


class Presence(Enum):
    """What happens if a file lacks a column.

    If it only has another name now, a load without it would erase what is known.
    """

    REQUIRED = auto()
    """The file cannot be read."""
    EXPECTED = auto()
    """The load is refused, unless the operator allows it."""
    SPARSE = auto()
    """As EXPECTED, but a few JSON rows may all lack it, because sources leave out empty members."""
    OPTIONAL = auto()
    """Nothing: complete files can lack it."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column that is read from a file."""

    label: str
    """Its name in messages."""
    names: frozenset[str]
    """The names that it has in files, in the form that `Layout.fold` returns."""
    parse: Parse
    """Returns the value of a text from the file, which is empty if missing. Raises RowFault."""
    presence: Presence = Presence.OPTIONAL
    parse_many: ParseMany | None = None
    """PERF: parses many texts at once. Raises RowFault if any value is invalid."""
    is_whole: bool = False
    """Whether to reject JSON numbers with a fraction or an exponent, which may lack digits, and -0.
    """
    is_constant: bool = False
    """Whether every row has the same value, which comes from the mapping file."""
    blanks: frozenset[str] = frozenset()
    """The texts that mean no value, in lower case. Others without a value are counted.

    Empty if no text without a value is counted.
    """
    nothing: frozenset[str] = frozenset()
    """Those of the blanks that are counted in a note: words of other programs."""
    member: str = ""
    """The native member, in native and mapped files."""
    date_form: str = ""
    """The form of its dates, such as `YYYY-MM-DD`; empty if it has no dates."""
    is_altered: Callable[[str], bool] | None = None
    """Tells whether a spreadsheet has changed a text; such texts are loaded, and counted."""
    is_day_before: bool = False
    """Whether its dates are the first day without, so that the day before is stored."""

    @classmethod
    def named(
        cls,
        label: str,
        parse: Parse,
        presence: Presence = Presence.OPTIONAL,
        parse_many: ParseMany | None = None,
        *,
        is_whole: bool = False,
        blanks: frozenset[str] = frozenset(),
    ) -> "Column":
        """Return a column whose label is its only name in files."""
        names = frozenset([normalised(label)])
        return cls(label, names, parse, presence, parse_many, is_whole, blanks=blanks)

    @property
    def key(self) -> str:
        """What identifies it: two members can be read from one column of a file."""
        return self.member or self.label


@dataclass(frozen=True, slots=True)
class KnownColumns:
    """The columns that a format knows, to compare the columns of a file with.

    Args:
        columns: the columns that are read; none if the format has columns without names.
        ignored: normalised names that the source has but that are not read. None: ignore all other
            names.
        fold: returns the form of a name that is used to compare names.
        has_header: whether a header names all columns. Otherwise a JSON member counts as present if
            any row of the load has it.
        is_partial: whether a merge keeps the stored values of columns that a file lacks.
            `columns` must then be in the order of a row.
        is_mapped: whether a mapping file names the columns.
    """

    columns: tuple[Column, ...] = ()
    ignored: frozenset[str] | None = None
    fold: Callable[[str], str] = normalised
    has_header: bool = False
    is_partial: bool = False
    is_mapped: bool = False

    def missing(
        self, names: Iterable[str], allowed: Collection[str], rows: int | None = None
    ) -> list[Column]:
        """Return the expected and sparse columns that a load lacks; of a header also the required.

        Args:
            names: the columns of the file, or the members of all rows.
            allowed: labels or names of columns that may be missing.
            rows: the number of JSON rows; None for a file with a header.
        """
        present = set(map(self.fold, names))
        absent = [column for column in self.columns if column.names.isdisjoint(present)]
        is_required = rows is None  # JSON objects without one are rejected one by one.
        required = [each for each in absent if is_required and each.presence == Presence.REQUIRED]
        folded = set(map(self.fold, allowed))
        lacking = [
            each for each in absent if folded.isdisjoint({*each.names, self.fold(each.label)})
        ]
        expected = [column for column in lacking if column.presence == Presence.EXPECTED]
        sparse = [column for column in lacking if column.presence == Presence.SPARSE]
        is_judged = expected or rows is None or rows >= SPARSE_ROWS_MIN
        return [*required, *expected, *sparse] if is_judged else []

    def unknown(self, names: Iterable[str]) -> list[str]:
        """Return the names that the format does not know."""
        if self.ignored is None:
            return []
        known = self.ignored.union(*(column.names for column in self.columns))
        return [name for name in names if self.fold(name) not in known]

    def absent(self, names: Collection[str]) -> tuple[int, ...]:
        """Return the positions in a row whose stored values a merge keeps.

        Args:
            names: the columns of the file, or the members of all rows.
        """
        present = set(map(self.fold, names))
        return tuple(
            position
            for position, column in enumerate(self.columns)
            if column.member != DELETED
            and not column.is_constant
            and column.names.isdisjoint(present)
        )


@dataclass(frozen=True, slots=True)
class Layout:
    """How the records of one file become rows. The first column is the registration.

    Each file needs a new layout, because its parsers cache values.
    """

    columns: tuple[Column, ...]
    build: Callable[[Values], Row]
    """Returns the row for the values of all columns but `DELETED`, in order.

    Raises RowFault or RowSkip.
    """
    fold: Callable[[str], str] = normalised
    """Returns the form of a name that is used to compare names."""
    build_many: Callable[[ValueColumns], list[Any]] | None = None
    """PERF: builds many rows at once from their values, column by column.

    None for a source that skips or rejects some records of most blocks. Such blocks are read record
    by record anyway.
    """
    key_columns: int = 0
    """If the last column is `DELETED`, how many of the first ones are the key of a row; else 0."""

    def values(self, texts: Sequence[list[str]]) -> ValueColumns:
        """Return the values of many records, column by column, for `build_many`.

        Args:
            texts: the texts of the records, column by column.

        Raises RowFault if any value is invalid.
        """
        return [
            column.parse_many(cells) if column.parse_many else list(map(column.parse, cells))
            for column, cells in zip(self.columns, texts, strict=True)
        ]

    def positions(self, header: Sequence[str]) -> list[int]:
        """Return the position of each column in a record, or -1 for a column that the file lacks.

        Raises FileFault if a required column is missing, or if any column appears more than once.
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
