"""Plates that somebody pasted: a list, or a table of which one column has the plates.

A list that seems to have a heading is a table, too: of one column. No rule surely finds the column
of plates, so the page asks, also about a heading: a wrong guess would lose a plate.
"""

import csv
import io
import re
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import NamedTuple

from app.registers.formats.suggesting.names import plate_columns
from app.vehicles.registration import canonical_registration, typed_registration

ALL_CELLS = "all"
"""The choice of every cell of a table."""
SAMPLES = 3
COLUMNS_MAX = 300
_DIVIDERS = re.compile(r"[\r\n\t,;]+")
_DELIMITERS = "\t;,"
_MANY = 0.5
"""The share of cells that look like plates from which a column may be one of plates."""


class PastedColumn(NamedTuple):
    """A column of a table that has a cell which is not empty."""

    choice: str
    """Its number, from 1."""
    first: str
    """Its cell in the first line, which may be its name; empty if the cell is."""
    rest: Sequence[str]
    """Its other cells that are not empty."""
    likeness: float
    """The share of these that look like plates, 0 to 1."""

    def samples(self, *, has_heading: bool) -> Sequence[str]:
        """Return its first cells that are not empty."""
        first = [self.first] if self.first and not has_heading else []
        return [*first, *self.rest[:SAMPLES]][:SAMPLES]


class PastedTable(NamedTuple):
    """A table with at least two lines, which may be ragged."""

    lines: Sequence[Sequence[str]]
    columns: Sequence[PastedColumn]

    @property
    def heading(self) -> Sequence[str]:
        """The cells of the first line that are not empty."""
        return list(filter(None, self.lines[0]))

    @property
    def choices(self) -> Sequence[str]:
        """Each column, and all cells."""
        return [*(each.choice for each in self.columns), ALL_CELLS]

    def looks_headed(self) -> bool:
        """Tell whether the first line looks like a heading, from its names or its letters."""
        return bool(plate_columns(self.heading)) or (
            not any(map(_has_digit, self.heading))
            and max(each.likeness for each in self.columns) >= _MANY
        )

    def likely_choice(self) -> str:
        """Return the choice that a person would make; empty if no column looks like plates."""
        named = plate_columns([each.first for each in self.columns])
        if len(named) == 1:
            return self.columns[named[0]].choice
        best = max(self.columns, key=lambda each: each.likeness)
        if best.likeness < _MANY:
            return ""
        is_list = all(each.likeness >= _MANY for each in self.columns) and not self.looks_headed()
        return ALL_CELLS if is_list else best.choice

    def plates(self, choice: str, *, has_heading: bool) -> list[str]:
        """Return the cells of a choice that are not empty, line by line."""
        lines = self.lines[has_heading:]
        if choice == ALL_CELLS:
            return [typed_registration(cell) for line in lines for cell in line if cell]
        if choice not in self.choices:
            return []
        place = int(choice) - 1
        return [
            typed_registration(line[place]) for line in lines if place < len(line) and line[place]
        ]


def plates_of(text: str) -> list[str]:
    """Split a list into plates; they can contain spaces."""
    return [typed_registration(plate) for each in _DIVIDERS.split(text) if (plate := each.strip())]


def are_several(entry: str) -> bool:
    """Tell whether an entry of a list seems to be several plates with spaces between them."""
    words = entry.split()
    return len(words) > 1 and all(len(word) > 3 and _looks_like_plate(word) for word in words)


def table_of(text: str) -> PastedTable | None:
    """Return the table that a text is; None if it is a list.

    Most lines of a table have cells with the same delimiter between them: a tab, `;` or `,`. A text
    with more than COLUMNS_MAX columns is a list, and so is a single column without a heading.
    """
    for delimiter in _DELIMITERS:
        lines = _cleaned(_split(text, delimiter))
        wide = sum(len(line) > 1 for line in lines)
        if wide > 1 and 2 * wide > len(lines):
            return _table(lines) if max(map(len, lines)) <= COLUMNS_MAX else None
    if any(delimiter in text for delimiter in _DELIMITERS):
        return None
    return _table(_cleaned([line] for line in text.splitlines()))


def _cleaned(lines: Iterable[Sequence[str]]) -> list[list[str]]:
    """Return lines without the delimiters inside cells, and without lines that are then blank."""
    cleaned = ([_DIVIDERS.sub(" ", cell).strip() for cell in line] for line in lines)
    return [line for line in cleaned if any(line)]


def _table(lines: Sequence[Sequence[str]]) -> PastedTable | None:
    """Return a table of lines that are not blank; None if it is a list."""
    if len(lines) < 2:
        return None
    table = PastedTable(lines, _columns(lines))
    return table if len(table.columns) > 1 or table.looks_headed() else None


def _columns(lines: Sequence[Sequence[str]]) -> list[PastedColumn]:
    first, *others = lines
    rest: list[list[str]] = [[] for _ in range(max(map(len, lines)))]
    for line in others:
        for cells, cell in zip(rest, line, strict=False):
            if cell:
                cells.append(cell)
    return [
        PastedColumn(
            str(number), name, cells, sum(map(_looks_like_plate, cells)) / max(len(cells), 1)
        )
        for number, (name, cells) in enumerate(zip_longest(first, rest, fillvalue=""), 1)
        if name or cells
    ]


def _split(text: str, delimiter: str) -> list[list[str]]:
    """Split a text into lines of cells, which may be quoted."""
    if delimiter not in text:
        return []
    try:
        return list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True))
    except csv.Error:
        # A quote that is never closed would take the lines after it into its cell.
        return [line.split(delimiter) for line in re.split(r"[\r\n]+", text)]


def _looks_like_plate(cell: str) -> bool:
    plate = canonical_registration(typed_registration(cell))
    return plate is not None and _has_digit(plate) and not plate.isdecimal()


def _has_digit(text: str) -> bool:
    return any(map(str.isdecimal, text))
