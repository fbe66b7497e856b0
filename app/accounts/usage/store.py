"""Writes counts into the database, and removes old ones (D128)."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from datetime import timedelta, tzinfo

import peewee

from app import clock
from app.accounts.models import Account
from app.accounts.usage.counts import Change
from app.accounts.usage.models import UsageAccount, UsageDay, UsageHour
from app.storage.engine import Engine, Row
from app.storage.errors import is_outcome_unknown

KEPT_HOURS = 48
KEPT_DAYS = 400
HOUR_SECONDS = 3600
_PRUNING_LOCK = 0x766675  # any number that no other lock uses
_WHICH = ("key_id", "operation", "status")
_HOW_MANY = ("answers", "vehicles")


class UnknownOutcome(Exception):
    """The connection was lost during a commit. Nobody knows whether it took effect."""


def write(engine: Engine, changes: Sequence[Change], zone: tzinfo, *, prunes: bool = False) -> None:
    """Add what was counted to the usage in the database, in one transaction.

    Args:
        zone: the time zone that decides which day it was (D20).
        prunes: also remove hours and days that are too old.

    Raises peewee.PeeweeException if nothing was written, and UnknownOutcome.
    """
    is_complete = False
    try:
        with engine.atomic():
            _add(engine, changes, zone)
            if prunes:
                _prune(engine, zone)
            is_complete = True
    except peewee.PeeweeException as error:
        if is_complete and is_outcome_unknown(error):
            raise UnknownOutcome from error
        raise


def first_hour(hours: int = KEPT_HOURS) -> int:
    """Return when the first of the last hours began, in Unix seconds; of those kept by default."""
    now = clock.now()
    return now - now % HOUR_SECONDS - (hours - 1) * HOUR_SECONDS


def _add(engine: Engine, changes: Sequence[Change], zone: tzinfo) -> None:
    accounts = sorted({each.counted.caller[:2] for each in changes})
    statement = (
        f"INSERT INTO usage_account (id, name) VALUES {_places(engine, 2)} "  # noqa: S608 - ours
        "ON CONFLICT (id) DO UPDATE SET name = excluded.name"
    )
    engine.run_many(statement, accounts)
    hours = _summed(changes, lambda began_at: began_at - began_at % HOUR_SECONDS)
    engine.run_many(_upsert(engine, "usage_hour", "hour"), hours)
    days = _summed(changes, lambda began_at: clock.day_of(began_at, zone).isoformat())
    engine.run_many(_upsert(engine, "usage_day", "day"), days)


def _summed(changes: Sequence[Change], period_of: Callable[[int], int | str]) -> Sequence[Row]:
    """Return the rows to add.

    They are in the order of their keys: otherwise two processes could wait for each other's rows.

    Args:
        period_of: returns the hour or day that a quarter of an hour belongs to.
    """
    periods = {began_at: period_of(began_at) for began_at in {each.began_at for each in changes}}
    sums: dict[Row, list[int]] = defaultdict(lambda: [0, 0])
    for began_at, count, answers, vehicles in changes:
        account_id, key_id = count.caller.account_id, count.caller.key_id
        added = sums[account_id, periods[began_at], key_id, count.operation, count.status]
        added[0] += answers
        added[1] += vehicles
    return [(*place, *added) for place, added in sorted(sums.items())]


def _upsert(engine: Engine, table: str, period: str) -> str:
    """Return the statement that adds a row to the one with the same key."""
    key = ("account_id", period, *_WHICH)
    columns = (*key, *_HOW_MANY)
    added = ", ".join(f"{name} = {table}.{name} + excluded.{name}" for name in _HOW_MANY)
    return (
        f"INSERT INTO {table} ({', '.join(columns)}) VALUES {_places(engine, len(columns))} "  # noqa: S608 - ours
        f"ON CONFLICT ({', '.join(key)}) DO UPDATE SET {added}"
    )


def _places(engine: Engine, number: int) -> str:
    return f"({', '.join([engine.param] * number)})"


def _prune(engine: Engine, zone: tzinfo) -> None:
    # Two processes could wait for each other's rows.
    engine.take_advisory_lock(_PRUNING_LOCK)
    UsageHour.delete().where(UsageHour.hour < first_hour()).execute(engine)
    first_day = clock.today(zone) - timedelta(days=KEPT_DAYS)
    UsageDay.delete().where(UsageDay.day < first_day).execute(engine)
    # Those of accounts that were deleted. Others can be counted again at any time.
    UsageAccount.delete().where(
        UsageAccount.id.not_in(Account.select(Account.id)),
        UsageAccount.id.not_in(UsageDay.select(UsageDay.account_id)),
    ).execute(engine)
