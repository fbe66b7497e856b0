"""What every page of the console has in common: headers, assets, errors, times."""

import json
import re
import subprocess
import sys
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from falcon.testing import create_req

from app.audit import owner
from app.audit.owner import claim
from app.console import charts, overview, rendering
from app.console.listing import Listing
from app.console.pages import MENU, PAGES
from app.console.rendering import ROOT
from app.logs import JsonFormatter
from app.people.sessions import create_link
from app.registers.history import insert_line
from app.settings.roles import Role
from app.storage.registers import Register
from tests.api.console import Browser, signed_in
from tests.conftest import ON_SQLITE, engine_independent
from tests.rows import each_row

HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
READ = [page.path for page in PAGES if "GET" in page.rights and "{" not in page.path]


@pytest.fixture
def application(world):
    """The service with its console."""
    return world.client(None, console=True).application


@pytest.fixture
def browser(world, application):
    """A browser of an operator."""
    return signed_in(world, application, Role.OPERATOR)


class TestHeaders:
    def test_every_answer_has_them(self, world, application, browser):
        """Pages, refusals, redirects and assets have the same strict policy."""
        stranger = Browser(application)
        link = f"{ROOT}/sign-in/{create_link(world.engine, 'ben', Role.VIEWER)}"
        answers = [
            *map(browser.get, READ),
            browser.get(f"{ROOT}/nothing"),
            browser.request("DELETE", ROOT, headers={"Sec-Fetch-Site": "none"}),
            browser.post(f"{ROOT}/accounts/new"),
            browser.get(f"/{browser.get(ROOT).html.select_one('link[rel=stylesheet]')['href']}"),
            stranger.get(ROOT),
            stranger.get(link),
            stranger.post(link, headers={}),
            stranger.post(link),
        ]
        for answer in answers:
            policy = dict(
                each.strip().partition(" ")[::2]
                for each in answer.headers["Content-Security-Policy"].split(";")
            )
            assert policy == {
                "default-src": "'none'",
                "style-src": "'self'",
                "script-src": "'self'",
                "img-src": "'self'",
                "form-action": "'self'",
                "base-uri": "'none'",
                "frame-ancestors": "'none'",
            }
            assert {name: answer.headers[name] for name in HEADERS} == HEADERS
            assert answer.headers["X-Request-ID"]
            assert not [name for name in answer.headers if name.startswith("Access-")]

    def test_pages_are_kept_by_nobody(self, application, browser):
        """No page may be stored: whoever uses the browser next must not see it."""
        for path in (*READ, f"{ROOT}/nothing"):
            for each in (browser, Browser(application)):
                assert each.get(path).headers["Cache-Control"] == "no-store"

    @engine_independent
    @each_row("path", READ)
    def test_pages_have_nothing_that_the_policy_forbids(self, browser, path):
        """No inline style, no inline script, and nothing of another host."""
        html = browser.get(path).html
        assert not html.select("[style], style, script:not([src]), iframe, object, base")
        assert not [
            name
            for tag in html.find_all()
            for name in tag.attrs
            if name.startswith("on") or "javascript:" in str(tag[name])
        ]
        for tag in html.select("[src], [href], [action]"):
            target = tag.get("src") or tag.get("href") or tag.get("action") or ""
            assert not re.match(r"[a-z]+:|/", target), target

    def test_links_hold_behind_a_path_prefix(self, browser):
        """At any depth links begin with as many `../` as lead to the service's root."""
        for path in (ROOT, f"{ROOT}/", f"{ROOT}/accounts", f"{ROOT}/accounts/new"):
            page = browser.get(path)
            assert page.status_int == 200
            root = "../" * (path.count("/") - 1)
            for link in page.html.select("header a, link"):
                assert re.match(rf"{re.escape(root)}(console|docs)\b", link["href"])


class TestOverview:
    def test_it_counts_no_rows(self, world, browser, statements):
        """With 40 million vehicles it must answer as quickly: it reads recorded counts."""
        world.load([{"registration": "AB12CDE", "make": "Ford"}], register="native")
        with statements() as seen:
            page = browser.get(ROOT)
        assert page.html.select_one('td[data-title="Vehicles"]').text == "1"
        of_vehicles = [each for each in seen if re.search(r"\bvehicle\b", each)]
        assert of_vehicles
        assert all(each.endswith(".vehicle LIMIT 1") for each in of_vehicles)

    def test_an_empty_installation_says_what_to_do(self, browser):
        """Without registers and loads the page names the command that loads one."""
        page = browser.get(ROOT)
        assert "No register is loaded" in page.text
        assert "verifyd import FILE" in page.text
        assert "Nothing was loaded yet" in page.text

    def test_conditions_are_shown_with_their_remedy(self, world, browser):
        """What `verifyd check` warns of is here, and what to do about it."""
        world.load([{"registration": "AB12CDE", "make": "Ford"}], register="native")
        Register.update(loaded_at=1).execute(world.engine)
        page = browser.get(ROOT)
        (condition,) = page.html.select(".findings li")
        assert "VERIFYD_STALE_AFTER allows 8 d" in condition.text
        assert condition.code.text.startswith("verifyd ")
        assert "ready, with warnings" in page.text
        assert page.html.select_one(".badge.warn").text == "stale"

    def test_a_complete_register_without_policies_is_shown(self, world):
        """The absence of a policy counts nowhere, as `verifyd check` warns (D198)."""
        application = world.client(None, console=True, complete_registers=("midd",)).application
        page = signed_in(world, application, Role.VIEWER).get(ROOT)
        (finding,) = page.html.select(".findings li")
        assert "VERIFYD_COMPLETE_REGISTERS names midd: there is no such register" in finding.text

    def test_clerks_without_the_trail_are_shown(self, world):
        """A clerk is signed in who cannot look up, as `verifyd check` warns."""
        application = world.client(None, console=True).application
        signed_in(world, application, Role.CLERK)
        page = signed_in(world, application, Role.VIEWER).get(ROOT)
        (finding,) = page.html.select(".findings li")
        assert finding.text.strip() == "VERIFYD_AUDIT: clerks cannot look up while it is off."

    def test_a_fault_is_shown_first(self, world, application):
        """The page says what keeps the service from being ready."""
        browser = signed_in(world, application, Role.VIEWER)
        world.load([{"registration": "AB12CDE", "make": "Ford"}], register="native")
        world.limits.write_bytes(b"damaged")
        page = browser.get(ROOT)
        assert "The service needs you now" in page.text
        assert "rate limits cannot be kept" in page.html.select_one(".findings .bad").text

    def test_look_ups_that_cannot_be_recorded_are_a_fault(self, world):
        """It is shown once, although it is a condition, too."""
        claim(world.directory / "audit", "0" * 32)
        owner._claimed.clear()
        application = world.client(None, console=True, audit=True).application
        page = signed_in(world, application, Role.VIEWER).get(ROOT)
        (finding,) = page.html.select(".findings li")
        assert finding["class"] == ["bad"]
        assert "Look-ups cannot be recorded" in finding.text

    def test_a_failed_load_is_linked_with_its_reason(self, world, browser):
        """Its rows are those of `imports list`: what was read, and what it changed.

        What is wrong names no command in place of the link, and all times in one form.
        """
        refused = {"status": "failed", "reason": "too many rejects", "rows": 3_000}
        what = {"register": "fleet", "kind": "vehicles", "mode": "merge", "format": "x"}
        ended = {"finished_at": 1_900_065_600}
        load_id = insert_line(world.engine, **what, **refused, **ended, files="a.csv")
        for path in (ROOT, f"{ROOT}/registers"):
            told = browser.get(path).html.select_one(".findings p").text
            assert told == (
                "The last load of the register fleet failed, at 18 Mar 2030, 12:00 UTC "
                f"(load {load_id})."
            )
        page = browser.get(ROOT)
        link = page.html.select_one(".findings a")
        assert link["href"] == f"console/loads/{load_id}"
        assert link.text == f"See load {load_id} and what to do"
        assert "Too many rejects" in page.html.select_one(".findings").text
        row = page.html.select_one("section[aria-labelledby=loads] tbody tr")
        cells = {cell.get("data-title"): cell.text for cell in row.select("td")}
        assert (cells["Rows"], cells["Change"].strip()) == ("3,000", "\u2013")

    def test_reasons_of_failed_loads_stay_text(self, world, browser):
        """A reason can quote a file, whose content nobody has checked."""
        reason = "<script>alert(1)</script>"
        insert_line(
            world.engine,
            register="native",
            kind="vehicles",
            mode="merge",
            format="",
            files="",
            status="failed",
            reason=reason,
        )
        page = browser.get(f"{ROOT}/loads")
        assert reason in page.html.select_one("tr.detail").text
        assert not page.html.select("script:not([src])")


class TestAssets:
    def test_assets_are_kept_for_good(self, browser, application):
        """Their names change with their content, and everybody may read them."""
        page = browser.get(ROOT)
        links = [each["href"] for each in page.html.select("link")]
        links += [each["src"] for each in page.html.select("script")]
        for link in links:
            asset = Browser(application).get(f"/{link}")
            assert asset.status_int == 200
            assert asset.headers["Cache-Control"] == "public, max-age=31536000, immutable"
            assert re.search(r"\.[0-9a-f]{12}\.(css|js|svg)$", link)
            head = Browser(application).request("HEAD", f"/{link}")
            assert (head.body, head.content_length) == (b"", len(asset.body))

    @pytest.mark.parametrize(
        "name", ["console.css", "console.000000000000.css", "..%5cconsole.css", "%00"]
    )
    def test_no_other_file_is_an_asset(self, application, name):
        """Only the current names are answered."""
        response = Browser(application).get(f"{ROOT}/assets/{name}")
        assert response.status_int in (401, 404)


class TestErrors:
    @pytest.mark.parametrize(
        "path", ["/..", "/.", "/%2e%2e/docs", "%2f..", "/people/../..", "/assets/..%2fpages.py"]
    )
    def test_a_path_with_a_dot_segment_is_a_page(self, world, path, capfd):
        """It is 400 for everybody, and charged to the address like another malformed request."""
        client = world.client(None, console=True, access_log=True, anonymous_limit=1)
        browser = signed_in(world, client.application, Role.OPERATOR)
        capfd.readouterr()
        answers = [browser.get(f"{ROOT}{path}") for _ in range(2)]
        assert [each.status_int for each in answers] == [400, 429]
        assert "The request is malformed" in answers[0].text
        assert answers[0].content_type == "text/html"
        line = json.loads(capfd.readouterr().out.splitlines()[0])
        assert line["request_id"] == answers[0].headers["X-Request-ID"]

    def test_many_slashes_make_no_large_page(self, application):
        """No link repeats the way out of thousands of segments."""
        page = Browser(application).get(f"{ROOT}{'/' * 8_000}")
        assert page.status_int == 401
        assert len(page.body) < 4_000

    @pytest.mark.parametrize("path", ["/nothing", "/accounts//x", "/a/b/c/d", "/%3Cscript%3E"])
    def test_an_unknown_page_is_a_page(self, browser, path):
        """404 is HTML, keeps the navigation, and quotes nothing of the path."""
        response = browser.get(f"{ROOT}{path}")
        assert (response.status_int, response.content_type) == (404, "text/html")
        assert "There is no such page" in response.text
        assert response.html.select("header nav")
        assert "<script>" not in response.text

    def test_a_failure_shows_no_details(self, world, browser, monkeypatch, caplog):
        """500 names the request id, and neither page nor log has the message."""

        def fail(*_):
            raise RuntimeError("secret of the failure")

        monkeypatch.setattr(overview, "latest_loads", fail)
        response = browser.get(ROOT)
        assert response.status_int == 500
        assert response.headers["X-Request-ID"] in response.text
        logged = [JsonFormatter().format(record) for record in caplog.records]
        assert "secret of the failure" not in response.text + "".join(logged)
        assert "unexpected RuntimeError" in caplog.text


def test_without_the_setting_nothing_of_the_console_is_imported():
    """The code of pages takes no time and memory where there are none."""
    program = (
        "import sys; from app.config import Config; from app.main import create_app; "
        "create_app(Config.from_env({})); "
        "print([name for name in sys.modules if name.startswith('app.console')])"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert ended.stdout == "[]\n"


class TestTimes:
    @each_row(
        ("zone", "at", "text"),
        [
            ("UTC", datetime(2026, 7, 1, 9, 5, tzinfo=UTC), "1 Jul 2026, 09:05 UTC"),
            ("Europe/London", datetime(2026, 1, 1, 9, 5, tzinfo=UTC), "1 Jan 2026, 09:05 UTC"),
            (
                "Europe/London",
                datetime(2026, 7, 1, 9, 5, tzinfo=UTC),
                "1 Jul 2026, 10:05 09:05 UTC",
            ),
            (
                "Europe/London",
                datetime(2026, 6, 30, 23, 30, tzinfo=UTC),
                "1 Jul 2026, 00:30 30 Jun, 23:30 UTC",
            ),
        ],
    )
    def test_a_time_has_utc_beside_it(self, zone, at, text):
        """It is in the operator's time zone, and in UTC if that differs."""
        shown = rendering.moment(int(at.timestamp()), ZoneInfo(zone))
        assert re.sub(r"<[^>]+>", "", shown) == text
        assert f'datetime="{at:%Y-%m-%dT%H:%M:%SZ}"' in shown


def test_the_heading_names_the_zone_of_times(world):
    """No row repeats it: the cell has one line, and UTC in its tooltip."""
    settings = {"console": True, "timezone": ZoneInfo("Europe/London")}
    browser = signed_in(world, world.client(None, **settings).application, Role.OPERATOR)
    table = browser.get(f"{ROOT}/accounts").html.select_one("table")
    assert [each.text for each in table.select("thead .zone")] == ["Europe/London"]
    (shown, *_) = table.select("tbody time")
    assert "UTC" not in shown.text
    assert shown["title"] == shown["datetime"]


def test_each_page_of_the_navigation_is_in_one_group():
    """Three groups have a title; the pages that people use most come first."""
    grouped = [title for titles in MENU.values() for title in titles]
    assert sorted(grouped) == sorted(page.menu for page in PAGES if page.menu)
    assert list(MENU) == ["", "Data", "Customers", "Oversight"]


class TestCharts:
    def test_columns_that_are_not_empty_are_found(self):
        """A chart of one column tells less than a sentence, which the overview has instead."""
        for values, filled in (([0, 3], [1]), ([2, 3], [0, 1]), ([0, 0], [])):
            series = [charts.Series("done", "good", values), charts.Series("failed", "bad", [0, 0])]
            assert charts.filled_columns(series) == filled

    def test_a_column_stands_for_its_values(self):
        """Heights add up to the share of the largest value, and hovering tells the numbers."""
        series = [charts.Series("done", "good", [3, 0]), charts.Series("failed", "bad", [1, 0])]
        svg = charts.columns_chart("Loads", ["1 Jan", "<2>"], series)
        bars = re.findall(r'<rect class="(good|bad)"[^>]* height="([0-9.]+)"', svg)
        # For a wide screen, and for a narrow one.
        assert bars == [("good", "91.5"), ("bad", "30.5"), ("good", "84.0"), ("bad", "28.0")]
        assert "<title>1 Jan: 3 done, 1 failed</title>" in svg
        assert "<title>&lt;2&gt;: 0 done, 0 failed</title>" in svg
        assert "style" not in svg

    @each_row(
        ("most", "scale"),
        [
            *((0, "1"), (1, "1"), (2, "2"), (9, "9"), (10, "10"), (11, "12"), (19, "20")),
            *((20, "20"), (21, "25"), (49, "50"), (50, "50"), (51, "60"), (99, "100")),
            *((101, "120"), (199, "200"), (201, "250"), (501, "600"), (999, "1,000")),
            *((1_234, "1,400"), (2_001, "2,500"), (5_001, "6,000"), (123_456, "140,000")),
        ],
    )
    def test_the_scale_ends_with_a_round_number(self, most, scale):
        """It is the next one of two digits, so that no column is higher than the chart."""
        svg = charts.columns_chart("Loads", ["1 Jan"], [charts.Series("done", "good", [most])])
        assert set(re.findall(r'<text class="label" x="0"[^>]*>([^<]*)<', svg)) == {scale}

    def test_a_chart_without_values_has_no_columns(self):
        """Nothing is divided by zero."""
        svg = charts.columns_chart("Loads", ["1 Jan"], [charts.Series("done", "good", [0])])
        assert 'class="good"' not in svg
        assert "<svg" in charts.columns_chart("Loads", [], [])


@each_row(
    ("rows", "pages", "last"), [(0, 1, 0), (1, 1, 1), (50, 1, 50), (51, 2, 51), (100, 2, 100)]
)
def test_an_empty_list_has_one_page(rows, pages, last):
    """A page that does not exist is the last one, and there is always one."""
    listing = Listing(create_req(query_string="page=7"), {"item": int})
    shown = listing.part_of(range(rows))
    assert (listing.pages, listing.page, listing.last) == (pages, pages, last)
    assert shown == list(range((pages - 1) * 50, rows))


@ON_SQLITE
def test_a_lost_register_is_told(world, browser):
    """The overview names a register that look-ups cannot read, instead of failing with it."""
    world.load([{"registration": "AB12CDE", "make": "Ford"}], register="native")
    for path in world.directory.glob("verifyd.register_native*"):
        path.unlink()
    page = browser.get(ROOT)
    assert page.status_int == 200
    (fault,) = page.html.select(".findings .bad")
    assert "The register native cannot be read" in fault.text


@pytest.mark.parametrize("path", ["/accounts/a%00b", "/people/%00/end", "/sign-in/%00", "/%0A"])
def test_control_characters_are_no_page(browser, path):
    """A path that no database can store is not found, and no failure."""
    assert browser.get(f"{ROOT}{path}").status_int == 404
    assert browser.post(f"{ROOT}{path}").status_int == 404
