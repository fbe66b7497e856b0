"""The audit trail in the console: search, export, report and verify, for auditors only (D138)."""

import csv
import json
import logging
import os
import re
from contextlib import suppress
from urllib.parse import urljoin

import pytest

from app.audit.hosts import switch_off, switch_on
from app.audit.owner import claim, require_host
from app.audit.record import Plate
from app.audit.seal import seal
from app.audit.trail import Trail
from app.console.rendering import ROOT
from app.errors import OperatorError
from app.jobs.audit_tasks import AuditTasks
from app.settings.roles import Role
from app.storage.versions import database_id
from tests.api.console import signed_in, stored
from tests.api.test_console_accounts import MARKUP
from tests.conftest import ON_SQLITE
from tests.rows import each_row
from tests.unit.audit_trails import lines, look_up

pytestmark = ON_SQLITE  # What the database does of it is in tests/unit/test_audit_tasks.py.

AUDIT = f"{ROOT}/audit"
PLATE = {"by": "plate", "value": "ab12 cde"}
TOKEN = {"version": "0123456789abcdef"}


@pytest.fixture
def trail(world):
    """The trail of the service, with look-ups of three plates."""
    owner = claim(world.config.audit_dir, database_id(world.engine))
    trail = Trail(world.config.audit_dir, lambda: owner)
    trail.append(look_up("AB12CDE", user=MARKUP[:64], reason="<b>", key="k1"))
    trail.append(look_up("ZZ99ZZZ", plates=[Plate("ZZ99ZZZ", found=False)], account=MARKUP))
    trail.append(look_up("OTHER1"))
    yield trail
    trail.close()


@pytest.fixture
def application(world, trail):
    return world.client(None, console=True, audit=True).application


@pytest.fixture
def process(world, monkeypatch):
    """Does what a task asks for at once, in place of a process of its own."""
    started = []

    def start(*words, kept):
        assert words[:2] == ("audit", "carry-out")
        started.append(int(words[2]))
        with suppress(OperatorError):  # It is in the task.
            AuditTasks(world.engine, world.config).carry_out(started[-1])

    monkeypatch.setattr("app.processes.start", start)
    return started


@pytest.fixture
def browser(world, application, process):
    return signed_in(world, application, Role.AUDITOR)


def ask(browser, path=AUDIT, **fields):
    """Send a form, and return the page of its task."""
    answer = browser.send(path, fields)
    assert answer.status_int == 303, answer.html.text
    return browser.get(f"{ROOT}/{answer.headers['Location'].partition('console/')[2]}")


def cells(page):
    rows = page.html.select(".records tbody tr")
    return [[cell.text for cell in row.select("td")] for row in rows]


def verdict(page):
    return page.html.select_one(".verdict").text


class TestState:
    def test_it_says_how_the_trail_is(self, world, browser):
        """The state, what is sealed, and the latest digest."""
        digest = seal(world.config.audit_dir, current=True).digest
        facts = browser.get(AUDIT).html.select_one(".facts").text
        for told in ("on", "3 records in 1 segment", digest, str(world.config.audit_dir)):
            assert told in facts

    def test_one_that_is_off_can_still_be_searched(self, world, trail, process):
        """The page says how to switch it on, and the search is recorded."""
        application = world.client(None, console=True).application
        browser = signed_in(world, application, Role.AUDITOR)
        assert "VERIFYD_AUDIT=on" in browser.get(AUDIT).html.select_one(".notice").text
        assert len(cells(ask(browser, **PLATE))) == 1
        assert list(lines(world.config.audit_dir))[-1]["operation"] == "search"

    def test_without_a_trail_there_is_nothing_to_ask(self, world, process):
        """Each page says so, and none has a form."""
        browser = signed_in(world, world.client(None, console=True).application, Role.AUDITOR)
        for path in ("", "/export", "/report", "/verify"):
            page = browser.get(AUDIT + path)
            assert "There is nothing to read" in page.text
            assert not page.html.select("main form")
        assert not world.config.audit_dir.exists()

    @pytest.mark.parametrize("damage", ["gone", "another", "no directory"])
    def test_what_is_wrong_is_named(self, world, browser, damage):
        """A trail that is gone, another database's or no directory is named, also by a task."""
        directory = world.config.audit_dir
        page = browser.get(AUDIT)
        owner = directory / "owner.json"
        if damage == "another":
            owner.write_text(json.dumps({**json.loads(owner.read_text()), "database": "e" * 32}))
        else:
            directory.rename(directory.with_name("moved"))
        if damage == "no directory":
            directory.write_text("")
        assert "failing" in browser.get(AUDIT).html.select_one(".facts").text
        fields = {**PLATE, "version": page.html.select_one("input[name=version]")["value"]}
        answer = browser.post(AUDIT, fields)
        task = browser.get(f"{ROOT}/{answer.headers['Location'].partition('console/')[2]}")
        assert verdict(task) == "It failed, and shows nothing"
        assert "audit trail" in task.html.select_one(".state").text
        assert directory.is_dir() == (damage == "another")


class TestSearch:
    def test_it_shows_what_was_recorded(self, browser):
        """Who asked, why, and what they were told; markup of clients stays text."""
        page = ask(browser, **PLATE)
        assert cells(page) == [
            ["AB12CDE", "insured", "acme key k1", MARKUP[:64], "<b>", "insurance"]
        ]
        assert not page.html.select("script:not([src]), [onerror]")
        (row,) = cells(ask(browser, by="account", value=MARKUP))
        assert row[:3] == ["ZZ99ZZZ", "not found", MARKUP]
        assert len(cells(ask(browser, by="user", value=MARKUP[:64]))) == 1

    def test_it_shows_what_was_not_known(self, browser, trail):
        """In the table, in the file, and as a count of the report (D198)."""
        plate = Plate("UNKNOWN1", True, insured=False, unknown=("insured",))
        trail.append(look_up(plates=[plate], rule=2))
        page = ask(browser, by="plate", value="UNKNOWN1")
        assert [row[1] for row in cells(page)] == ["not known if insured"]
        assert b"not known if insured" in browser.get(f"{page.request.path}/csv").body
        page = ask(browser, f"{AUDIT}/report")
        assert "Answers not known1" in page.html.select_one(".facts").text

    def test_it_is_recorded_with_the_name_of_the_person(self, world, browser):
        """The record has the request, the name, and what was asked for."""
        ask(browser, **PLATE, **{"from": "2020-01-01", "to": "2099-12-31"})
        record = list(lines(world.config.audit_dir))[-1]
        assert len(record.pop("request_id")) == 32
        del record["time"]
        period = {"from": "2020-01-01T00:00:00.000000Z", "to": "2099-12-31T23:59:59.999999Z"}
        assert record == {
            "operation": "search",
            "user": "ann",
            "criteria": {"plate": "AB12CDE", **period},
        }

    def test_its_period_is_what_was_asked(self, browser):
        """Both days are included."""
        assert cells(ask(browser, **PLATE, to="2020-01-01")) == []
        assert cells(ask(browser, **PLATE, **{"from": "2099-01-01"})) == []

    def test_pages_and_a_file(self, browser, trail):
        """A page has 50 rows; the file has all of them, without formulas."""
        for number in range(60):
            trail.append(look_up("MANY1", user=f"={number}"))
        page = ask(browser, by="plate", value="MANY1")
        assert len(cells(page)) == 50
        assert "1 to 50 of 60 records" in page.html.text
        place = page.request.path
        assert len(cells(browser.get(f"{place}?page=2"))) == 10
        assert len(cells(browser.get(f"{place}?page=99"))) == 10
        file = browser.get(f"{place}/csv")
        assert file.headers["Content-Disposition"].endswith('.csv"')
        assert file.headers["Content-Length"] == str(len(file.body))
        rows = list(csv.reader(file.body.decode("utf-8-sig").splitlines()))
        assert len(rows) == 61
        assert rows[1][4] == "'=59"

    def test_the_newest_come_first_with_a_way_to_all(self, browser, trail, monkeypatch):
        """The page says how long that takes; then it shows the newest, and the file has all."""
        monkeypatch.setattr("app.jobs.audit_tasks.FOUND_MAX", 110)
        for number in range(120):
            trail.append(look_up("MANY1", user=f"{MARKUP[:40]}{number}"))
        dates = {"from": "2020-01-01", "to": "2099-12-31"}
        page = ask(browser, by="plate", value="MANY1", **dates)
        assert page.html.find(id="found").text == "The newest 100 records"
        assert "1 to 50 of 100 records" in page.html.text
        notice = page.html.select_one(".notice")
        assert re.match(
            r"\s*About 120 records match. To find all takes about [1-9] s\.", notice.text
        )
        fields = {each["name"]: each["value"] for each in notice.select("input")}
        assert fields | {"version": ""} == {
            "by": "plate", "value": "MANY1", "all": "yes", "version": "", **dates
        }  # fmt: skip
        assert urljoin(page.request.path, notice.form["action"]) == AUDIT
        answer = browser.post(AUDIT, fields)
        whole = browser.get(f"{ROOT}/{answer.headers['Location'].partition('console/')[2]}")
        # The first search is one of them.
        assert whole.html.find(id="found").text == "121 records"
        assert "The newest 110 are shown, and the file has all." in whole.html.text
        file = browser.get(f"{whole.request.path}/csv").body.decode("utf-8-sig")
        assert len(list(csv.reader(file.splitlines()))) == 1 + 121
        assert "plate MANY1, all records from 2020-01-01" in browser.get(AUDIT).html.text
        assert not whole.html.select("script:not([src]), [onerror]")

    def test_plates_are_in_no_url_title_log_and_row(self, world, trail, process, caplog):
        """They are sent with POST only; tasks have numbers, and their questions are in files."""
        application = world.client(None, console=True, audit=True, access_log=True).application
        browser = signed_in(world, application, Role.AUDITOR)
        with caplog.at_level(logging.DEBUG):
            page = ask(browser, **PLATE)
            browser.get(f"{AUDIT}?value=AB12CDE")
            browser.post(AUDIT, {**TOKEN, **PLATE, "to": "AB12CDE"})
            browser.get(f"{page.request.path}/csv")
        assert "AB12CDE" not in page.request.path
        assert "AB12CDE" not in page.html.title.text
        logged = json.dumps([vars(record) for record in caplog.records], default=str)
        assert "AB12CDE" not in logged
        assert b"AB12CDE" not in stored(world)


class TestOthers:
    @pytest.mark.parametrize("form", ["csv", "ndjson"])
    def test_an_export_is_a_file(self, browser, form):
        """It can be downloaded as often as wanted."""
        page = ask(browser, f"{AUDIT}/export", format=form)
        assert verdict(page) == "3 records exported"
        for _ in range(2):
            file = browser.get(f"{page.request.path}/{form}")
            assert file.status_int == 200
            assert file.headers["Cache-Control"] == "no-store"
            assert b"AB12CDE" in file.body
        head = browser.request("HEAD", f"{page.request.path}/{form}")
        assert (head.body, head.headers["Content-Length"]) == (b"", str(len(file.body)))
        other = {"csv": "ndjson", "ndjson": "csv"}[form]
        for name in (other, "json", "question", "..%5c1"):
            assert browser.get(f"{page.request.path}/{name}").status_int == 404

    def test_a_report_is_a_page_and_a_file(self, browser):
        """The page has its figures, and the file needs nothing else."""
        page = ask(browser, f"{AUDIT}/report")
        assert verdict(page) == "The trail verifies"
        assert "Look-ups3" in page.html.find(id="counts").find_next("dl").text.replace("\n", "")
        assert MARKUP in [cell.text for cell in page.html.select("tbody th")]
        assert not page.html.select("script:not([src]), [onerror]")
        file = browser.get(f"{page.request.path}/html")
        assert file.body.startswith(b"<!doctype html>")
        assert file.headers["Content-Disposition"].startswith("attachment")
        assert json.loads(browser.get(f"{page.request.path}/json").body)["look_ups"] == 3

    @pytest.mark.parametrize("path", ["report", "verify"])
    def test_times_without_the_trail_are_named(self, world, browser, path):
        """With who switched it off and why (D166)."""
        switch_off(world.engine, "ticket <1>")
        switch_on(world.engine, world.config.audit_dir, require_host(world.config.audit_dir))
        page = ask(browser, f"{AUDIT}/{path}")
        assert verdict(page) == "The trail verifies"
        assert "could go unrecorded" in page.html.select_one(".findings").text
        assert "ticket <1>" in page.html.select_one(".findings").text
        if path == "report":
            assert b"ticket &lt;1&gt;" in browser.get(f"{page.request.path}/html").body

    def test_a_verification_names_what_it_found(self, world, browser):
        """With a digest that the chain has, without one, and after a change."""
        directory = world.config.audit_dir
        digest = seal(directory, current=True).digest
        good = ask(browser, f"{AUDIT}/verify", digest=digest.upper())
        assert "contains the digest that you kept" in good.html.select_one(".state").text
        (segment,) = directory.glob("0*.ndjson")
        segment.chmod(0o600)
        segment.write_bytes(segment.read_bytes().replace(b"acme", b"evil"))
        bad = ask(browser, f"{AUDIT}/verify")
        assert verdict(bad) == "The trail does not verify"
        assert "was changed" in bad.html.select_one(".findings").text


class TestBadInput:
    @each_row(
        ("path", "fields", "name", "fault"),
        [
            ("", {"by": "plate", "value": ""}, "value", "is needed"),
            ("", {"by": "", "value": "A"}, "by", "is needed"),
            ("", {"by": MARKUP[:9], "value": "A"}, "by", "Choose one of the list"),
            ("", {"by": "user", "value": "x" * 101}, "value", "at most 100 characters"),
            ("", {"by": "user", "value": "a\x07"}, "value", "control characters"),
            ("", {**PLATE, "from": "2026-02-30"}, "from", "a day that does not exist"),
            ("", {**PLATE, "to": MARKUP}, "to", "at most 10 characters"),
            ("", {**PLATE, "from": "2026-02-02", "to": "2026-02-01"}, "to", "must not be before"),
            ("/export", {"format": "pdf"}, "format", "Choose one of the list"),
            ("/export", {"format": "csv", "to": "soon"}, "to", "must be a day as YYYY-MM-DD"),
            ("/report", {"from": "2099-01-01", "to": "2026-01-01"}, "to", "must not be before"),
            ("/verify", {"digest": "0" * 63}, "digest", "64 hexadecimal digits"),
            ("/verify", {"digest": MARKUP}, "digest", "64 hexadecimal digits"),
            ("/verify", {"digest": "x" * 101}, "digest", "at most 100 characters"),
        ],
    )
    def test_a_wrong_field_is_named(self, world, browser, path, fields, name, fault):
        """The form comes back with what was typed; nothing is begun or recorded."""
        response = browser.send(AUDIT + path, fields)
        assert response.status_int == 422
        assert fault in response.html.find(id=f"field-{name}-fault").text
        assert [each["name"] for each in response.html.select("[aria-invalid=true]")] == [name]
        assert not response.html.select("script:not([src]), [onerror]")
        assert len(list(lines(world.config.audit_dir))) == 3

    @pytest.mark.parametrize("token", [None, "", "x" * 16, "0" * 17, MARKUP])
    def test_a_form_without_its_token_begins_nothing(self, browser, process, token):
        """It could not be told from a second click."""
        fields = PLATE if token is None else {**PLATE, "version": token}
        assert browser.post(AUDIT, fields).status_int == 409
        assert process == []

    @pytest.mark.parametrize("task", ["0", "99", "-1", "9" * 40, "%3Cb%3E"])
    def test_a_task_that_is_not_there(self, browser, task):
        """Its page and its file are 404."""
        for path in (f"{AUDIT}/tasks/{task}", f"{AUDIT}/tasks/{task}/csv"):
            assert browser.get(path).status_int == 404

    def test_results_are_shown_only_to_who_asked(self, world, application, browser):
        """Another auditor must ask, and be recorded; another role may not at all."""
        place = ask(browser, **PLATE).request.path
        for role, status in ((Role.AUDITOR, 404), (Role.OPERATOR, 403), (Role.VIEWER, 403)):
            other = signed_in(world, application, role, name="ben")
            for path in (place, f"{place}/csv"):
                answer = other.get(path)
                assert answer.status_int == status
                assert b"AB12CDE" not in answer.body

    def test_a_file_that_was_removed_is_said_so(self, world, browser):
        """The page offers to ask again."""
        place = ask(browser, **PLATE).request.path
        for file in (world.config.data_dir / "audit-results").iterdir():
            file.unlink()
        assert verdict(browser.get(place)) == "Its result is not here"
        assert browser.get(f"{place}/csv").status_int == 404

    def test_what_cannot_be_recorded_is_not_shown(self, browser, monkeypatch):
        """The page says so, and has no record."""

        def refuse(_trail, _record):
            raise OperatorError("the disk is full")

        monkeypatch.setattr(Trail, "append", refuse)
        for path, fields in (("", PLATE), ("/export", {"format": "csv"}), ("/report", {})):
            page = ask(browser, AUDIT + path, **fields)
            assert verdict(page) == "It failed, and shows nothing"
            assert "The disk is full." in page.html.text
            assert browser.get(f"{page.request.path}/csv").status_int == 404


class TestClicks:
    def test_a_second_click_leads_to_the_first_task(self, browser, process):
        """The same form with other fields, as after “back”, is another question."""
        fields = {**TOKEN, **PLATE}
        places = {browser.post(AUDIT, fields).headers["Location"] for _ in range(3)}
        assert len(places) == len(process) == 1
        other = browser.post(AUDIT, {**fields, "value": "ZZ99ZZZ"})
        assert other.headers["Location"] not in places

    def test_another_question_waits_for_the_running_one(self, world, browser, monkeypatch):
        """The page says which one still runs, and leads there; other kinds need not wait."""
        held = []

        def start(*_words, kept):
            held.append(os.dup(kept))

        monkeypatch.setattr("app.processes.start", start)
        running = ask(browser, **PLATE)
        assert verdict(running) == "It is being done"
        assert running.headers["Refresh"] == "1; url=?refresh=auto"
        assert "Refresh" not in browser.get(f"{running.request.path}?refresh=off").headers
        waiting = browser.send(AUDIT, {"by": "plate", "value": "ZZ99ZZZ"})
        assert waiting.status_int == 409
        assert "Your last search still runs" in waiting.text
        assert waiting.html.select_one("main a")["href"].endswith(running.request.path[1:])
        assert browser.get(f"{running.request.path}/csv").status_int == 404
        assert verdict(ask(browser, f"{AUDIT}/verify")) == "It is being done"
        for descriptor in held:
            os.close(descriptor)
        assert verdict(browser.get(running.request.path)) == "It was interrupted"

    def test_without_room_for_a_lock_nothing_is_asked(self, world, browser, process):
        """The page says what is wrong."""
        world.config.state_dir.joinpath("audit-tasks").write_text("no directory")
        answer = browser.send(AUDIT, PLATE)
        assert answer.status_int == 503
        assert "the state directory cannot be used" in answer.text
        assert process == []
