"""The look-up page for people who look plates up all day: form, tables, receipts."""

import pytest

from app.console.rendering import ROOT
from app.settings.roles import Role
from app.vehicles.reader import BATCH_PLATES
from tests.api.console import signed_in
from tests.conftest import ON_SQLITE
from tests.rows import each_row
from tests.unit.audit_trails import lines

LOOK_UP = f"{ROOT}/look-up"
DAY = "2025-07-01"
ADVICE = "Ask for the certificate, then call <b>4100</b>."
TABLE = "Fleet\tPlate\tDriver\r\nF1\tGOOD1\tAnn\r\nF2\tBAD 1\tBob\r\n"
pytestmark = ON_SQLITE


@pytest.fixture
def trail(world):
    """The directory of the trail, which a recording service claims."""
    return world.directory / "audit"


@pytest.fixture
def clerk(world, trail):
    """The browser of a clerk; the operator says what to do next."""
    papers = {"motExempt": True, "taxStatus": "taxed"}
    world.load([{"registration": "GOOD1", "insured": True, **papers}, {"registration": "BAD1"}])
    settings = {"console": True, "audit": True, "audit_dir": trail, "lookup_advice": ADVICE}
    return signed_in(world, world.client(None, **settings).application, Role.CLERK)


def ask(browser, plates, **fields):
    return browser.post(LOOK_UP, {"plates": plates, "day": DAY, **fields})


def form_of(page, place="form.look-up"):
    """Return the fields of a form as a browser would send them, without its buttons."""
    form, fields = page.html.select_one(place), {}
    for each in form.select("input[name], textarea"):
        if each.get("type") not in ("checkbox", "radio") or each.has_attr("checked"):
            value = each.text.removeprefix("\n") if each.name == "textarea" else each.get("value")
            fields[each["name"]] = "on" if value is None else value
    return fields


class TestForm:
    """What stays in the form after an answer."""

    def test_the_field_is_empty_and_in_focus(self, clerk):
        """So the next plate can be typed at once; the answer describes the field."""
        for page in (clerk.get(LOOK_UP), ask(clerk, "GOOD1"), ask(clerk, "GOOD1,BAD1")):
            (focused,) = page.html.select("[autofocus]")
            assert (focused["name"], focused.text.strip()) == ("plates", "")
            for id in focused["aria-describedby"].split():
                assert page.html.find(id=id)

    def test_the_reason_and_the_days_stay_and_the_reference_does_not(self, clerk, trail):
        """So no look-up is recorded under the claim before."""
        page = ask(clerk, "GOOD1", reason="claim", reference="C-1")
        fields = form_of(page)
        assert (fields["reason"], fields["reference"], fields["day"]) == ("claim", "", DAY)
        clerk.post(LOOK_UP, {**fields, "plates": "BAD1"})
        assert [each.get("reference") for each in lines(trail)] == ["C-1", None]

    def test_the_reference_stays_if_the_person_wants_that(self, clerk):
        """The box stays ticked, until the person clears it."""
        page = ask(clerk, "GOOD1", reference="C-1", keep="on")
        fields = form_of(page)
        assert (fields["reference"], fields["keep"]) == ("C-1", "on")
        fields.pop("keep")
        assert form_of(clerk.post(LOOK_UP, {**fields, "plates": "BAD1"}))["reference"] == ""

    def test_the_list_can_be_changed(self, clerk, trail):
        """It comes back with all that was asked, and nothing is looked up for that."""
        said = {"reason": "claim", "reference": "C-1"}
        page = ask(clerk, "GOOD1\nBAD 1", **said)
        fields = form_of(page, "form.tools")
        changed = clerk.post(LOOK_UP, {**fields, "as": "change"})
        assert changed.status_int == 200
        assert form_of(changed).items() >= {"plates": "GOOD1\nBAD 1", "day": DAY, **said}.items()
        assert not changed.html.select("article, .fault")
        assert len(list(lines(trail))) == 1

    @each_row(
        ("fields", "name"),
        [
            ({"plates": ""}, "plates"),
            ({"reference": "№"}, "reference"),
            ({"day": "soon"}, "day"),
            ({"plates": TABLE, "column": "9"}, "column"),
        ],
    )
    def test_the_keyboard_begins_at_the_first_fault(self, clerk, fields, name):
        """Whatever was sent is still there."""
        page = clerk.post(LOOK_UP, {"plates": "GOOD1", **fields})
        assert page.status_int == 422
        assert [each["name"] for each in page.html.select("[autofocus]")] == [name]
        assert form_of(page).get(name, "") == fields[name] or name == "column"


class TestTable:
    """A pasted table: the page asks which column has the plates."""

    def test_it_asks_before_it_looks_up(self, clerk, trail):
        """The best guess is chosen and in focus; nothing is lost, answered or recorded."""
        page = ask(clerk, TABLE, reference="C-1")
        assert page.status_int == 200
        fields = form_of(page)
        assert (fields["plates"].split(), fields["reference"]) == (TABLE.split(), "C-1")
        assert (fields["column"], fields["heading"]) == ("2", "on")
        (focused,) = page.html.select("[autofocus]")
        assert (focused["type"], focused["value"]) == ("radio", "2")
        names = [each.text for each in page.html.select(".columns li strong")]
        assert names == ["Fleet", "Plate", "Driver", "All cells"]
        assert not page.html.select("article")
        assert not trail.exists() or not list(lines(trail))

    @each_row(
        ("choice", "plates"),
        [
            ({"column": "2", "heading": "on"}, ["GOOD1", "BAD 1"]),
            ({"column": "2"}, ["Plate", "GOOD1", "BAD 1"]),
            ({"column": "1", "heading": "on"}, ["F1", "F2"]),
            ({"column": "all", "heading": "on"}, ["F1", "GOOD1", "Ann", "F2", "BAD 1", "Bob"]),
        ],
    )
    def test_the_plates_of_the_choice_are_looked_up(self, clerk, choice, plates):
        """With them the answers go on as a list, also to the file."""
        page = clerk.post(LOOK_UP, {**form_of(ask(clerk, TABLE)), "heading": "", **choice})
        if "heading" not in choice:
            fields = form_of(ask(clerk, TABLE))
            fields.pop("heading")
            page = clerk.post(LOOK_UP, {**fields, **choice})
        fields = form_of(page, "form.tools")
        assert fields["plates"].split("\n") == plates
        file = clerk.post(LOOK_UP, {**fields, "as": "csv"})
        assert len(file.body.decode().splitlines()) == 1 + len(plates)

    def test_a_single_column_with_a_heading_asks_too(self, clerk):
        """The heading is no plate, but may be one; afterwards the list is not asked about again."""
        page = ask(clerk, "Reg\nGOOD1\nBAD 1")
        fields = form_of(page)
        assert (fields["column"], fields["heading"]) == ("all", "on")
        assert [each["name"] for each in page.html.select("[autofocus]")] == ["heading"]
        assert not page.html.select("article")
        plates = form_of(clerk.post(LOOK_UP, fields), "form.tools")["plates"]
        assert plates.split("\n") == ["GOOD1", "BAD 1"]
        fields.pop("heading")
        again = form_of(clerk.post(LOOK_UP, fields), "form.tools")
        assert again["plates"].split("\n") == ["Reg", "GOOD1", "BAD 1"]
        file = clerk.post(LOOK_UP, {**again, "as": "csv"})
        assert len(file.body.decode().splitlines()) == 4

    @each_row("column", ["", "0", "4", "9" * 400, "-1", "²", "<b>"])
    def test_a_choice_that_is_none_is_a_fault(self, clerk, column):
        """The question is asked again, with the whole table."""
        page = ask(clerk, TABLE, column=column)
        assert page.status_int == 422
        assert "Choose the column" in page.html.select_one(".columns .fault").text
        assert form_of(page)["plates"].split() == TABLE.split()

    def test_without_a_guess_the_person_must_choose(self, clerk):
        """No column is chosen, and the first has the focus."""
        page = ask(clerk, "Name;Town\nAnn;Leeds\nBob;York")
        assert "column" not in form_of(page)
        assert page.html.select_one("[autofocus]")["value"] == "1"

    def test_a_table_that_is_too_long_is_kept(self, clerk):
        """It can be shortened in the field."""
        rows = "\n".join(f"{n},A{n}" for n in range(10_000))
        page = ask(clerk, rows, column="2")
        assert page.status_int == 422
        assert f"{BATCH_PLATES:,} plates; this one has 10,000" in page.text
        assert form_of(page)["plates"].split() == rows.split()

    def test_markup_stays_text(self, clerk):
        """In a heading and in cells."""
        page = ask(clerk, "<script>x</script>,Plate\n<img src=x onerror=y>,A1\n<b>,A2")
        assert not page.html.select("script:not([src]), [onerror], .columns b")
        assert "<img src=x onerror=y>" in page.html.select_one(".columns").text


class TestAnswer:
    """The verdicts, the receipt, and the operator's advice."""

    @each_row(
        ("plates", "count"),
        [
            ("GOOD1", 0),
            ("BAD1", 1),
            ("ZZ9", 1),
            ("!!", 0),
            ("GOOD1,BAD1,ZZ9", 2),
            (",".join(["GOOD1"] * 11 + ["!!"]), 0),
            (",".join(["GOOD1"] * 11 + ["BAD1"]), 1),
        ],
    )
    def test_the_operator_says_what_to_do_next(self, clerk, plates, count):
        """Below each verdict that is not good, and once above a table; its markup is text."""
        advice = ask(clerk, plates).html.select(".advice")
        assert [each.text.strip() for each in advice] == [f"What to do next: {ADVICE}"] * count

    def test_without_a_text_there_is_no_advice(self, world):
        """VERIFYD_LOOKUP_ADVICE is empty by default."""
        viewer = signed_in(world, world.client(None, console=True).application, Role.VIEWER)
        assert not ask(viewer, "BAD1").html.select(".advice")

    def test_a_receipt_says_who_was_told_what_and_when(self, clerk, trail):
        """One for each plate, with the time and the request id of the record."""
        page = ask(clerk, "good 1,BAD1", reason="claim", reference="C-1")
        (record,) = lines(trail)
        good, bad = (" ".join(each.get_text("").split()) for each in page.html.select(".receipt"))
        for text in (
            "Receipt of a look-up verifyd Plate: GOOD1 (asked for as good 1)",
            "Day: Tuesday, 1 July 2025",
            "Insurance: Insured; no end is known",
            "Reason: claim Reference: C-1",
            "Asked by: ann",
            f"Request: {record['request_id']}",
            record["time"][11:19],
        ):
            assert text in good
        assert "Compliance: Not compliant; not insured; MOT: none is known" in bad

    def test_a_long_list_has_one_receipt(self, clerk):
        """With its counts; the table follows it in print."""
        (receipt,) = ask(clerk, ",".join(["GOOD1"] * 12)).html.select(".receipt")
        assert "12 plates: 12 found" in receipt.text
