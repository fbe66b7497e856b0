"""The report about a plate: who asked about it, who watches it, and what they were told (D188)."""

from collections.abc import Sequence
from itertools import chain, islice
from typing import Any, Final

import msgspec

from app import clock
from app.accounts.models import Account, Plan
from app.audit.record import Record, row_of, time_of
from app.audit.report import render_page
from app.audit.search import Query, TimeSpan, search
from app.audit.view import View
from app.storage.engine import Engine
from app.watches.repository import COLUMNS, watch_of
from app.watches.tables import Watch, WatchEvent
from app.watches.told import answer_of
from app.watches.words import states_of, words_of

ROWS_MAX: Final = 5_000
"""How many records, watches or events a report has at most: the newest. A search finds all."""


class PlateWatch(msgspec.Struct, rename="camel"):
    """A watch of the plate. Its members are those of `GET /v1/watches`, and more."""

    account: str
    created: str
    lead_days: Sequence[int]
    reason: str | None
    reference: str | None
    until: str | None
    as_of: str
    checks: Any
    """The state that the account was told last; None for an unknown vehicle."""


class PlateEvent(msgspec.Struct):
    """An event about the plate. Its members are those of `GET /v1/events`, and the account."""

    account: str
    time: str
    type: str
    reference: str | None
    before: Any
    after: Any


class PlateReport(msgspec.Struct):
    """A report. Members of the same name are those of its JSON."""

    generated_at: str
    plate: str
    since: str = msgspec.field(name="from")
    until: str = msgspec.field(name="to")
    records: list[Record]
    """Those of the period, the newest first, without their other plates."""
    watches: list[PlateWatch] | None
    """Those that there are now, the newest first; None if the database could not be read."""
    events: list[PlateEvent] | None
    """Those of the last 90 days, the newest first."""
    are_all: bool
    """Whether nothing was left out because of ROWS_MAX."""


def report_plate(
    views: Sequence[View], plate: str, period: TimeSpan, engine: Engine | None
) -> PlateReport:
    """Return a report about a plate, without what sandboxes say about it (D182).

    Args:
        plate: as `recorded_registration` returns it.
        period: of the records.
        engine: None if the database cannot be read here.

    Raises AuditError and OSError as a search does, and peewee.PeeweeException.
    """
    query = Query("plate", plate, period)
    located = (islice(search(each, query, newest_first=True), ROWS_MAX + 1) for each in views)
    records = sorted(chain.from_iterable(located), key=lambda each: each.time, reverse=True)
    # A watch can be older than the trail.
    watches = None if engine is None else _watches(engine, plate)
    events = None if engine is None else _events(engine, plate)
    now = time_of(clock.now_ns())
    return PlateReport(
        generated_at=now,
        plate=plate,
        since=period.since,
        until=min(period.until, now),
        records=records[:ROWS_MAX],
        watches=watches and watches[:ROWS_MAX],
        events=events and events[:ROWS_MAX],
        are_all=all(len(each or ()) <= ROWS_MAX for each in (records, watches, events)),
    )


def _watches(engine: Engine, plate: str) -> list[PlateWatch]:
    # PERF: the account comes first in the index of watches.
    query = (
        Watch.select(Account.name, *COLUMNS)
        .join(Account, on=Watch.account == Account.id)
        .join(Plan)
        .where(Watch.registration == plate, Plan.sandbox != "on")
        .order_by(Watch.created_at.desc(), Account.name)
        .limit(ROWS_MAX + 1)
    )
    found = []
    for account, *row in query.tuples().execute(engine):
        watch = watch_of(row)
        _, lead_days, reference, reason, until = watch.terms
        created = clock.iso_utc(watch.created_at)
        checks = msgspec.to_builtins(answer_of(watch.told))
        found.append(
            PlateWatch(account, created, lead_days, reason, reference, until, watch.as_of, checks)
        )
    return found


def _events(engine: Engine, plate: str) -> list[PlateEvent]:
    columns = (WatchEvent.type, WatchEvent.reference, WatchEvent.before, WatchEvent.after)
    query = (
        WatchEvent.select(Account.name, WatchEvent.at, *columns)
        .join(Account, on=WatchEvent.account == Account.id)
        .join(Plan)
        .where(WatchEvent.registration == plate, Plan.sandbox != "on")
        .order_by(WatchEvent.at.desc(), WatchEvent.account, WatchEvent.number.desc())
        .limit(ROWS_MAX + 1)
    )
    return [
        PlateEvent(account, clock.iso_utc(at), kind, reference, *map(msgspec.json.decode, states))
        for account, at, kind, reference, *states in query.tuples().execute(engine)
    ]


def render_plate(report: PlateReport) -> bytes:
    """Return a report as one HTML page, in UTF-8, that needs no other file."""
    return render_page("plate.html", report, row_of=row_of, states_of=states_of, words_of=words_of)
