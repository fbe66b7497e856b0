"""The pages of registers, and what can be done to one there (D72, D135)."""

from functools import partial

import pytest

from app.actions import list_actions
from app.alerts.spool import Spool
from app.config import Config
from app.console.rendering import ROOT
from app.jobs.job import queue_alert
from app.jobs.register_tasks import RegisterTask, RegisterTasks
from app.registers.generations import is_being_loaded, locked
from app.registers.history import MERGE, History, RegisterLoad, insert_line, list_loads
from app.registers.undo import drop_register, roll_back
from app.settings.roles import Role
from app.storage.engine import close_quietly, open_engine
from app.storage.registers import Register
from app.storage.versions import set_tells_unknown
from tests.api.console import signed_in
from tests.rows import each_row
from tests.system.processes import until
from tests.unit.held import begun, held_load, loaded, makes, vehicles

REGISTERS = f"{ROOT}/registers"
NATIVE = f"{REGISTERS}/native"
ROLLBACK = f"{NATIVE}/rollback/1"
MARKUP = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>{{ 7 * 7 }}"


@pytest.fixture
def application(world, monkeypatch):
    """The service with its console; the processes that it starts get the same settings."""
    monkeypatch.setenv("VERIFYD_DATABASE_URL", world.config.database_url)
    monkeypatch.setenv("VERIFYD_STATE_DIR", str(world.config.state_dir))
    monkeypatch.setenv("VERIFYD_DATA_DIR", str(world.config.data_dir))
    return world.client(None, console=True).application


@pytest.fixture
def browser(world, application):
    """A browser of an operator."""
    return signed_in(world, application, Role.OPERATOR)


@pytest.fixture
def tasks(world):
    """The tasks of the installation."""
    return RegisterTasks(world.engine, world.config)


@pytest.fixture
def native(world):
    """A register that can be rolled back from load 2 to load 1."""
    for make in ("FORD", "SEAT"):
        loaded(world, vehicles(make))


@pytest.fixture
def do(world, browser, tasks):
    """`do(PATH)` opens a question, sends its form, waits for the end and returns the last page."""

    def do(path):
        sent = browser.send(path)
        assert sent.status_int == 303, sent.text
        page = f"{ROOT}/{sent.location.partition('console/')[2]}"
        number = int(page.rpartition("/")[2])
        until(lambda: not tasks.find(number).is_running, "the end of the task")
        # The process releases the lock a moment after that.
        register = tasks.find(number).register
        until(lambda: not is_being_loaded(world.engine, register), "the lock of the register")
        return browser.get(page)

    return do


def facts_of(page):
    return {row.dt.text: row.dd.text.strip() for row in page.html.select(".facts > div")}


class TestList:
    def test_registers_are_listed_with_rows_and_age(self, world, native, browser):
        """A register has its rows of each kind; a kind that was never loaded has a dash."""
        page = browser.get(REGISTERS)
        (row,) = page.html.select("tbody tr")
        assert row.a.text == "native"
        cells = [cell.text.strip() for cell in row.select("td")]
        assert cells[0] == "1"
        assert cells[1] == cells[2]
        assert cells[1].endswith("none")
        assert cells[-1] == "in use"

    def test_it_can_be_sorted_by_url(self, world, native, browser):
        """Each column but the age sorts, the second time the other way round."""
        loaded(world, vehicles("KIA", "FIAT"), register="alpha")
        for query, names in {
            "": ["alpha", "native"],
            "?sort=-name": ["native", "alpha"],
            "?sort=vehicles": ["native", "alpha"],
            "?sort=nothing": ["alpha", "native"],
        }.items():
            page = browser.get(f"{REGISTERS}{query}")
            assert [link.text for link in page.html.select("tbody th a")] == names

    def test_warnings_are_shown_where_they_belong(self, world, native, application):
        """A stale register is marked; a failed name and a dropped one have tables of their own."""
        loaded(world, vehicles("KIA"), register="gone")
        drop_register(world.engine, "gone")
        lines = list_loads(world.engine)
        Register.update(loaded_at=1).execute(world.engine)
        begun(world.engine, "mistyped")
        application = world.client(None, console=True, stale_after={"*": 60}).application
        page = signed_in(world, application, Role.VIEWER).get(REGISTERS)
        assert "stale" in page.html.select_one('td[data-title="Status"]').text
        assert "VERIFYD_STALE_AFTER allows 1 min" in page.html.select_one("tr.detail").text
        links = [link["href"].rpartition("/")[2] for link in page.html.select("main a")]
        assert {"native", "mistyped", "gone"} <= {*links}
        assert len(lines) == 4

    def test_content_that_does_not_change_is_shown(self, world, native):
        """Its age is beside that of the last load, and marked if the setting does not allow it."""
        RegisterLoad.update(finished_at=1).execute(world.engine)
        application = world.client(None, console=True, unchanged_after={"*": 60}).application
        browser = signed_in(world, application, Role.VIEWER)
        page = browser.get(REGISTERS)
        shown = page.html.select_one('td[data-title="Last loaded"]').text
        assert "content unchanged since 1 Jan 1970" in shown
        assert page.html.select_one('td[data-title="Status"]').text.strip() == "unchanged"
        assert "VERIFYD_UNCHANGED_AFTER allows 1 min" in page.html.select_one("tr.detail").text
        facts = browser.get(f"{REGISTERS}/native").html.select_one("dl.facts").text
        assert "Content unchanged since1 Jan 1970" in facts
        overview = browser.get(ROOT).html
        shown = overview.select_one('td[data-title="Content unchanged since"]').text
        assert ("1 Jan 1970" in shown, "unchanged" in shown) == (True, True)

    def test_a_running_load_is_shown(self, world, native, browser):
        """The status of the register leads to the load."""
        load_id = begun(world.engine, "native")
        with locked(world.engine, "native"):
            status = browser.get(REGISTERS).html.select_one('td[data-title="Status"] a')
        assert status.text == "loading"
        assert status["href"].endswith(f"console/loads/{load_id}")

    def test_without_registers_it_says_how_to_load(self, browser):
        """The page names the directory and the commands; nothing is uploaded.

        To drop something is what happens to a register there.
        """
        page = browser.get(REGISTERS)
        assert "drop directory" not in page.text
        assert "No register is loaded" in page.text
        assert "/var/lib/verifyd/drop" in page.text
        assert "verifyd import FILE" in page.text
        assert not page.html.select("input[type=file]")


class TestDetail:
    def test_it_shows_what_the_register_holds_and_was(self, world, native, browser):
        """It has the counts, the snapshots with their loads, and the history."""
        page = browser.get(NATIVE)
        assert facts_of(page)["Vehicles"] == "1"
        assert facts_of(page)["Policies"] == "never loaded"
        (action,) = page.html.select("td.do a")
        assert action["href"].endswith("registers/native/rollback/1")
        history = page.html.select("section[aria-labelledby=history] tbody th a")
        assert [link.text for link in history] == ["2", "1"]
        assert not page.html.select("#history ~ p a")

    def test_it_says_whether_it_holds_every_policy(self, world, native):
        """It names the setting by which absence counts, where that matters (D198)."""
        policy = {"number": "P-1", "validFrom": "2026-01-01", "validTo": "2026-12-31"}
        world.load([{"registration": "AB12CDE", **policy}], register="fleet")

        def said(register, *complete):
            settings = {"console": True, "complete_registers": complete}
            browser = signed_in(world, world.client(None, **settings).application, Role.VIEWER)
            return facts_of(browser.get(f"{REGISTERS}/{register}")).get("Holds every policy")

        assert said("fleet") is None
        set_tells_unknown(world.engine, True)
        assert said("fleet") == "not said (VERIFYD_COMPLETE_REGISTERS)"
        assert said("fleet", "fleet") == "yes"
        assert said("native") is None

    def test_a_long_history_leads_to_all_loads(self, world, native, browser):
        """It shows the last twenty."""
        for _ in range(20):
            History(world.engine, "native").add_done("merge")
        page = browser.get(NATIVE)
        assert len(page.html.select("section[aria-labelledby=history] tbody tr")) == 20
        (link,) = page.html.select("#history ~ p a")
        assert link["href"].endswith("loads?register=native")

    def test_a_name_that_nobody_loaded_is_not_found(self, browser, native):
        """Any other name is 404, for the page and for each action."""
        for name in ("nothing", "NATIVE", "native%20", "%3Cscript%3E", "x" * 31, "1"):
            for rest in ("", "/rollback/1", "/drop", "/undrop", "/purge"):
                page = browser.get(f"{REGISTERS}/{name}{rest}")
                assert page.status_int == 404
                assert "<script>" not in page.text
                sent = browser.post(f"{REGISTERS}/{name}{rest}", {"version": "x"})
                assert sent.status_int == (404 if rest else 405)

    def test_those_who_only_read_are_offered_no_action(self, world, native, application):
        """A viewer sees the snapshots, but no buttons."""
        viewer = signed_in(world, application, Role.VIEWER)
        page = viewer.get(NATIVE)
        assert page.html.select("section[aria-labelledby=snapshots] tbody tr")
        assert not page.html.select("td.do a, .actions a")

    def test_names_of_people_and_reasons_are_escaped(self, world, native, application, tasks):
        """Markup in what people or files are called is shown as text."""
        browser = signed_in(world, application, Role.OPERATOR, MARKUP)
        with locked(world.engine, "native"):
            begun(world.engine, "native", files=[MARKUP])
        roll_back(world.engine, "native", None)
        sent = browser.send(f"{NATIVE}/drop")
        RegisterTask.update(reason=MARKUP, status="failed").execute(world.engine)
        for path in (NATIVE, f"{ROOT}/tasks/{sent.location.rpartition('/')[2]}"):
            page = browser.get(path)
            assert page.status_int == 200
            assert MARKUP in page.html.text
            assert not page.html.select("main img")
            assert "alert(1)</script>" not in page.text


class TestActions:
    def test_a_rollback(self, world, native, browser, do, tasks):
        """The question says what changes; the page of the task says that it is done."""
        question = browser.get(ROLLBACK)
        assert question.html.h1.text == "Roll native back to load 1?"
        assert "This changes its vehicles" in question.text
        page = do(ROLLBACK)
        assert "The register is again as load 1 left it." in page.text
        assert "Refresh" not in page.headers
        assert makes(world) == ["FORD"]
        (task,) = tasks.latest("native", 5)
        assert task.asked_by == "ann"
        load = browser.get(f"{ROOT}/loads/{task.load_id}")
        assert facts_of(load)["By"] == "ann in the console"

    def test_drop_undrop_and_purge(self, world, native, browser, do):
        """A dropped register can be brought back, until it is removed for good."""
        assert "Remove for good" not in browser.get(NATIVE).text
        assert "The register was dropped." in do(f"{NATIVE}/drop").text
        assert Register.select().count(world.engine) == 0
        assert "Bring back" in browser.get(NATIVE).text
        assert "The register is back." in do(f"{NATIVE}/undrop").text
        assert makes(world) == ["SEAT"]
        do(f"{NATIVE}/drop")
        assert "removed for good" in do(f"{NATIVE}/purge").text
        page = browser.get(NATIVE)
        assert "There is no register of this name now" in page.text
        assert not page.html.select(".actions a")

    def test_the_warning_about_a_mistyped_name_can_be_ended(self, world, browser, do):
        """If all loads of a name failed, a purge ends the warning."""
        begun(world.engine, "mistyped")
        page = f"{REGISTERS}/mistyped"
        assert "End the warning" in browser.get(page).text
        assert browser.get(f"{page}/purge").html.h1.text == "End the warning about mistyped?"
        do(f"{page}/purge")
        assert "End the warning" not in browser.get(page).text
        assert "mistyped" not in browser.get(REGISTERS).text

    @each_row(
        ("rest", "heading"),
        [
            ("rollback/2", "The register cannot go back to that load"),
            ("rollback/99", "The register cannot go back to that load"),
            ("rollback/x", "The register cannot go back to that load"),
            ("rollback/-1", "The register cannot go back to that load"),
            (f"rollback/{'9' * 30}", "The register cannot go back to that load"),
            ("undrop", "There is nothing to bring back"),
            ("purge", "Drop the register first"),
        ],
    )
    def test_what_is_not_possible_is_refused(self, native, browser, tasks, rest, heading):
        """The page says why, and the form does nothing when it is sent by hand."""
        page = browser.get(f"{NATIVE}/{rest}")
        assert (page.status_int, page.html.h1.text) == (409, heading)
        version = browser.get(f"{NATIVE}/drop").html.select_one("input[name=version]")["value"]
        sent = browser.post(f"{NATIVE}/{rest}", {"version": version})
        assert (sent.status_int, sent.html.h1.text) == (409, heading)
        assert tasks.latest("native", 5) == []

    def test_nothing_begins_while_a_load_runs(self, world, native, browser, tasks):
        """The question is refused, and so is a form that was opened before."""
        shown = browser.get(ROLLBACK).html.select_one("input[name=version]")["value"]
        other = open_engine(world.config.database_url)
        with locked(other, "native"):
            for answer in (browser.get(ROLLBACK), browser.post(ROLLBACK, {"version": shown})):
                assert answer.status_int == 409
                assert answer.html.h1.text == "This register is being loaded or changed"
        close_quietly(other)
        assert tasks.latest("native", 5) == []

    @pytest.mark.parametrize("version", [None, "", "x", "0" * 16, "y" * 1_000])
    def test_a_form_of_an_older_state_does_nothing(self, native, browser, tasks, version):
        """Without the version of the register as it is, the form is refused."""
        fields = {} if version is None else {"version": version}
        answer = browser.post(ROLLBACK, fields)
        assert answer.status_int == 409
        assert "Somebody else has changed this meanwhile" in answer.text
        assert tasks.latest("native", 5) == []

    def test_two_operators_do_not_undo_each_others_work(self, world, native, application, tasks):
        """A load between question and click makes the click void."""
        ann, ben = (signed_in(world, application, Role.OPERATOR, name) for name in ("ann", "ben"))
        shown = ann.get(ROLLBACK).html.select_one("input[name=version]")["value"]
        loaded(world, vehicles("KIA"))
        assert ann.post(ROLLBACK, {"version": shown}).status_int == 409
        assert ben.get(ROLLBACK).status_int == 409  # One snapshot is kept, which is another one.
        assert tasks.latest("native", 5) == []

    def test_the_same_form_is_done_once(self, world, native, browser, tasks):
        """Sent again while it runs and after it ended, the form leads to the same task."""
        shown = browser.get(ROLLBACK).html.select_one("input[name=version]")["value"]
        send = partial(browser.post, ROLLBACK, {"version": shown})
        first, second = send(), send()
        assert first.location == second.location
        (task,) = tasks.latest("native", 5)
        until(lambda: not tasks.find(task.id).is_running, "the end of the task")
        assert send().location == first.location
        assert [line.mode for line in list_loads(world.engine)] == ["rollback"] + ["replace"] * 2

    def test_a_question_leads_to_what_runs(self, native, browser, tasks):
        """While a task runs, each question and button leads to its page."""
        sent = browser.send(ROLLBACK)
        (task,) = tasks.latest("native", 5)
        if task.is_running:
            asked = browser.get(f"{NATIVE}/drop")
            assert asked.status_int in (200, 303, 409)  # It may have ended, or end just now.
        until(lambda: not tasks.find(task.id).is_running, "the end of the task")
        assert sent.location.endswith(f"tasks/{task.id}")

    def test_a_lost_state_directory_is_told(self, world, native, browser, tasks):
        """If no lock can be taken, nothing is changed and the page says so."""
        blocked = world.config.state_dir / "tasks"
        blocked.write_text("")
        answer = browser.send(ROLLBACK)
        assert answer.status_int == 503
        assert "the state directory cannot be used" in answer.text
        assert tasks.latest("native", 5) == []


class TestTaskPage:
    @pytest.fixture
    def running(self, world, native, tasks):
        """A task of another host, which counts as running."""
        host = {"host": "elsewhere", "status": "running", "asked_at": 10**11}
        asked = {"register": "native", "action": "rollback", "to_load": 1}
        task = RegisterTask.insert(**asked, **host, seen="x", asked_by="ann")
        return f"{ROOT}/tasks/{task.execute(world.engine)}"

    def test_it_loads_itself_again_while_it_runs(self, browser, running):
        """The browser does so without JavaScript, and a link stops it."""
        page = browser.get(running)
        assert page.headers["Refresh"] == "3; url=?refresh=auto"
        stop = page.html.find("a", string="Stop that")
        stopped = browser.get(f"{running}{stop['href'][stop['href'].index('?') :]}")
        assert "Refresh" not in stopped.headers
        assert "Load it again" in stopped.text

    def test_the_register_leads_to_it(self, browser, running):
        """While it runs, the register's page offers no other action."""
        page = browser.get(NATIVE)
        assert "it is being made" in page.text
        assert not page.html.select("td.do a, .actions a")
        asked = browser.get(f"{NATIVE}/drop")
        assert asked.status_int == 303
        assert asked.location.endswith(running.rpartition("console/")[2])
        status = browser.get(REGISTERS).html.select_one('td[data-title="Status"] a')
        assert status.text == "being rolled back"

    def test_it_belongs_to_the_registers(self, browser, running):
        """The navigation marks them, once."""
        marked = browser.get(running).html.select("header nav [aria-current]")
        assert [(link.text, link["aria-current"]) for link in marked] == [("Registers", "true")]

    def test_a_killed_one_is_interrupted(self, world, browser, running):
        """The page says that nothing was changed, and the register can be changed again."""
        RegisterTask.update(asked_at=1).execute(world.engine)
        page = browser.get(running)
        assert "It was interrupted" in page.text
        assert "Refresh" not in page.headers
        assert browser.get(ROLLBACK).status_int == 200

    @pytest.mark.parametrize("number", ["0", "99", "x", "-1", "9" * 40, "%3Cb%3E"])
    def test_one_that_nobody_asked_for_is_not_found(self, browser, number):
        """Any other number is 404."""
        assert browser.get(f"{ROOT}/tasks/{number}").status_int == 404


class TestAcceptance:
    ACCEPT = f"{REGISTERS}/fleet/accept/2"

    def test_a_held_load_is_accepted(self, world, browser, do):
        """The page of the load has the rules and the button; the record has who accepted them."""
        file = held_load(world)
        page = browser.get(f"{ROOT}/loads/2")
        assert facts_of(page)["Status"] == "held"
        assert "Rows afterwards" not in facts_of(page)
        assert page.html.select_one("#change").text == "What it would change"
        assert page.html.select_one("dt code").text == "insurer"
        assert "40 of 60 policies in force would be gone" in page.html.select_one(".notice").text
        button, other = page.html.select(".notice a.button")
        assert other["href"].endswith("console/registers/fleet/reject/2")
        assert button["href"].endswith("console/registers/fleet/accept/2")
        question = browser.get(self.ACCEPT).html.select_one("section.message").text
        assert "rows: 40 of 60" in question
        assert "Brackenmoor" not in question
        page = do(self.ACCEPT)
        assert facts_of(page)["Status"] == "done", page.text
        assert not file.exists()
        assert (file.parents[1] / "loaded" / file.name).exists()
        action = list_actions(world.engine)[0]
        assert (action.action, action.via, action.actor) == ("imports.accept", "console", "ann")
        assert action.after is not None
        assert (action.after["held"], action.after["accepts"]) == (20, 2)
        link = browser.get(f"{ROOT}/loads/3").html.select_one('.facts a[href$="loads/2"]')
        assert link.text == "load 2"
        page = browser.get(f"{ROOT}/loads/2")
        assert facts_of(page)["Status"] == "accepted"
        assert "Load 3 has loaded its files" in page.html.select_one(".notice").text
        row, *_ = browser.get(f"{ROOT}/loads?status=accepted").html.select("tbody tr")
        assert row.select_one('[data-title="Change"]').text == "\u2013"
        assert not browser.get(f"{ROOT}/loads?status=failed").html.select("tbody tr")
        assert "accept load 2" in browser.get(f"{REGISTERS}/fleet").text
        again = browser.get(self.ACCEPT)
        assert (again.status_int, "it was accepted before" in again.text) == (409, True)

    def test_a_held_load_is_rejected(self, world, browser, do, monkeypatch):
        """The alert about it is solved at once, and the page says who did it."""
        monkeypatch.setenv("VERIFYD_NOTIFY", "exec:/bin/true")
        config = Config.from_env()
        file = held_load(world)
        queue_alert(config, ())
        question = browser.get(f"{REGISTERS}/fleet/reject/2").html.select_one("section.message")
        assert f"These stay in {file.parent}" in question.text
        page = do(f"{REGISTERS}/fleet/reject/2")
        assert facts_of(page)["Status"] == "done", page.text
        assert file.exists()
        spool = Spool(config.data_dir)
        until(lambda: len(list(spool.entries())) == 2, "the second message")
        alert, solved = (each.message for each in spool.entries())
        assert (alert.type, solved.type) == ("verifyd.alert", "verifyd.solved")
        action = list_actions(world.engine)[0]
        assert (action.action, action.via, action.actor) == ("imports.reject", "console", "ann")
        page = browser.get(f"{ROOT}/loads/2")
        assert facts_of(page)["Status"] == "failed"
        assert "rejected by ann: the load breaks rules" in page.html.select_one(".notice").text
        assert "reject load 2" in browser.get(f"{REGISTERS}/fleet").text
        for decision in ("accept", "reject"):
            again = browser.get(f"{REGISTERS}/fleet/{decision}/2")
            assert (again.status_int, "was rejected before, by ann" in again.text) == (409, True)

    def _hold_another(self, world, **columns):
        """Hold a load like the last line, whose file has another name."""
        line = list_loads(world.engine)[0]
        (world.directory / "drop" / "fleet" / "failed" / "other.csv").touch()
        names = ("kind", "mode", "format", "files", "reason", "broken", "checksum")
        same = {each: getattr(line, each) for each in names} | columns
        hold = str(line.hold).replace("next.csv", "other.csv")
        ended = {"status": "failed", "finished_at": 1}
        insert_line(world.engine, **same, **ended, register="fleet", hold=hold)

    def test_the_overview_has_the_reason_of_the_load_to_decide_first(self, world, browser):
        """Of two held merges that is the first one, which the warning names."""
        held_load(world)
        RegisterLoad.update(mode=MERGE).where(RegisterLoad.id == 2).execute(world.engine)
        self._hold_another(world, reason="other rules")
        (finding,) = browser.get(ROOT).html.select(".findings li")
        assert "Load 2, a merge of policies" in finding.text
        assert "Rows: " in finding.text
        assert "ther rules" not in finding.text

    def test_of_two_held_loads_both_can_be_rejected(self, world, browser, do):
        """The second form is not taken for the first one again."""
        held_load(world)
        self._hold_another(world)
        for number in (2, 3):
            do(f"{REGISTERS}/fleet/reject/{number}")
        actions = [each.after for each in list_actions(world.engine)[:2]]
        assert actions == [{"rejects": 3}, {"rejects": 2}]

    def test_lists_show_that_it_waits(self, world, browser):
        """The list of loads, its filter, the register and the overview."""
        held_load(world)
        status = 'td[data-title="Status"]'
        assert [cell.text.strip() for cell in browser.get(f"{ROOT}/loads").html.select(status)] == [
            "held",
            "done",
        ]
        for query, numbers in {"held": ["2"], "failed": [], "done": ["1"]}.items():
            rows = browser.get(f"{ROOT}/loads?status={query}").html.select("tbody th a")
            assert [row.text for row in rows] == numbers
        assert browser.get(REGISTERS).html.select_one(status).text.strip() == "load held"
        for page in (browser.get(f"{REGISTERS}/fleet"), browser.get(ROOT)):
            assert "breaks rules (rows, insurers, insured) and waits" in page.text
            (link,) = page.html.select('.findings a[href$="loads/2"]')
            assert link.text == "See load 2 and what to do"
            assert "imports show" not in page.html.select_one(".findings").text

    def test_the_chart_counts_no_held_or_accepted_load_as_failed(self, world, browser, do):
        """A decision is not a failure, and what was accepted has its own line."""
        held_load(world)
        assert "1 load done and 0 failed" in browser.get(ROOT).text
        do(self.ACCEPT)
        assert "2 loads done and 0 failed" in browser.get(ROOT).text

    def test_a_viewer_sees_the_rules_and_no_button(self, world, application):
        """To accept or to reject is to change."""
        held_load(world)
        viewer = signed_in(world, application, Role.VIEWER)
        page = viewer.get(f"{ROOT}/loads/2")
        assert not page.html.select(".notice a.button")
        for path in (self.ACCEPT, f"{REGISTERS}/fleet/reject/2"):
            assert viewer.get(path).status_int == 403

    def test_only_a_held_load_of_the_register_has_a_question(self, world, browser, native):
        """Another register, another line, no number."""
        held_load_id = list_loads(world.engine)[0].id
        for path in (f"native/accept/{held_load_id}", "native/accept/99", "native/accept/x"):
            assert browser.get(f"{REGISTERS}/{path}").status_int == 409

    def test_a_question_that_was_overtaken_changes_nothing(self, world, browser):
        """A later load of the register makes another page."""
        held_load(world)
        version = browser.get(self.ACCEPT).html.select_one("input[name=version]")["value"]
        world.load([{"registration": "AB12CDE", "make": "FORD"}], register="fleet")
        sent = browser.post(self.ACCEPT, {"version": version})
        assert sent.status_int == 409
        assert not RegisterTask.select().count(world.engine)
