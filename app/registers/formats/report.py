"""What a format reports of a file besides its rows: rejects, notes, values that cannot be read."""

from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import filterfalse
from typing import NamedTuple, Protocol

from app.registers.formats.columns import Column
from app.registers.formats.date_forms import shape

NOT_UTF8 = "not UTF-8"
"""Reported instead of a column: values of records that were read as Windows-1252."""
TEXTS_MAX = 100


class Unreadable(NamedTuple):
    """Counts of the values of one column in a file, or in a part of a file."""

    values: int
    """How many values cannot be read."""
    readable: int = 0
    """How many values can be read; not counted by formats without named columns."""
    line: int = 0
    """The line of the first value that cannot be read; 0 if it is not known."""
    texts: tuple[str, ...] = ()
    """The first of these values, trimmed. SEC: only their form may be shown (D70)."""
    nothing: int = 0
    """How many values are words of other programs for no value, such as `NA`."""
    altered: int = 0
    """How many values a spreadsheet has changed, which are loaded as they are."""

    def plus(self, later: "Unreadable") -> "Unreadable":
        """Return the counts of this part and of a later one together."""
        return Unreadable(
            self.values + later.values,
            self.readable + later.readable,
            self.line if self.values else later.line,
            (*self.texts, *later.texts)[:TEXTS_MAX],
            self.nothing + later.nothing,
            self.altered + later.altered,
        )

    def moved(self, lines: int) -> "Unreadable":
        """Return the same with its line counted from so many lines earlier."""
        return self._replace(line=self.line + lines) if self.line else self


class Report(Protocol):
    """Receives everything that a format finds in a file except its rows."""

    def reject(self, line: int, reason: str, record: str) -> None:
        """Report a record that cannot be loaded.

        Args:
            line: the line on which the record begins, counted from 1.
            reason: the reason for the rejects file.
            record: the text of the record, or the part that may be written to the rejects file.
        """

    def skip(self) -> None:
        """Report a valid record that is not loaded."""

    def note(self, text: str) -> None:
        """Report a fact about the file that the operator should know."""

    def unreadable(self, column: str, found: Unreadable) -> None:
        """Report how many values of a column cannot be read and count as missing.

        Args:
            column: its key.
        """

    def columns(self, names: Iterable[str]) -> None:
        """Report the names of columns or JSON members, as the file spells them.

        A format with a header reports its names before the first row. Other formats report a name
        when they first find it.
        """


class IgnoringReport:
    """A report that ignores everything, for looking at a file without loading it."""

    def _ignore(self, *_: object, **_named: object) -> None:
        """Do nothing."""

    reject = skip = note = unreadable = columns = _ignore


class UnreadableValues:
    """Counts the unreadable values of one file, by column.

    An empty text as a value means that there is none, as None does.

    Args:
        columns: the columns of a layout.
        lacking: the positions of the columns that the file lacks.
    """

    def __init__(self, columns: Sequence[Column], lacking: Collection[int] = ()) -> None:
        self._columns = [
            (position, column)
            for position, column in enumerate(columns)
            if column.blanks and position not in lacking
        ]
        self._alterable = [
            (position, column, column.is_altered)
            for position, column in enumerate(columns)
            if column.is_altered and position not in lacking
        ]
        self._altered = dict.fromkeys((column.key for _, column, _ in self._alterable), 0)
        self._readable = [0] * len(columns)
        self._nothing = [0] * len(columns)
        self._found: dict[str, Unreadable] = {}

    def add_record(self, texts: Sequence[str], line_of: Callable[[], int]) -> None:
        """Count the values of a record that has become a row.

        Args:
            line_of: returns the line of the record.
        """
        for position, column, is_altered in self._alterable:
            if is_altered(texts[position]):
                self._altered[column.key] += 1
        for position, column in self._columns:
            text = texts[position]
            # PERF: the parsers cache what they return, so this takes 0.1 us per column.
            if not text or (value := column.parse(text)) == "":
                continue
            if value is not None:
                self._readable[position] += 1
            elif (word := text.strip().lower()) in column.nothing:
                self._nothing[position] += 1
            elif word not in column.blanks:
                self._add(column, 1, line_of(), (text,))

    def add_block(
        self, texts: Sequence[list[str]], values: Sequence[list[object]], line: int
    ) -> None:
        """Count the values of many records, one per line, that have become rows.

        Args:
            texts, values: the texts and their values, column by column.
            line: the line of the first record.
        """
        for position, column, is_altered in self._alterable:
            # PERF: the parser of many texts returns them as they are if they are of the usual form.
            if values[position] is not texts[position]:
                self._altered[column.key] += sum(map(is_altered, texts[position]))
        for position, column in self._columns:
            missing = values[position].count(None)
            if column.parse("") == "":
                missing += values[position].count("")
            self._readable[position] += len(values[position]) - missing
            # PERF: in many files a column is empty; that shows in 8 ns per value.
            if not missing or not any(texts[position]):
                continue
            both = zip(texts[position], values[position], strict=True)
            lost = [text for text, value in both if value is None and text]
            words = [text.strip().lower() for text in lost]
            self._nothing[position] += sum(map(column.nothing.__contains__, words))
            pairs = zip(lost, words, strict=True)
            unreadable = [text for text, word in pairs if word not in column.blanks]
            if unreadable:
                first = line + texts[position].index(unreadable[0])
                self._add(column, len(unreadable), first, tuple(unreadable[:TEXTS_MAX]))

    def report_to(self, report: Report) -> None:
        """Report all columns that have values."""
        for key, altered in self._altered.items():
            if altered:
                report.unreadable(key, Unreadable(0, altered=altered))
        for position, column in self._columns:
            found = self._found.get(column.key, Unreadable(0))
            found = found._replace(
                readable=self._readable[position], nothing=self._nothing[position]
            )
            if any(found[:2]) or found.nothing:
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


class ValuesNotUtf8:
    """Counts the values of one file that are not ASCII, in records that are not UTF-8.

    Args:
        columns: the columns of a layout.
    """

    def __init__(self, columns: Sequence[Column]) -> None:
        self._columns = columns
        self._values = 0
        self._line = 0
        self._example = ""
        self._is_odd = False
        """Whether the example has a character that is no letter, such as the © of ©koda."""

    def add_record(self, texts: Sequence[str], line_of: Callable[[], int]) -> None:
        """Count the values of a record that has become a row.

        Args:
            texts: the texts of the columns, in their order.
            line_of: returns the line of the record.
        """
        # PERF: most values are ASCII; this skips them in 0.3 us.
        for untrimmed in filterfalse(str.isascii, texts):
            text = untrimmed.strip()
            if text.isascii():
                continue
            if not self._is_odd:
                at = _telling(text)
                self._is_odd = not text[at].isalpha()
                if self._is_odd or not self._values:
                    self._line = line_of()
                    label = self._columns[texts.index(untrimmed)].label
                    self._example = f"{label}: {_shape(text, at)}"
            self._values += 1

    def report_to(self, report: Report) -> None:
        """Report them if there are any."""
        if self._values:
            found = Unreadable(self._values, line=self._line, texts=(self._example,))
            report.unreadable(NOT_UTF8, found)


def _telling(text: str) -> int:
    """Return the place of the character that shows best whether the encoding is right."""
    places = [place for place, each in enumerate(text) if not each.isascii()]
    return next((place for place in places if not text[place].isalpha()), places[0])


def _shape(text: str, at: int) -> str:
    """Return how a text looks, with one of its characters. No value is shown (D70)."""
    shown = text[at] if text[at].isprintable() else "?"
    return f"{shape(text[max(at - 10, 0) : at])}{shown}{shape(text[at + 1 :])}"
