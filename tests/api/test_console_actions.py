"""The page of the record of operators' actions (D130)."""

from datetime import date
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

import pytest

from app import clock
from app.accounts.administration import (
    create_account,
    create_key,
    require_account,
    set_account_plan,
    set_plan,
)
from app.actions import Action, Actor, Subject, record
from app.console.listing import ROWS_PER_PAGE
from app.console.rendering import ROOT
from app.settings.roles import Role
from tests.api.console import signed_in
from tests.api.test_console_accounts import MARKUP
from tests.conftest import ON_SQLITE, STORAGE
from tests.rows import each_row

ACTIONS = f"{ROOT}/actions"
ANN, BEN = Actor("ann", "command", "bea"), Actor("ben", "console")
LIMITS = {"requests": 7, "window_seconds": 60, "bulk_max": 10, "domains_max": 0}
NOON = 1_900_065_600  # 2030-03-18T12:00:00Z


@pytest.fixture
def world(world):
    """The installation without what was recorded when it was made."""
    Action.delete().execute(world.engine)
    return world


@pytest.fixture
def application(world):
    """The service with its console, of an operator in New York."""
    zone = ZoneInfo("America/New_York")
    return world.client(None, console=True, timezone=zone).application


@pytest.fixture
def browser(world, application):
    """A browser of a viewer, whose own sign-in is not in the record."""
    browser = signed_in(world, application, Role.VIEWER)
    Action.delete().execute(world.engine)
    return browser


def rows_of(page):
    """Return the rows of the table as texts by column."""
    return [
        {
            cell.get("data-title", "When"): " ".join(cell.text.split())
            for cell in row("th") + row("td")
        }
        for row in page.html.select("tbody tr")
    ]


def listed(browser, **query):
    """Return the actions that the page shows for a query."""
    return [row["Action"] for row in rows_of(browser.get(f"{ACTIONS}?{urlencode(query)}"))]


def links_of(page):
    return {a.text: a["href"].partition("console/")[2] for a in page.html.select("tbody a")}


class TestRow:
    def test_it_says_who_changed_what(self, world, browser):
        """Who, when and what; folded, where, the user of sudo, and each member before and after."""
        set_account_plan(world.engine, "alice", "free", actor=ANN)
        Action.update(at=NOON).execute(world.engine)
        (row,) = rows_of(browser.get(ACTIONS))
        assert row == {
            "When": "18 Mar 2030, 08:00",
            "Who": "ann",
            "Action": "accounts.set-plan",
            "Subject": "alice",
            "Details": "plan from standard to free "
            "by command, sudo of bea plan standard →, now free",
        }

    def test_values_are_readable(self, world, browser):
        """Times are in the operator's zone, numbers have groups, what was removed is struck out.

        A register has rows: only loads are held.
        """
        before, after = {"held": 12_000, "note": ""}, {"held": 1, "note": "x", "on": True}
        dropped = Subject("register", "native")
        record(world.engine, BEN, "imports.drop", dropped, {"rows": 12_000}, None)
        record(world.engine, BEN, "imports.load", dropped, before, after)
        times = {"revoked_at": None}, {"revoked_at": clock.iso_utc(NOON)}
        record(world.engine, BEN, "keys.revoke", Subject("key", "12345678", "gone"), *times)
        revoked, loaded, gone = rows_of(browser.get(ACTIONS))
        assert revoked["Details"].endswith(", now 18 Mar 2030, 08:00 12:00 UTC")
        assert revoked["Subject"] == "12345678 of gone"
        assert "rows 12,000 →, now 1 note" in loaded["Details"]
        assert gone["Details"] == "rows 12,000 removed by console rows 12,000"
        (removed,) = browser.get(f"{ACTIONS}?action=imports").html.select("del")
        assert removed.text == "12,000"

    def test_it_links_what_exists(self, world, browser):
        """Account, key, plan and register lead to their pages; what is gone is only named."""
        record(world.engine, ANN, "accounts.delete", Subject("account", "gone"), {"keys": 1}, None)
        key, _ = create_key(world.engine, "alice")
        set_plan(world.engine, "a/b", LIMITS)
        world.load([{"registration": "AB12CDE"}], register="native")
        record(world.engine, ANN, "imports.drop", Subject("register", "native"), {"rows": 1}, None)
        record(world.engine, ANN, "imports.drop", Subject("register", "never"), {"rows": 1}, None)
        links = links_of(browser.get(ACTIONS))
        assert links == {
            "alice": f"accounts/{require_account(world.engine, 'alice').tag}",
            key.id: f"keys/{key.id}",
            "a/b": "plans/~612f62",
            "native": "registers/native",
        }
        for path in links.values():
            assert browser.get(f"{ROOT}/{path}").status_int == 200

    def test_markup_stays_text(self, world, browser):
        """Whatever a name or a value holds."""
        who = Actor(MARKUP[:50], "command", MARKUP[:50])
        state = {MARKUP: MARKUP, "list": [MARKUP] * 9, "taken_at": MARKUP, "at_at": 1, "flag": True}
        subject = Subject("domain", MARKUP, MARKUP)
        record(world.engine, who, "domains.suspend", subject, {"flag": False}, state)
        page = browser.get(ACTIONS)
        assert not page.html.select("script:not([src]), main img, [onerror]")
        assert page.text.count("&lt;script&gt;") > 10


class TestFilters:
    @pytest.fixture
    def record_of_four(self, world, browser):
        """Four actions, an hour before and after midnight in New York on two days."""
        create_account(world.engine, "acme", actor=ANN)
        set_account_plan(world.engine, "alice", "free", actor=BEN)
        create_key(world.engine, "acme", actor=ANN)
        set_plan(world.engine, "acme", LIMITS, actor=BEN)
        midnight = clock.start_of(date(2030, 3, 18), ZoneInfo("America/New_York"))
        times = (midnight - 3600, midnight, midnight + 23 * 3600, midnight + 24 * 3600)
        numbers = [each.id for each in Action.select().order_by(Action.id).execute(world.engine)]
        for number, at in zip(numbers, times, strict=True):
            Action.update(at=at).where(Action.id == number).execute(world.engine)

    @STORAGE
    @pytest.mark.usefixtures("record_of_four")
    @each_row(
        ("query", "expected"),
        [
            ({}, "plans.set keys.create accounts.set-plan accounts.create"),
            ({"by": "bea"}, "keys.create accounts.create"),
            ({"by": "ben", "action": "plans"}, "plans.set"),
            ({"action": "accounts.create"}, "accounts.create"),
            ({"subject": "acme"}, "plans.set accounts.create"),
            ({"account": "acme"}, "keys.create accounts.create"),
            ({"from": "2030-03-18", "to": "2030-03-18"}, "keys.create accounts.set-plan"),
            ({"from": "2030-03-19"}, "plans.set"),
            ({"to": "2030-03-17"}, "accounts.create"),
            ({"from": "0001-01-01", "to": "9999-12-30", "by": "nobody"}, ""),
            ({"sort": "action"}, "accounts.create accounts.set-plan keys.create plans.set"),
            ({"sort": "who", "by": "ben"}, "accounts.set-plan plans.set"),
            # What no action can have is as absent.
            ({"action": "keys.", "from": "2030-02-30", "to": "9999-12-31", "page": "x"}, "4"),
        ],
    )
    def test_a_url_chooses_actions(self, browser, query, expected):
        """The criteria of the command, with days of the operator; the latest action comes first."""
        found = listed(browser, **query)
        assert (str(len(found)) if expected == "4" else " ".join(found)) == expected

    @ON_SQLITE  # The database decides nothing here.
    def test_a_choice_stays_on_the_next_page(self, world, browser):
        """The links of the list keep its filters."""
        for number in range(ROWS_PER_PAGE + 1):
            create_key(world.engine, "alice", f"till {number}", actor=ANN)
        page = browser.get(f"{ACTIONS}?by=ann&account=alice&from=2020-01-01")
        assert page.html.h1.text == "Actions on alice"
        link = page.html.select_one("a[rel=next]")["href"]
        (last,) = rows_of(browser.get(f"{ACTIONS}{link}"))
        assert last["Details"].endswith("label till 0")
        hidden = page.html.select_one("form.filters input[type=hidden]")
        assert (hidden["name"], hidden["value"]) == ("account", "alice")

    @ON_SQLITE  # The database decides nothing here.
    def test_each_subject_leads_to_its_actions(self, world, browser):
        """The pages of an account, a key and a plan link what was done to them."""
        key, _ = create_key(world.engine, "alice", actor=ANN)
        set_plan(world.engine, "alice", LIMITS)
        tag = require_account(world.engine, "alice").tag
        for path, expected in (
            (f"accounts/{tag}", ["keys.create"]),
            (f"keys/{key.id}", ["keys.create"]),
            ("plans/alice", ["plans.set"]),
        ):
            link = browser.get(f"{ROOT}/{path}").html.select_one('a[href*="console/actions?"]')
            page = browser.get(f"{ACTIONS}?{link['href'].partition('?')[2]}")
            assert [row["Action"] for row in rows_of(page)] == expected

    @ON_SQLITE  # The database decides nothing here.
    def test_the_longest_subject_is_found(self, world, browser):
        """The name of a domain can be longer than those of people and accounts."""
        name = ".".join(["a" * 61] * 4 + ["com"])
        record(world.engine, ANN, "domains.suspend", Subject("domain", name), {}, {"status": "x"})
        assert listed(browser, subject=name) == ["domains.suspend"]
        field = browser.get(ACTIONS).html.select_one("input[name=subject]")
        assert int(field["maxlength"]) >= len(name)

    @ON_SQLITE  # The database decides nothing here.
    @pytest.mark.parametrize("name", ["by", "subject", "account"])
    def test_no_link_holds_a_key(self, world, browser, name):
        """A key that is searched for is left out of the page, as it is out of the record."""
        create_account(world.engine, f"{world.alice_key[:20]} Ltd", actor=ANN)
        page = browser.get(f"{ACTIONS}?{urlencode({name: world.alice_key + ' Ltd'})}")
        assert world.alice_key[4:] not in page.text
        assert len(rows_of(page)) == (name != "by")

    @ON_SQLITE  # The database decides nothing here.
    @pytest.mark.parametrize(
        "query", ["by=" + "x" * 5000, "by=%00&subject=%0a", "page=999999999999", "from=%3Cb%3E"]
    )
    def test_any_url_shows_a_page(self, browser, query):
        """A link that somebody changed is no error."""
        assert browser.get(f"{ACTIONS}?{query}").status_int == 200


def test_an_empty_record_says_so(world, browser):
    """And what would be there."""
    page = browser.get(ACTIONS)
    assert "Nothing was changed yet" in page.text
    assert not page.html.select("form.filters")
