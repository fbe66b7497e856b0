"""Reports compare the vehicles in usage with the plates in records, by account and day (D169)."""

import shutil
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from app import clock
from app.accounts.usage.store import UsageAccount, UsageDay
from app.audit.comparison import Comparison, ComparisonResult, Missing, comparison_of
from app.audit.hosts import AuditHost
from app.audit.owner import machine
from app.audit.prune import AMOUNT, prune
from app.audit.record import Plate, Record, Upkeep, time_of
from app.audit.report import render, report
from app.audit.seal import seal
from app.audit.search import TimeSpan
from app.audit.view import views_of
from tests.conftest import ON_SQLITE
from tests.rows import each_row
from tests.unit.audit_trails import opened

BEGIN = datetime(2026, 11, 2, tzinfo=UTC)
"""The first day is not whole: the trail begins on it."""
DAYS = 8
KEY = "k1234567"


class Books:
    """An account's usage, and the trail of its look-ups, from BEGIN on for DAYS days."""

    zone = UTC

    def __init__(self, world, directory, monkeypatch):
        self.engine, self.directory = world.engine, directory
        self._monkeypatch = monkeypatch
        self.at(0)
        UsageAccount.insert(id=7, name="acme").execute(self.engine)
        self.host = {"machine": machine(), "name": "web1", "since": clock.now()}
        AuditHost.insert(**self.host).execute(self.engine)
        self.record(0, plates=0)
        self.at(DAYS)

    def at(self, days):
        """Let the clock stand so many days after BEGIN."""
        now = BEGIN + timedelta(days=days)
        epoch_ns = int(now.timestamp()) * 10**9
        self._monkeypatch.setattr(clock, "now_ns", lambda: epoch_ns)
        self._monkeypatch.setattr(clock, "now", lambda: epoch_ns // 10**9)
        self._monkeypatch.setattr(clock, "today", lambda zone: now.astimezone(zone).date())

    def record(self, days, plates=1, **members):
        """Append the record of a look-up so many days after BEGIN."""
        moment = time_of(int((BEGIN + timedelta(days=days)).timestamp()) * 10**9)
        members = {"operation": "bulk_insurance", "account": "acme", "key": KEY} | members
        with opened(self.directory) as trail:
            trail.append(Record(time=moment, plates=[Plate("A1", found=True)] * plates, **members))

    def use(self, day, vehicles, **members):
        """Count vehicles on a day of November."""
        row = {"account_id": 7, "key_id": KEY, "operation": "insurance", "status": "2xx"} | members
        row |= {"day": date(2026, 11, day), "answers": 1, "vehicles": vehicles}
        UsageDay.insert(**row).execute(self.engine)

    def compared(self, *directories, period=None):
        """Return what the report of all of the trail says."""
        views = views_of(directories or [self.directory])
        wanted = period or TimeSpan()
        comparison = comparison_of(self.engine, views, wanted, self.zone)
        return report(views, wanted, [], comparison).comparison

    def missing(self):
        """Return the days of November that lack plates, with vehicles and plates."""
        return [
            (int(each.day[-2:]), each.vehicles, each.plates) for each in self.compared().missing
        ]


def _missing(compared):
    return [(int(each.day[-2:]), each.vehicles, each.plates) for each in compared.missing]


@pytest.fixture
def books(world, tmp_path: Path, monkeypatch):
    return Books(world, tmp_path / "audit", monkeypatch)


def test_a_day_with_fewer_plates_is_found(books):
    """On both engines, with the account and both numbers; the page shows it."""
    books.record(2.5, plates=3)
    books.use(4, 3)
    books.record(4.5, plates=2)
    books.use(6, 1_005)
    assert books.compared() == ComparisonResult("", 7, [Missing("acme", "2026-11-06", 1_005, 2)], 1)
    views = views_of([books.directory])
    comparison = comparison_of(books.engine, views, TimeSpan(), UTC)
    page = render(report(views, TimeSpan(), [], comparison)).decode()
    assert ">1,005</td>" in page.partition("Usage without records")[2]


@each_row(
    ("records", "usage", "missing"),
    [
        # A killed process lost its counts.
        ({4: 9}, {4: 2}, []),
        ({4: 9}, {}, []),
        ({}, {4: 2}, [(4, 2, 0)]),
        # What was answered at midnight is recorded on one day, and counted on the other.
        ({4: 5, 5: 5}, {4: 3, 5: 7}, []),
        ({4: 5, 5: 5}, {4: 7, 5: 3}, []),
        ({2: 2}, {3: 2}, []),
        ({9: 2}, {8: 2}, []),
        # The neighbour has not enough, or has given it already, or is none.
        ({4: 6, 5: 5}, {4: 5, 5: 7}, [(5, 7, 5)]),
        ({4: 5, 5: 7, 6: 5}, {4: 7, 5: 5, 6: 7}, [(6, 7, 5)]),
        ({4: 5, 6: 9}, {4: 9, 6: 5}, [(4, 9, 5)]),
        # Days beside the compared ones are not judged.
        ({}, {2: 9, 9: 9}, []),
    ],
)
def test_days_are_compared_with_their_neighbours(records, usage, missing):
    """More plates than vehicles are explained; fewer are not, unless the day beside has more."""
    vehicles = {("acme", date(2026, 11, day)): count for day, count in usage.items()}
    comparison = Comparison([date(2026, 11, day) for day in range(3, 9)], UTC, vehicles)
    for day, plates in records.items():
        record = Record(time=f"2026-11-{day:02}T12:00:00.000000Z", operation="bulk_insurance")
        record.account, record.key, record.plates = "acme", KEY, [Plate("A1")] * plates
        comparison.add(record)
    assert _missing(comparison.result()) == missing


@ON_SQLITE
def test_days_are_those_of_the_service(books):
    """A record of 23:30 UTC belongs to the next day in Paris, and to the former one in New York."""
    books.record(2 + 23.5 / 24, plates=4)
    books.use(3, 4)
    books.use(5, 4)
    for zone, day in (("Europe/Paris", 3), ("America/New_York", 5)):
        books.zone = ZoneInfo(zone)
        assert [each for each, *_ in books.missing()] == [day]


@ON_SQLITE
def test_commands_do_not_count(books):
    """Usage has none of their look-ups, so their records replace none of a client."""
    books.use(5, 3)
    books.record(3.5, 3, key=None, account=None, login="ann")
    assert books.missing() == [(5, 3, 0)]


@ON_SQLITE
def test_people_in_the_console_are_compared(books):
    """Their records have neither account nor key, and count for no account."""
    UsageAccount.insert(id=0, name="console").execute(books.engine)
    books.use(5, 3, account_id=0, key_id="", operation="console")
    books.use(9, 3, account_id=0, key_id="", operation="console")
    books.use(7, 3)
    who = {"operation": "console", "account": None, "key": None, "user": "ann"}
    books.record(3.5, 3, **who)
    books.record(5.5, 3, **who)
    assert books.compared().missing == [
        Missing("acme", "2026-11-07", 3, 0),
        Missing("console", "2026-11-09", 3, 0),
    ]


@ON_SQLITE
def test_a_period_is_compared_whole(books):
    """Its first and last day, too, although what balances them is beside the period."""
    books.record(1.999, plates=2)
    books.use(4, 2)
    books.use(5, 1)
    period = TimeSpan.of("2026-11-04T00:00:00.000000Z", "2026-11-05T23:59:59.999999Z")
    compared = books.compared(period=period)
    assert (compared.days, [each.day for each in compared.missing]) == (2, ["2026-11-05"])


@ON_SQLITE
def test_all_hosts_are_needed(books):
    """Without the trail of one, nothing is compared, and the report names it."""
    books.use(5, 3)
    other = {"machine": "f" * 32, "name": "web2", "since": clock.now() - 9 * 86_400}
    AuditHost.insert(**other).execute(books.engine)
    compared = books.compared()
    assert (compared.fault, compared.missing) == (
        "the trails of these hosts are not given: web2",
        [],
    )
    # A host that was off from the beginning has no trail.
    AuditHost.update(off_at=AuditHost.since).where(AuditHost.name == "web2").execute(books.engine)
    assert books.compared().fault == "no day of the period that has ended is in all trails whole"


@ON_SQLITE
def test_copies_count_once(books, tmp_path):
    """A trail and its copy have each record once."""
    books.record(3.5, 2)
    seal(books.directory, current=True)
    shutil.copytree(books.directory, tmp_path / "copy")
    books.use(5, 3)
    (missing,) = books.compared(books.directory, tmp_path / "copy").missing
    assert (missing.vehicles, missing.plates) == (3, 2)


@ON_SQLITE
def test_gaps_are_left_out(books):
    """While the trail was off nobody expects records: by its record, or by the database."""
    for day in range(3, 10):
        books.use(day, 1)
    moments = [time_of(int((BEGIN + timedelta(days=d)).timestamp()) * 10**9) for d in (2.5, 3.5)]
    books.record(3.5, operation="gap", key=None, upkeep=Upkeep(since=moments[0], until=moments[1]))
    assert [day for day, *_ in books.missing()] == [3, 6, 7, 8, 9]
    off_at = int((BEGIN + timedelta(days=6.5)).timestamp())
    AuditHost.update(off_at=off_at).execute(books.engine)
    assert [day for day, *_ in books.missing()] == [3, 6, 7]


@ON_SQLITE
def test_what_was_pruned_is_left_out(books):
    """Days before the time of a prune have no records any more."""
    for day in range(3, 10):
        books.at(day - 2 + 0.5)
        books.use(day, 1)
        books.record(day - 2 + 0.5)
        seal(books.directory, current=True)
    books.at(DAYS)
    prune(books.directory, "4d", accepted=[AMOUNT])
    assert (books.compared().days, books.missing()) == (3, [])


@ON_SQLITE
def test_nothing_is_known_without_hosts(books):
    """Where the trail was never on, usage needs no records."""
    AuditHost.delete().execute(books.engine)
    assert books.compared().fault == "the database knows no host whose trail is on"
