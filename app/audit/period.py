"""The part of a trail that a search or an export asks for: from a day or time, to another."""

import re
from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple

from app import clock
from app.audit.chain import Seal
from app.audit.record import time_of

_KEEP = re.compile(r"(?P<number>[1-9]\d{0,4})(?P<unit>[dmy])", re.ASCII)
_MONTHS = {"m": 1, "y": 12}
_LATEST = "9999"


class Period(NamedTuple):
    """From a time to a later one, both included, as records have them."""

    since: str = ""
    until: str = _LATEST

    def has(self, time: str) -> bool:
        """Tell whether a record of this time is in the period."""
        return self.since <= time <= self.until

    def overlaps(self, seal: Seal) -> bool:
        """Tell whether a sealed segment can have records of the period."""
        return seal.first <= self.until and seal.last >= self.since


def first_moment(text: str) -> str:
    """Return when a day (UTC) or a time such as `2026-11-22T15:00Z` begins. Raises ValueError."""
    return _moment(text, timedelta())


def last_moment(text: str) -> str:
    """Return when a day (UTC) ends, or a time. Raises ValueError."""
    return _moment(text, timedelta(days=1, microseconds=-1))


def _moment(text: str, added: timedelta) -> str:
    day = clock.parse_iso_date(text)
    if day is not None:
        moment = datetime(day.year, day.month, day.day, tzinfo=UTC) + added
    else:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            raise ValueError("a time needs its offset, such as Z")
    # NOTE: isoformat() leaves microseconds out if they are zero.
    return f"{moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec='microseconds')}Z"


def until_now(since: str | None, until: str | None) -> Period:
    """Return the period between two times, but not beyond now.

    What is recorded later, such as the search that asks for it, is not in it.

    Args:
        since, until: as records have them; None for no limit.
    """
    now = time_of(clock.now_ns())
    return Period(since or "", min(until or now, now))


def time_before(keep: str) -> str:
    """Return the time that is an age such as `24m`, `730d` or `2y` ago, as records have it.

    Months and years are those of the calendar. Raises ValueError.
    """
    found = _KEEP.fullmatch(keep)
    if found is None:
        raise ValueError("must be a number of days, months or years, such as 730d, 24m or 2y")
    number, unit = int(found["number"]), found["unit"]
    today = clock.today(UTC)
    try:
        if unit == "d":
            return first_moment((today - timedelta(days=number)).isoformat())
        years, month = divmod(today.year * 12 + today.month - 1 - number * _MONTHS[unit], 12)
        day = _last_day(years, month + 1) if today.day > 28 else 31
        return first_moment(date(years, month + 1, min(today.day, day)).isoformat())
    except (OverflowError, ValueError):
        return first_moment(date.min.isoformat())


def _last_day(year: int, month: int) -> int:
    following = date(year + month // 12, month % 12 + 1, 1)
    return (following - timedelta(days=1)).day
