"""Tells the operator which values of a load cannot be read and count as missing (D100, D101)."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from app.errors import OperatorError
from app.registers.formats import date_forms
from app.registers.formats.columns import Column
from app.registers.formats.report import NOT_UTF8, Unreadable
from app.registers.formats.values import is_known

DECISIVE = frozenset("motExpiry firstRegistered taxDue issuedOn settledOn taxStatus".split())
"""The members for which a load is refused if most values cannot be read: they decide answers."""
_LEGEND = " (9 stands for a digit, a for a letter)"


class _LostValues(NamedTuple):
    file: str
    """The file with the first value that cannot be read."""
    values: Unreadable

    @property
    def are_most(self) -> bool:
        """Whether more than half of the values cannot be read; one value alone is never most."""
        lost, readable, *_ = self.values
        return lost > max(readable, 1)


class LostValues:
    """The values of a load that cannot be read, by column."""

    def __init__(self) -> None:
        self._found: dict[str, _LostValues] = {}

    def add(self, file: str, column: str, values: Unreadable) -> None:
        """Add what is known of a column in a file, or in a part of it.

        Args:
            column: its key.
        """
        former = self._found.get(column)
        if former is None:
            self._found[column] = _LostValues(file, values)
        else:
            name = former.file if former.values.values else file
            self._found[column] = _LostValues(name, former.values.plus(values))

    def count_nothing(self, column: str) -> int:
        """Return how many values of a column are words of other programs for no value.

        Args:
            column: its key.
        """
        found = self._found.get(column)
        return found.values.nothing if found else 0

    def count_altered(self) -> dict[str, int]:
        """Return by column how many values a spreadsheet has changed, if there are any."""
        found = {key: each.values.altered for key, each in self._found.items()}
        return {key: altered for key, altered in found.items() if altered}

    def notes(self, columns: Iterable[Column]) -> list[str]:
        """Return a note for each column that has values that cannot be read.

        Args:
            columns: the columns of the format.
        """
        known = {column.key: column for column in columns}
        lines = [
            _not_utf8(found) if key == NOT_UTF8 else _note(key, known.get(key), found)
            for key, found in self._found.items()
            if found.values.values
        ]
        words = {column.label: self.count_nothing(key) for key, column in known.items()}
        return [*_with_one_legend(sorted(lines)), *_nothing(words)]

    def require_readable(self, columns: Iterable[Column], allowed: Collection[str]) -> None:
        """Refuse a load if most dates or tax statuses of a column cannot be read (D101).

        Args:
            columns: the columns of the format.
            allowed: members of `--allow-loss`.

        Raises MostUnreadable.
        """
        lost = {
            column: self._found[column.key]
            for column in columns
            if column.member in DECISIVE.difference(allowed)
            and column.key in self._found
            and self._found[column.key].are_most
        }
        if lost:
            raise MostUnreadable(lost)


class MostUnreadable(OperatorError):
    """Most values of a column cannot be read, so nothing was loaded."""

    def __init__(self, lost: dict[Column, _LostValues]) -> None:
        self._labels = dict.fromkeys(column.label for column in lost)
        names = ", ".join(self._labels)
        reasons = []
        for column, found in lost.items():
            place = f"{found.file}, line {found.values.line}: {column.label}"
            told = f"{place}: {_share(found.values)} cannot be read"
            reasons.append("; ".join(filter(None, [told, _hint(found, column)])))
        allow = " ".join(f"--allow-loss {column.member}" for column in lost)
        without = f"To load the rows without these values, repeat the load with {allow}."
        told = f"most values of {names} cannot be read; nothing was loaded"
        self._lines = [told, *_with_one_legend(reasons), without]
        super().__init__("\n".join(self._lines))

    def is_repeated_by(self, note: str) -> bool:
        """Tell whether a note is about the values that this refusal names."""
        return note.startswith(tuple(f"{label}: " for label in self._labels))

    @property
    def sentence(self) -> str:
        """The message on one line."""
        return "; ".join(self._lines)


def _note(key: str, column: Column | None, found: _LostValues) -> str:
    label = column.label if column else key
    verb = "counts" if found.values.values == 1 else "count"
    told = f"{_share(found.values)} could not be read and {verb} as missing"
    return f"{label}: {told}{_details(found, column)}"


def _not_utf8(found: _LostValues) -> str:
    was = "was" if found.values.values == 1 else "were"
    return (
        f"{_share(found.values)} {was} not UTF-8 and {was} read as Windows-1252 "
        f"(such as in {found.file}, line {found.values.line}, {found.values.texts[0]}{_LEGEND}); "
        "if these letters are wrong, name the encoding of a CSV file with --encoding, or save the "
        "file as UTF-8"
    )


def _nothing(words: Mapping[str, int]) -> list[str]:
    """Return a note on words such as `NA`, if there are any.

    Args:
        words: how many each column has.
    """
    counts = ", ".join(f"{many:,} of {label}" for label, many in sorted(words.items()) if many)
    return [f"words such as NA, None or - count as missing: {counts}"] if counts else []


def _share(values: Unreadable) -> str:
    every = values.values + values.readable
    if not values.readable:
        return f"{every:,} value{'' if every == 1 else 's'}"
    return f"{values.values:,} of {every:,} values"


def _details(found: _LostValues, column: Column | None) -> str:
    """Return in brackets where the first value is, and what the values look like."""
    line = found.values.line
    which = "" if found.values.values == 1 else "the first in "
    details = [f"{which}{found.file}, line {line}" if line else "", _hint(found, column)]
    return f" ({'; '.join(filter(None, details))})" if any(details) else ""


def _hint(found: _LostValues, column: Column | None) -> str:
    """Return what the values look like, and what to do. SEC: no value is shown (D70)."""
    if column is None or not column.member:
        return ""
    texts = found.values.texts
    if column.date_form:
        return _date_hint(texts, column)
    if column.member == "taxStatus":
        word = next((text for text in texts if is_known(text)), None)
        shown = f'"{word}" is an example; ' if word else ""
        return f"{shown}[words.taxStatus] of a mapping can translate words"
    if column.member == "lastUpdated":
        return (
            "a time needs a time zone, such as 2026-11-01T06:00:00Z; --timezone, or timezone in a "
            f"mapping, names that of times without one{_form_of_times(texts)}"
        )
    return ""


def _form_of_times(texts: Sequence[str]) -> str:
    """Return what times need whose days have another form than 2026-11-01; empty for others."""
    timed = map(date_forms.timed_day, texts)
    days = [each.day if each else text for text, each in zip(texts, timed, strict=True)]
    forms = date_forms.likely_forms(days)
    if not forms or forms[0] == date_forms.ISO:
        return ""
    return f"; the form of the days is {' or '.join(forms)}, which date_format in a mapping names"


def _date_hint(texts: Sequence[str], column: Column) -> str:
    form = column.date_form
    if _are_most(lambda text, _: bool(date_forms.time_fault(text)), texts, form):
        return next(filter(None, map(date_forms.time_fault, texts)))
    if _are_most(date_forms.fits, texts, form):
        return date_forms.no_such_day(form)
    forms = date_forms.likely_forms(texts)
    if forms:
        return (
            f"the form is {' or '.join(forms)}, expected {form}: a mapping needs "
            f'date_format = "{forms[0]}", or {column.member} = "{forms[0]}" in [date_formats]'
        )
    if _are_most(date_forms.is_written_as, texts, form):
        return date_forms.no_such_day(form)
    shape = date_forms.shape(texts[0])
    return f"such as {shape}{_LEGEND}, expected {form}" if "9" in shape else ""


def _are_most(fits: Callable[[str, str], bool], texts: Sequence[str], form: str) -> bool:
    return 2 * sum(fits(text, form) for text in texts) > len(texts)


def _with_one_legend(lines: list[str]) -> list[str]:
    """Return the lines, of which only the first with a legend keeps it."""
    first = next((at for at, line in enumerate(lines) if _LEGEND in line), 0)
    return [*lines[: first + 1], *(each.replace(_LEGEND, "") for each in lines[first + 1 :])]
