"""The pages of loads: list, counts, rejected rows, progress (D69, D135)."""

import pytest

from app.console.loads import REJECTS_SHOWN
from app.console.rendering import ROOT
from app.registers.generations import locked
from app.registers.history import History, RegisterLoad, json_text, list_loads, note_refused
from app.registers.reading.reader import Progress
from app.settings.roles import Role
from tests.api.console import signed_in
from tests.conftest import SHARED, STORAGE
from tests.rows import each_row
from tests.unit.held import HEADER, begun, loaded, vehicles

LOADS = f"{ROOT}/loads"
MARKUP = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>{{ 7 * 7 }}"


@pytest.fixture
def application(world):
    """The service with its console."""
    return world.client(None, console=True).application


@pytest.fixture
def browser(world, application):
    """A browser of an operator."""
    return signed_in(world, application, Role.OPERATOR)


@pytest.fixture
def several(world):
    """Loads 1 and 2 are done, 3 failed, 4 was killed."""
    loaded(world, vehicles("FORD"))
    loaded(world, vehicles("SEAT", "KIA"), register="other", mode="merge")
    note_refused(world.engine, "the file is empty", register="native", files="a.csv", mode="merge")
    begun(world.engine, "native")


def numbers_on(page):
    return [int(link.text) for link in page.html.select("tbody th a")]


class TestList:
    def test_the_latest_come_first(self, several, browser):
        """Each line has what, status and counts, and why it failed."""
        page = browser.get(LOADS)
        assert numbers_on(page) == [4, 3, 2, 1]
        statuses = [cell.text.strip() for cell in page.html.select('td[data-title="Status"]')]
        assert statuses == ["interrupted", "failed", "done", "done"]
        assert page.html.select_one("tr.detail").text.strip() == "the file is empty"
        (heading,) = page.html.select("th[aria-sort]")
        assert (heading["aria-sort"], heading.a["href"]) == ("descending", "?sort=started")

    @STORAGE
    @each_row(
        ("query", "numbers"),
        [
            ("register=native", [4, 3, 1]),
            ("register=other", [2]),
            ("status=failed", [3]),
            ("status=interrupted", [4]),
            ("status=running", []),
            ("status=done", [2, 1]),
            ("status=done&register=native", [1]),
            ("sort=started", [1, 2, 3, 4]),
            ("sort=-started", [4, 3, 2, 1]),
            ("sort=-rows", [2, 1, 3, 4]),
            ("register=nothing", [4, 3, 2, 1]),
            ("status=nothing&sort=nothing&page=x", [4, 3, 2, 1]),
            ("page=9", [4, 3, 2, 1]),
        ],
    )
    def test_it_can_be_sorted_and_filtered_by_url(self, several, browser, query, numbers):
        """Every view has a link; what does not exist counts as absent."""
        page = browser.get(f"{LOADS}?{query}")
        assert numbers_on(page) == numbers
        assert ("No load fits" in page.text) == (not numbers)

    def test_a_running_load_is_not_interrupted(self, world, several, browser):
        """Whoever holds the register's lock is at work."""
        with locked(world.engine, "native"):
            assert numbers_on(browser.get(f"{LOADS}?status=running")) == [4]
            assert numbers_on(browser.get(f"{LOADS}?status=interrupted")) == []

    def test_long_lists_have_pages(self, world, browser):
        """The links to other pages keep the filters."""
        for _ in range(51):
            note_refused(world.engine, "no", register="native", files="a.csv", mode="merge")
        page = browser.get(f"{LOADS}?status=failed")
        assert len(numbers_on(page)) == 50
        (following,) = page.html.select("a[rel=next]")
        assert following["href"] == "?status=failed&page=2"
        assert numbers_on(browser.get(f"{LOADS}{following['href']}")) == [1]

    def test_without_loads_it_says_how_to_load(self, browser):
        """The page names the directory and the commands."""
        page = browser.get(LOADS)
        assert "Nothing was loaded yet" in page.text
        assert "verifyd import --drop /var/lib/verifyd/drop" in page.text
        assert "sudo" not in page.text  # Nothing is installed here.


def test_the_chart_counts_loads_that_have_ended(world, several, browser):
    """A load that runs is not done yet, and nobody knows yet what became of a killed one."""
    for _ in range(2):
        assert "2 loads done and 1 failed in the last 14 days" in browser.get(ROOT).text
        with locked(world.engine, "native"):
            assert "2 loads done and 1 failed in the last 14 days" in browser.get(ROOT).text
        begun(world.engine, "other")


class TestDetail:
    def facts(self, page):
        return {row.dt.text: row.dd.text.strip() for row in page.html.select(".facts > div")}

    def test_it_shows_counts_files_and_notes(self, world, browser):
        """Everything that `imports show` knows is there."""
        content = f"{HEADER}AB12CDE,FORD\nAB12CDE,SEAT\nAB13CDE,KIA\n"
        loaded(world, content, allow_shrink=True)
        page = browser.get(f"{LOADS}/1")
        facts = self.facts(page)
        assert (facts["Rows read"], facts["Rows afterwards"]) == ("3", "2")
        assert facts["What"].startswith("replace of vehicles")
        assert "new.csv" in page.text
        assert "1 row has the registration of another row" in page.text
        assert (
            page.html.select_one("section[aria-labelledby=files]").text.count("allowed: rule rows")
            == 1
        )
        assert list_loads(world.engine)[0].checksum in page.text

    def test_a_failed_load_says_why(self, several, browser):
        """The reason is at the top, with its file name as it is."""
        page = browser.get(f"{LOADS}/3")
        notice = page.html.select_one(".notice.bad").text
        assert "It failed, and changed nothing." in notice
        assert "the file is empty" in notice

    def test_a_failed_load_names_the_next_step(self, world, several, browser):
        """By what is known of its files, for as long as nothing has been loaded since."""
        for columns, step in (
            (
                {"notes": json_text(["moved to /drop/failed"])},
                "Correct the file in /drop/failed, or ask for a right one",
            ),
            ({"broken": '{"rows":"x"}', "notes": None}, "repeat the command with --accept rows."),
            ({"broken": None}, "Correct the cause, and load the file again."),
        ):
            RegisterLoad.update(**columns).where(RegisterLoad.id == 3).execute(world.engine)
            notice = browser.get(f"{LOADS}/3").html.select_one(".notice.bad").text
            assert step in notice
            assert "The warning about it ends when a load of native succeeds." in notice
        RegisterLoad.delete().where(RegisterLoad.id == 4).execute(world.engine)
        loaded(world, vehicles("FORD"))
        assert "Correct" not in browser.get(f"{LOADS}/3").html.select_one(".notice.bad").text

    def test_a_killed_load_is_not_called_running(self, several, browser):
        """Its page does not load itself again, and says what comes next."""
        page = browser.get(f"{LOADS}/4")
        assert "Its process was killed." in page.text
        assert "Refresh" not in page.headers

    def test_the_progress_of_a_running_load(self, world, several, browser):
        """The page loads itself again, without JavaScript, and a link stops that."""
        path = f"{LOADS}/4"
        history = History(world.engine, "native")
        with locked(world.engine, "native"):
            page = browser.get(path)
            assert page.headers["Refresh"] == "3; url=?refresh=auto"
            assert "It has just begun." in page.text
            history.note_progress(4, json_text(Progress("a.csv", 500_000, 2_000_000, 1_234)))
            page = browser.get(path)
            assert "500 kB of 2.0 MB, 1,234 rows so far" in page.text
            assert page.html.select_one("svg.meter")["aria-label"] == "25 % of this step done"
            history.note_progress(4, json_text(Progress("-", 500, None, 4)))
            assert not browser.get(path).html.select("svg.meter")
            history.note_progress(4, json_text(Progress(None, 900, 1_000, 900)))
            assert "Writing: 900 of 1,000 rows" in browser.get(path).text
            stopped = browser.get(f"{path}?refresh=off")
            assert "Refresh" not in stopped.headers
        assert "at 900 rows" in browser.get(path).text

    @SHARED
    @each_row("number", ["0", "99", "x", "-1", "1.0", "%C2%B2", "9" * 40])
    def test_one_that_nobody_ran_is_not_found(self, several, browser, number):
        """Any other number is 404, with a way back."""
        page = browser.get(f"{LOADS}/{number}")
        assert (page.status_int, page.html.h1.text) == (404, "There is no such load")

    def test_markup_in_every_text_is_shown_as_text(self, world, browser):
        """File names, reasons, notes and rejected records come from others."""
        load_id = note_refused(
            world.engine,
            MARKUP,
            register="native",
            files=MARKUP,
            mode="merge",
            notes=json_text([MARKUP]),
            accepted=json_text([MARKUP]),
            reasons=json_text([{"file": MARKUP, "line": 1, "reason": MARKUP}]),
        )
        for page in (browser.get(f"{LOADS}/{load_id}"), browser.get(LOADS)):
            assert MARKUP in page.html.text
            assert not page.html.select("main img")
            assert "alert(1)</script>" not in page.text


class TestRejects:
    @pytest.fixture
    def rejected(self, world):
        """A load with 30 rejects, one of them with a line break and markup."""
        rows = "".join(f"SECRET!{n},FORD,2012\n" for n in range(29))
        content = f'registration,make,year\nAB12CDE,KIA,2012\n"{MARKUP[:20]}\n\x1b",x,1\n{rows}'
        assert loaded(world, content).rejected == 30

    def test_operators_see_the_first_rows(self, world, rejected, browser):
        """Each has its line, its reason and its record; the page names the whole file."""
        page = browser.get(f"{LOADS}/1")
        rows = page.html.select("section[aria-labelledby=rejects] tbody tr")
        assert len(rows) == REJECTS_SHOWN == 20
        assert "The first 20 of 30." in page.text
        assert str(world.config.data_dir / "rejects" / "native-1.csv") in page.text
        assert "<script>" in rows[0].text
        assert "\x1b" not in page.text

    @pytest.mark.parametrize("role", [Role.VIEWER, Role.AUDITOR])
    def test_those_who_only_read_see_no_records(self, world, rejected, application, role):
        """They see the first reasons, which quote no value, and the number of all."""
        page = signed_in(world, application, role).get(f"{LOADS}/1")
        assert len(page.html.select("section[aria-labelledby=rejects] tbody tr")) == 5
        assert "the first 5 of 30" in page.text
        assert "SECRET" not in page.text

    def test_a_file_that_is_gone_leaves_the_reasons(self, world, rejected, browser):
        """The page says that it is not on this host any more."""
        (world.config.data_dir / "rejects" / "native-1.csv").unlink()
        page = browser.get(f"{LOADS}/1")
        assert len(page.html.select("section[aria-labelledby=rejects] tbody tr")) == 5
        assert "not on this host, or was removed" in page.text

    def test_a_damaged_file_leaves_the_reasons(self, world, rejected, browser):
        """Lines that are cut off are left out; bytes that are no text do no harm."""
        path = world.config.data_dir / "rejects" / "native-1.csv"
        path.write_bytes(b'file,line,reason,record\na,1,b,\xff\x00c\na,2,"cut')
        page = browser.get(f"{LOADS}/1")
        assert page.status_int == 200
        assert len(page.html.select("section[aria-labelledby=rejects] tbody tr")) == 1


def test_a_lost_database_is_a_page(world, several, browser):
    """The page says that the database cannot be reached."""
    world.store.lose()
    page = browser.get(LOADS)
    world.store.give_back()
    assert page.status_int == 503
    assert RegisterLoad.select().count(world.engine) == 4
