"""Look-ups that were not answered, for the report of the audit trail, which has only answers."""

from collections import defaultdict
from datetime import date, datetime, tzinfo

from app.accounts.usage.report import By, usage_of_days
from app.audit.period import Period
from app.audit.report import Refusal
from app.storage.engine import Engine

_LOOK_UPS = {"insurance", "bulk_insurance", "compliance", "bulk_compliance"}


def refusals_in(engine: Engine, period: Period, zone: tzinfo) -> list[Refusal]:
    """Return how many look-ups of each account were not answered on the days of a period.

    Args:
        period: one that has an end.
        zone: the time zone of the service, whose days the usage has (D20).

    Raises peewee.PeeweeException if the database cannot answer.
    """
    first, last = _day_of(period.since, zone), _day_of(period.until, zone)
    sums: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for each in usage_of_days(engine, first, last, (By.ACCOUNT, By.OPERATION)):
        _, *not_answered = each.by_class
        if each.operation in _LOOK_UPS and any(not_answered):
            account = str(each.account)
            pairs = zip(sums[account], not_answered, strict=True)
            sums[account] = [former + more for former, more in pairs]
    return [Refusal(account, *counts) for account, counts in sorted(sums.items())]


def _day_of(moment: str, zone: tzinfo) -> date:
    """Return the day of a time of the trail in the time zone of the service."""
    try:
        return datetime.fromisoformat(moment).astimezone(zone).date()
    except (OverflowError, ValueError):  # Before the first or after the last day of all.
        return date.max if moment[:4] == "9999" else date.min
