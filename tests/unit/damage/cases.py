"""What the lists of damaged and of good files are made of."""

from collections.abc import Callable
from datetime import date
from typing import NamedTuple

from app.storage.tables import Kind
from tests.unit.damage import national
from tests.unit.damage.national import Rows

NORMAL: dict[Kind, Callable[[date], Rows]] = {
    Kind.VEHICLES: national.vehicles,
    Kind.POLICIES: national.policies,
    Kind.FINES: national.fines,
}
"""The files of a normal day."""


class Case(NamedTuple):
    """A register, and the files that come after the one that it was loaded from."""

    name: str
    kind: Kind
    loads: Callable[[Rows, date], list[Rows]]
    """Returns the files of the next nights, of the rows loaded and of today."""
    before: Callable[[date], Rows] | None = None
    """Returns the rows loaded; None for those of a normal day, and no rows for a first load."""
    mode: str = "replace"


def one(change: Callable[[Rows], Rows]) -> Callable[[Rows, date], list[Rows]]:
    """Return a case's `loads`: one file, changed as a whole."""
    return lambda rows, _: [change(rows)]


def each(**values: Callable[[dict[str, str]], str] | str) -> Callable[[Rows, date], list[Rows]]:
    """Return a case's `loads`: one file, with other values in these members of every row."""
    return one(lambda rows: with_values(rows, **values))


def with_values(rows: Rows, **values: Callable[[dict[str, str]], str] | str) -> Rows:
    """Return rows with other values in these members."""
    return [
        row | {name: value(row) if callable(value) else value for name, value in values.items()}
        for row in rows
    ]


def without(is_gone: Callable[[int, dict[str, str]], bool]) -> Callable[[Rows, date], list[Rows]]:
    """Return a case's `loads`: one file that lacks rows."""
    return one(lambda rows: [row for n, row in enumerate(rows) if not is_gone(n, row)])


def merges(*changes: Callable[[Rows], Rows]) -> Callable[[Rows, date], list[Rows]]:
    """Return a case's `loads`: several files, each made of the rows loaded at first."""
    return lambda rows, _: [change(rows) for change in changes]


def years(name: str, by: int) -> Callable[[dict[str, str]], str]:
    """Return what moves the date of a member by years; an empty date stays empty."""
    return lambda row: row[name] and f"{int(row[name][:4]) + by:04}{moved(row[name])}"


def moved(day: str) -> str:
    """Return month and day of a date, without the day that only leap years have."""
    return "-02-28" if day.endswith("-02-29") else day[4:]


def swapped(name: str) -> Callable[[dict[str, str]], str]:
    """Return what exchanges month and day of a date where both fit."""

    def value(row: dict[str, str]) -> str:
        year, month, day = row[name].split("-") if row[name] else ("", "", "99")
        return f"{year}-{day}-{month}" if int(day) <= 12 else row[name]

    return value


def shifted(rows: Rows, *names: str) -> Rows:
    """Return rows in which these members have the values of the next row."""
    return [
        row | {name: other[name] for name in names}
        for row, other in zip(rows, [*rows[1:], rows[0]], strict=True)
    ]
