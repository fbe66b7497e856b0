"""The page of usage, its file, and the charts of the overview (D128)."""

import csv
import re
from datetime import UTC, date

import pytest

from app import clock
from app.accounts.administration import (
    create_account,
    create_key,
    delete_account,
    list_keys,
    require_account,
    revoke_key,
)
from app.accounts.tokens import new_token
from app.accounts.usage.report import month_of
from app.accounts.usage.store import UsageAccount, UsageDay, UsageHour, add_events
from app.console import usage
from app.console.rendering import ROOT
from app.settings.roles import Role
from tests.api.console import signed_in
from tests.conftest import ON_SQLITE, STORAGE
from tests.rows import each_row

USAGE = f"{ROOT}/usage"
# 2026-11-22T12:30:00Z
NOW = 1_795_350_600
HOUR = 3600
MARKUP = "<script>alert(1)</script>{{ 7 * 7 }}"


class Used:
    """Writes usage into the tables."""

    def __init__(self, world):
        self.world = world

    def add(self, account, day, answers=1, *, key="", operation="insurance", status="2xx"):
        """Add answers, each for ten vehicles, to a day of an account that exists."""
        number = require_account(self.world.engine, account).id
        key = key or list_keys(self.world.engine, account)[0].id
        named = UsageAccount.insert(id=number, name=account).on_conflict_ignore()
        named.execute(self.world.engine)
        row = {"account_id": number, "key_id": key, "operation": operation, "status": status}
        numbers = {"answers": answers, "vehicles": 10 * answers}
        if isinstance(day, int):
            UsageHour.insert(**row, **numbers, hour=day).execute(self.world.engine)
        else:
            UsageDay.insert(**row, **numbers, day=day).execute(self.world.engine)


@pytest.fixture
def used(world, monkeypatch):
    """`used.add(...)` on 22 November 2026, half past twelve."""
    monkeypatch.setattr(clock, "now", lambda: NOW)
    monkeypatch.setattr(clock, "today", lambda zone: clock.day_of(NOW, zone))
    return Used(world)


@pytest.fixture
def application(world, used):
    """The service with its console."""
    return world.client(None, console=True).application


@pytest.fixture
def browser(world, application):
    """A browser of a viewer."""
    return signed_in(world, application, Role.VIEWER)


@pytest.fixture
def month(used):
    """Two accounts in November, and one of them in October."""
    used.add("alice", "2026-11-01", 5)
    used.add("alice", "2026-11-21", 3, operation="compliance")
    used.add("alice", "2026-11-21", 2, status="429")
    used.add("bob", "2026-11-21", 7, status="4xx")
    used.add("bob", "2026-10-31", 1, status="5xx")


def lines(page):
    """Return the table: what each line is about, and its answers."""
    assert page.status_int == 200
    return [
        (
            row.th.select_one("a, code").text,
            int(row.select_one('[data-title="Answers"]').text.replace(",", "")),
        )
        for row in page.html.select("table.cards tbody tr")
    ]


def rows_of(file):
    """Return the rows of a CSV file that spreadsheets can read."""
    assert file.content_type == "text/csv"
    assert file.body.startswith(b"\xef\xbb\xbf")
    return list(csv.reader(file.body.decode("utf-8-sig").splitlines()))


class TestTable:
    @STORAGE
    @each_row(
        ("query", "expected"),
        [
            ("", [("alice", 10), ("bob", 7)]),
            ("by=account&month=2026-10", [("bob", 1)]),
            ("by=day", [("2026-11-21", 12), ("2026-11-01", 5)]),
            ("by=operation", [("insurance", 14), ("compliance", 3)]),
            ("account=alice", [("2026-11-21", 5), ("2026-11-01", 5)]),
            ("account=alice&by=operation", [("insurance", 7), ("compliance", 3)]),
            ("account=bob&from=2026-10-31&to=2026-11-21&by=account", [("bob", 8)]),
            ("from=2026-11-21&to=2026-11-21", [("bob", 7), ("alice", 5)]),
            ("from=2026-11-02", [("bob", 7), ("alice", 5)]),
            ("to=2026-10-31", [("bob", 1)]),
            ("sort=answers", [("bob", 7), ("alice", 10)]),
            ("sort=-vehicles", [("alice", 10), ("bob", 7)]),
            ("sort=4xx", [("alice", 10), ("bob", 7)]),
            ("sort=-account", [("bob", 7), ("alice", 10)]),
            ("sort=operation&page=x", [("alice", 10), ("bob", 7)]),
        ],
    )
    def test_every_view_has_a_url(self, month, browser, query, expected):
        """The URL filters, adds up and sorts; by default it is this month by account."""
        assert lines(browser.get(f"{USAGE}?{query}")) == expected

    def test_keys(self, world, used, month, browser):
        """A key is shown with its account and its state, and its own usage is a link away."""
        (key,) = list_keys(world.engine, "alice")
        revoke_key(world.engine, key.id)
        used.add("alice", "2026-11-21", 1, key=create_key(world.engine, "alice")[0].id)
        page = browser.get(f"{USAGE}?by=key")
        first = page.html.select_one("table.cards tbody tr")
        assert first.select_one('[data-title="Account"]').text == "alice"
        assert first.select_one(".badge").text == "revoked"
        link = first.th.a["href"]
        assert lines(browser.get(USAGE + link)) == [("2026-11-21", 5), ("2026-11-01", 5)]
        assert lines(browser.get(f"{USAGE}?key={key.id}&account=bob")) == []
        assert lines(browser.get(f"{USAGE}?account=alice"))[0] == ("2026-11-21", 6)

    def test_events_have_no_key(self, world, used, browser):
        """They are no key that was deleted; no link leads to the usage of all keys."""
        number = require_account(world.engine, "alice").id
        add_events(world.engine, number, "alice", 3, UTC)
        for query in ("by=key", "by=key&sort=key", "by=key&sort=-answers"):
            (row,) = browser.get(f"{USAGE}?{query}").html.select("table.cards tbody tr")
            assert (row.th.text, row.select("th a, .badge")) == ("none: events of watches", [])
        (_, row) = rows_of(browser.get(f"{USAGE}?by=key&as=csv"))
        assert row == ["alice", "", *("0" * 6), "3"]

    def test_people_are_no_deleted_account(self, world, used, browser):
        """Their look-ups are those of `console`, which has neither keys nor a page."""
        UsageAccount.insert(id=0, name="console").execute(world.engine)
        row = {"account_id": 0, "key_id": "", "operation": "console", "status": "2xx"}
        UsageDay.insert(row, answers=2, vehicles=7, day="2026-11-22").execute(world.engine)
        for query, first in (
            ("", "console"),
            ("by=key", "none: people in the console"),
            ("account=console", "2026-11-22"),
            ("account=console&by=operation", "console"),
        ):
            page = browser.get(f"{USAGE}?{query}")
            (shown,) = page.html.select("table.cards tbody tr")
            assert (shown.th.text, shown.select(".badge")) == (first, [])
            assert "deleted." not in page.text

    def test_deleted_accounts_are_kept_apart(self, world, used, browser):
        """Usage stays when its account is deleted, also if another one gets the name."""
        world.key_of("acme")
        used.add("acme", "2026-11-20", 4)
        (key,) = list_keys(world.engine, "acme")
        delete_account(world.engine, "acme", lambda _: 0)
        page = browser.get(f"{USAGE}?account=acme")
        assert "This account was deleted." in page.text
        assert lines(page) == [("2026-11-20", 4)]
        page = browser.get(f"{USAGE}?key={key.id}")
        assert "This key was deleted with its account." in page.text
        assert lines(page) == [("2026-11-20", 4)]
        world.key_of("acme")
        used.add("acme", "2026-11-20", 1)
        page = browser.get(f"{USAGE}?account=acme")
        assert lines(page) == [("2026-11-20", 4), ("2026-11-20", 1)]
        badges = [row.select(".badge") for row in page.html.select("table.cards tbody tr")]
        assert [[badge.text for badge in each] for each in badges] == [["deleted"], []]

    @ON_SQLITE
    def test_long_tables_have_pages(self, world, used, browser):
        """The links to other pages keep filters and order."""
        for number in range(51):
            create_account(world.engine, f"customer {number:02}")
            used.add(f"customer {number:02}", "2026-11-02", 100 - number, key="x" * 8)
        page = browser.get(f"{USAGE}?month=2026-11&sort=answers")
        assert len(lines(page)) == 50
        (following,) = page.html.select("a[rel=next]")
        assert following["href"] == "?month=2026-11&sort=answers&page=2"
        assert lines(browser.get(USAGE + following["href"])) == [("customer 00", 100)]
        assert "51 to 51 of 51 accounts" in browser.get(f"{USAGE}?page=99").text

    @ON_SQLITE
    def test_what_was_answered_is_there(self, world, browser):
        """The page shows what the service counts, as soon as it is written."""
        client = world.client(world.alice_key)
        client.get("/v1/account")
        assert "Nothing was used yet" in browser.get(USAGE).text
        client.application.usage.flush()
        assert lines(browser.get(f"{USAGE}?by=operation")) == [("account", 1)]
        assert "Nothing was used" in browser.get(f"{USAGE}?month=2026-10").text

    @ON_SQLITE
    def test_markup_in_a_name_is_shown_as_text(self, world, used, browser):
        """Names of accounts are text in the table, in the field, in headings and in links."""
        world.key_of(MARKUP)
        used.add(MARKUP, "2026-11-02")
        page = browser.get(USAGE)
        (link,) = page.html.select("table.cards tbody th a")
        assert link.text == MARKUP
        page = browser.get(USAGE + link["href"])
        assert page.html.h1.text == f"Usage of {MARKUP}"
        assert page.html.select_one("input[name=account]")["value"] == MARKUP
        assert not page.html.select("script:not([src])")


class TestPeriod:
    @ON_SQLITE
    def test_the_chart_covers_the_days(self, month, browser):
        """It has a column for each day, its numbers are also a table, and totals are above."""
        page = browser.get(USAGE)
        chart = page.html.select_one("svg.chart")
        assert chart["aria-label"] == "Answers per day, November 2026: 17"
        assert len(chart.select("g")) == 30
        assert chart.select("title")[20].text == "21 Nov: 3 successful, 7 4xx, 2 429, 0 5xx"
        table = page.html.select_one("details table")
        assert [cell.text for cell in table.select("tbody tr")[20].select("th, td")] == [
            *("21 Nov", "12", "3", "7", "2", "0")
        ]
        totals = [each.text for each in page.html.select(".figures dd")]
        assert totals == ["17", "8", "7", "2", "0", "170", "0"]

    @ON_SQLITE
    @each_row(
        ("query", "told"),
        [
            ("from=2026-11-21&to=2026-11-22", "All answers were given on 21 Nov."),
            ("from=2026-10-01&to=2026-10-31", "All answers were given on 31 Oct."),
            ("from=2025-11-01&to=2026-10-31", "All answers were given in Oct 2026."),
        ],
    )
    def test_one_column_is_a_sentence(self, month, browser, query, told):
        """A chart of it would say less; of a single day nothing needs to be said."""
        page = browser.get(f"{USAGE}?{query}")
        assert told in page.text
        assert not page.html.select("svg.chart")
        assert "were given" not in browser.get(f"{USAGE}?from=2026-11-21&to=2026-11-21").text

    @ON_SQLITE
    def test_many_days_are_months(self, month, browser):
        """With more than 93 days the chart has a column for each month."""
        titles = browser.get(f"{USAGE}?from=2026-08-22").html.select("svg.wide title")
        assert len(titles) == 93
        titles = browser.get(f"{USAGE}?from=2026-08-21").html.select("svg.wide title")
        assert [each.text for each in titles] == [
            "Aug 2026: 0 successful, 0 4xx, 0 429, 0 5xx",
            "Sep 2026: 0 successful, 0 4xx, 0 429, 0 5xx",
            "Oct 2026: 0 successful, 0 4xx, 0 429, 1 5xx",
            "Nov 2026: 8 successful, 7 4xx, 2 429, 0 5xx",
        ]

    @ON_SQLITE
    @each_row(
        ("query", "title", "steps"),
        [
            ("", "November 2026", ["2026-10"]),
            ("month=2026-10", "October 2026", ["2026-09", "2026-11"]),
            ("from=2026-10-01&to=2026-10-31", "October 2026", ["2026-09", "2026-11"]),
            ("from=2026-10-30&to=2026-11-02", "2026-10-30 to 2026-11-02", ["2026-09"]),
            ("month=2025-10", "October 2025", ["2025-11"]),
            ("month=9999-12", "December 9999", ["9999-11"]),
            ("month=0001-01", "January 1", ["0001-02"]),
        ],
    )
    def test_other_months_are_a_click_away(self, browser, query, title, steps):
        """There are links to the months before and after, as far as usage is kept."""
        page = browser.get(f"{USAGE}?{query}")
        assert page.html.select_one("#period").text == title
        links = [link["href"] for link in page.html.select("nav.steps a")]
        assert links == [f"?month={each}" for each in steps]

    @each_row(
        ("today", "month", "before", "after"),
        [
            # 400 days before 2026-11-05 is 2025-10-01, the first day that is kept.
            (date(2026, 11, 5), "2025-10", None, "2025-11"),
            (date(2026, 11, 5), "2025-11", "2025-10", "2025-12"),
            # The last day of October is kept, or no day of it.
            (date(2026, 12, 5), "2025-11", "2025-10", "2025-12"),
            (date(2026, 12, 6), "2025-11", None, "2025-12"),
            # A month has begun on its first day.
            (date(2026, 11, 30), "2026-11", "2026-10", None),
            (date(2026, 12, 1), "2026-11", "2026-10", "2026-12"),
        ],
    )
    def test_the_edges_of_what_is_kept(self, today, month, before, after):
        """There is a link to a month of which one day is kept, and to one that has begun."""
        asked = month_of(date.fromisoformat(f"{month}-01"))
        assert usage.month_before(asked, today) == before
        assert usage.month_after(asked, today) == after

    @ON_SQLITE
    @each_row(
        ("query", "told"),
        [
            ("month=2026-13", "The month names a month that does not exist."),
            ("month=november", "The month must be a month as YYYY-MM, such as 2026-12."),
            ("month=2026-11&from=2026-11-01", "Choose either a month, or"),
            ("from=yesterday", "The first day must be a day as YYYY-MM-DD, such as 2026-12-31."),
            ("to=2026-02-30", "The last day names a day that does not exist."),
            ("from=2026-11-02&to=2026-11-01", "is after the last one, 2026-11-01."),
            ("from=2026-11-23", "is after the last one, 2026-11-22."),
            ("from=2025-09-27&to=2026-11-01", "At most 400 days can be shown at once; these"),
            ("from=0001-01-01&to=9999-12-31", "these are 3,652,059."),
            ("by=hour", "Usage can be added up by account, key, day or operation."),
            ("by=%3Cb%3E", "Usage can be added up by"),
            ("account=nobody", "No account is named “nobody”"),
            ("account=%3Cb%3E", "No account is named “<b>”"),
            ("account=a%00b", "is given twice, is too long, or has control characters."),
            ("account=" + "x" * 101, "is given twice, is too long"),
            ("key=x", "The id of a key has 8 letters and digits."),
            ("key=%C3%A4%C3%A4%C3%A4%C3%A4%C3%A4%C3%A4%C3%A4%C3%A4", "The id of a key has"),
            ("key=abcdefg%20", "The id of a key has"),
            ("month=2026-10&month=2026-11", "is given twice"),
        ],
    )
    def test_wrong_values_are_told(self, month, browser, query, told):
        """No figures are shown that nobody asked for, neither on the page nor in a file."""
        for each in (query, f"{query}&as=csv"):
            page = browser.get(f"{USAGE}?{each}")
            assert page.status_int == 422
            assert told in page.html.select_one("[role=alert]").text
            assert not page.html.select("table, svg, main b")

    @ON_SQLITE
    def test_400_days_can_be_shown(self, month, browser):
        """That is as long as days are kept."""
        query = "from=2025-09-28&to=2026-11-01"
        assert lines(browser.get(f"{USAGE}?{query}")) == [("alice", 5), ("bob", 1)]

    def test_a_page_adds_up_a_limited_number_of_rows(self, month, browser, monkeypatch):
        """More would hold up look-ups; a part of it can still be shown."""
        monkeypatch.setattr(usage, "ROWS_MAX", 3)
        page = browser.get(USAGE)
        assert (page.status_int, len(page.html.select("table"))) == (422, 0)
        assert "too much usage for one page" in page.html.select_one("[role=alert]").text
        assert len(lines(browser.get(f"{USAGE}?account=alice"))) == 2
        assert len(lines(browser.get(f"{USAGE}?month=2026-10"))) == 1

    @ON_SQLITE
    @pytest.mark.parametrize("name", ["account", "key"])
    def test_a_key_gets_into_no_link(self, browser, name):
        """Whoever pastes a key is led to the form that keeps it out of URLs."""
        response = browser.get(f"{USAGE}?{name}={new_token('AbCdEf').text}")
        assert (response.status_int, response.headers["Location"]) == (303, "../console/keys/find")


class TestFile:
    def test_it_is_what_the_command_prints(self, month, browser):
        """All lines are in it, in the order of the groups, with numbers as programs read them."""
        file = browser.get(f"{USAGE}?by=key&month=2026-11&sort=answers&page=2&as=csv")
        assert file.headers["Content-Disposition"] == 'attachment; filename="usage-2026-11.csv"'
        heading, *rows = rows_of(file)
        assert heading == [
            "account",
            "key",
            "answers",
            "2xx",
            "4xx",
            "429",
            "5xx",
            "vehicles",
            "events",
        ]
        assert [(row[0], *row[2:]) for row in rows] == [
            ("alice", "10", "8", "0", "2", "0", "100", "0"),
            ("bob", "7", "0", "7", "0", "0", "70", "0"),
        ]

    @ON_SQLITE
    def test_it_has_the_filters_of_its_page(self, month, browser):
        """The link keeps account, days and grouping."""
        page = browser.get(f"{USAGE}?account=alice&from=2026-11-02&to=2026-11-21&by=operation")
        (link,) = page.html.select(".actions a")
        file = browser.get(USAGE + link["href"])
        assert "usage-2026-11-02-to-2026-11-21.csv" in file.headers["Content-Disposition"]
        assert [row[:3] for row in rows_of(file)[1:]] == [
            ["alice", "compliance", "3"],
            ["alice", "insurance", "2"],
        ]

    @ON_SQLITE
    def test_it_holds_no_formula(self, world, used, browser):
        """The name of an account cannot run as a formula in a spreadsheet."""
        world.key_of('=1+1, "x"')
        used.add('=1+1, "x"', "2026-11-02")
        assert rows_of(browser.get(f"{USAGE}?as=csv"))[1][0] == '\'=1+1, "x"'


@ON_SQLITE
def test_pages_of_accounts_and_keys_lead_to_their_usage(world, month, browser):
    """The links are about exactly this account or key, this month."""
    tag = require_account(world.engine, "alice").tag
    (key,) = list_keys(world.engine, "alice")
    for path in (f"{ROOT}/accounts/{tag}", f"{ROOT}/keys/{key.id}"):
        (link,) = browser.get(path).html.select("dd a[href*=usage]")
        page = browser.get(re.sub(r"^(\.\./)+", "/", link["href"]))
        assert lines(page) == [("2026-11-21", 5), ("2026-11-01", 5)]
        (_, back) = page.html.select(".crumbs a")
        assert browser.get(re.sub(r"^(\.\./)+", "/", back["href"])).request.path == path


class TestOverview:
    def test_answers_of_the_last_day(self, used, browser):
        """A chart has the current hour and the 23 before it; one hour alone is a sentence."""
        current = NOW - NOW % HOUR
        used.add("alice", current, 5)
        used.add("bob", current, 2, status="4xx")
        used.add("bob", current - 2 * HOUR, 3)
        used.add("alice", current - 23 * HOUR, 1_000, status="429")
        used.add("alice", current - 24 * HOUR, 90_000, status="5xx")
        page = browser.get(ROOT)
        answers, refusals, errors = page.html.select("section[aria-labelledby=answers] figure")
        assert answers.svg["aria-label"] == "Answers per hour in the last 24 hours: 10"
        told = [title.text for title in answers.svg.select("title")]
        assert (len(told), told[-1]) == (24, "12:00: 5 successful, 2 4xx")
        assert " ".join(refusals.text.split()) == "1,000 refusals all at 13:00"
        assert " ".join(errors.text.split()) == "0 errors"
        rows = page.html.select("section[aria-labelledby=answers] tbody tr")
        assert [cell.text for cell in rows[-1].select("td")] == ["7", "5", "2", "0", "0"]
        assert "last 10 seconds may be missing" in page.text

    @ON_SQLITE
    def test_a_day_without_answers(self, used, browser):
        """Nothing is drawn if nobody asked; older hours do not count."""
        used.add("alice", NOW - NOW % HOUR - 30 * HOUR)
        page = browser.get(ROOT)
        assert "No request with a key was answered" in page.text
        assert not page.html.select("section[aria-labelledby=answers] svg")
