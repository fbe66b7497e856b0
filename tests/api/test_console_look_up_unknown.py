"""What no register knows, on the look-up page: the third verdict, in lists, and in print."""

import pytest

from app.console.rendering import ROOT
from app.settings.roles import Role
from app.storage.versions import set_tells_unknown
from tests.api.console import signed_in
from tests.api.test_console_look_up import ROWS, csv_rows
from tests.conftest import SHARED
from tests.rows import each_row

LOOK_UP = f"{ROOT}/look-up"
KNOWN_FROM = "2026-01-10"
PAPERS = {"motExpiry": "2099-05-01", "taxStatus": "taxed", "lastUpdated": KNOWN_FROM}
VEHICLES = [
    {"registration": "GOOD1", **PAPERS},
    {"registration": "NO1", "insured": False, **PAPERS},
    {"registration": "YES1", "insured": True, **PAPERS},
    {"registration": "OPEN1", **PAPERS},
    {"registration": "PART1", "insured": True, **PAPERS},
    {"registration": "BLANK1", "lastUpdated": KNOWN_FROM},
    {"registration": "SOON1", "motExempt": True, "taxStatus": "sorn", "lastUpdated": KNOWN_FROM},
    {"registration": "LATE1", "motExempt": True, "taxStatus": "sorn", "lastUpdated": KNOWN_FROM},
]
POLICIES = [
    {"registration": "GOOD1", "number": "P-1", "validFrom": "2026-01-01", "validTo": "2099-06-30"},
    {"registration": "PART1", "number": "P-3", "validFrom": "2026-01-01", "validTo": "2026-03-31"},
    {"registration": "LATE1", "number": "P-4", "validFrom": "2026-01-10", "validTo": "2026-01-31"},
]
THEN = "2025-03-03"
SAYS = "rdw says {}, known since 10 January 2026; nothing is known for 3 March 2025"


@pytest.fixture
def world(world):
    """An installation that tells what is not known, with a partial register of policies."""
    set_tells_unknown(world.engine, True)
    world.load(VEHICLES, register="rdw")
    world.load(POLICIES, register="fleet")
    return world


@pytest.fixture
def browser(world):
    """A browser of somebody who only reads."""
    return signed_in(world, world.client(None, console=True).application, Role.VIEWER)


def ask(browser, plates, **fields):
    page = browser.post(LOOK_UP, {"plates": plates, **fields})
    assert page.status_int == 200
    return page


def words(element):
    return " ".join(element.get_text(" ").split())


def verdicts(page):
    """Return the tone and the lines of each verdict of one plate, without its age."""
    return [
        (each["class"][0], [each.strong.text, *(line.text for line in each.select("span"))])
        for each in page.html.select(".verdicts p")
    ]


NO_FINES = "Fines not known: no register has fines"
NO_POLICY = ["no register knows a policy", "no register is said to hold every policy"]


@SHARED
class TestOne:
    """The verdicts about one plate."""

    @each_row(
        ("plate", "day", "insurance"),
        [
            ("NO1", "", ("bad", "Not insured")),
            ("YES1", "", ("good", "Insured", "no end is known")),
            ("OPEN1", "", ("unknown", "Not known", "whether insured", *NO_POLICY)),
            (
                "PART1",
                "",
                (
                    *("unknown", "Not known", "whether insured"),
                    *("policy P-3 ended on 31 March 2026", "but rdw says insured"),
                ),
            ),
            ("YES1", THEN, ("unknown", "Not known", "whether insured", SAYS.format("insured"))),
            ("NO1", THEN, ("unknown", "Not known", "whether insured", SAYS.format("not insured"))),
        ],
    )
    def test_insurance(self, browser, plate, day, insurance):
        """It is said with what is missing, neither as good nor as bad."""
        (tone, lines), _ = verdicts(ask(browser, plate, day=day))
        assert (tone, *lines)[: len(insurance)] == insurance
        assert tone == "bad" or len(lines) == len(insurance) - 1

    @each_row(
        ("plate", "day", "tone", "lines"),
        [
            ("GOOD1", "", "good", ["Compliant", "no end is known", NO_FINES]),
            ("NO1", "", "bad", ["Not compliant", "not insured", NO_FINES]),
            (
                *("OPEN1", "", "unknown"),
                ["Not known", "whether compliant", "Insurance not known", NO_FINES],
            ),
            (
                *("BLANK1", "", "unknown"),
                [
                    *("Not known", "whether compliant", "Insurance not known"),
                    "MOT not known: no register knows an expiry",
                    "Road tax not known: no register knows a status",
                    NO_FINES,
                ],
            ),
            (
                *("SOON1", "", "bad"),
                [
                    *("Not compliant", "Road tax: SORN, declared off the road"),
                    *("Insurance not known", NO_FINES),
                ],
            ),
            (
                *("YES1", THEN, "unknown"),
                [
                    *("Not known", "whether compliant", "Insurance not known"),
                    f"MOT not known: {SAYS.format('valid until 1 May 2099')}",
                    f"Road tax not known: {SAYS.format('taxed')}",
                    NO_FINES,
                ],
            ),
        ],
    )
    def test_compliance(self, browser, plate, day, tone, lines):
        """Fines alone leave it known, and are named beside it."""
        found_tone, found = verdicts(ask(browser, plate, day=day))[1]
        found = [each for each in found if not each.startswith("until")]
        assert found_tone == tone
        assert found == [each for each in lines if (plate, each) != ("GOOD1", "no end is known")]

    def test_the_facts_do_not_say_no(self, browser):
        """Neither the checks, nor what decided them."""
        article = ask(browser, "BLANK1").html.select_one("article")
        facts = {each.dt.text: words(each.dd) for each in article.dl.select("div")}
        assert facts["Insurance"] == f"not known {'; '.join(NO_POLICY)}"
        assert facts["MOT"] == "not known no register knows an expiry"
        assert facts["Fines"] == "not known no register has fines"
        assert not article.select(".badge.bad")
        decided = {row.th.text: row.td.text for row in article.table.select("tbody tr")}
        checks = ("Insured", "MOT", "Road tax", "No fines owed")
        assert [decided[each] for each in checks] == ["not known"] * 4

    def test_a_period(self, browser):
        """The first day that is not known is named, and that of a check that fails comes first."""
        days = {"from": "2026-01-08", "to": "2026-01-12"}
        (insurance, compliance) = verdicts(ask(browser, "YES1", **days))
        assert insurance[0] == compliance[0] == "unknown"
        start = "from Thursday, 8 January 2026"
        says = "rdw says {}, known since 10 January 2026; nothing is known for 8 January 2026"
        assert insurance[1] == ["Not known", "whether insured", start, says.format("insured")]
        assert compliance[1][:3] == ["Not known", "whether compliant", start]
        insurance, compliance = verdicts(ask(browser, "NO1", **days))
        assert insurance[1][:2] == ["Not insured", "from Saturday, 10 January 2026"]
        assert compliance[1][:3] == [
            *("Not compliant", "from Saturday, 10 January 2026", "not insured"),
        ]

    def test_a_complete_register_decides(self, world):
        """Without a policy in it a vehicle is not insured from today on, and not known before."""
        settings = {"console": True, "complete_registers": ("fleet",)}
        browser = signed_in(world, world.client(None, **settings).application, Role.VIEWER)
        (insurance, _) = verdicts(ask(browser, "OPEN1"))
        assert insurance == (
            "bad",
            ["Not insured", "no policy is known, and a register holds every policy"],
        )
        (insurance, _) = verdicts(ask(browser, "OPEN1", day=THEN))
        assert insurance == (
            "unknown",
            [
                *("Not known", "whether insured", "no register knows a policy"),
                "fleet holds every policy of today; nothing is known for 3 March 2025",
            ],
        )


@SHARED
class TestList:
    """Lists have a group and a count for what is not known, and for what was not found."""

    ASKED = "OPEN1,!!,GOOD1,ZZ9,NO1,YES1,BLANK1,PART1,SOON1,ZZ8,ZZ7"
    ORDER = ("NO1", "SOON1", "GOOD1", "YES1", "OPEN1", "PART1", "BLANK1", "!!", "ZZ9", "ZZ8", "ZZ7")

    def test_groups(self, browser):
        """No plate that is not known, or not found, is among the failing ones."""
        page = ask(browser, self.ASKED)
        links = [words(each) for each in page.html.select(".groups li")]
        assert links == [
            *("Failing 2", "Lapsing within 30 days 0"),
            *("Not known 3", "Not found or invalid 4", "All 11"),
        ]
        rows = page.html.find(id="unknown").parent.select("tbody tr")
        assert [row.th.text for row in rows] == ["OPEN1", "PART1", "BLANK1"]
        rows = page.html.find(id="unfound").parent.select("tbody tr")
        assert {row.th.text for row in rows} == {"!!", "ZZ9", "ZZ8", "ZZ7"}
        assert words(page.html.find(id="said")) == (
            "11 plates: 7 found, 3 not found, 1 invalid. Insured: 2. Compliant: 2. Failing: 2. "
            "Not known: 3. Lapsing within 30 days: 0."
        )

    def test_the_order(self, browser):
        """What fails, what lapses, what is not known, what has no answer; also in the file."""
        page = ask(browser, self.ASKED)
        rows = page.html.find(id="all").parent.select("tbody tr")
        assert tuple(row.th.text for row in rows) == self.ORDER
        assert "Plates without an answer come last." in page.text
        file = csv_rows(ask(browser, self.ASKED, **{"as": "csv"}))
        assert tuple(row["plate"] for row in file) == self.ORDER

    @pytest.mark.parametrize("has_details", [True, False], ids=["few", "many"])
    def test_rows(self, browser, has_details):
        """A row says what is missing; what fails for certain comes first."""
        asked = "GOOD1,OPEN1,SOON1" if has_details else f"GOOD1,OPEN1,SOON1{',ZZ9' * 9}"
        page = ask(browser, asked)
        body = page.html.select(ROWS)
        rows = {row.th.text: list(map(words, row.select("td")))[1:4] for row in body}
        why = f"Insurance not known: {'; '.join(NO_POLICY)}"
        assert rows["GOOD1"] == ["insured", f"compliant {NO_FINES}", "\u2013"]
        assert rows["OPEN1"] == ["not known", "not known", f"{why} {NO_FINES}"]
        assert rows["SOON1"] == ["not known", "not compliant", f"road tax: SORN {why} {NO_FINES}"]
        titles = [each.text for each in page.html.select_one(".overview").select("thead th")]
        assert titles[4] == "Fails, or is not known"

    def test_rows_of_a_period(self, browser):
        """The insurance says from which day it is not known, also if something else fails."""
        days = {"from": "2026-01-08", "to": "2026-01-12"}
        page = ask(browser, "YES1,SOON1,LATE1", **days)
        rows = {
            row.th.text: list(map(words, row.select("td")))[1:4] for row in page.html.select(ROWS)
        }
        assert rows["YES1"][:2] == ["not known from 8 January 2026"] * 2
        from_days = ["not known from 8 January 2026", "not compliant from 10 January 2026"]
        assert rows["SOON1"][:2] == rows["LATE1"][:2] == from_days
        assert rows["SOON1"][2].startswith("road tax: SORN Insurance not known: no register")
        assert rows["LATE1"][2] == (
            "road tax: SORN Insurance not known: policy P-4 begins on 10 January 2026; "
            f"no register is said to hold every policy {NO_FINES}"
        )

    def test_the_advice_is_shown(self, world):
        """A list in which something is not known is not in order."""
        settings = {"console": True, "lookup_advice": "Call."}
        browser = signed_in(world, world.client(None, **settings).application, Role.VIEWER)
        for plates, count in (("GOOD1", 0), ("OPEN1", 1), (",".join(["OPEN1"] * 11), 1)):
            assert len(ask(browser, plates).html.select(".advice")) == count


@SHARED
def test_a_receipt_names_each_verdict_once(browser):
    """What is not known is set apart also without colours."""
    lines = ask(browser, "OPEN1").html.select(".receipt > div")
    told = {each.dt.text: each.dd.text for each in lines}
    assert len(told) == len(lines)
    assert told["Insurance:"] == f"Not known; {'; '.join(NO_POLICY)}"
    assert told["Compliance:"] == f"Not known; Insurance not known; {NO_FINES}"
    assert [each.dt.text for each in lines if "unknown" in each.get("class", ())] == [
        *("Insurance:", "Compliance:"),
    ]
