"""Compares the vehicles that usage counts with the plates that trails have, by account and day.

A host that answered without its trail has fewer plates than usage has vehicles, and so has a trail
that lost records. More plates are no finding: a killed process loses counts, but no record.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta, tzinfo
from functools import lru_cache
from pathlib import Path

import msgspec

from app import clock
from app.accounts.usage.counts import CONSOLE
from app.accounts.usage.report import By, usage_of_days
from app.accounts.usage.store import KEPT_DAYS
from app.audit.chain import Prune, readable_lines
from app.audit.export import records_in
from app.audit.hosts import AuditHost, list_hosts
from app.audit.owner import find_owner
from app.audit.record import Record, time_of_second
from app.audit.search import TimeSpan, operations
from app.audit.upkeep import GAP
from app.audit.view import View
from app.storage.engine import Engine

_DAY = timedelta(days=1)
_MISSING_MAX = 100


class Missing(msgspec.Struct, order=True):
    """An account and a day of which trails have fewer plates than usage has vehicles."""

    account: str
    day: str
    """In the time zone of the service."""
    vehicles: int
    """Those of usage."""
    plates: int
    """Those of the records."""


class ComparisonResult(msgspec.Struct):
    """What a comparison found."""

    fault: str = ""
    """Why nothing was compared; empty if something was."""
    days: int = 0
    """How many days were compared."""
    missing: list[Missing] = []
    """By account and day, at most 100."""
    missing_total: int = 0


NOT_READ = ComparisonResult(fault="the database, which has the usage, cannot be read here")


class Comparison:
    """The usage of some days, to which the records of all trails are added.

    Args:
        days: those to compare, in order.
        zone: the time zone of the service, whose days usage has.
        vehicles: the usage, also of the days beside them, by account and day.
        fault: why nothing can be compared.
    """

    def __init__(
        self,
        days: Sequence[date],
        zone: tzinfo,
        vehicles: Mapping[tuple[str, date], int],
        fault: str = "",
    ) -> None:
        self._days, self._vehicles, self._fault = days, vehicles, fault
        self._plates: Counter[tuple[str, date]] = Counter()
        # PERF: records of one minute are on one day in any time zone.
        self._day_of_minute = lru_cache(maxsize=4)(lambda minute: local_day(f"{minute}Z", zone))
        self._first = _midnight(days[0] - _DAY, zone) if days else ""
        self._end = _midnight(days[-1] + 2 * _DAY, zone) if days else ""

    def widened(self, period: TimeSpan) -> TimeSpan:
        """Return a period with the days beside it, whose records are wanted, too."""
        if not self._days:
            return period
        return TimeSpan(min(period.since, self._first), max(period.until, self._end))

    def add(self, record: Record) -> None:
        """Count the plates of a record, if a client or a person in the console asked for them."""
        account = CONSOLE if record.operation == CONSOLE else record.account or ""
        is_counted = record.key is not None or account == CONSOLE
        if is_counted and self._first <= record.time < self._end:
            day = self._day_of_minute(record.time[: len("YYYY-MM-DDTHH:MM")])
            self._plates[account, day] += len(record.plates)

    def result(self) -> ComparisonResult:
        """Return what the comparison found, once all records were added."""
        accounts = sorted({account for account, _ in self._vehicles})
        missing = [each for account in accounts for each in self._missing(account)]
        return ComparisonResult(self._fault, len(self._days), missing[:_MISSING_MAX], len(missing))

    def _missing(self, account: str) -> Iterator[Missing]:
        def more(day: date) -> int:
            return self._plates[account, day] - self._vehicles.get((account, day), 0)

        spare: dict[date, int] = {}
        for day in self._days:
            short = -spare.setdefault(day, more(day))
            # An answer near midnight is counted on one day, and recorded on the other.
            for other in (day - _DAY, day + _DAY):
                taken = max(0, min(short, spare.setdefault(other, more(other))))
                spare[other] -= taken
                short -= taken
            if short > 0:
                vehicles, plates = self._vehicles[account, day], self._plates[account, day]
                yield Missing(account, day.isoformat(), vehicles, plates)


def comparison_of(
    engine: Engine, views: Sequence[View], period: TimeSpan, zone: tzinfo
) -> Comparison:
    """Return the comparison of the days of a period that have ended and that trails cover whole.

    Args:
        views: those of all trails of all hosts, as they were before this.
        zone: the time zone of the service.

    Raises peewee.PeeweeException if the database cannot answer; AuditError and OSError if a trail
    cannot be read.
    """
    hosts, today = list_hosts(engine), clock.today(zone)
    # Those that began switched off have recorded nothing.
    recording = [host for host in hosts if host.is_on or (host.off_at or 0) > host.since]
    trails = _trails(views)
    if not recording:
        return Comparison([], zone, {}, "the database knows no host whose trail is on")
    if absent := [host.name for host in recording if host.machine not in trails]:
        fault = f"the trails of these hosts are not given: {', '.join(absent)}"
        return Comparison([], zone, {}, fault)
    begun = [local_day(_begin(each, trails[each.machine]), zone) for each in recording]
    # SEC: a forged time can be after all days.
    begin = min(max(begun), today) + _DAY
    first = max(local_day(period.since, zone), today - KEPT_DAYS * _DAY, begin)
    last = min(local_day(period.until, zone), today - _DAY)
    gaps = [[local_day(each, zone) for each in gap] for gap in _gaps(hosts, views)]
    whole = (first + number * _DAY for number in range((last - first).days + 1))
    days = [day for day in whole if not any(a <= day <= b for a, b in gaps)]
    if not days:
        return Comparison(
            [], zone, {}, "no day of the period that has ended is in all trails whole"
        )
    used = usage_of_days(engine, days[0] - _DAY, days[-1] + _DAY, (By.ACCOUNT, By.DAY))
    vehicles: Counter[tuple[str, date]] = Counter()
    for each in used:
        vehicles[str(each.account), date.fromisoformat(str(each.day))] += each.vehicles
    return Comparison(days, zone, vehicles)


def _trails(views: Iterable[View]) -> Mapping[str, Sequence[View]]:
    """Return each trail and its copies, by the machine of its host."""
    found: dict[str, list[View]] = {}
    for view in views:
        if owner := find_owner(view.directory):
            found.setdefault(owner.machine, []).append(view)
    return found


def _begin(host: AuditHost, views: Iterable[View]) -> str:
    """Return from when on the trail of a host has all records: since it began or was pruned."""
    return min(max(_pruned_before(view.directory), _first_time(host, view)) for view in views)


def _pruned_before(directory: Path) -> str:
    lines = readable_lines(directory)
    return max((line.before for line in lines if isinstance(line, Prune)), default="")


def _first_time(host: AuditHost, view: View) -> str:
    known = time_of_second(host.since)
    records = (record for _, record in records_in(view, TimeSpan()) if record is not None)
    first = next(records, None)
    return known if first is None else min(known, first.time)


def _gaps(hosts: Iterable[AuditHost], views: Iterable[View]) -> Iterator[tuple[str, str]]:
    """Yield when hosts were without their trail: what the database and what the trails say."""
    for host in hosts:
        if host.off_at is not None:
            end = clock.now() if host.on_at is None else host.on_at
            yield time_of_second(host.off_at), time_of_second(end)
    for view in views:
        for _, record in operations(view, GAP):
            if record.upkeep and record.upkeep.since and record.upkeep.until:
                yield record.upkeep.since, record.upkeep.until


def local_day(moment: str, zone: tzinfo) -> date:
    """Return the day of a time of the trail in the time zone of the service."""
    try:
        return datetime.fromisoformat(moment).astimezone(zone).date()
    except (OverflowError, ValueError):  # Before the first or after the last day of all.
        return date.max if moment > "9999" else date.min


def _midnight(day: date, zone: tzinfo) -> str:
    """Return when a day begins, as records have it."""
    return time_of_second(clock.start_of(day, zone))
