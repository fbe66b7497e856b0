"""Counts values that cannot be read and so count as missing (D100).

A date, year, time or word of a vehicle or fine that cannot be read does not reject the row. Without
a count, nobody would notice that a whole column is lost.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

from app.registers.formats.columns import Column
from app.registers.formats.format import Report

TEXTS_MAX = 100


class Unreadable(NamedTuple):
    """What is known of the values of one column in a file, or in a part of it."""

    values: int
    """How many values cannot be read."""
    readable: int = 0
    """How many values can be read; not counted by formats without named columns."""
    line: int = 0
    """The line of the first value that cannot be read; 0 if it is not known."""
    texts: tuple[str, ...] = ()
    """The first of these values, trimmed. SEC: only their form may be shown (D70)."""

    def plus(self, later: "Unreadable") -> "Unreadable":
        """Return what is known of this part and a later one."""
        return Unreadable(
            self.values + later.values,
            self.readable + later.readable,
            self.line if self.values else later.line,
            (*self.texts, *later.texts)[:TEXTS_MAX],
        )

    def moved(self, lines: int) -> "Unreadable":
        """Return the same with its line counted from so many lines earlier."""
        return self._replace(line=self.line + lines) if self.line else self


class UnreadableValues:
    """Counts the unreadable values of one file, by column.

    Args:
        columns: the columns of a layout.
        lacking: the positions of the columns that the file lacks.
    """

    def __init__(self, columns: Sequence[Column], lacking: Collection[int] = ()) -> None:
        self._columns = [
            (position, column, column.blanks)
            for position, column in enumerate(columns)
            if column.blanks and position not in lacking and not column.is_constant
        ]
        self._readable = [0] * len(columns)
        self._found: dict[str, Unreadable] = {}

    def add_record(self, texts: Sequence[str], line_of: Callable[[], int]) -> None:
        """Count the values of a record that has become a row.

        Args:
            line_of: returns the line of the record.
        """
        for position, column, blanks in self._columns:
            text = texts[position]
            # PERF: the parsers cache what they return, so this takes 0.1 us per column.
            if not text:
                continue
            if column.parse(text) is not None:
                self._readable[position] += 1
            elif text.strip().lower() not in blanks:
                self._add(column, 1, line_of(), (text,))

    def add_block(self, texts: Sequence[list[str]], values: Sequence[list[Any]], line: int) -> None:
        """Count the values of many records, one per line, that have become rows.

        Args:
            texts, values: the texts and their values, column by column.
            line: the line of the first record.
        """
        for position, column, blanks in self._columns:
            missing = values[position].count(None)
            self._readable[position] += len(values[position]) - missing
            if not missing:
                continue
            pairs = zip(texts[position], values[position], strict=True)
            lost = [text for text, value in pairs if value is None and text]
            unreadable = [text for text in lost if text.strip().lower() not in blanks]
            if unreadable:
                first = line + texts[position].index(unreadable[0])
                self._add(column, len(unreadable), first, tuple(unreadable[:TEXTS_MAX]))

    def report_to(self, report: Report) -> None:
        """Report all columns that have values."""
        for position, column, _ in self._columns:
            found = self._found.get(column.key, Unreadable(0))
            found = found._replace(readable=self._readable[position])
            if found.values or found.readable:
                report.unreadable(column.key, found)

    def _add(self, column: Column, values: int, line: int, texts: tuple[str, ...]) -> None:
        # SEC: a short value can stand between many spaces.
        texts = tuple(text.strip() for text in texts)
        former = self._found.get(column.key)
        if former is not None and len(former.texts) >= TEXTS_MAX:
            self._found[column.key] = former._replace(values=former.values + values)
            return
        found = Unreadable(values, line=line, texts=texts)
        self._found[column.key] = former.plus(found) if former else found
