"""Days as other programs write them: the first day without, times of day, midnights in a zone."""

from datetime import UTC

import pytest

from app import clock
from app.registers.applying.answers import LoadBasis
from app.registers.formats.date_forms import likely_forms
from app.registers.formats.mapped import MappedCsv
from app.registers.formats.mapping_file import MappingFault, read_mapping
from app.storage.tables import FineRow, PolicyRow, VehicleRow
from tests.conftest import ON_SQLITE, World
from tests.rows import each_row
from tests.unit.register_files import outcome, read
from tests.unit.watched import Watched

POLICIES = """kind = "policies"
register = "own"
{}
[columns]
registration = "Plate"
number = "No"
validFrom = "From"
validTo = "To"
"""
WITHOUT = 'first_day_without = ["validTo"]'
TIMES = '[times]\nvalidFrom = "cut"\nvalidTo = "{}"'
DATE_TIME = "a day with a time; [times] of a mapping can say what the time means"


@pytest.fixture
def mapped(tmp_path):
    """Make the format of a mapping."""

    def make(toml: str) -> MappedCsv:
        path = tmp_path / "mapping.toml"
        path.write_text(toml, encoding="utf-8")
        return MappedCsv(read_mapping(path))

    return make


def policies(top: str = "", bottom: str = "") -> str:
    return f"{POLICIES.format(top)}{bottom}\n"


def ends(text: str, format_: MappedCsv) -> str:
    """Return the last day of a policy that ends on a date, or why it is rejected."""
    row = outcome(f"Plate;No;From;To\nA1;1;2026-01-01;{text}\n", format_)
    return row if isinstance(row, str) else PolicyRow._make(row).valid_to


class TestFirstDayWithout:
    @each_row(
        ("form", "text", "day"),
        [
            ("YYYY-MM-DD", "2027-03-01", "2027-02-28"),
            ("YYYY-MM-DD", " 2027-03-01 00:00:00 ", "2027-02-28"),
            ("DD.MM.YYYY", "01.03.2028", "2028-02-29"),
            ("DD.MM.YYYY", "2027-03-01", "2027-02-28"),
            ("MM/DD/YYYY", "01/01/2027 12:00:00 AM", "2026-12-31"),
            ("MM/YYYY", "03/2027", "2027-02-28"),
            # An open end is not the first day without.
            ("YYYY-MM-DD", "9999-12-31", "9999-12-31"),
            ("DD.MM.YYYY", "31.12.9999", "9999-12-31"),
        ],
    )
    def test_the_day_before_is_stored(self, mapped, form, text, day) -> None:
        """A date of such a member is the first day without; 9999-12-31 has no end."""
        assert ends(text, mapped(policies(f'{WITHOUT}\ndate_format = "{form}"'))) == day

    def test_words_have_their_own_meaning(self, mapped) -> None:
        """What a word of the mapping means is stored as it is."""
        words = '[words.validTo]\ninfinity = "9999-12-31"\n"" = "9999-12-31"\nsoon = "2027-01-01"'
        format_ = mapped(policies(WITHOUT, words))
        days = [ends(each, format_) for each in ("infinity", "", "soon")]
        assert days == ["9999-12-31", "9999-12-31", "2027-01-01"]

    def test_a_policy_of_no_day_is_rejected(self, mapped) -> None:
        """A policy whose first day is the first day without insures nobody."""
        assert ends("2026-01-01", mapped(policies(WITHOUT))) == "validTo is before validFrom"

    def test_vehicles(self, mapped) -> None:
        """The last days of vehicles can be the first day without, too."""
        toml = (
            'kind = "vehicles"\nfirst_day_without = ["motExpiry", "taxDue"]\n[columns]\n'
            "registration = 'P'\nmotExpiry = 'M'\ntaxDue = 'T'\nfirstRegistered = 'F'\n"
        )
        row = outcome("P;M;T;F\nA1;2027-03-01;2027-04-01;2015-05-13\n", mapped(toml))
        assert row == VehicleRow(
            "A1", mot_expiry="2027-02-28", tax_due="2027-03-31", first_registered="2015-05-13"
        )


class TestTimes:
    @each_row(
        ("meaning", "text", "day"),
        [
            ("cut", "28/02/2027 23:59", "2027-02-28"),
            ("cut", "28/02/2027T23:59:59", "2027-02-28"),
            ("cut", "2027-02-28T23:59:59.999", "2027-02-28"),
            ("cut", "28/02/2027 11:59:00 PM", "2027-02-28"),
            ("cut", "01/03/2027 00:00", "2027-03-01"),
            ("cut", "01/03/2027", "2027-03-01"),
            ("end", "28/02/2027 23:59", "2027-02-28"),
            ("end", "01/03/2027 12:00", "2027-03-01"),
            ("end", "01/03/2027 00:00", "2027-02-28"),
            ("end", "2027-03-01T00:00:00.000Z", "2027-02-28"),
            ("end", "01/03/2027 12:00:00 AM", "2027-02-28"),
            ("end", "01/03/2027 12:01 AM", "2027-02-28"),
            ("end", "2027-03-01 00:01:00", "2027-02-28"),
            ("end", "01/03/2027 00:02", "2027-03-01"),
            ("end", "01/03/2027", "2027-03-01"),
            ("end", "31/12/9999 00:00", "9999-12-31"),
        ],
    )
    def test_a_mapping_says_what_they_mean(self, mapped, meaning, text, day) -> None:
        """`cut` leaves the time out; with `end` the first minute of a day is not that day."""
        format_ = mapped(policies('date_format = "DD/MM/YYYY"', TIMES.format(meaning)))
        assert ends(text, format_) == day

    def test_cut_before_the_first_day_without(self, mapped) -> None:
        """A policy that ends at 12:01 a.m. ends with the day before."""
        top = f'{WITHOUT}\ndate_format = "MM/DD/YYYY"'
        assert ends("03/01/2027 12:01 AM", mapped(policies(top, TIMES.format("cut")))) == (
            "2027-02-28"
        )

    @each_row("text", ["28/02/2027 23:59", "28/02/2027T23:59:59", "2027-02-28 23:59:59.5"])
    def test_without_a_meaning_the_row_is_refused(self, mapped, text) -> None:
        """The reason names the table of the mapping that can say what the time means."""
        format_ = mapped(policies('date_format = "DD/MM/YYYY"'))
        assert ends(text, format_) == f"validTo: {DATE_TIME}: '{text}'"

    def test_values_that_count_as_missing(self, cli) -> None:
        """The note of a load of vehicles says the same."""
        rows = "A1,2027-02-28 23:59\nA2,2027-02-28\nA3,2027-02-28\n"
        file = cli.directory / "vehicles.csv"
        file.write_text(f"registration,motExpiry\n{rows}")
        (note,) = cli.json("import", file)["notes"]
        assert DATE_TIME in note


class TestMidnightInZone:
    @each_row(
        "text",
        [
            "2026-03-01T00:00:00.000Z",
            "2026-03-01 00:00:00+00",
            "2026-03-01T00:00:00+02:00",
            "2026-03-01 00:00:00-0330",
            "2026-03-01 00:00:00 +0000",
            "2026-03-01 00:00:00 +0100 CET",
            "2026-03-01 00:00:00 UTC",
            "2026-03-01 00:00:00.000 GMT",
            "2026-03-01+02:00",
            "2026-03-01-05:00",
            "2026-03-01Z",
        ],
    )
    def test_it_is_that_day(self, text) -> None:
        """A day in a zone, and an exact midnight in one, is that day, in CSV and JSON."""
        fine = FineRow("A1", "1", "2026-03-01", 500, None, False)
        assert outcome(f"registration,reference,issuedOn,amount\nA1,1,{text},5\n") == fine
        json = f'{{"registration":"A1","reference":"1","issuedOn":"{text}","amount":5}}\n'
        assert outcome(json) == fine

    def test_in_the_form_of_a_mapping(self, mapped) -> None:
        """So is one behind a date of another form."""
        format_ = mapped(policies('date_format = "DD.MM.YYYY"'))
        assert ends("01.03.2027 00:00:00+01:00", format_) == "2027-03-01"
        assert ends("01.03.2027+01:00", format_) == "2027-03-01"

    def test_a_zone_hides_no_form(self) -> None:
        """The reason of a reject, and a suggested mapping, name the form of a day in a zone."""
        assert likely_forms(["01.03.2027+01:00"]) == ["DD.MM.YYYY"]

    @each_row("top", ["", TIMES.format("cut"), TIMES.format("end")])
    def test_any_other_time_names_the_zone(self, mapped, top) -> None:
        """23:00 UTC is midnight somewhere, and nobody knows whether it is here."""
        told = "validTo: a time in the zone {} that is no midnight there; export days without times"
        for text, zone in [("2027-02-28T23:00:00Z", "Z"), ("2027-02-28 23:00:00+01", "+01")]:
            assert ends(text, mapped(policies("", top))) == f"{told.format(zone)}: '{text}'"


@each_row(
    ("top", "bottom", "told"),
    [
        ("first_day_without = 'validTo'", "", "first_day_without: must be a list of members"),
        ("first_day_without = [1]", "", "first_day_without: must be a list of members"),
        ("first_day_without = ['validFrom']", "", "validFrom is no last day; use validTo"),
        ("first_day_without = ['taxDue']", "", "taxDue has no column"),
        ("", "[times]\ncancelledOn = 'cut'", "times.cancelledOn: has no column"),
        ("", "[times]\nnumber = 'cut'", "times.number: number is no day"),
        ("", "[times]\nvalidTo = 'x'", 'times.validTo: must be "cut" (the time is left out)'),
        ("", "[times]\nvalidTo = ['cut']", "times.validTo: must be"),
        ("", "[times]\nvalidFrom = 'end'", 'validFrom is no last day; use "cut"'),
        (WITHOUT, "[times]\nvalidTo = 'end'", 'first_day_without has validTo, too; use "cut"'),
    ],
)
def test_mistakes(mapped, top, bottom, told) -> None:
    """A mistake in these members names the member."""
    with pytest.raises(MappingFault) as caught:
        mapped(policies(top, bottom))
    assert told in str(caught.value)


@ON_SQLITE
@pytest.mark.parametrize("mode", ["merge", "replace"])
def test_a_mapping_in_use_can_become_right(world: World, mapped, mode: str) -> None:
    """Every last day moves back by one: no rule is broken, and no watch is held."""
    today = clock.today(UTC)
    plates = [f"A{number}" for number in range(40)]
    ends = [clock.shifted_day(today.isoformat(), number) for number in range(len(plates))]
    file = world.directory / "own.csv"
    rows = (f"{plate};{plate};2026-01-01;{end}\n" for plate, end in zip(plates, ends, strict=True))
    file.write_text("Plate;No;From;To\n" + "".join(rows))
    watched = Watched(world.config, world.engine)

    def load(format_: MappedCsv) -> list[str]:
        basis = LoadBasis(today.isoformat())
        formats = {"mapped": format_}
        result = world.load_files(
            file, formats=formats, format="mapped", register="own", mode=mode, basis=basis
        )
        return list(result.notes)

    load(mapped(policies()))
    watched.watch(*plates, leads=(14,))
    watched.sweep()
    watched.news()
    assert "validTo moved back by one day in 40 rows" in load(mapped(policies(WITHOUT)))
    assert [each.held for each in watched.sweep()] == [0]
    assert sorted(watched.news()) == [("insurance.changed", "A0"), ("insurance.ending", "A14")]


def test_rejected_times_keep_their_text(mapped) -> None:
    """The operator looks for the text of the file."""
    text = "Plate;No;From;To\nA1;1;2026-01-01;31.06.2027 23:59\n"
    format_ = mapped(policies('date_format = "DD.MM.YYYY"', TIMES.format("cut")))
    ((_, told),) = read(text, format_).heard.rejects
    assert told.endswith("'31.06.2027 23:59'")
