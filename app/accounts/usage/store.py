"""Writes counts into the database, and removes old ones.

Every answer is counted in an hour and in a day. So nothing has to be moved from one table to the
other, and any process can remove the oldest rows of both at any time.
"""

import logging
import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from datetime import tzinfo
from pathlib import Path
from typing import NamedTuple

import peewee

from app import clock
from app.accounts.models import Account
from app.accounts.usage.counts import CountIncrease, Counts, Pending
from app.clock_steps import old_times
from app.processes import signals_blocked
from app.storage.engine import Engine, Row, close_quietly
from app.storage.errors import is_outcome_unknown, message_of

EVENTS, EVENT = "events", "evt"
"""The operation and the class of events that watches reported: they are no answers."""
CLASSES = ("2xx", "4xx", "429", "5xx")
"""The classes of answers. Those of 4xx are without 429."""


class UsageAccount(peewee.Model):
    """The name of an account that has usage. It stays when the account is deleted."""

    id = peewee.IntegerField(primary_key=True)
    """The account's number, which is never given again."""
    name = peewee.CharField(100)

    class Meta:
        table_name = "usage_account"


class Usage(peewee.Model):
    """How many answers of one class the requests with one key got, and for how many vehicles."""

    account_id = peewee.IntegerField()
    key_id = peewee.FixedCharField(8)
    operation = peewee.CharField(30)
    status = peewee.CharField(3)
    """One of CLASSES, or EVENT."""
    answers = peewee.BigIntegerField()
    vehicles = peewee.BigIntegerField()


class UsageHour(Usage):
    """Usage in one hour."""

    hour = peewee.BigIntegerField()
    """When the hour began, in Unix seconds."""

    class Meta:
        table_name = "usage_hour"
        primary_key = False


class UsageDay(Usage):
    """Usage on one day in the time zone of the service."""

    day = peewee.DateField()

    class Meta:
        table_name = "usage_day"
        primary_key = False


KEPT_HOURS = 48
KEPT_DAYS = 400
HOUR_SECONDS = 3600
_PRUNING_LOCK = 0x766675  # any number that no other lock uses
_WHICH = ("key_id", "operation", "status")
_HOW_MANY = ("answers", "vehicles")


class UnknownOutcome(Exception):
    """The connection was lost during a commit. Nobody knows whether it took effect."""


class Old(NamedTuple):
    """The times whose hours and days may be removed, in Unix seconds."""

    hours: range
    days: range


def old_usage(data_dir: Path) -> Old:
    """Return what is too old; nothing is while the clock is not trusted (D162)."""
    # NOTE: a day is over after its end, and days of two clock changes have 25 hours.
    day_seconds = (KEPT_DAYS + 1) * 24 * HOUR_SECONDS + HOUR_SECONDS
    return Old(*(old_times(data_dir, age) for age in (KEPT_HOURS * HOUR_SECONDS, day_seconds)))


def write(
    engine: Engine, changes: Sequence[CountIncrease], zone: tzinfo, old: Old | None = None
) -> None:
    """Add counts to the usage in the database, in one transaction.

    Args:
        zone: the time zone that decides which day it was.
        old: what is also removed; nothing by default.

    Raises peewee.PeeweeException if nothing was written, and UnknownOutcome.
    """
    is_complete = False
    try:
        with engine.atomic():
            accounts = sorted({each.counted.caller[:2] for each in changes})
            hours = _summed(changes, lambda began_at: began_at - began_at % HOUR_SECONDS)
            days = _summed(changes, lambda began_at: clock.day_of(began_at, zone).isoformat())
            _upsert(engine, accounts, hours, days)
            if old is not None:
                _prune(engine, zone, old)
            is_complete = True
    except peewee.PeeweeException as error:
        if is_complete and is_outcome_unknown(error):
            raise UnknownOutcome from error
        raise


def first_hour(hours: int) -> int:
    """Return when the first of the last hours began, in Unix seconds."""
    now = clock.now()
    return now - now % HOUR_SECONDS - (hours - 1) * HOUR_SECONDS


def add_events(engine: Engine, account_id: int, account: str, events: int, zone: tzinfo) -> None:
    """Add events of an account's watches to its usage: no key has caused them.

    They are in the transaction that reports them. Takes arguments as `write` does.
    """
    now, which = clock.now(), ("", EVENTS, EVENT, events, 0)
    hour, day = now - now % HOUR_SECONDS, clock.day_of(now, zone).isoformat()
    _upsert(
        engine, [(account_id, account)], [(account_id, hour, *which)], [(account_id, day, *which)]
    )


def _upsert(
    engine: Engine, accounts: Sequence[Row], hours: Sequence[Row], days: Sequence[Row]
) -> None:
    """Name accounts, and add rows to those with the same keys."""
    statement = (
        f"INSERT INTO usage_account (id, name) VALUES {_places(engine, 2)} "  # noqa: S608 - ours
        "ON CONFLICT (id) DO UPDATE SET name = excluded.name"
    )
    engine.run_many(statement, accounts)
    engine.run_many(_adding(engine, "usage_hour", "hour"), hours)
    engine.run_many(_adding(engine, "usage_day", "day"), days)


def _summed(
    changes: Sequence[CountIncrease], period_of: Callable[[int], int | str]
) -> Sequence[Row]:
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


def _adding(engine: Engine, table: str, period: str) -> str:
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


def _prune(engine: Engine, zone: tzinfo, old: Old) -> None:
    # Two processes could wait for each other's rows.
    engine.take_advisory_lock(_PRUNING_LOCK)
    is_old = UsageHour.hour.between(old.hours.start, old.hours.stop - 1)
    UsageHour.delete().where(is_old).execute(engine)
    young, last = (clock.day_of(at, zone) for at in (old.days.start - 1, old.days.stop - 1))
    UsageDay.delete().where((UsageDay.day > young) & (UsageDay.day <= last)).execute(engine)
    # Those of accounts that were deleted. Others can be counted again at any time.
    UsageAccount.delete().where(
        UsageAccount.id.not_in(Account.select(Account.id)),
        UsageAccount.id.not_in(UsageDay.select(UsageDay.account_id)),
    ).execute(engine)


FIRST_SECONDS = 0.2
INTERVAL_SECONDS = 10
_SHARE = 10
LAST_SECONDS = 10
"""How long the end of a worker waits for its last counts to be written."""
_SECOND_NS = 1_000_000_000
_log = logging.getLogger("verifyd.usage")


def interval_seconds(age_seconds: float) -> float:
    """Return how long a process waits from one write to the next: a tenth of its age, at most 10 s.

    So a process that is killed loses a tenth of what it counted, however often that happens: those
    that ended before a first write after ten seconds counted nothing.

    PERF: not more often later, because each write costs the other workers their keys (D109).

    Args:
        age_seconds: the time since its first answer.
    """
    return min(max(age_seconds / _SHARE, FIRST_SECONDS), INTERVAL_SECONDS)


class UsageWriter:
    """Writes what a process has counted, in a thread of its own.

    Counts that cannot be written now are added to the next ones.

    Args:
        engine: the database. The thread has a connection of its own.
        zone: the time zone that decides which day it is.
        data_dir: tells whether the clock jumped: then nothing old is removed.
    """

    def __init__(self, counts: Counts, engine: Engine, zone: tzinfo, data_dir: Path) -> None:
        self._counts = counts
        self._engine = engine
        self._zone = zone
        self._data_dir = data_dir
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._pruned_in = 0
        """The hour in which old rows were removed last."""
        self._fault = ""
        self._lost = 0
        self._has_lost = False
        """Whether it was logged that answers found no room."""

    def start(self) -> None:
        """Start the thread."""
        self._thread = threading.Thread(target=self._run, name="usage", daemon=True)
        with signals_blocked():
            self._thread.start()

    def stop(self) -> None:
        """Write the last counts, and end the thread. Log how many answers could not be written."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        self._stopping.set()
        self._counts.has_begun.set()
        thread.join(LAST_SECONDS)
        left = self._counts.pending()
        if left.changes:
            _log.error("usage: the last %s answers were not written", f"{_answers(left):,}")

    def flush(self) -> None:
        """Write the counts since the last call, if there are any.

        Counts that cannot be written now are written later.
        """
        pending = self._counts.pending()
        if pending.changes:
            self._write(pending)
        else:
            self._counts.note_written(pending)
        self._report_lost()

    def _run(self) -> None:
        self._counts.has_begun.wait()
        began_ns = clock.monotonic_ns()
        wait_seconds = interval_seconds(0)
        while not self._stopping.wait(wait_seconds):
            wakes_ns = clock.monotonic_ns()
            self.flush()
            now_ns = clock.monotonic_ns()
            interval = interval_seconds((now_ns - began_ns) / _SECOND_NS)
            wait_seconds = max(0.0, interval - (now_ns - wakes_ns) / _SECOND_NS)
        self.flush()
        close_quietly(self._engine)

    def _write(self, pending: Pending) -> None:
        hour = clock.now() // HOUR_SECONDS
        try:
            old = old_usage(self._data_dir) if hour != self._pruned_in else None
            write(self._engine, pending.changes, self._zone, old)
        except UnknownOutcome as error:
            # A customer who is billed by these numbers must not be billed twice.
            self._counts.note_written(pending)
            self._engine.recover(error)
            _log.error(
                "usage: the connection was lost during a commit; %s answers may be missing",
                f"{_answers(pending):,}",
            )
        except Exception as error:
            # An error of any kind must not end the thread: the next attempt may succeed.
            self._failed(error)
        else:
            self._counts.note_written(pending)
            self._pruned_in = hour
            if self._fault:
                self._fault = ""
                _log.info("usage is written again")

    def _failed(self, error: Exception) -> None:
        """Make the connection usable again, and log the error unless it was logged last time."""
        self._engine.recover(error)
        fault = f"{type(error).__name__}: {message_of(error)}"
        if fault != self._fault:
            self._fault = fault
            _log.error("usage cannot be written now, and is kept in memory: %s", fault)

    def _report_lost(self) -> None:
        """Log that answers found no room, once until usage can be written again."""
        lost = self._counts.lost
        if lost != self._lost and not self._has_lost:
            _log.error("usage: too many counts wait in memory; answers to more keys are lost")
        self._has_lost = bool(self._fault) and (self._has_lost or lost != self._lost)
        self._lost = lost


def _answers(pending: Pending) -> int:
    return sum(each.answers for each in pending.changes)
