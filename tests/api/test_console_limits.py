"""Limits of plates per person and day in the console, and the usage of people."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import date, datetime
from zoneinfo import ZoneInfo

import pytest

from app import clock
from app.accounts.usage.report import By, usage_of_days
from app.audit.comparison import comparison_of
from app.audit.hosts import AuditHost
from app.audit.owner import machine
from app.audit.record import AuditError
from app.audit.report import Refusal, Tally, refusals_in, report
from app.audit.search import TimeSpan
from app.audit.trail import Trail
from app.audit.view import views_of
from app.console.rendering import ROOT
from app.people.plates import LimitReached, PersonDay, PlateLimits
from app.people.sessions import Session
from app.serve.http.envelope import Deadline, GivenUp
from app.settings.roles import Role
from app.storage.engine import close_quietly
from tests.api.console import signed_in
from tests.conftest import STORAGE
from tests.rows import each_row
from tests.unit.audit_trails import lines

LOOK_UP = f"{ROOT}/look-up"
LIMITS = {"clerk": 5, "viewer": 2}
PARIS = ZoneInfo("Europe/Paris")
EVENING = int(datetime(2026, 11, 22, 23, 30, tzinfo=PARIS).timestamp())
MINUTE = 60


class Console:
    """An installation with limits, a trail, and a clock that a test moves."""

    def __init__(self, world, monkeypatch):
        self.world = world
        self.now = EVENING
        self.ahead = 0
        monkeypatch.setattr(clock, "monotonic_ns", lambda: 10**15 + (self.now - EVENING) * 10**9)
        monkeypatch.setattr(clock, "now", lambda: self.now + self.ahead)
        monkeypatch.setattr(clock, "now_ns", lambda: clock.now() * 10**9)
        monkeypatch.setattr(clock, "today", lambda zone: clock.day_of(clock.now(), zone))
        self.trail = world.directory / "audit"
        self.restart()

    def restart(self, limits=None, **settings):
        """Start a process with these limits."""
        settings |= {"console": True, "audit": True, "audit_dir": self.trail, "timezone": PARIS}
        settings["console_limits"] = LIMITS if limits is None else limits
        self.application = self.world.client(None, **settings).application
        return self.application

    def person(self, name="ann", role=Role.CLERK):
        """Return the browser of a person."""
        return signed_in(self.world, self.application, role, name)

    def counted(self):
        """Return the plates of each person and day."""
        rows = PersonDay.select().order_by(PersonDay.day, PersonDay.person)
        return {
            (each.day[-2:], each.person): each.plates for each in rows.execute(self.world.engine)
        }

    def used(self):
        """Return answers by class, and vehicles, of what usage has of people."""
        self.application.usage.flush()
        days = date(2026, 1, 1), date(2027, 1, 1)
        found = usage_of_days(self.world.engine, *days, (By.ACCOUNT, By.KEY, By.OPERATION))
        return [
            (each.account, each.key, each.operation, each.by_class, each.vehicles) for each in found
        ]


@pytest.fixture
def console(world, monkeypatch):
    console = Console(world, monkeypatch)
    world.load([{"registration": "AB12CDE", "make": "Ford"}])
    return console


def ask(browser, plates=1, **fields):
    return browser.post(LOOK_UP, {"plates": "\n".join(["AB12CDE"] * plates), **fields})


def fault(page):
    """Return what a refused look-up says."""
    assert page.status_int == 429
    assert not page.html.select("#answers")
    notice = page.html.select_one(".notice.bad").get_text(" ", strip=True)
    said, _, text = notice.partition(". ")
    assert said == "Nothing was looked up"
    return text


class Test200:
    @STORAGE
    def test_the_last_plate_is_answered(self, console):
        """Plates count each time that they are asked for, in a file, too."""
        clerk = console.person()
        assert ask(clerk, 3).status_int == 200
        assert ask(clerk, 1, **{"as": "csv"}).content_type == "text/csv"
        assert ask(clerk, 1).status_int == 200
        assert console.counted() == {("22", "ann"): 5}
        assert ask(clerk).status_int == 429

    def test_a_role_without_a_limit_is_not_counted(self, console):
        """So no look-up of theirs writes to the database."""
        assert ask(console.person(role=Role.OPERATOR), 10).status_int == 200
        console.restart({})
        assert ask(console.person(), 10).status_int == 200
        assert console.counted() == {}

    def test_the_day_ends_at_midnight(self, console):
        """The next plates are there at the time that the refusal has named, not before."""
        clerk = console.person()
        ask(clerk, 5)
        assert ask(clerk).headers["Retry-After"] == str(30 * MINUTE)
        console.now += 30 * MINUTE - 1
        assert ask(clerk).status_int == 429
        console.now += 1
        assert ask(clerk, 5).status_int == 200

    @each_row(
        ("zone", "evening"),
        [
            ("UTC", "2026-11-22T23:30Z"),
            ("Asia/Tokyo", "2026-11-22T14:30Z"),
            # The next day begins at one.
            ("Africa/Cairo", "2026-04-23T21:30Z"),
        ],
    )
    def test_the_midnight_is_that_of_the_service(self, console, zone, evening):
        """It is half an hour away, also if the clock skips it."""
        console.now = int(datetime.fromisoformat(evening).timestamp())
        config = console.world.configured(console_limits=LIMITS, timezone=ZoneInfo(zone))
        session = Session("x", zone, Role.CLERK, 0, 0)
        limits = PlateLimits(console.world.engine, config)
        with limits.counted(session, 5):
            pass
        with pytest.raises(LimitReached) as refused, limits.counted(session, 1):
            pass
        assert refused.value.next_at - console.now == 30 * MINUTE

    def test_a_wrong_form_costs_nothing(self, console):
        """Nor does a page that is only shown."""
        clerk = console.person()
        clerk.get(LOOK_UP)
        assert ask(clerk, 5, day="never").status_int == 422
        assert console.counted() == {}

    def test_a_limit_that_was_raised_counts_from_the_restart(self, console):
        """What was used of the day before stays used; a lower limit refuses at once."""
        ask(console.person(), 4)
        console.restart({"clerk": 6})
        assert ask(console.person(), 2).status_int == 200
        console.restart({"clerk": 3})
        assert "used your 3 plates" in fault(ask(console.person()))

    def test_a_clock_that_is_set_back_finds_its_day_again(self, console):
        """Days are kept for a week, and an untrusted clock removes none."""
        clerk = console.person()
        ask(clerk, 5)
        for days in (1, 400, -400):
            console.ahead = days * 86_400
            ask(console.person("ben"))
        console.ahead = 0
        assert ask(console.person()).status_int == 429

    @STORAGE
    def test_days_of_more_than_a_week_ago_are_removed(self, console):
        """The first look-up of a person on a day does that."""
        for _ in range(10):
            ask(console.person())
            console.now += 86_400
        days = ["25", "26", "27", "28", "29", "30", "01"]
        assert sorted(console.counted()) == sorted((day, "ann") for day in days)


class Test429:
    def test_what_is_left_and_the_next_time_are_named(self, console):
        """Nothing is recorded; the form keeps what was entered."""
        clerk = console.person()
        assert "has 6 plates, and you have 5 of your 5 left today" in fault(ask(clerk, 6))
        ask(clerk, 3)
        page = ask(clerk, 3, reference="C-7")
        assert fault(page) == (
            "This look-up has 3 plates, and you have 2 of your 5 left today. Shorten it, or look "
            "up again on 23 November 2026 at 00:00 (Europe/Paris)."
        )
        assert page.html.textarea.text.strip() == "\n".join(["AB12CDE"] * 3)
        assert page.html.select_one("[name=reference]")["value"] == "C-7"
        ask(clerk, 2)
        assert fault(ask(clerk, 1, **{"as": "csv"})) == (
            "You have used your 5 plates of today. Look up again on 23 November 2026 at 00:00 "
            "(Europe/Paris)."
        )
        assert [len(each["plates"]) for each in lines(console.trail)] == [3, 2]

    @pytest.mark.parametrize("names", [("Ann", "ANN"), ("É", "e\u0301"), ("ŁÓDŹ", "łódź")])
    def test_names_that_differ_in_case_are_one_person(self, console, names):
        """A second link under another spelling gives no more plates."""
        ask(console.person(names[0]), 5)
        assert ask(console.person(names[1])).status_int == 429
        assert len(console.counted()) == 1

    def test_a_person_has_one_count_in_all_roles(self, console):
        """The limit is that of the role of the session."""
        ask(console.person(), 3)
        assert "used your 2 plates" in fault(ask(console.person(role=Role.VIEWER)))
        assert ask(console.person(), 2).status_int == 200

    @STORAGE
    def test_of_two_tabs_one_gets_the_last_plate(self, console):
        """So it is with two hosts, which use the same database."""
        ask(console.person(), 4)
        tabs = []
        for _ in range(4):
            console.restart()
            tabs.append((console.person(), console.world.app_engine))
        barrier = threading.Barrier(len(tabs))

        def send(tab):
            browser, engine = tab
            barrier.wait()
            try:
                return ask(browser).status_int
            finally:
                close_quietly(engine)

        with ThreadPoolExecutor(len(tabs)) as pool:
            assert sorted(pool.map(send, tabs)) == [200, 429, 429, 429]
        assert console.counted() == {("22", "ann"): 5}

    def test_operators_see_who_reached_the_limit(self, console):
        """The page has plates and limit; also when one was first refused, which a raise keeps."""
        people = console.person("olga", Role.OPERATOR)
        assert "None yet" in people.get(f"{ROOT}/people").text
        ask(console.person("Ann"), 4)
        ask(console.person("Ben"), 5)
        ask(console.person("Cy"), 1)
        ask(console.person("Ann"), 3)
        console.now += MINUTE
        ask(console.person("Ann"), 3)
        table = people.get(f"{ROOT}/people").html.select_one("[aria-labelledby=plates] table")
        rows = [
            [cell.get_text(" ", strip=True) for cell in row.select("th, td")]
            for row in table.select("tbody tr")
        ]
        assert [row[:4] for row in rows] == [
            ["ann", "clerk", "4", "5"],
            ["ben limit reached", "clerk", "5", "5"],
            ["cy", "clerk", "1", "5"],
        ]
        assert rows[0][4].startswith("22 Nov 2026, 23:30")
        console.restart({"clerk": 9})
        page = console.person("olga", Role.OPERATOR).get(f"{ROOT}/people")
        assert "22 Nov 2026, 23:30" in page.text
        assert "limit reached" not in page.text
        console.restart({})
        page = console.person("olga", Role.OPERATOR).get(f"{ROOT}/people")
        assert "limit reached" not in page.text


class Test503:
    def test_plates_are_given_back_if_the_look_up_fails(self, console, monkeypatch):
        """Otherwise a full disk of the trail would cost a day's plates."""

        def failing(self, *records):
            raise AuditError("no space")

        clerk = console.person()
        ask(clerk, 2)
        with monkeypatch.context() as patched:
            patched.setattr(Trail, "append", failing)
            for _ in range(5):
                assert ask(clerk, 3).status_int == 503
        assert console.counted() == {("22", "ann"): 2}
        assert console.used() == [("console", "", "console", (1, 0, 0, 5), 2)]

    def test_plates_are_given_back_if_the_look_up_is_given_up(self, console, monkeypatch):
        """Its time was up (D45), so the person got no answer for them."""

        def give_up(self, *records):
            raise GivenUp

        clerk = signed_in(console.world, Deadline(console.application), Role.CLERK)
        ask(clerk, 2)
        with monkeypatch.context() as patched:
            patched.setattr(Trail, "append", give_up)
            assert ask(clerk, 3).status_int == 500
        assert console.counted() == {("22", "ann"): 2}

    def test_a_killed_process_gives_nothing_away(self, console, monkeypatch):
        """Plates are counted before the answer is recorded."""
        counted = []
        clerk = console.person()
        monkeypatch.setattr(Trail, "append", lambda *_: counted.append(console.counted()))
        ask(clerk, 5)
        assert counted == [{("22", "ann"): 5}]


class TestUsage:
    @STORAGE
    def test_people_are_counted_as_console(self, console):
        """Plates are vehicles; the comparison with the records of the trail balances."""
        clerk = console.person()
        ask(clerk, 3)
        ask(clerk, 3)
        ask(clerk, 3, day="never")
        ask(console.person("olga", Role.OPERATOR), 2)
        assert console.used() == [("console", "", "console", (2, 0, 1, 0), 5)]
        assert refusals_in(console.world.engine, TimeSpan(), PARIS) == [Refusal("console", 0, 1, 0)]

    def test_usage_and_records_balance(self, console):
        """The report finds no usage without records, although records have no account."""
        host = {"machine": machine(), "name": "web1", "since": EVENING}
        AuditHost.insert(host).execute(console.world.engine)
        for _ in range(3):
            ask(console.person(), 4)
            console.application.usage.flush()
            console.now += 86_400
            console.restart()
        views, engine = views_of([console.trail]), console.world.engine
        compared = comparison_of(engine, views, TimeSpan(), PARIS)
        done = report(views, TimeSpan(), [], compared)
        assert (done.comparison.fault, done.comparison.days, done.comparison.missing) == ("", 2, [])
        (vehicles,) = {each for (name, _), each in compared._vehicles.items() if name == "console"}
        assert vehicles == 4
        assert done.by_person == [Tally("ann", 3, 12)]
