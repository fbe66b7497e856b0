"""The days that somebody asks for the usage of (D128, D129)."""

from calendar import monthrange
from collections.abc import Iterator
from datetime import date, timedelta
from typing import NamedTuple

from app import clock
from app.accounts.usage.store import KEPT_DAYS

DAYS_MAX = KEPT_DAYS
"""The most days that one request can ask for."""


class Period(NamedTuple):
    """The first and the last day, both included."""

    first: date
    last: date

    @property
    def days(self) -> int:
        """The number of days; less than 1 if the last one is before the first."""
        return (self.last - self.first).days + 1

    def __str__(self) -> str:
        """Return the month as YYYY-MM if it is a whole one, else both days."""
        if self == month_of(self.first):
            return self.first.isoformat()[: len("YYYY-MM")]
        return f"{self.first} to {self.last}"

    @property
    def title(self) -> str:
        """The month if it is a whole one, such as `November 2026`, else both days."""
        if self == month_of(self.first):
            return f"{self.first:%B} {self.first.year}"
        return f"{self.first} to {self.last}" if self.days > 1 else f"{self.first}"

    def each_day(self) -> Iterator[date]:
        """Yield the days."""
        return (self.first + timedelta(days=number) for number in range(self.days))


def period(first: date | None, last: date | None, today: date) -> Period:
    """Return the days from `first` to `last`.

    Args:
        first: by default the first of the month of `last`.
        last: by default today.
    """
    last = last or today
    return Period(first or last.replace(day=1), last)


def month_of(day: date) -> Period:
    """Return the month of a day."""
    return Period(day.replace(day=1), day.replace(day=monthrange(day.year, day.month)[1]))


def parse_month(text: str) -> Period | None:
    """Return the month that a text of the form YYYY-MM names; None for any other text."""
    first = clock.parse_iso_date(f"{text}-01")
    return None if first is None else month_of(first)
