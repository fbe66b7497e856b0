"""Watches, events and held sweeps in the console, and the report about a plate (D188)."""

import csv
import io
import json
from contextlib import suppress
from datetime import timedelta

import pytest

from app import clock
from app.accounts.administration import create_account, require_account, set_plan, suspend_account
from app.actions import list_actions
from app.audit.owner import claim
from app.audit.record import AuditError
from app.audit.search import TimeSpan
from app.audit.trail import Trail
from app.console.rendering import ROOT
from app.errors import OperatorError
from app.jobs.audit_tasks import AuditTasks
from app.jobs.plate_report import report_plate
from app.jobs.sweeping import sweep_all
from app.settings.roles import Role
from app.storage.versions import database_id
from app.watches.feed import Feed, id_of
from app.watches.tables import WatchEvent
from app.watches.words import EVENT_COLUMNS, WATCH_COLUMNS
from tests.api.console import signed_in
from tests.api.test_console_accounts import MARKUP
from tests.conftest import ON_SQLITE, STORAGE
from tests.unit.audit_trails import lines
from tests.unit.held_watches import PLATES, hold, load, sweep, watch

WATCHES = f"{ROOT}/watches"
EACH_LIST = pytest.mark.parametrize(
    "rest", ["", pytest.param("/events", marks=pytest.mark.system_long)]
)


@pytest.fixture
def application(world):
    claim(world.config.audit_dir, database_id(world.engine))
    return world.client(None, console=True, audit=True).application


@pytest.fixture
def process(world, monkeypatch):
    """Does what the console starts at once, in place of a process of its own."""
    started = []

    def start(*words, kept=None):
        started.append(words[0])
        config = world.configured(audit=True)
        if words == ("sweep",):
            sweep_all(world.engine, config)
            return
        with suppress(OperatorError):  # It is in the task.
            AuditTasks(world.engine, config).carry_out(int(words[2]))

    monkeypatch.setattr("app.processes.start", start)
    return started


@pytest.fixture
def browser(world, application, process):
    return signed_in(world, application, Role.OPERATOR)


def tag_of(world, account="alice"):
    return require_account(world.engine, account).tag


def events_of(world, number):
    return Feed(world.engine).list_events(number, None, 1_000).events


def recorded(world):
    return list(lines(world.config.audit_dir))


def cells(page):
    """Return the texts of the rows of a page."""
    rows = page.html.select("tbody tr")
    return [[" ".join(each.text.split()) for each in row.select("th, td")] for row in rows]


def ask(browser, path, **fields):
    """Send a form, and return the page of its task."""
    answer = browser.send(path, fields)
    assert answer.status_int == 303, answer.html.text
    return browser.get(f"{ROOT}/{answer.headers['Location'].partition('console/')[2]}")


def file_of(browser, page, form="csv"):
    """Download a file of a task."""
    (link,) = [each["href"] for each in page.html.select(f"a[download][href$={form}]")]
    return browser.get(f"{ROOT}/{link.partition('console/')[2]}")


class TestAccounts:
    def test_an_installation_without_watches_says_so(self, browser):
        """The empty list says where watches come from."""
        assert "No account has watched a plate yet" in browser.get(WATCHES).text

    @STORAGE
    def test_each_account_has_a_line_and_held_ones_come_first(self, world, browser):
        """With its watches, its events and what is held back; the account's page leads on."""
        hold(world)
        watch(world, "AB01CDE", account="bob")
        (alice, bob) = cells(browser.get(WATCHES))
        assert alice[:3] == ["alice", "60", "0"]
        assert alice[4].startswith("held back 60 since")
        assert bob[:3] == ["bob", "1", "0"]
        assert bob[4] == "\u2013"
        facts = browser.get(f"{ROOT}/accounts/{tag_of(world)}").html.select_one(".facts").text
        assert "60 watches of" in " ".join(facts.split())
        assert "60 held back" in facts

    def test_a_viewer_sees_counts_and_no_plate(self, world, application):
        """The list of accounts offers nothing that the role may not open."""
        hold(world)
        viewer = signed_in(world, application, Role.VIEWER)
        page = viewer.get(WATCHES)
        assert cells(page)[0][:2] == ["alice", "60"]
        assert not page.html.select("main tbody a")
        assert viewer.get(f"{WATCHES}/{tag_of(world)}").status_int == 403


class TestLists:
    def test_watches_have_the_state_that_was_told_last(self, world, browser):
        """What a load has changed since is not shown: a page looks nothing up."""
        load(world, PLATES[:1])
        watch(world, *PLATES[:2], lead_days=(28, 14), reference="R-1", reason="FLEET")
        watch(world, PLATES[2], account="bob")
        load(world, PLATES[:2], "2021-01-01")
        known, unknown = cells(browser.get(f"{WATCHES}/{tag_of(world)}"))
        assert known[0] == PLATES[0]
        assert known[1] == "valid until 1 January 2999"
        assert known[2].startswith("not valid")
        assert known[6:9] == ["28, 14", "\u2013", "FLEET R-1"]
        assert unknown[:2] == [PLATES[1], "unknown vehicle"]

    def test_events_have_both_states_and_the_newest_comes_first(self, world, browser):
        """A vehicle that becomes known has the states of all checks."""
        load(world, PLATES[:1])
        watch(world, *PLATES[:2], reference="R-1")
        load(world, PLATES[:1], "2021-01-01")
        sweep(world)
        load(world, PLATES[1:2])
        sweep(world)
        newest, oldest = cells(browser.get(f"{WATCHES}/{tag_of(world)}/events"))
        assert newest[1:4] == [PLATES[1], "vehicle.known", "unknown vehicle"]
        assert newest[4].startswith("insurance valid until 2999-01-01; MOT not valid")
        assert oldest[1:] == [
            PLATES[0],
            "insurance.changed",
            "valid until 2999-01-01",
            "not valid (expired)",
            "R-1",
            "1",
        ]

    @ON_SQLITE
    def test_a_watch_that_has_ended_has_no_state_after_it(self, world, browser, monkeypatch):
        """Neither in the list nor in the file nor in a report; a vehicle is not called unknown."""
        load(world, PLATES[:1])
        today = clock.today(world.config.timezone)
        watch(world, PLATES[0], until=today.isoformat())
        monkeypatch.setattr(clock, "today", lambda _zone: today + timedelta(days=1))
        sweep(world)
        path = f"{WATCHES}/{tag_of(world)}/events"
        ((*_, event, before, after, _, _),) = cells(browser.get(path))
        assert event == "watch.ended"
        assert before.startswith("insurance valid until 2999-01-01")
        assert after == "\u2013"
        page = ask(browser, path)
        (_, row) = csv.reader(io.StringIO(file_of(browser, page).text))
        assert row[6] == ""

    def test_a_page_is_recorded_before_it_is_shown(self, world, browser):
        """With who was shown what of which account; that is no look-up of the account."""
        load(world, PLATES[:1])
        watch(world, *PLATES[:2])
        load(world, PLATES[:1], "2021-01-01")
        sweep(world)
        path = f"{WATCHES}/{tag_of(world)}"
        browser.get(f"{path}?reason=SUPPORT&reference=T-1")
        browser.get(f"{path}/events")
        *_, watches, events = recorded(world)
        said = {"user": "ann", "criteria": {"account": "alice"}}
        assert (
            watches.items()
            >= {
                "operation": "watches",
                "reason": "SUPPORT",
                "reference": "T-1",
                **said,
            }.items()
        )
        checks = dict.fromkeys(("insurance", "mot", "tax", "fines"), False) | {"fines": True}
        assert watches["plates"] == [
            {"plate": PLATES[0], "found": True, "checks": checks},
            {"plate": PLATES[1], "found": False},
        ]
        assert events.items() >= {"operation": "events", **said}.items()
        assert events["plates"] == [{"plate": PLATES[0], "events": ["insurance.changed"]}]
        assert "account" not in watches | events

    @ON_SQLITE
    @EACH_LIST
    def test_what_cannot_be_recorded_is_not_shown(self, world, browser, monkeypatch, rest):
        """The page is 503, and has no plate."""
        load(world, PLATES[:1])
        watch(world, PLATES[0])
        load(world, PLATES[:1], "2021-01-01")
        sweep(world)

        def refuse(*_):
            raise AuditError("the disk is full")

        monkeypatch.setattr(Trail, "append", refuse)
        page = browser.get(f"{WATCHES}/{tag_of(world)}{rest}")
        assert page.status_int == 503
        assert "cannot be recorded" in page.text
        assert PLATES[0] not in page.text

    @ON_SQLITE
    @EACH_LIST
    def test_where_people_need_a_reason_so_do_lists(self, world, process, rest):
        """Without one there is no plate, no record and no file."""
        claim(world.config.audit_dir, database_id(world.engine))
        settings = {"console": True, "audit": True, "lookup_reasons": ("FLEET", "THEFT")}
        application = world.client(None, **settings).application
        browser = signed_in(world, application, Role.OPERATOR)
        load(world, PLATES[:1])
        watch(world, PLATES[0])
        load(world, PLATES[:1], "2021-01-01")
        sweep(world)
        before, path = recorded(world), f"{WATCHES}/{tag_of(world)}{rest}"
        for query in ("", "?reason=OTHER", "?reason="):
            page = browser.get(f"{path}{query}")
            assert "Give a reason to see them" in page.text
            assert PLATES[0] not in page.text
        assert browser.post(path, {"version": "0" * 16}).status_int == 422
        assert browser.post(path, {"version": "0" * 16, "reason": "OTHER"}).status_int == 422
        assert recorded(world) == before
        assert not process
        assert PLATES[0] in browser.get(f"{path}?reason=FLEET").text

    @ON_SQLITE
    def test_pages_follow_the_plates_and_keep_the_reason(self, world, browser):
        """Fifty rows are a page, and the link to the next one says why, too."""
        watch(world, *PLATES)
        page = browser.get(f"{WATCHES}/{tag_of(world)}?reason=FLEET")
        assert [row[0] for row in cells(page)] == PLATES[:50]
        (link,) = [each["href"] for each in page.html.select("a[rel=next]")]
        assert link == "?reason=FLEET&page=2"
        page = browser.get(f"{WATCHES}/{tag_of(world)}{link}")
        assert [row[0] for row in cells(page)] == PLATES[50:]

    @ON_SQLITE
    def test_markup_and_unknown_accounts(self, world, browser):
        """What a client has sent stays text, and an account that nobody has is 404."""
        watch(world, PLATES[0], reference=MARKUP[:64], reason=MARKUP[:64])
        page = browser.get(f"{WATCHES}/{tag_of(world)}")
        assert MARKUP[:64] in page.html.text
        assert not page.html.select("main script, [onerror]")
        for rest in ("", "/events", "/accept"):
            assert browser.get(f"{WATCHES}/AAAAAA{rest}").status_int == 404
            assert browser.post(f"{WATCHES}/AAAAAA{rest}", {"version": "x"}).status_int == 404


class TestFiles:
    def test_watches_are_a_file(self, world, application, browser, monkeypatch):
        """It has all of them, recorded piece by piece, and only the person who asked gets it."""
        monkeypatch.setattr("app.jobs.audit_tasks._PIECE", 25)
        load(world, PLATES[:1])
        watch(world, *PLATES, lead_days=(28, 14), reference="=1+1")
        page = ask(browser, f"{WATCHES}/{tag_of(world)}", reason="AUDIT")
        assert page.html.select_one(".verdict").text == "60 watches"
        text = file_of(browser, page).body.decode("utf-8-sig")
        heading, first, *rest = csv.reader(io.StringIO(text))
        assert heading == list(WATCH_COLUMNS)
        assert first[:3] == [PLATES[0], "28 14", "'=1+1"]
        assert first[7:11] == ["true", "true", "valid", "2999-01-01"]
        assert [row[0] for row in rest] == PLATES[1:]
        assert rest[0][7:] == ["false", *[""] * 12]
        records = [each for each in recorded(world) if each["operation"] == "watches"][1:]
        assert [len(each["plates"]) for each in records] == [25, 25, 10]
        assert {(each["user"], each["reason"]) for each in records} == {("ann", "AUDIT")}
        other = signed_in(world, application, Role.OPERATOR, "ben")
        assert other.get(f"{WATCHES}/files/1/csv").status_int == 404

    def test_events_are_a_file(self, world, browser, monkeypatch):
        """The oldest come first, with the ids that the API gives."""
        monkeypatch.setattr("app.jobs.audit_tasks._PIECE", 2)
        load(world, PLATES[:3])
        number = watch(world, *PLATES[:3])
        load(world, PLATES[:3], "2021-01-01")
        sweep(world)
        page = ask(browser, f"{WATCHES}/{tag_of(world)}/events")
        assert page.html.select_one(".verdict").text == "3 events"
        text = file_of(browser, page).body.decode("utf-8-sig")
        heading, *rows = csv.reader(io.StringIO(text))
        assert heading == list(EVENT_COLUMNS)
        feed, events, *_ = Feed(world.engine).list_events(number, None, 3)
        assert [row[0] for row in rows] == [id_of(feed, each) for each in events]
        assert rows[0][2:4] == ["insurance.changed", PLATES[0]]

    def test_a_file_has_the_events_before_a_gap(self, world, browser):
        """The operator sees what is kept, also what clients cannot read on from any more."""
        load(world, PLATES[:3])
        number = watch(world, *PLATES[:3])
        load(world, PLATES[:3], "2021-01-01")
        sweep(world)
        is_second = (WatchEvent.account == number) & (WatchEvent.number == 2)
        WatchEvent.delete().where(is_second).execute(world.engine)
        page = ask(browser, f"{WATCHES}/{tag_of(world)}/events")
        assert page.html.select_one(".verdict").text == "2 events"

    @ON_SQLITE
    def test_what_cannot_be_recorded_is_no_file(self, world, browser, monkeypatch):
        """The task fails, and leaves nothing to download."""

        def refuse(*_):
            raise AuditError("the disk is full")

        watch(world, PLATES[0])
        path = f"{WATCHES}/{tag_of(world)}"
        browser.get(path)
        monkeypatch.setattr(AuditTasks, "_finish", refuse)
        page = ask(browser, path)
        assert "It failed, and shows nothing" in page.text
        assert not page.html.select("a[download]")
        results = world.config.data_dir / "audit-results"
        assert not list(results.glob("*.csv"))


@ON_SQLITE
def test_invented_vehicles_are_not_recorded(world, browser, process):
    """Those of a sandbox are shown, but are in no record and in no report about a plate (D182)."""
    limits = {"requests": 9, "window_seconds": 9, "bulk_max": 9, "domains_max": 9}
    set_plan(world.engine, "test", limits, sandbox="on")
    create_account(world.engine, "acme", "test")
    watch(world, PLATES[0], account="acme")
    path = f"{WATCHES}/{tag_of(world, 'acme')}"
    assert PLATES[0] in browser.get(path).text
    assert PLATES[0] in file_of(browser, ask(browser, path)).text
    assert not recorded(world)
    report = report_plate([], PLATES[0], TimeSpan(), world.engine)
    assert (report.watches, report.events) == ([], [])


class TestHeld:
    @STORAGE
    def test_what_is_held_back_is_reported_once_it_is_accepted(self, world, browser, process):
        """After a question, at once, and with the name of the person in the record of actions."""
        number = hold(world)
        assert not events_of(world, number)
        path = f"{WATCHES}/{tag_of(world)}/accept"
        (link,) = browser.get(WATCHES).html.select("td.do a")
        assert f"{ROOT}/{link['href'].partition('console/')[2]}" == path
        question = browser.get(path)
        assert "60 of its watches" in question.text
        answer = browser.send(path)
        assert answer.status_int == 303
        assert answer.headers["Location"].endswith("console/watches?done=accepted")
        assert process == ["sweep"]
        assert {each.type for each in events_of(world, number)} == {"insurance.changed"}
        assert len(events_of(world, number)) == 60
        assert cells(browser.get(WATCHES))[0][4] == "\u2013"
        (action,) = list_actions(world.engine, limit=1)
        assert (action.actor, action.via, action.action, action.account) == (
            "ann",
            "console",
            "watches.accept",
            "alice",
        )

    def test_the_page_waits_for_the_sweep(self, world, browser, monkeypatch):
        """Once accepted, the line says so and is loaded again; there is nothing to accept twice."""
        hold(world)
        monkeypatch.setattr("app.processes.start", lambda *_: None)
        path = f"{WATCHES}/{tag_of(world)}/accept"
        version = browser.get(path).html.find("input", {"name": "version"})["value"]
        assert browser.post(path, {"version": version}).status_int == 303
        page = browser.get(WATCHES)
        assert cells(page)[0][4].startswith("accepted 60")
        assert page.headers["Refresh"].startswith("3; url=")
        assert not page.html.select("td.do a")
        assert browser.post(path, {"version": version}).status_int == 409
        assert browser.get(path).status_int == 409
        assert [each.action for each in list_actions(world.engine)].count("watches.accept") == 1

    @ON_SQLITE
    def test_without_a_process_the_next_sweep_reports_it(self, world, browser, monkeypatch):
        """The acceptance is in the database, so that no failure loses it."""

        def fail(*_):
            raise OSError

        number = hold(world)
        monkeypatch.setattr("app.processes.start", fail)
        assert browser.send(f"{WATCHES}/{tag_of(world)}/accept").status_int == 303
        sweep(world)
        assert len(events_of(world, number)) == 60

    def test_another_load_ends_the_acceptance(self, world, browser, monkeypatch):
        """Nobody has seen what it changed: changes are held back again, or are no longer there."""
        number = hold(world)
        monkeypatch.setattr("app.processes.start", lambda *_: None)
        assert browser.send(f"{WATCHES}/{tag_of(world)}/accept").status_int == 303
        load(world, PLATES[:1], "2020-06-01")
        sweep(world)
        assert not events_of(world, number)
        assert cells(browser.get(WATCHES))[0][4].startswith("held back 60")
        load(world, PLATES)
        sweep(world)
        assert cells(browser.get(WATCHES))[0][4] == "\u2013"
        assert not events_of(world, number)

    @ON_SQLITE
    def test_a_form_from_before_another_sweep_is_refused(self, world, browser, process):
        """What is held back now is more than the form has shown."""
        number = hold(world)
        path = f"{WATCHES}/{tag_of(world)}/accept"
        version = browser.get(path).html.find("input", {"name": "version"})["value"]
        load(world, PLATES[:1], "2020-06-01")
        sweep(world)
        assert browser.post(path, {"version": version}).status_int == 409
        assert not events_of(world, number)
        assert not process

    @ON_SQLITE
    def test_a_suspended_account_is_resumed_first(self, world, browser, process):
        """It is not swept, so nothing could be reported."""
        hold(world)
        suspend_account(world.engine, "alice")
        path = f"{WATCHES}/{tag_of(world)}/accept"
        page = browser.get(path)
        assert page.status_int == 409
        assert "Resume it first" in page.text
        assert browser.post(path, {"version": "x"}).status_int == 409
        assert not process


class TestPlate:
    @pytest.fixture
    def auditor(self, world, application, process):
        return signed_in(world, application, Role.AUDITOR)

    def test_a_report_about_a_plate_has_watches_events_and_records(self, world, auditor):
        """Those of all accounts, and of no other plate; that it was made is recorded."""
        load(world, PLATES[:2])
        watch(world, *PLATES[:2], reason="FLEET", reference="R-1")
        watch(world, PLATES[0], account="bob")
        load(world, PLATES[:2], "2021-01-01")
        sweep(world)
        page = ask(auditor, f"{ROOT}/audit/plate", plate="ab00 cde")
        tables = [section.select("tbody tr") for section in page.html.select("section:has(table)")]
        watches, events, records = (
            [[" ".join(each.text.split()) for each in row.select("th, td")] for row in rows]
            for rows in tables
        )
        assert sorted(row[0] for row in watches) == ["alice", "bob"]
        assert [row[2] for row in watches if row[0] == "alice"] == ["FLEET R-1"]
        assert {(row[1], row[2], row[4]) for row in events} == {
            (account, "insurance.changed", "not valid (expired)") for account in ("alice", "bob")
        }
        assert {row[6] for row in records} == {"sweep"}
        assert PLATES[1] not in page.text
        document = json.loads(file_of(auditor, page, "json").body)
        assert {each["account"] for each in document["watches"]} == {"alice", "bob"}
        assert {each["reference"] for each in document["events"]} == {"R-1", None}
        assert len(document["records"]) == 2
        html = file_of(auditor, page, "html").text
        assert "not valid (expired)" in html
        assert PLATES[1] not in html
        use = recorded(world)[-1]
        assert (use["operation"], use["criteria"], use["user"]) == (
            "report",
            {"plate": PLATES[0]},
            "ann",
        )

    @ON_SQLITE
    def test_a_plate_that_nobody_asked_about_has_an_empty_report(self, auditor):
        """It says so three times."""
        page = ask(auditor, f"{ROOT}/audit/plate", plate="ZZ99ZZZ")
        assert "No account watches this plate" in page.text
        assert "The trail has no such record" in page.text

    @ON_SQLITE
    def test_it_needs_a_plate(self, auditor):
        """The form is shown again."""
        answer = auditor.send(f"{ROOT}/audit/plate")
        assert answer.status_int == 422
        assert "Plate is needed" in answer.text
