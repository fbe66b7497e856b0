"""Counts values that cannot be read and so count as missing (D100).

A date, year, time or word of a vehicle or fine that cannot be read does not reject the row. Without
a count, nobody would notice that a whole column is lost.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

from app.registers.formats.columns import Column
from app.registers.formats.format import Report


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
            if column.blanks and position not in lacking
        ]
        self._counts: Counter[str] = Counter()

    def add_record(self, texts: Sequence[str]) -> None:
        """Count the values of a record that has become a row."""
        for position, column, blanks in self._columns:
            text = texts[position]
            # PERF: the parsers cache what they return, so this takes 0.1 us per column.
            if text and column.parse(text) is None and text.strip().lower() not in blanks:
                self._counts[column.label] += 1

    def add_block(self, texts: Sequence[list[str]], values: Sequence[list[Any]]) -> None:
        """Count the values of many records that have become rows.

        Args:
            texts, values: the texts and their values, column by column.
        """
        for position, column, blanks in self._columns:
            if None not in values[position]:
                continue
            pairs = zip(texts[position], values[position], strict=True)
            lost = [text for text, value in pairs if value is None and text]
            unreadable = sum(text.strip().lower() not in blanks for text in lost)
            if unreadable:
                self._counts[column.label] += unreadable

    def report_to(self, report: Report) -> None:
        """Report the counts of all columns that have unreadable values."""
        for label, values in self._counts.items():
            report.unreadable(label, values)
