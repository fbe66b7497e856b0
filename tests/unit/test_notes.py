"""A load notes what suggests that a wrong column is read (D123)."""

from typing import Any

import pytest

from app.errors import OperatorError
from app.registers.formats.mapped import MappedCsv
from app.registers.formats.mapping_file import read_mapping
from app.registers.reading import reader
from tests.conftest import ON_SQLITE
from tests.unit.test_load import files


def cars(known: int, rows: int = 100, *, make: str = "FORD", flag: str = "", due: str = "") -> str:
    """Return a file of vehicles, some of which have an insurance flag: `flag`, or both values."""
    return "registration,make,insured,taxDue\n" + "".join(
        f"AB{n:04},{make},{(flag or str(n % 2 == 0).lower()) if n < known else ''},"
        f"{due or f'2027-{n % 12 + 1:02}-01'}\n"
        for n in range(rows)
    )


@pytest.fixture
def load(world):
    """`load(CONTENT)` replaces the vehicles of the register native by default."""

    def run(content: str, **options: Any):
        options.setdefault("mode", "replace")
        return world.load_files(*files(world, a=content), **options)

    return run


@ON_SQLITE  # Values are counted as they are read.
class TestUniform:
    @pytest.mark.parametrize("mode", ["merge", "replace"])
    def test_values_that_become_the_same_are_noted(self, load, mode):
        """A flag or date that all rows share, and did not share before, is noted."""
        load(cars(100))
        result = load(cars(100, flag="true", due="2028-01-01"), mode=mode)
        assert result.notes == [
            "insured is true in all 100 rows with a value, and was not before",
            "taxDue is 2028-01-01 in all 100 rows with a value, and was not before",
        ]
        again = load(cars(100, flag="true", due="2028-01-01"), mode=mode)
        assert again.notes == ["same content as load 2"]

    def test_makes_that_become_the_same_are_noted(self, load):
        """The note leaves out the value, which can be anything in a wrong column."""
        load(cars(100).replace("2,FORD", "2,OPEL"))
        expected = "make is the same in all 100 rows with a value, and was not before"
        assert expected in load(cars(100, make="#N/A"), accept=["identity"]).notes
        assert len(load(cars(100), accept=["identity"]).notes) == 1

    @pytest.mark.parametrize("mode", ["merge", "replace"])
    def test_a_member_that_was_unknown_can_become_uniform(self, load, mode):
        """A flag that was unknown before and is now the same everywhere is noted."""
        load(cars(0))
        expected = "insured is true in all 100 rows with a value, and was not before"
        assert load(cars(100, flag="true"), mode=mode).notes == [expected]

    @pytest.mark.parametrize("mode", ["merge", "replace"])
    @pytest.mark.parametrize(("rows", "is_noted"), [(999, False), (1_000, True)])
    def test_a_first_load_can_be_uniform(self, load, mode, rows, is_noted):
        """A first load of a thousand or more rows is noted; a small fleet is often uniform."""
        result = load(cars(rows, rows, flag="true"), mode=mode)
        assert result.notes == is_noted * [
            "make is the same in all 1,000 rows with a value",
            "insured is true in all 1,000 rows with a value",
        ]

    def test_new_rows_of_a_merge_may_be_alike(self, load):
        """New rows of a merge are not noted: they often share the day of registration."""
        load(cars(100))
        new = cars(1_000, 1_000, flag="true", due="2028-01-01").replace("AB", "XY")
        assert load(new, mode="merge").notes == []

    def test_few_rows_are_not_noted(self, load):
        """Fewer than a hundred rows are not noted."""
        load(cars(99, 99))
        assert load(cars(99, 99, flag="true")).notes == []

    def test_two_processes_see_as_much(self, load, monkeypatch):
        """Values that differ between the two processes are not uniform."""
        monkeypatch.setattr(reader, "PIECE_BYTES", 4_096)
        load(cars(400, 400))
        halves = cars(400, 400, flag="true").splitlines(keepends=True)
        mixed = halves[:201] + [line.replace("true", "false") for line in halves[201:]]
        assert load("".join(mixed), accept=["insured", "dates"]).notes[2:] == []
        assert load("".join(halves)).notes[0].startswith("insured is true in all 400 rows")


def policies(rows: int, *, insurers: int = 4, first: int = 0, exchanged: bool = False) -> str:
    """Return a file of policies, each with a number of its own."""
    header = ("number,insurer" if exchanged else "insurer,number") + ",registration"
    return f"{header},validFrom,validTo\n" + "".join(
        f"I{n % insurers},P{n},AB{n:04},2026-01-0{n % 9 + 1},2026-12-3{n % 2}\n"
        for n in range(first, first + rows)
    )


@ON_SQLITE  # Values are counted as they are read.
class TestCalendar:
    @pytest.mark.parametrize("mode", ["merge", "replace"])
    @pytest.mark.parametrize(
        ("years", "told"),
        [
            ((2082, 2083), "from 2082 to 2083"),
            ((2569, 2570), "from 2569 to 2570"),
            ((1447, 1448), "from 1447 to 1448"),
            ((2026, 2083), None),
            ((1448, 2026), None),
            ((2045, 2046), None),
            ((9999, 9999), None),
        ],
    )
    def test_a_first_load_of_another_calendar_is_noted(self, load, mode, years, told):
        """If no last day has a year of our calendar, a note asks, as no rule finds it."""
        ends = [f"{year}-{month:02}-03" for month in range(1, 6) for year in years]
        ends = ["9999-12-31" if end.startswith("9999") else end for end in ends]
        rows = [f"AB{n},P{n},A,1400-01-01,{end}\n" for n, end in enumerate(ends)]
        content = "registration,number,insurer,validFrom,validTo\n" + "".join(rows)
        asked = f"the years of validTo are {told}: are they of our calendar?"
        assert load(content, mode=mode).notes == ([asked] if told else [])

    def test_few_rows_and_one_day_are_not_noted(self, load):
        """Nine rows are too few, and the same far day in all rows means that there is no end."""
        far = [f"AB{n},FORD,,2083-{n:02}-03\n" for n in range(1, 10)]
        assert load("registration,make,insured,taxDue\n" + "".join(far)).notes == []
        assert load(cars(50, due="2099-12-31"), register="other").notes == []


@ON_SQLITE  # Values are counted as they are read.
class TestExchanged:
    @pytest.mark.parametrize("mode", ["merge", "replace"])
    @pytest.mark.parametrize(
        ("rows", "insurers", "told"),
        [
            (9, 2, None),
            (10, 5, "10 different values, number only 5"),
            (10, 6, None),
            (1_200, 40, "1,000 or more different values, number only 40"),
        ],
    )
    def test_a_first_load_of_exchanged_columns_is_noted(self, load, mode, rows, insurers, told):
        """No rule finds it, because there is nothing to compare with."""
        notes = load(policies(rows, insurers=insurers, exchanged=True), mode=mode).notes
        assert notes == ([f"insurer has {told}: are they exchanged?"] if told else [])

    def test_right_columns_are_not_noted(self, load):
        """Numbers are nearly unique; a fleet can have one for all its vehicles."""
        assert load(policies(100)).notes == []
        fleet = policies(100, insurers=1).replace(",P", ",P1,").replace("number", "number,type")
        assert load(fleet, register="fleet").notes == []

    def test_a_part_that_is_merged_is_noted_once(self, load):
        """The rule `variety` passes small merges over; what was so before is not noted again."""
        load(policies(1_000))
        part = policies(20, exchanged=True)
        told = "insurer has 20 different values, number only 4: are they exchanged?"
        assert load(part, mode="merge").notes == [told]
        assert load(part, mode="merge").notes == ["same content as load 2"]
        assert load(policies(20, first=1_000), mode="merge").notes == []


@pytest.mark.parametrize("mode", ["merge", "replace"])
def test_a_dry_run_predicts_all_of_it(world, load, mode):
    """A dry run prints the same refusals and notes."""
    load(cars(100))
    outcomes: list[object] = []
    for content in (cars(50), cars(100, flag="true")):
        for dry_run in (True, False):
            try:
                outcomes.append(
                    load(content, mode=mode, dry_run=dry_run)._replace(dry_run=False, load=None)
                )
            except OperatorError as refusal:
                outcomes.append(str(refusal))
    assert outcomes[0] == outcomes[1]
    assert outcomes[2] == outcomes[3]


MAPPED = 'kind = "vehicles"\nregister = "own"\n[columns]\nregistration = "Marke"\n'


class TestDoubts:
    """Notes of what suggests that a wrong column is read (D123)."""

    @pytest.fixture
    def notes(self, world, tmp_path):
        """`notes(ROWS, ...)` loads files and returns the notes, without a mapping by default."""

        def run(*contents: str, toml: str = "", **options: Any):
            if toml:
                (tmp_path / "map.toml").write_text(toml)
                mapped = MappedCsv(read_mapping(tmp_path / "map.toml"))
                options |= {"formats": {"mapped": mapped}, "format": "mapped", "register": "own"}
            paths = files(world, **dict(zip("abc", contents, strict=False)))
            tried = world.load_files(*paths, dry_run=True, **options).notes
            assert world.load_files(*paths, **options).notes == tried
            return tried

        return run

    @pytest.mark.parametrize("mode", ["merge", "replace"])
    def test_the_column_of_the_registration_is_asked_about(self, notes, mode):
        """If most rows repeat a registration, a load and a dry run ask about its column."""
        text = "Marke\n" + "".join(f"BMW{n % 5}\n" for n in range(200))
        asked = "200 rows have only 5 different registrations: is Marke the right column?"
        assert notes(text, toml=MAPPED, mode=mode) == [asked]
        # The rows that the register holds by now change nothing.
        assert notes(text, toml=MAPPED, mode=mode) == [asked, "same content as load 1"]

    @ON_SQLITE
    @pytest.mark.parametrize(
        ("rows", "keys", "told"),
        [
            (10, 1, "10 rows have the same registration"),
            (10, 4, "10 rows have only 4 different registrations"),
            (10, 5, "5 rows have the registration of another row; the last of them counts"),
            (9, 1, "8 rows have the registration of another row; the last of them counts"),
            (10, 9, "1 row has the registration of another row; the last of them counts"),
            (10, 10, None),
        ],
    )
    def test_repeated_registrations_are_counted(self, notes, rows, keys, told):
        """A few repeated rows are counted; only if they are most, the column is in doubt."""
        text = "registration\n" + "".join(f"AB{n % keys}CDE\n" for n in range(rows))
        assert notes(text) == ([told] if told else [])

    @ON_SQLITE
    def test_files_of_one_load_may_repeat_each_other(self, notes):
        """Several files are applied in their order, so only repeats within files are noted."""
        text = "registration\n" + "".join(f"AB{n}CDE\n" for n in range(10))
        assert notes(text, text, text) == []
        repeated = "registration\n" + "AB1CDE\n" * 10
        assert notes(repeated, repeated) == ["20 rows have the same registration"]

    @ON_SQLITE
    def test_policies_and_fines_repeat_their_whole_key(self, notes):
        """A vehicle can have many policies and fines; the note names the key."""
        fines = "reference,registration,amount\n" + "".join(f"F{n},A1,5.00\n" for n in range(20))
        assert notes(fines) == []
        assert notes(fines + "F1,A1,6.00\n") == [
            "1 row has the registration and reference of another row; the last of them counts"
        ]

    @ON_SQLITE
    def test_a_column_of_two_dates_is_asked_about(self, notes):
        """One column is rarely two dates; the time of the last change can be one of them."""
        toml = MAPPED + 'motExpiry = "HU"\ntaxDue = "hu"\nlastUpdated = "HU"\n'
        assert notes("Marke,HU\nA1,2027-01-01\n", toml=toml) == [
            "motExpiry and taxDue are both read from hu: is that right?"
        ]

    @ON_SQLITE
    @pytest.mark.parametrize(
        ("begin", "end", "rows", "is_noted"),
        [
            ("2026-03-15", "2027-03-15", 10, True),
            ("2026-03-15", "2026-09-15", 10, True),
            ("2026-03-15", "2027-03-14", 10, False),
            ("2026-03-15", "2026-03-15", 10, False),
            ("2026-12-31", "9999-12-31", 10, False),
            ("2026-03-15", "2027-03-15", 9, False),
        ],
    )
    def test_first_policies_that_end_a_day_late_are_noted(self, notes, begin, end, rows, is_noted):
        """Ends on the day of the month of the beginning may be first days without."""
        text = "registration,number,validFrom,validTo\n"
        text += "".join(f"A{number},P{number},{begin},{end}\n" for number in range(rows))
        told = (
            "most policies end on the day of the month on which they begin: if validTo is the "
            "first day without, name it in first_day_without of a mapping"
        )
        assert (told in notes(text)) == is_noted
        assert told not in notes(text)

    @ON_SQLITE
    def test_a_row_that_means_several_policies_is_no_repeat(self, notes):
        """Without a column for the insurer, one row can change the policies of two insurers."""
        header, row = "registration,number,validFrom,validTo", "A1,P1,2026-01-01,2026-12-31"
        assert notes(f"{header},insurer\n{row},Acme\n{row},Best\n") == []
        assert notes(f"{header},type\n{row},TK\n") == []


@ON_SQLITE
class TestOlderFile:
    def test_a_delta_after_one_of_a_later_date_is_noted(self, world):
        """An older record would take the place of a newer one, until that is loaded again."""
        car = '{"registration": "QQ1", "make": "A", "motTests": [], "modification": "UPDATED"}\n'

        def load(day: str) -> list[str]:
            path = world.directory / f"delta-light-vehicle_{day}-2026.json"
            path.write_text(car)
            return [each for each in world.load_files(path).notes if "later dates" in each]

        july = [f"delta-light-vehicle_0{day}-07-2026.json" for day in (1, 2)]
        assert load("01-07") + load("02-07") == []
        told = "files of later dates were loaded before: {}; load them again in their order, or "
        told += "vehicles in them keep what the older file says"
        assert load("30-06") == [told.format(", ".join(july))]
        assert load("01-07") == [told.format(july[1])]
        assert load("02-07") == []
