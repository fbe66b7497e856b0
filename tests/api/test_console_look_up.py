"""Look-ups in the console: a plate or a list, for a day, as a page or a CSV file."""

import csv
import io
import json
import logging
from datetime import date, timedelta

import pytest

from app import clock
from app.accounts.administration import require_account, require_plan
from app.console.accounts import requests_left
from app.console.look_up_texts import in_words
from app.console.rendering import ROOT
from app.registers.undo import drop_register
from app.serve.limits.store import LimitStore, identity_of
from app.settings.roles import Role
from app.storage.versions import database_id, set_tells_unknown
from app.vehicles.answer_cells import COLUMNS, PERIOD_COLUMNS
from app.vehicles.reader import BATCH_PLATES
from tests.api.console import signed_in, stored
from tests.api.test_console_accounts import MARKUP
from tests.conftest import ON_SQLITE, engine_independent
from tests.rows import each_row
from tests.unit.audit_trails import lines

LOOK_UP = f"{ROOT}/look-up"
DAY = "2025-07-01"
MODEL = MARKUP[:40]
VEHICLES = [
    {
        "registration": "AB12CDE",
        "make": "Ford",
        "model": "Focus",
        "year": 2012,
        "taxStatus": "sorn",
    },
    {"registration": "EV1L", "make": '=HYPERLINK("x")', "model": MODEL, "color": "@red"},
    {"registration": "ŁÓDŹ1", "make": "Citroën"},
    # One and two confusions from AB1ZCDE.
    {"registration": "ABI2CDE", "color": "Red"},
    {"registration": "A812C0E"},
    {"registration": "AB12COE", "color": "Blue"},
]
POLICY = {"registration": "AB12CDE", "number": "P-7", "validFrom": DAY, "validTo": "2026-06-30"}
FINE = {
    "registration": "AB12CDE",
    "reference": "PCN-1",
    "issuedOn": DAY,
    "amount": "35.50",
    "currency": "EUR",
}


@pytest.fixture
def world(world):
    """The installation with vehicles in two registers."""
    world.load(VEHICLES, register="native")
    world.load([POLICY], register="native")
    world.load([FINE], register="fines")
    return world


@pytest.fixture
def application(world):
    """The service with its console."""
    return world.client(None, console=True).application


@pytest.fixture
def browser(world, application):
    """A browser of somebody who only reads."""
    return signed_in(world, application, Role.VIEWER)


def in_days(number):
    """Return the day so many days after DAY."""
    return (date.fromisoformat(DAY) + timedelta(number)).isoformat()


def ask(browser, plates, **fields):
    return browser.post(LOOK_UP, {"plates": plates, "day": DAY, **fields})


def csv_rows(response):
    text = io.StringIO(response.body.decode("utf-8-sig"), newline="")
    return list(csv.DictReader(text, strict=True))


ROWS = ".overview > tbody > tr:not(.opens)"
"""The rows of the table of a list, without those that open."""


class TestOne:
    @engine_independent
    @pytest.mark.parametrize("role", Role)
    def test_every_role_can_ask(self, world, role):
        """The answer and what decided it are on the page; for a clerk that is folded."""
        application = world.client(None, console=True, audit=True).application
        page = ask(signed_in(world, application, role), "ab12 cde")
        assert page.status_int == 200
        answer = page.html.select_one("article")
        assert "AB12CDE" in answer.h3.text
        assert "asked for as ab12 cde" in answer.h3.text
        verdicts = [each.text for each in answer.select(".verdicts strong")]
        assert verdicts == ["Insured", "Not compliant"]
        decided = {row.th.text: row.td.text for row in answer.select("table")[0].select("tbody tr")}
        assert (decided["Insured"], decided["No fines owed"]) == ("yes", "no")
        assert "policy P-7 of native is in force on 1 July 2025" in answer.text
        for folded in answer.select("details.why"):
            assert folded.has_attr("open") == (role != Role.CLERK)

    def test_the_days_are_folded(self, browser):
        """They open if one has a fault; the summary says which were asked for, and they stay."""
        days = {"from": DAY, "to": "2025-07-03"}
        for page, is_open, summary in (
            (browser.get(LOOK_UP), False, "today"),
            (ask(browser, "AB12CDE", day=""), False, "today"),
            (ask(browser, "AB12CDE"), False, "1 July 2025"),
            (ask(browser, "AB12CDE", day="", **days), False, "1 July 2025 to 3 July 2025"),
            (ask(browser, "AB12CDE", day="soon"), True, ""),
        ):
            folded = page.html.select_one("form.look-up details")
            assert folded.has_attr("open") == is_open
            assert folded.summary.text.split() == ["Day", "or", "period", *summary.split()]
            assert [field["name"] for field in folded.select("input")] == ["day", "from", "to"]

    def test_a_reason_that_is_needed_is_chosen(self, world):
        """VERIFYD_LOOKUP_REASONS: no reason is chosen at first, and others are refused (D165)."""
        settings = {"console": True, "audit": True, "lookup_reasons": ("FRAUD", "THEFT")}
        browser = signed_in(world, world.client(None, **settings).application, Role.OPERATOR)
        form = browser.get(LOOK_UP).html.select_one("form.look-up")
        assert [each.text for each in form.select("select[name=reason] option")] == [
            "",
            "FRAUD",
            "THEFT",
        ]
        for reason in ("", "theft", "x" * 10_000):
            refused = browser.send(LOOK_UP, {"plates": "AB12CDE", "reason": reason})
            assert refused.status_int == 422
            assert refused.html.select_one("#field-reason-fault")
        assert not world.config.audit_dir.exists()
        assert browser.send(LOOK_UP, {"plates": "AB12CDE", "reason": "THEFT"}).status_int == 200
        assert [each["reason"] for each in lines(world.config.audit_dir)] == ["THEFT"]

    def test_it_shows_what_each_register_says(self, browser):
        """Vehicle, policies and fines are under the register that holds them."""
        page = ask(browser, "AB12CDE")
        native, fines = page.html.select("article details details")
        assert fines.summary.text == "fines"
        assert [cell.text for cell in fines.select("tbody tr > *")] == [
            "PCN-1",
            "1 July 2025",
            "35.50 EUR",
            "owed",
        ]
        assert "Ford" in native.text
        assert "P-7" in native.text

    def test_the_answers_are_those_of_the_api(self, world, browser):
        """The page and the API judge alike, on any day."""
        client = world.client(world.alice_key)
        for day in ("2025-06-30", DAY, "2026-07-01"):
            page = ask(browser, "AB12CDE", day=day)
            answer = client.get(f"/v1/vehicle/AB12CDE/insurance?asOf={day}").json
            words = [each.text for each in page.html.select("article .verdicts strong")]
            assert (words[0] == "Insured") == answer["insured"]
        assert page.html.find(id="answers").text == "Answer for Wednesday, 1 July 2026"

    def test_a_fine_without_a_currency_has_its_amount(self, world, browser):
        """Its currency is optional in a file."""
        unknown = {**FINE, "registration": "EV1L"}
        del unknown["currency"]
        world.load([unknown], register="fines")
        page = ask(browser, "EV1L")
        assert [each.text for each in page.html.select("article td.number")] == ["35.50"]
        assert "35.50, PCN-1, 1 July 2025" in page.text

    @pytest.mark.parametrize("number", ["2025-02-30", "2025-07-01", "7-2025-07-01/3"])
    def test_a_policy_number_is_no_day(self, world, browser, number):
        """What looks like a day in it stays as it is, also if there is no such day."""
        world.load([{**POLICY, "registration": "EV1L", "number": number}], register="native")
        page = ask(browser, "EV1L")
        assert page.status_int == 200
        decided = {row.th.text: row.select("td") for row in page.html.select("table tr:has(td)")}
        assert decided["Policy"][0].text == number
        assert f"policy {number} of native is in force on 1 July 2025" in decided["Insured"][2].text

    def test_without_a_day_it_is_today(self, world, browser):
        """The page names the day."""
        page = ask(browser, "AB12CDE", day="")
        today = clock.today(world.config.timezone)
        assert page.html.find(id="answers").text.endswith(f", {in_words(today.isoformat())}")

    @engine_independent
    @each_row(
        ("plate", "text"),
        [
            ("ZZ99ZZZ", "No register mentions it: native, fines."),
            ("!!", "Invalid registration number: 1 to 12 letters and digits"),
            ("A" * 200, "Invalid registration number: at most 100 characters"),
            (MARKUP.replace(",", ""), "Invalid registration number"),
            ("\u200b", "Invalid registration number"),
        ],
    )
    def test_a_plate_without_an_answer_says_why(self, browser, plate, text):
        """An unknown and an invalid plate get the sentences of the API, and no markup."""
        page = ask(browser, plate)
        assert page.status_int == 200
        assert text in page.html.select_one("article .verdicts .warn").text
        assert not page.html.select("script:not([src]), [onerror]")

    def test_markup_in_a_register_stays_text(self, browser):
        """Whoever delivers a register cannot put anything into a page."""
        page = ask(browser, "EV1L")
        assert MODEL in page.html.text
        assert not page.html.select("script:not([src]), [onerror]")


class TestList:
    def test_plates_are_divided_at_lines_and_commas(self, browser):
        """Spaces belong to a plate; blank lines and cells are left out."""
        page = ask(browser, "\r\nAB12 CDE\r\n\r\nev1l;ZZ99ZZZ,\t!!\n,")
        rows = page.html.select(ROWS)
        assert [row.th.text for row in rows] == ["AB12CDE", "EV1L", "ZZ99ZZZ", "!!"]
        text = page.html.select_one("section .lead").text
        assert "4 plates: 2 found, 1 not found, 1 invalid. Insured: 1. Compliant: 0." in text
        assert len(page.html.select("article")) == 4
        for row in rows:
            opened = row.find_next_sibling("tr")
            assert opened.summary.text == f"Answer in full for {row.th.text}"
            assert opened.article.h3.text.startswith(row.th.text)

    def test_a_long_list_is_a_table(self, browser):
        """Its first 200 plates are shown, and all are counted."""
        page = ask(browser, "\n".join(["AB12CDE"] * 201))
        assert [len(each.select("tbody tr")) for each in page.html.select(".overview")] == [
            200,
            200,
        ]
        assert not page.html.select("article")
        assert "201 plates: 201 found" in page.text
        assert "The CSV file has all plates, in this order." in page.text
        assert page.html.select_one("[name=plates][type=hidden]")["value"].count("AB12CDE") == 201

    def test_a_plate_of_a_long_list_leads_to_its_answer(self, browser):
        """For the same days; an unknown plate leads to its suggestions."""
        said = {"day": "", "from": DAY, "to": "2025-07-03", "reason": "", "reference": "C-1"}
        page = ask(browser, "\n".join(["AB12CDE", "AB1ZCDE", *["CAT"] * 9]), **said)
        form = page.html.select("form[target]")[-1]
        assert {each["name"]: each["value"] for each in form.select("input")} == said
        buttons = {each["value"]: each["name"] for each in form.select("th button")}
        assert list(buttons) == ["AB12CDE", "AB1ZCDE", "CAT"]
        for plate, shown in (("AB12CDE", ".verdicts"), ("AB1ZCDE", ".suggestions")):
            answer = browser.post(LOOK_UP, {**said, buttons[plate]: plate})
            assert answer.html.h3.text.strip() == plate
            assert answer.html.select_one(shown)

    def test_the_largest_list_is_that_of_the_command(self, browser):
        """One plate more than a batch of `lookup --csv` is refused, with a way out."""
        assert ask(browser, "AB12CDE\n" * BATCH_PLATES, **{"as": "csv"}).status_int == 200
        response = ask(browser, "AB12CDE\n" * (BATCH_PLATES + 1), **{"as": "csv"})
        assert response.status_int == 422
        fault = response.html.find(id="field-plates-fault").text
        assert "can have 5,000 plates; this one has 5,001" in fault
        assert "lookup --csv" in fault

    def test_it_is_sorted_by_the_next_lapse_before_it_is_cut(self, world, browser):
        """Each group has its own first rows: what fails already hides nothing that lapses soon."""
        later = {"insured": True, "taxStatus": "taxed", "motExempt": True}
        plates = [f"T{n:03}" for n in range(210)]
        world.load(
            later | {"registration": plate, "taxDue": in_days(400 - n)}
            for n, plate in enumerate(plates)
        )
        world.load([later | {"registration": "NOEND1"}])
        world.load([{"registration": "MOT1", "motExpiry": in_days(30)}])
        world.load({**POLICY, "registration": "MANY1", "number": f"{n:03}"} for n in range(101))
        asked = ",".join(["ZZ9", "!!", "NOEND1", "EV1L", *plates, "MOT1"])
        page = ask(browser, asked)
        links = [" ".join(each.text.split()) for each in page.html.select(".groups li")]
        assert links == ["Failing 2", "Lapsing within 30 days 1", "Not known 2", "All 215"]
        failing, lapsing, unknown, every = (
            page.html.find(id=link["href"][1:]).parent.select("tbody tr")
            for link in page.html.select(".groups a")
        )
        order = ["MOT1", "EV1L", *reversed(plates), "NOEND1", "ZZ9", "!!"]
        for rows, plates_shown in (
            (failing, order[:2]),
            (lapsing, order[:1]),
            (unknown, order[-2:]),
            (every, order[:200]),
        ):
            assert [row.th.text for row in rows] == plates_shown
        assert every[0].td.text.split() == "MOT until 31 July 2025 30 days".split()
        assert every[2].td.text.strip() == "road tax until 8 January 2026"
        assert "What fails comes first" in page.text
        counts = page.html.select_one("section .lead").text
        assert "Failing: 2. Lapsing within 30 days: 1." in counts
        file = csv_rows(ask(browser, asked, **{"as": "csv"}))
        assert [row["plate"] for row in file] == order
        few = ask(browser, "ZZ9,!!,EV1L,NOEND1,MANY1,MOT1,T000")
        rows = few.html.select(ROWS)
        assert [(row.th.text, row.td.text.strip()) for row in rows[1:5]] == [
            ("MANY1", "not judged: more than 100 policies"),
            ("EV1L", "nothing is left to lapse"),
            ("T000", "road tax until 5 August 2026"),
            ("NOEND1", "no end is known"),
        ]
        assert [row.th.text for row in rows[:1] + rows[5:]] == ["MOT1", "ZZ9", "!!"]
        assert not few.html.select(".groups")
        for row in rows:
            assert row.find_next_sibling("tr").article.h3.text.startswith(row.th.text)

    def test_plates_with_blanks_between_them_get_a_hint(self, browser):
        """Only if each part looks like a plate, and the whole has no answer."""
        hint = "“AB12CDE EV1L” counts as one plate, because plates can contain spaces."
        assert hint in ask(browser, "AB12CDE EV1L").text
        assert hint in ask(browser, "AB12 CDE\nAB12CDE EV1L").text
        long = ask(browser, " ".join(["AB12CDE"] * 300)).text
        assert "AB12CDE AB12..." in long[long.index("“") : long.index("counts as one plate")]
        for plates in ("AB12 CDE", "ZZ 99 ZZZ", "AB12CDE\nEV1L", "MH 12 AB 1234"):
            assert "counts as one plate" not in ask(browser, plates).text

    def test_all_that_lapses_soon_is_named(self, world, browser):
        """Not only what lapses first, so that a person sees all dates of the next 30 days."""
        papers = {"motExpiry": in_days(5), "taxStatus": "taxed", "taxDue": in_days(30)}
        for plate, valid_to in (("T1", in_days(2)), ("T2", in_days(31))):
            world.load([papers | {"registration": plate}])
            world.load([POLICY | {"registration": plate, "validTo": valid_to}])
        page = ask(browser, "T1,T2")
        rows = page.html.select(ROWS)
        cells = [" ".join(row.td.get_text(" ").split()) for row in rows]
        assert cells == [
            "insurance until 3 July 2025 2 days then MOT until 6 July 2025 5 days "
            "then road tax until 31 July 2025 30 days",
            "MOT until 6 July 2025 5 days then road tax until 31 July 2025 30 days",
        ]

    def test_a_period_is_judged_in_short(self, world, browser):
        """From which day each plate fails, and why; the counts are about every day."""
        world.load([{"registration": "MANY1", "insured": True}])
        world.load({**POLICY, "registration": "MANY1", "number": f"{n:03}"} for n in range(101))
        page = ask(
            browser, "EV1L,AB12CDE,MANY1", day="", **{"from": "2026-06-29", "to": "2026-07-01"}
        )
        cells = {
            row.th.text: [cell.text.strip() for cell in row.select("td")][:4]
            for row in page.html.select(ROWS)
        }
        assert cells == {
            "AB12CDE": [
                "insurance until 30 June 2026 1 day",
                "not insured from 1 July 2026",
                "not compliant from 29 June 2026",
                "MOT: unknown, road tax: SORN, fines: outstanding",
            ],
            "MANY1": [
                "not judged: more than 100 policies",
                *("not judged", "not judged", "MOT: unknown, road tax: unknown"),
            ],
            "EV1L": [
                "nothing is left to lapse",
                "not insured from 29 June 2026",
                "not compliant from 29 June 2026",
                "insurance: unknown, MOT: unknown, road tax: unknown",
            ],
        }
        assert "Insured on every day: 0. Compliant on every day: 0." in page.text


class TestContradictions:
    """Registers that say the opposite of a check are named."""

    @pytest.fixture
    def contradicted(self, world):
        """A register that says no where another one has a policy."""
        world.load([{"registration": "AB12CDE", "insured": False}], register="rdw")
        world.load([{"registration": "AB12CDE", "taxStatus": "taxed"}], register="rdw")

    def test_one_plate(self, contradicted, browser):
        """Beside each check, and where the answer is explained."""
        article = ask(browser, "AB12CDE").html.select_one("article")
        facts = {each.dt.text: each.dd.get_text(" ") for each in article.dl.select("div")}
        for check in ("Insurance", "Road tax"):
            assert "But rdw says the opposite." in facts[check]
        for check in ("MOT", "Fines"):
            assert "the opposite" not in facts[check]
        decided = {row.th.text: row.text for row in article.table.select("tbody tr")}
        assert "rdw says the opposite" in decided["Insured"]

    @pytest.mark.parametrize("number", [2, 11])
    def test_a_list(self, contradicted, browser, number):
        """In the row of the plate, with or without explanations."""
        page = ask(browser, "AB12CDE" + ",EV1L" * (number - 1))
        rows = {row.th.text: row.get_text(" ") for row in page.html.select(ROWS)}
        assert "insurance: rdw says the opposite" in rows["AB12CDE"]
        assert "road tax: rdw says the opposite" in rows["AB12CDE"]
        assert "the opposite" not in rows["EV1L"]

    def test_a_file(self, contradicted, browser):
        """In the column of `lookup --csv`."""
        (row,) = csv_rows(ask(browser, "AB12CDE", **{"as": "csv"}))
        assert row["verifyd_contradictedBy"] == "insuranceValid=rdw roadTaxPaid=rdw"


class TestDates:
    """Dates are words, and all policies in force are shown."""

    @pytest.fixture
    def answer(self, browser):
        """`answer(plate, **fields)` returns the texts of an answer: the verdicts, and the facts."""

        def texts(plate, **fields):
            article = ask(browser, plate, **fields).html.select_one("article")
            for age in article.select(".verdicts small"):
                age.decompose()
            verdicts = article.select(".verdicts p")
            facts = article.select_one("dl").select("div")
            return list(map(words, verdicts)), {each.dt.text: words(each.dd) for each in facts}

        def words(element):
            return " ".join(element.get_text(" ").split())

        return texts

    def test_until_when_the_answer_holds(self, world, answer):
        """The last day of the cover, and of each paper."""
        papers = {"motExpiry": "2026-01-31", "taxStatus": "taxed", "taxDue": "2026-02-01"}
        world.load([{"registration": "P1", **papers}])
        world.load([POLICY | {"registration": "P1", "insurer": "Larkmere"}])
        verdicts, facts = answer("P1")
        assert verdicts == [
            "Insured until 30 June 2026, 364 days",
            "Compliant until 31 January 2026, 214 days",
        ]
        assert facts == {
            "Policies in force": "P-7 of Larkmere, 1 July 2025 to 30 June 2026",
            "Insurance": "valid until 30 June 2026, 364 days",
            "MOT": "valid until 31 January 2026, 214 days",
            "Road tax": "valid until 1 February 2026, 215 days",
            "Fines": "none",
        }

    def test_what_has_no_date_is_said_in_words(self, world, answer):
        """That no end is known, that a check failed, and how many fines are owed."""
        world.load(
            [
                {"registration": "FLAG1", "insured": True, "motExempt": True, "taxStatus": "taxed"},
                {"registration": "OLD1", "motExpiry": "2025-06-30", "taxStatus": "untaxed"},
            ]
        )
        verdicts, facts = answer("FLAG1")
        assert verdicts == ["Insured no end is known", "Compliant no end is known"]
        assert facts["Insurance"] == "a register says insured no end is known"
        assert (facts["MOT"], facts["Road tax"]) == ("exempt", "valid no end is known")
        verdicts, facts = answer("OLD1")
        assert verdicts[0] == "Not insured no policy is known"
        assert verdicts[1] == (
            "Not compliant not insured MOT: ended on 30 June 2025 Road tax: untaxed"
        )
        assert facts["MOT"] == "expired ended on 30 June 2025"
        assert (facts["Road tax"], facts["Policies in force"]) == ("untaxed", "none")
        verdicts, facts = answer("AB12CDE", day="2026-07-01")
        assert verdicts[0] == "Not insured policy P-7 ended on 30 June 2026"
        assert facts["Policy not in force"] == "P-7, 1 July 2025 to 30 June 2026"
        assert facts["Insurance"] == "expired ended on 30 June 2026"
        assert "Road tax: SORN" in verdicts[1]
        _, facts = answer("AB12CDE", day="2025-06-30")
        assert facts["Insurance"] == "not begun begins on 1 July 2025"
        assert facts["Fines"] == "outstanding 1 owed now 35.50 EUR, PCN-1, 1 July 2025"

    def test_all_policies_in_force_are_shown(self, world, answer):
        """So a double insurance is seen; more than 100 policies are not judged any later."""
        other = {**POLICY, "number": "P-8", "validTo": "2025-12-31", "type": "third party"}
        world.load([other, {**POLICY, "number": "P-9", "cancelledOn": "2025-12-05"}])
        verdicts, facts = answer("AB12CDE")
        assert facts["Policies in force"] == (
            "3 policies P-7, 1 July 2025 to 30 June 2026 "
            "P-8, third party, 1 July 2025 to 31 December 2025 "
            "P-9, 1 July 2025 to 30 June 2026, cancelled on 5 December 2025"
        )
        world.load({**POLICY, "number": f"{n:03}"} for n in range(100))
        verdicts, facts = answer("AB12CDE")
        assert verdicts[0] == "Insured later days are not judged: more than 100 policies"
        assert facts["Policies in force"].startswith("more than 20 policies P-7")
        told = "Of more than 100 policies, others may end later than those after the first."
        assert facts["Policies in force"].endswith(told)
        verdicts, _ = answer("AB12CDE", day="", **{"from": DAY, "to": DAY})
        assert verdicts[1].startswith("Not judged whether compliant")

    def test_later_policies_do_not_hide_those_in_force(self, world, answer):
        """Of more policies than are read, those in force are read first."""
        later = {**POLICY, "registration": "EV1L", "validFrom": "2026-01-01"}
        world.load(later | {"number": f"{n:03}"} for n in range(101))
        world.load({**POLICY, "registration": "EV1L", "number": number} for number in "YZ")
        _, facts = answer("EV1L")
        assert facts["Policies in force"].startswith("2 policies Z, 1 July 2025")

    @pytest.mark.parametrize(
        ("change", "why"),
        [
            ({}, "policy P-7 ended on 30 June 2026"),
            ({"cancelledOn": "2026-07-04"}, "policy P-9 begins on 3 July 2026"),
            ({"cancelledOn": "2026-07-01"}, "policy P-9 was cancelled on 1 July 2026"),
            ({"cancelledOn": "2026-06-30"}, "policy P-7 ended on 30 June 2026"),
        ],
    )
    def test_a_period_fails_from_a_day_and_for_a_reason(self, world, answer, change, why):
        """The first day that fails, with its day of the week, and which policy comes closest."""
        if change:
            days = {"validFrom": "2026-07-03", "validTo": "2027-07-02"}
            world.load([POLICY | {"number": "P-9"} | days | change])
        verdicts, facts = answer("AB12CDE", day="", **{"from": "2026-06-30", "to": "2026-07-02"})
        assert verdicts[0] == f"Not insured from Wednesday, 1 July 2026 {why}"
        assert verdicts[1].startswith("Not compliant from Tuesday, 30 June 2026 MOT: none is known")
        assert facts["Insurance"] == "valid until 30 June 2026, last day"

    def test_a_period_passes_on_every_day(self, world, browser, answer):
        """The facts below are those of the first day, and say so."""
        fields = {"day": "", "from": DAY, "to": "2026-06-30"}
        verdicts, _ = answer("AB12CDE", **fields)
        assert verdicts[0] == "Insured on every day until 30 June 2026, 364 days"
        page = ask(browser, "AB12CDE", **fields)
        days = "Tuesday, 1 July 2025 to Tuesday, 30 June 2026"
        assert page.html.find(id="answers").text == f"Answer for {days}"
        assert page.html.select_one("article h4").text == "On Tuesday, 1 July 2025"


class TestFile:
    def test_it_has_the_columns_of_a_period(self, browser):
        """The plates are in the order of the page: what is not known comes last."""
        fields = {"as": "csv", "day": "", "from": DAY, "to": "2026-07-01"}
        response = ask(browser, "ZZ9\nAB12CDE", **fields)
        name = f'attachment; filename="look-up-{DAY}-to-2026-07-01.csv"'
        assert response.headers["Content-Disposition"] == name
        known, unknown = csv_rows(response)
        columns = [f"verifyd_{column}" for column in (*COLUMNS, *PERIOD_COLUMNS)]
        assert list(unknown) == ["plate", *columns]
        assert (unknown["plate"], known["verifyd_insuredFirstFailingDay"]) == ("ZZ9", "2026-07-01")

    def test_it_has_the_columns_of_the_command(self, browser):
        """Each plate is a line, as it was given, with the answer."""
        response = ask(browser, "ab12 cde\nZZ99ZZZ\n!!\nłódź-1", **{"as": "csv"})
        assert response.status_int == 200
        assert response.content_type == "text/csv"
        assert (
            response.headers["Content-Disposition"] == f'attachment; filename="look-up-{DAY}.csv"'
        )
        assert response.headers["Cache-Control"] == "no-store"
        rows = csv_rows(response)
        assert list(rows[0]) == ["plate", *(f"verifyd_{column}" for column in COLUMNS)]
        assert [(row["plate"], row["verifyd_result"]) for row in rows] == [
            ("ab12 cde", "found"),
            ("łódź-1", "found"),
            ("ZZ99ZZZ", "vehicle_not_found"),
            ("!!", "invalid_registration"),
        ]
        assert rows[0]["verifyd_policyNumber"] == "P-7"
        assert rows[1]["verifyd_make"] == "Citroën"

    def test_no_cell_is_a_formula(self, browser):
        """Neither what was pasted nor what a register holds runs in a spreadsheet."""
        response = ask(browser, '=1+1\n+1\n-1\n@x\n"=1|EV1L\nEV1L', **{"as": "csv"})
        for row in csv_rows(response):
            assert [cell for cell in row.values() if cell.startswith(("=", "+", "-", "@"))] == []
        assert csv_rows(response)[0]["verifyd_make"] == '\'=HYPERLINK("x")'


class TestSuggestions:
    """Known plates that look like an unknown one, for a person to compare (D175)."""

    def suggested(self, page):
        """Return what each answer of the page suggests."""
        return [
            [" ".join(each.text.split()) for each in answer.select(".suggestions li")]
            for answer in page.html.select("article")
        ]

    def test_one_changed_character_comes_before_two(self, browser):
        """With make, model and colour as far as they are known."""
        page = ask(browser, "AB1ZCDE")
        assert page.html.select_one("article .verdicts strong").text == "Not found"
        assert self.suggested(page) == [
            ["Look up AB12CDE Ford Focus", "Look up AB12COE Blue", "Look up ABI2CDE Red"]
        ]
        assert "Insured" not in page.html.select_one("article").text

    def test_each_can_be_looked_up_with_a_click(self, browser):
        """For the same day, reason and reference; then the answer is about that plate."""
        said = {"day": "2025-06-30", "reason": "fraud", "reference": "C-1"}
        form = ask(browser, "AB1ZCDE", **said).html.select_one("form.suggestions")
        assert (form["method"], form["action"]) == ("post", "../console/look-up")
        fields = {each["name"]: each["value"] for each in form.select("input")}
        assert fields == {"from": "", "to": "", "column": "all", **said}
        button = form.select_one("button")
        page = browser.post(LOOK_UP, {**fields, button["name"]: button["value"]})
        assert page.html.h3.text.strip() == "AB12CDE"
        assert page.html.find(id="answers").text == "Answer for Monday, 30 June 2025"

    def test_a_click_keeps_the_period(self, browser):
        """The answer is about every day that was asked for, not about today."""
        said = {"day": "", "from": "2025-06-30", "to": "2025-07-02"}
        form = ask(browser, "AB1ZCDE", **said).html.select_one("form.suggestions")
        fields = {each["name"]: each["value"] for each in form.select("input")}
        assert fields.items() >= said.items()
        button = form.select_one("button")
        page = browser.post(LOOK_UP, {**fields, button["name"]: button["value"]})
        days = "Monday, 30 June 2025 to Wednesday, 2 July 2025"
        assert page.html.find(id="answers").text == f"Answer for {days}"

    def test_a_click_keeps_the_other_plates(self, browser):
        """The plate takes the place of the one that is not known."""
        form = ask(browser, "EV1L\nAB1ZCDE\nCAT").html.select_one("form.suggestions")
        button = form.select_one("button")
        page = ask(browser, button["value"])
        assert [each.text for each in page.html.select("dl.receipt div:nth-child(2) dd")] == [
            "EV1L",
            "AB12CDE",
            "CAT",
        ]

    def test_a_list_has_those_of_each_plate(self, browser):
        """Known and invalid plates have none."""
        page = ask(browser, "AB1ZCDE\nAB12CDE\nCAT\n!!\n=A812C0E\nA812COE")
        assert sorted(map(len, self.suggested(page))) == [0, 0, 0, 0, 3, 3]

    def test_only_short_lists_have_them(self, browser):
        """A list of more than ten is a table."""
        for others, count in ((9, 1), (10, 0)):
            page = ask(browser, "\n".join(["AB1ZCDE", *["CAT"] * others]))
            assert len(page.html.select(".suggestions")) == count

    def test_at_most_ten_of_very_many_variants(self, world, browser):
        """Twelve confusable characters have 656 variants at most; the list is short, and quick."""
        plates = ["0" * n + "D" + "0" * (11 - n) for n in range(12)]
        world.load([{"registration": each} for each in plates])
        page = ask(browser, "\n".join(["0" * 12, *["O" + "0" * 11] * 9]))
        assert [row.split()[2] for row in self.suggested(page)[0]] == sorted(plates)[:10]
        assert set(map(len, self.suggested(page))) == {10}

    def test_markup_of_a_register_stays_text(self, browser):
        """Whoever delivers a register cannot put anything into the page."""
        page = ask(browser, "EVIL")
        assert self.suggested(page) == [[f'Look up EV1L =HYPERLINK("x") {MODEL}, @red']]
        assert not page.html.select("script:not([src]), [onerror]")

    @pytest.mark.parametrize("form", ["page", "csv"])
    def test_what_is_shown_is_recorded(self, world, form):
        """Every suggestion after its plate; a file shows none."""
        trail = world.directory / "audit"
        application = world.client(None, console=True, audit=True, audit_dir=trail).application
        page = ask(signed_in(world, application, Role.VIEWER), "A812COE\nCAT", **{"as": form})
        assert (form == "page") == ("A812C0E" in page.text)
        shown = [
            {"plate": name, "found": True, "suggested": True}
            for name in ("A812C0E", "AB12COE", "AB12CDE")
        ]
        (record,) = lines(trail)
        assert record["plates"] == [
            {"plate": "A812COE", "found": False},
            *(shown if form == "page" else []),
            {"plate": "CAT", "found": False},
        ]


class TestFields:
    @engine_independent
    @each_row(
        ("fields", "name", "fault"),
        [
            ({"plates": ""}, "plates", "Enter at least one plate"),
            ({"plates": " \n ,; \t"}, "plates", "Enter at least one plate"),
            ({"plates": "x" * 300_001}, "plates", "at most 300,000 characters"),
            ({"plates": "AB12\x07CDE"}, "plates", "must not contain control characters"),
            ({"day": "tomorrow"}, "day", "must be a day as YYYY-MM-DD"),
            ({"day": "01.07.2025"}, "day", "must be a day as YYYY-MM-DD"),
            ({"day": "2025-02-30"}, "day", "a day that does not exist"),
            ({"day": "2025-07-01T00:00"}, "day", "at most 10 characters"),
            ({"day": MARKUP}, "day", "at most 10 characters"),
            (dict.fromkeys(["day", "from", "to"], DAY), "day", "is not allowed with From and To"),
            ({"from": DAY}, "from", "From is not allowed without To"),
            ({"to": DAY}, "to", "To is not allowed without From"),
            ({"from": "2025-02-29", "to": DAY}, "from", "a day that does not exist"),
            ({"from": DAY, "to": "2025-06-30"}, "to", "To must not be before From"),
            ({"from": DAY, "to": "2026-08-05"}, "to", "a period of 401 days; at most 400"),
            ({"reason": "x" * 65}, "reason", "at most 64 characters"),
            ({"reason": "a\nb"}, "reason", "must not contain line breaks"),
            ({"reason": "Prüfung"}, "reason", "must have 1 to 64 printable ASCII characters"),
            ({"reference": "x" * 65}, "reference", "at most 64 characters"),
            ({"reference": "\x1b[31m"}, "reference", "must not contain line breaks"),
            ({"reference": "№ 1"}, "reference", "must have 1 to 64 printable ASCII characters"),
        ],
    )
    @each_row("kind", ["page", "csv"])
    def test_a_wrong_field_is_named(self, browser, fields, name, fault, kind):
        """The form comes back with what was typed and a sentence at the field, also for a file."""
        response = browser.post(LOOK_UP, {"plates": "AB12CDE", "as": kind, **fields})
        assert response.status_int == 422
        assert response.content_type == "text/html"
        (wrong,) = response.html.select("[aria-invalid=true]")
        assert wrong["name"] == name
        assert fault in response.html.find(id=f"field-{name}-fault").text
        assert not response.html.select("article, script:not([src])")
        assert "Nothing was changed" not in response.text

    @engine_independent
    def test_markup_stays_text(self, browser):
        """What was typed is shown again as it was typed, in each field."""
        fields = {
            "reason": MARKUP[:64],
            "reference": MARKUP[-64:],
            "plates": f"</textarea>{MARKUP}",
            "as": "change",
        }
        page = browser.post(LOOK_UP, fields)
        assert page.html.select_one("textarea").text.strip("\n") == fields["plates"]
        assert page.html.find(id="field-reason")["value"] == fields["reason"].strip()
        assert not page.html.select("script:not([src]), [onerror], img[src=x]")


def test_plates_are_in_no_url_and_no_log(world, caplog):
    """They are sent with POST only, to a path that does not name them."""
    application = world.client(None, console=True, access_log=True).application
    browser = signed_in(world, application, Role.VIEWER)
    form = browser.get(LOOK_UP).html.select_one("main form")
    assert (form["method"], form["action"]) == ("post", "../console/look-up")
    with caplog.at_level(logging.INFO):
        ask(browser, "AB12CDE")
        ask(browser, "AB12CDE\nZZ99ZZZ", **{"as": "csv"})
        ask(browser, "AB12CDE", day="AB12CDE")
        browser.get(f"{LOOK_UP}?plates=AB12CDE")
    logged = json.dumps([vars(record) for record in caplog.records], default=str)
    assert "AB12CDE" not in logged
    assert browser.get(f"{LOOK_UP}?plates=AB12CDE").html.select_one("textarea").text.strip() == ""


def test_a_look_up_changes_nothing_and_charges_nobody(world, browser):
    """No account pays for it, and nothing is stored."""
    store = LimitStore(
        world.limits, lambda: identity_of(world.limits, lambda: database_id(world.engine))
    )
    account = require_account(world.engine, "alice")
    plan = require_plan(world.engine, account.plan_id)
    before = stored(world)
    ask(browser, "AB12CDE\nZZ99ZZZ")
    assert stored(world) == before
    assert requests_left(store, account, plan) == plan.requests
    store.close()


def test_a_form_of_another_site_is_refused(browser):
    """A person cannot be made to look plates up, though that changes nothing."""
    response = browser.post(LOOK_UP, {"plates": "A1"}, headers={"Sec-Fetch-Site": "cross-site"})
    assert response.status_int == 403


def test_without_a_register_every_plate_is_unknown(world):
    """An installation without registers answers, too."""
    for name in ("native", "fines"):
        drop_register(world.engine, name)
    browser = signed_in(world, world.client(None, console=True).application, Role.VIEWER)
    page = ask(browser, "AB12CDE")
    assert page.status_int == 200
    assert "No register is loaded." in page.text


@ON_SQLITE
@pytest.mark.parametrize("plates", ["AB12CDE", "NONE1"])
def test_a_file_has_a_column_for_what_is_not_known(world, browser, plates):
    """As the last one, and only if answers tell it (D198); also if no plate is known."""
    for tells, last in ((True, "unknown"), (False, COLUMNS[-1])):
        set_tells_unknown(world.engine, tells)
        heading = ask(browser, plates, **{"as": "csv"}).body.decode().splitlines()[0]
        assert heading.split(",")[-1] == f"verifyd_{last}"


class TestRecord:
    @pytest.fixture
    def trail(self, world):
        """The directory of the trail, which a recording service claims."""
        return world.directory / "audit"

    @pytest.fixture
    def recorded(self, world, trail):
        """A browser of a service that records look-ups."""
        application = world.client(None, console=True, audit=True, audit_dir=trail).application
        return signed_in(world, application, Role.VIEWER)

    @pytest.mark.parametrize("fields", [{}, {"as": "csv"}])
    @pytest.mark.parametrize("others", [0, 20])
    def test_what_is_shown_is_recorded(self, recorded, trail, fields, others):
        """Who asked, why, and what the answer was, for a few plates and for a list."""
        plates = "\n".join(["ab12 cde", "!!", *(f"NONE{n}" for n in range(others))])
        assert ask(recorded, plates, reason="fraud", reference="C-1", **fields).status_int == 200
        (record,) = lines(trail)
        said = {"operation": "console", "user": "ann", "as_of": DAY}
        assert said | {"reason": "fraud", "reference": "C-1"} == {
            name: record[name] for name in (*said, "reason", "reference")
        }
        assert record["plates"][:2] == [
            {"plate": "AB12CDE", "found": True, "insured": True, "compliant": False},
            {"plate": "!!", "invalid": True},
        ]
        assert len(record["plates"]) == 2 + others
        assert record["registers"].keys() == {"native", "fines"}

    @pytest.mark.parametrize("others", [0, 20])
    def test_of_a_period_its_verdicts_are_recorded(self, recorded, trail, others):
        """Both days, and whether the vehicle passes on each of them."""
        plates = "\n".join(["AB12CDE", *(f"NONE{n}" for n in range(others))])
        for last_day, insured in (("2026-06-30", True), ("2026-07-01", False)):
            days = {"day": "", "from": DAY, "to": last_day}
            assert ask(recorded, plates, **days).status_int == 200
            record = list(lines(trail))[-1]
            assert (record["first_day"], record["last_day"]) == (DAY, last_day)
            assert "as_of" not in record
            assert record["plates"][0]["insured"] is insured

    @pytest.mark.parametrize("others", [0, 20])
    def test_what_is_not_known_is_recorded(self, world, recorded, trail, others):
        """By the names of the members, for a few plates and for a list; with the rule (D198)."""
        set_tells_unknown(world.engine, tells=True)
        plates = "\n".join(["AB12CDE", *(f"NONE{n}" for n in range(others))])
        assert ask(recorded, plates, day="2030-01-01").status_int == 200
        (record,) = lines(trail)
        assert record["rule"] == 2
        assert record["plates"][0]["unknown"][:2] == ["insured", "insuranceValid"]

    def test_what_cannot_be_recorded_is_not_shown(self, recorded, trail):
        """The page says so, and has no answer."""
        trail.parent.mkdir(exist_ok=True)
        trail.write_text("no directory")
        page = ask(recorded, "AB12CDE")
        assert page.status_int == 503
        assert "The look-up cannot be recorded" in page.html.text
        assert "Ford" not in page.html.text
