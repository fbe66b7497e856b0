"""Counts what a report of the trail shows, in memory that does not grow with the trail."""

from collections import Counter
from collections.abc import Iterator
from statistics import median
from typing import Generic, TypeVar

import msgspec

from app.audit.record import Record

OTHER = "(others)"
"""Stands for what came after there were too many different values."""
_VALUES_MAX = 10_000
_PLATES_MAX = 200_000
_USERS_MAX = 50_000
_FACTOR = 5
"""How many times its usual plates of a day a user must exceed to be reported."""
_PLATES_MIN = 20
"""Fewer plates of a day are never reported."""
_DAYS_MIN = 3
"""On how many other days a user must have been seen."""
_K = TypeVar("_K")


class Tally(msgspec.Struct, order=True):
    """How often a value occurred."""

    name: str
    look_ups: int
    plates: int


class Peak(msgspec.Struct, order=True):
    """A day on which a user asked for far more plates than usual."""

    account: str
    user: str
    day: str
    plates: int
    usual: float
    """The median of the user's other days."""


class Tallies:
    """Look-ups and plates by one member of the records."""

    def __init__(self) -> None:
        self._look_ups: Counter[str] = Counter()
        self._plates: Counter[str] = Counter()

    def add(self, name: str, plates: int) -> None:
        """Count a look-up."""
        if name not in self._look_ups and len(self._look_ups) >= _VALUES_MAX:
            name = OTHER
        self._look_ups[name] += 1
        self._plates[name] += plates

    def most(self) -> list[Tally]:
        """Return all values, those with most look-ups first."""
        return [Tally(name, n, self._plates[name]) for name, n in self._look_ups.most_common()]

    def by_name(self) -> list[Tally]:
        """Return all values by name."""
        return sorted(self.most())


class Frequent(Generic[_K]):
    """Counts many different values, and forgets those that are rare.

    What is frequent is never forgotten, but its count may be too low once anything was forgotten.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._counts: Counter[_K] = Counter()
        self.is_exact = True

    def add(self, value: _K) -> None:
        """Count a value."""
        self._counts[value] += 1
        if len(self._counts) > 2 * self._most:
            self._counts = Counter(dict(self._counts.most_common(self._most)))
            self.is_exact = False

    def top(self, number: int) -> list[tuple[_K, int]]:
        """Return the most frequent values."""
        return self._counts.most_common(number)


class Users:
    """The plates that each user asked for by day: a bulk has thousands."""

    def __init__(self) -> None:
        self._days: dict[tuple[str, str], Counter[str]] = {}
        self.are_all = True
        """Whether there was room for all users."""

    def add(self, record: Record) -> None:
        """Count a look-up, if the client named its user."""
        if record.user is None:
            return
        who = (record.account or "", record.user)
        if who not in self._days:
            if len(self._days) >= _USERS_MAX:
                self.are_all = False
                return
            self._days[who] = Counter()
        self._days[who][record.time[: len("YYYY-MM-DD")]] += len(record.plates)

    def peaks(self) -> list[Peak]:
        """Return the days that are far above a user's usual, the largest first."""
        found = [peak for who, days in self._days.items() for peak in _peaks(who, days)]
        return sorted(found, key=lambda peak: (-peak.plates, peak))


def _peaks(who: tuple[str, str], days: Counter[str]) -> Iterator[Peak]:
    if len(days) <= _DAYS_MIN:
        return
    for day, plates in days.items():
        if plates < _PLATES_MIN:
            continue
        usual = median(count for other, count in days.items() if other != day)
        if plates > _FACTOR * usual:
            yield Peak(*who, day, plates, usual)


def frequent_plates() -> Frequent[str]:
    """Return a counter of plates."""
    return Frequent(_PLATES_MAX)
