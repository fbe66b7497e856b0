"""A load that loses known values is refused; values that become uniform are noted (D67)."""

import json
from typing import Any

import pytest

from app.errors import OperatorError
from app.registers.applying.counts import Counts
from app.registers.formats.mapped import MappedCsv, read_mapping
from app.registers.history import list_loads
from app.registers.intake import opened_intake
from app.registers.reading import reader
from app.registers.request import LoadRequest
from app.registers.undo import drop_register, purge_register, roll_back
from app.registers.work import Work
from tests.conftest import ON_SQLITE
from tests.unit.test_load import files, held

INSURED = 5


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


def latest(world) -> Any:
    return list_loads(world.engine)[0]


class TestReplace:
    @pytest.mark.parametrize(("known", "is_refused"), [(90, False), (89, True)])
    def test_a_member_may_fall_by_ten_points(self, world, load, known, is_refused):
        """A larger fall is a loss; the refusal names the member and both shares."""
        load(cars(100))
        if not is_refused:
            assert load(cars(known)).held == 100
            return
        with pytest.raises(OperatorError) as refusal:
            load(cars(known))
        assert str(refusal.value) == (
            "the load would remove values from the register native: insured has a value in 89.0 % "
            "of the rows, before in 100.0 %; if that is right, repeat the load with "
            "--allow-loss insured"
        )
        assert (latest(world).status, latest(world).reason) == ("failed", str(refusal.value))
        assert all(row[INSURED] is not None for row in held(world))

    @ON_SQLITE
    def test_all_members_that_fall_are_named(self, load):
        """The refusal lists all members, so that the operator allows them in one go."""
        load(cars(100))
        text = "registration,make\n" + "".join(f"AB{n:04},FORD\n" for n in range(100))
        with pytest.raises(
            OperatorError, match=r"insured has .*; taxDue has .*; .*--allow-loss taxDue"
        ):
            load(text)
        assert load(text, allow_loss=["insured", "taxDue"]).held == 100

    @ON_SQLITE
    @pytest.mark.parametrize(("before", "is_refused"), [(49, False), (50, True)])
    def test_a_member_that_few_rows_know_is_not_checked(self, load, before, is_refused):
        """A member that less than a twentieth of the rows know is not checked."""
        load(cars(before, 1_000))
        if is_refused:
            with pytest.raises(OperatorError, match=r"insured .*before in 5\.0 %"):
                load(cars(0, 1_000), loss_max=4)
        else:
            assert load(cars(0, 1_000), loss_max=4).held == 1_000

    @ON_SQLITE
    @pytest.mark.parametrize(("rows", "is_refused"), [(9, False), (10, True)])
    def test_a_few_rows_may_be_corrected(self, load, rows, is_refused):
        """Fewer than ten rows may be corrected by hand."""
        load(cars(rows, rows))
        if is_refused:
            with pytest.raises(OperatorError, match="--allow-loss insured"):
                load(cars(0, rows))
        else:
            assert load(cars(0, rows)).held == rows

    @ON_SQLITE
    def test_the_limit_is_a_setting(self, load):
        """The limit is set in percentage points."""
        load(cars(100))
        assert load(cars(60), loss_max=40).held == 100
        with pytest.raises(OperatorError, match="has a value in 58"):
            load(cars(58), loss_max=1)

    def test_a_slow_decline_adds_up(self, load):
        """The best of the last replaces counts, not only the current rows."""
        for known in (100, 94):
            load(cars(known))
        with pytest.raises(OperatorError, match=r"88\.0 % of the rows, before in 100\.0 %"):
            load(cars(88))

    def test_only_seven_replaces_count(self, load):
        """Only the last seven replaces count."""
        load(cars(100))
        for _ in range(7):
            load(cars(91))
        assert load(cars(85)).held == 100

    @pytest.mark.parametrize("accepted", [{"allow_loss": ["insured"]}, {"allow_shrink": True}])
    def test_an_accepted_loss_is_not_refused_the_next_night(self, load, accepted):
        """An accepted loss, or an accepted shrink, is the new reference."""
        load(cars(100))
        load(cars(91))
        load(cars(82), allow_loss=["insured"])
        assert load(cars(75), **({} if "allow_loss" in accepted else accepted)).held == 100
        if "allow_shrink" in accepted:
            assert load(cars(68)).held == 100
        else:
            with pytest.raises(OperatorError, match=r"68\.0 % of the rows, before in 82\.0 %"):
                load(cars(68))

    def test_a_rolled_back_load_does_not_count(self, world, load):
        """A wrong load that was rolled back must not make correct ones fail."""
        load(cars(50))
        load(cars(100))
        roll_back(world.engine, "native", None)
        assert load(cars(45)).held == 100

    @pytest.mark.parametrize("drop", [drop_register, purge_register])
    def test_values_of_a_dropped_register_do_not_count(self, world, load, drop):
        """A dropped register does not count for a new one of its name."""
        load(cars(100))
        drop(world.engine, "native")
        load(cars(91))
        assert load(cars(85)).held == 100

    @pytest.mark.parametrize("again", [0, 30])
    def test_all_rows_held_are_compared_if_few_come_again(self, world, load, again):
        """New plates must not hide a loss, even without an earlier replace to compare with."""
        load(cars(300, 300), mode="merge")
        others = "registration,make\n" + "".join(f"XY{n:04},FORD\n" for n in range(300 - again))
        others += "".join(f"AB{n:04},FORD\n" for n in range(again))
        for dry_run in (True, False):
            with pytest.raises(
                OperatorError, match=r"insured .*before in 100\.0 %; taxDue .*before in 100\.0 %"
            ):
                load(others, dry_run=dry_run)
        assert load(cars(300, 300).replace("AB", "XY")).held == 300

    @ON_SQLITE
    def test_policies_of_another_year_lose_nothing(self, load):
        """All keys of policies change with the period, and that is no loss."""
        header = "registration,number,insurer,validFrom,validTo,cancelledOn\n"
        line = "AB{0:04},P-{0},X,{1}-01-01,{1}-12-31,{2}\n"
        year = [line.format(n, 2026, "2026-06-01" if n < 9 else "") for n in range(100)]
        load(header + "".join(year), mode="merge")
        assert load(header + "".join(line.format(n, 2027, "") for n in range(100))).held == 100

    @ON_SQLITE
    @pytest.mark.parametrize("settled", ["2026-06-01", ""])
    def test_fines_of_other_references_are_compared(self, load, settled):
        """Held dates of settling count as known values, and unsettled fines do not."""
        header = "registration,reference,amount,settledOn\n"
        load(header + "".join(f"AB{n:04},F-1,65,{settled}\n" for n in range(20)), mode="merge")
        others = header + "".join(f"AB{n:04},F-2,65,\n" for n in range(20))
        if settled:
            with pytest.raises(OperatorError, match=r"settledOn .*before in 100"):
                load(others)
        else:
            assert load(others).held == 20

    def test_the_history_keeps_what_was_known_and_allowed(self, world, load):
        """Each successful load has its shares and permissions; a merge has those of its rows."""
        load(cars(100), allow_loss=["insured"], allow_missing=["x"], allow_shrink=True)
        known = json.loads(latest(world).known)
        assert (known["rows"], known["insured"], known["make"], known["year"]) == (100, 100, 100, 0)
        assert json.loads(latest(world).accepted) == ["shrink", "loss:insured", "missing:x"]
        load(cars(3, 7), mode="merge")
        assert json.loads(latest(world).known)["rows"] == 7
        assert json.loads(latest(world).known)["insured"] == 3
        assert json.loads(latest(world).accepted) == []

    def test_two_processes_count_as_one(self, world, load, monkeypatch):
        """The shares are added up over both processes (D54)."""
        monkeypatch.setattr(reader, "PIECE_BYTES", 512)
        load(cars(100))
        assert json.loads(latest(world).known)["insured"] == 100
        with pytest.raises(OperatorError, match=r"insured .* in 40\.0 %.*before in 100\.0 %"):
            load(cars(40))

    def test_a_check_changes_no_counts(self, world, load):
        """Counts are completed before they are checked, so a check can be repeated or left out."""
        load(cars(100))
        path = files(world, a=cars(100))[0]
        request = LoadRequest(files=[str(path)], mode="replace", allow_shrink=True)
        with opened_intake(request, world.directory, lambda _: None) as intake:
            work = Work(world.engine, "native", intake)
            work.entry, work.counts = work.generations.find_current(), Counts(work.kind, 100)
            work.check_losses()
        assert (work.counts.removed, work.counts.known_held) == (0, None)


@ON_SQLITE
class TestMerge:
    def test_the_touched_rows_are_compared(self, world, load):
        """Only rows that the merge touched count, and a refused merge changes none."""
        load(cars(1_000, 1_000))
        with pytest.raises(OperatorError, match=r"insured .* in 50\.0 %.*before in 100\.0 %"):
            load(cars(10, 20), mode="merge")
        assert all(row[INSURED] is not None for row in held(world))
        assert load(cars(10, 20), mode="merge", allow_loss=["insured"]).changed == 10

    def test_an_accepted_loss_is_not_refused_the_next_night(self, load):
        """The accepted loss is the new reference for other rows and for replaces, too."""
        whole = cars(200, 200).splitlines(keepends=True)
        blank = cars(0, 200).splitlines(keepends=True)
        load("".join(whole))
        first, second = "".join(blank[:101]), "".join([blank[0], *blank[101:]])
        assert load(first, mode="merge", allow_loss=["insured"]).changed == 100
        assert load(second, mode="merge", dry_run=True).changed == 100
        assert load("".join(blank), dry_run=True).changed == 100
        assert load(second, mode="merge").changed == 100
        assert load("".join(blank)).changed == 0

    def test_an_accepted_member_is_checked_again_once_it_is_known(self, load):
        """A member is checked again once at least ten rows know it."""
        load(cars(200, 200))
        load(cars(0, 20), mode="merge", allow_loss=["insured"])
        load(cars(9, 9), mode="merge")
        assert load(cars(0, 30), mode="merge", dry_run=True).changed == 19
        load(cars(100, 100), mode="merge")
        with pytest.raises(OperatorError, match=r"insured .* in 0\.0 %.*before in 100\.0 %"):
            load(cars(0, 100), mode="merge")

    def test_new_rows_lose_nothing(self, load):
        """New rows have nothing to lose."""
        load(cars(100))
        assert load(cars(100, 300), mode="merge").held == 300

    def test_one_row_may_be_corrected(self, load):
        """A single row may be corrected, although it is all that the merge touched."""
        load(cars(100))
        assert load(cars(0, 1), mode="merge").changed == 1

    def test_cancellations_that_vanish_are_a_loss(self, load):
        """Without this check, policies without cancellations would insure vehicles again."""
        header = "registration,number,validFrom,validTo,cancelledOn\n"
        line = "AB{:04},P-1,2026-01-01,2026-12-31,{}\n"
        load(header + "".join(line.format(n, "2026-06-01") for n in range(20)))
        with pytest.raises(OperatorError, match="--allow-loss cancelledOn"):
            load(header + "".join(line.format(n, "") for n in range(20)), mode="merge")

    def test_fines_that_were_settled_are_a_loss(self, load):
        """Without this check, paid fines would be owed again."""
        header = "registration,reference,amount,settledOn\n"
        line = "AB{:04},F-1,65,{}\n"
        load(header + "".join(line.format(n, "2026-06-01") for n in range(20)))
        with pytest.raises(OperatorError, match="--allow-loss settledOn"):
            load(header + "".join(line.format(n, "") for n in range(20)))


@ON_SQLITE  # Values are counted as they are read.
class TestUniform:
    @pytest.mark.parametrize("mode", ["merge", "replace"])
    def test_values_that_become_the_same_are_noted(self, load, mode):
        """A flag or date that all rows share, and did not share before, is noted."""
        load(cars(100))
        result = load(cars(100, flag="true", due="2027-01-01"), mode=mode)
        assert result.notes == [
            "insured is true in all 100 rows with a value, and was not before",
            "taxDue is 2027-01-01 in all 100 rows with a value, and was not before",
        ]
        again = load(cars(100, flag="true", due="2027-01-01"), mode=mode)
        assert again.notes == ["same content as load 2"]

    def test_makes_that_become_the_same_are_noted(self, load):
        """The note leaves out the value, which can be anything in a wrong column."""
        load(cars(100).replace("2,FORD", "2,OPEL"))
        expected = "make is the same in all 100 rows with a value, and was not before"
        assert load(cars(100, make="#N/A")).notes == [expected]
        assert load(cars(100)).notes == []

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
        new = cars(1_000, 1_000, flag="true", due="2027-01-01").replace("AB", "XY")
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
        assert load("".join(mixed)).notes == []
        assert load("".join(halves)).notes[0].startswith("insured is true in all 400 rows")


def test_vehicles_that_are_exchanged_are_noted(load):
    """A load is noted if it has as many rows as before, but none of the held plates."""
    load(cars(1_000, 1_000))
    assert load(cars(1_000, 1_000).replace("AB00", "XY00")).notes == []
    load(cars(1_000, 1_000).replace("AB00", "XY00") + "CD01,FORD,true,2027-01-01\n")
    exchanged = cars(1_000, 1_000).replace("AB01", "XY01").replace("AB02", "XY02")
    for dry_run in (True, False):
        notes = load(exchanged, dry_run=dry_run).notes
        assert notes == ["301 of the 1,001 vehicles held before are removed"]


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
    def test_a_row_that_means_several_policies_is_no_repeat(self, notes):
        """Without a column for the insurer, one row can change the policies of two insurers."""
        header, row = "registration,number,validFrom,validTo", "A1,P1,2026-01-01,2026-12-31"
        assert notes(f"{header},insurer\n{row},Acme\n{row},Best\n") == []
        assert notes(f"{header},type\n{row},TK\n") == []
