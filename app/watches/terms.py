"""What a watch may be: the rules of its members, for the API and for files (D183)."""

from collections.abc import Sequence
from datetime import date, timedelta
from typing import Final

from app import clock

LEAD_DAYS_MAX: Final = 10
"""How many lead days a watch may have."""
LEAD_DAY_MAX: Final = 400
"""The greatest of them."""
UNTIL_DAYS_MAX: Final = 400
"""How many days ahead a watch must end if the account's plan needs a reason."""


def lead_days_fault(days: Sequence[float]) -> str | None:
    """Return what is wrong with lead days, as the end of a sentence; None if nothing is."""
    if len(days) > LEAD_DAYS_MAX:
        return f"must have at most {LEAD_DAYS_MAX} numbers; it has {len(days):,}"
    if not all(1 <= each <= LEAD_DAY_MAX and each % 1 == 0 for each in days):
        return f"must have whole numbers from 1 to {LEAD_DAY_MAX}"
    if len(set(days)) < len(days):
        return "has a number twice"
    return None


def until_fault(until: str | None, today: str, *, needs_end: bool) -> str | None:
    """Return what is wrong with the last day of a watch, as the end of a sentence.

    Args:
        today: ISO date.
        needs_end: whether the account's plan needs a reason for each watch.
    """
    if until is None:
        return "is missing; the plan needs a last day for each watch" if needs_end else None
    if clock.parse_iso_date(until) is None:
        return clock.day_fault(until)
    if until < today:
        return "must not be before today"
    last = date.fromisoformat(today) + timedelta(UNTIL_DAYS_MAX)
    if needs_end and until > last.isoformat():
        return f"must be at most {UNTIL_DAYS_MAX} days after today; the plan allows no longer watch"
    return None
