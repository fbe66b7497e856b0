"""What loads changed, and the plates whose answers they changed, in the console."""

import csv
import io
from contextlib import suppress

import pytest

from app.audit.owner import claim
from app.console.rendering import ROOT
from app.errors import OperatorError
from app.jobs.audit_tasks import AuditTasks
from app.registers.applying.answers import Turned
from app.registers.change import INSURERS_MAX, LoadChange
from app.registers.history import RegisterLoad, insert_line, json_text
from app.registers.rules import RULES
from app.settings.roles import Role
from app.storage.versions import database_id
from tests.api.console import signed_in
from tests.conftest import ON_SQLITE
from tests.unit.audit_trails import lines
from tests.unit.test_diff import loaded, policies

pytestmark = ON_SQLITE  # What the database does of it is in tests/unit/test_diff.py.

LOADS = f"{ROOT}/loads"
MARKUP = "<script>alert(1)</script>\x1b[2J"


@pytest.fixture
def application(world):
    claim(world.config.audit_dir, database_id(world.engine))
    return world.client(None, console=True, audit=True).application


@pytest.fixture
def process(world, monkeypatch):
    """Does what a task asks for at once, in place of a process of its own."""

    def start(*words, kept):
        with suppress(OperatorError):  # It is in the task.
            config = world.configured(audit=True)
            AuditTasks(world.engine, config).carry_out(int(words[2]))

    monkeypatch.setattr("app.processes.start", start)


@pytest.fixture
def browser(world, application, process):
    return signed_in(world, application, Role.OPERATOR)


@pytest.fixture
def number(world):
    """The number of a replace that changed the answers about two of three plates."""
    loaded(world, policies(1, 2))
    return loaded(world, policies(2, 3))


def asked(browser, number, **fields):
    """Ask for the plates, and return the page of the task."""
    answer = browser.send(f"{LOADS}/{number}/changed", fields)
    assert answer.status_int == 303, answer.html.text
    return browser.get(f"{ROOT}/{answer.headers['Location'].partition('console/')[2]}")


def changes(page):
    return [" ".join(cell.text.split()) for cell in page.html.select('td[data-title="Change"]')]


class TestCounts:
    def test_a_disaster_is_marked_and_a_usual_night_is_not(self, world, browser):
        """Also on the page of the register, and if the load was refused."""
        loaded(world, policies(*range(100)))
        loaded(world, policies(*range(1, 102)))
        with pytest.raises(OperatorError):
            loaded(world, policies(*range(50)), accept=[])
        loaded(world, policies(*range(1, 102)))
        told = ["no change", "+1 -52 52 lose cover", "+2 -1", "+100"]
        for path in (LOADS, f"{ROOT}/registers/native", ROOT):
            page = browser.get(path)
            assert changes(page) == told
            (marked,) = page.html.select('td[data-title="Change"] .badge')
            assert marked["class"] == ["badge", "bad"]

    def test_a_load_has_all_counts(self, browser, number):
        """Before and after, by check, by insurer and by member."""
        section = browser.get(f"{LOADS}/{number}").html.select_one("section:has(#change)")
        assert section.h2.text == "What it changed"
        terms = {each.text: each.find_next("dd").text for each in section.select("dt")}
        assert terms["Rows"] == "2, before 2: 1 added, 1 removed, 0 changed"
        assert terms["Insured"] == "1 gain cover, 1 lose cover"
        assert terms["Insurer ACME"] == "plates: 1 gained, 1 without cover now"
        assert "List the plates" in section.select_one("a").text

    def test_a_failed_load_says_what_it_would_have_changed(self, world, browser, number):
        """It has no list of plates."""
        loaded(world, policies(*range(20)))
        with pytest.raises(OperatorError):
            loaded(world, policies(*range(20, 40)), accept=[])
        section = browser.get(f"{LOADS}/{number + 2}").html.select_one("section:has(#change)")
        assert section.h2.text == "What it would have changed"
        assert not section.select("a")

    def test_names_of_insurers_are_text(self, world, browser, number):
        """A hundred of them, with markup and control characters; counts can be national."""
        named = {f"{MARKUP}{n}": Turned(40_000_000, 1) for n in range(INSURERS_MAX)}
        change = LoadChange(held=(40_000_000, 40_000_000), insurers=named)
        RegisterLoad.update(change=json_text(change)).execute(world.engine)
        page = browser.get(f"{LOADS}/{number}")
        assert "\x1b" not in page.text
        assert not page.html.select("section script")
        shown = [dt.text for dt in page.html.select("dt") if "alert(1)" in dt.text]
        assert len(shown) == INSURERS_MAX
        assert "plates: 40,000,000 gained, 1 without cover now" in page.text

    def test_a_line_of_an_earlier_release_has_no_counts(self, world, browser):
        """Its list and its page still work."""
        line = {"register": "old", "kind": "vehicles", "mode": "replace", "format": "x"}
        number = insert_line(world.engine, **line, files="a", status="done", known='{"rows": 3}')
        assert changes(browser.get(LOADS)) == ["\u2013"]
        page = browser.get(f"{LOADS}/{number}")
        assert not page.html.select("#change")
        assert page.html.select("#known")


class TestPlates:
    def test_each_plate_has_both_answers(self, world, browser, number):
        """The file has them all, and the trail has them before anything is shown."""
        page = asked(browser, number, reason="REVIEW", reference="C-1")
        assert page.html.select_one("#plates").text == "2 plates have other answers"
        rows = [
            [cell.text for cell in row.select("th, td")] for row in page.html.select("tbody tr")
        ]
        better, worse = "no \u2192 yes", "yes \u2192 no"
        assert rows == [
            ["AB1CDE", worse, worse, "no", "no", worse, "no"],
            ["AB3CDE", better, better, "no", "no", better, "no"],
        ]
        (link,) = [each["href"] for each in page.html.select("a[download]")]
        file = browser.get(f"{ROOT}/{link.partition('console/')[2]}")
        found = list(csv.DictReader(io.StringIO(file.body.decode("utf-8-sig"))))
        assert [row["registration"] for row in found] == ["AB1CDE", "AB3CDE"]
        records = list(lines(world.config.audit_dir))
        assert [each["operation"] for each in records] == ["diff", "diff"]
        assert {(each["user"], each["reason"], each["reference"]) for each in records} == {
            ("ann", "REVIEW", "C-1")
        }
        assert [each["registers"]["native"] for each in records] == [1, 2]

    def test_only_the_first_are_shown(self, browser, number, monkeypatch):
        """The page says so."""
        monkeypatch.setattr("app.jobs.audit_tasks.PLATES_SHOWN", 1)
        page = asked(browser, number)
        assert len(page.html.select("tbody tr")) == 1
        assert "These are the first 1. The CSV file has all of them." in page.text

    def test_without_a_trail_nothing_is_recorded(self, world, number, monkeypatch):
        """The page does not say that it is."""

        def start(*words, kept):
            AuditTasks(world.engine, world.config).carry_out(int(words[2]))

        monkeypatch.setattr("app.processes.start", start)
        browser = signed_in(world, world.client(None, console=True).application, Role.OPERATOR)
        assert "audit trail" not in browser.get(f"{LOADS}/{number}/changed").text
        assert asked(browser, number).html.select("#plates")
        assert not world.config.audit_dir.exists()

    def test_what_cannot_be_recorded_is_not_shown(self, world, browser, number, monkeypatch):
        """The task fails, and leaves no file with plates."""
        monkeypatch.setattr("app.audit.trail.Trail._append", _full)
        page = asked(browser, number)
        assert "It failed, and shows nothing" in page.text
        assert "cannot be written to" in page.text
        names = [path.suffix for path in (world.config.data_dir / "audit-results").iterdir()]
        assert names == [".question"]

    def test_nobody_else_sees_them(self, world, application, browser, number):
        """Neither another operator, nor a viewer; auditors do not find them in their list."""
        asked(browser, number)
        page = f"{LOADS}/changed/1"
        for name in ("", "/csv"):
            other = signed_in(world, application, Role.OPERATOR, name="ben")
            assert other.get(page + name).status_int == 404
            viewer = signed_in(world, application, Role.VIEWER)
            assert viewer.get(page + name).status_int == 403
        auditor = signed_in(world, application, Role.AUDITOR)
        assert auditor.get(f"{ROOT}/audit/tasks/1").status_int == 404
        assert "diff" not in auditor.get(f"{ROOT}/audit").html.select_one("main").text

    def test_a_load_that_cannot_be_compared_is_refused(self, world, browser, number):
        """The page says why; there is no form, and none is accepted."""
        for path, status in ((f"{LOADS}/1/changed", 409), (f"{LOADS}/99/changed", 404)):
            assert browser.get(path).status_int == status
            assert browser.post(path, {"version": "0123456789abcdef"}).status_int == status
        assert "held nothing before load 1" in browser.get(f"{LOADS}/1/changed").text
        world.load_files(world.directory / "new.csv", accept=list(RULES))
        assert browser.get(f"{LOADS}/{number + 1}/changed").status_int == 409
        assert browser.get(f"{LOADS}/{number}/changed").status_int == 200

    def test_a_wrong_reason_is_a_fault_of_the_form(self, browser, number):
        """Nothing is begun."""
        answer = browser.send(f"{LOADS}/{number}/changed", {"reason": "a\x01b"})
        assert answer.status_int == 422
        assert browser.get(f"{LOADS}/changed/1").status_int == 404

    def test_a_reason_that_is_needed_is_chosen(self, world, process, number):
        """VERIFYD_LOOKUP_REASONS: without one of its reasons no task begins (D165)."""
        settings = {"console": True, "lookup_reasons": ("FRAUD", "THEFT")}
        browser = signed_in(world, world.client(None, **settings).application, Role.OPERATOR)
        for reason in ("", "CURIOUS"):
            answer = browser.send(f"{LOADS}/{number}/changed", {"reason": reason})
            assert answer.status_int == 422
            assert answer.html.select_one("select[name=reason]")
        assert asked(browser, number, reason="FRAUD").status_int == 200


def _full(trail, line):
    raise OSError(28, "No space left on device")
