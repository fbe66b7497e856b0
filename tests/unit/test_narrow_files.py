"""A merge keeps the members that a native or mapped file has no column for."""

import json
from typing import Any

import pytest

from app import clock
from app.registers.formats.mapped import MappedCsv
from app.registers.formats.mapping_file import read_mapping
from app.storage.tables import Fine, Policy, Vehicle
from tests.conftest import ON_SQLITE
from tests.unit.test_load import files, held

FIRST, SECOND = 1_900_000_000, 1_900_086_400
POLICY = "registration,number,insurer,validFrom,validTo,type,cancelledOn\n"
CANCELLED = "AB12CDE,P-1,Acme,2026-01-01,2099-12-31,third party,2026-02-01\n"
CAR = "registration,make,year,insured,motExpiry\nAB12CDE,FORD,2012,true,2027-05-13\n"


@pytest.fixture
def at(monkeypatch):
    """`at(SECONDS)` sets the clock."""
    return lambda seconds: monkeypatch.setattr(clock, "now", lambda: seconds)


@pytest.fixture
def merge(world):
    """`merge(CONTENT, ...)` merges files with these contents in one load."""

    def run(*contents: str, **options: Any):
        named = {f"f{n}": content for n, content in enumerate(contents)}
        return world.load_files(*files(world, **named), **options)

    return run


def car(world) -> tuple[Any, ...]:
    """Return make, year, insured and MOT date of the one vehicle."""
    (row,) = held(world)
    return row[1], row[3], row[5], str(row[6]) if row[6] else None


class TestPolicies:
    @pytest.mark.parametrize(
        "columns", [(0, 1, 2, 3, 4), (0, 1, 3, 4), (0, 1, 3, 4, 5)], ids=["all", "keys", "type"]
    )
    def test_a_file_without_cancellations_revives_no_policy(self, world, alice, merge, columns):
        """Without the column a cancellation stays, even if the file has only the key."""
        merge(POLICY + CANCELLED)
        narrow = [
            ",".join(line.split(",")[at] for at in columns)
            for line in (POLICY.strip(), CANCELLED.strip())
        ]
        assert merge("\n".join(narrow) + "\n").changed == 0
        (row,) = held(world, Policy)
        assert (row[1], row[5], str(row[6])) == ("Acme", "third party", "2026-02-01")
        insurance = alice.get("/v1/vehicle/AB12CDE/insurance?asOf=2026-06-01").json
        assert insurance["insured"] is False

    def test_a_blank_cell_does_revive_it(self, world, merge):
        """A blank cell of an existing column removes the cancellation."""
        merge(POLICY + CANCELLED)
        assert merge(POLICY + CANCELLED.replace("2026-02-01", "")).changed == 1
        assert held(world, Policy)[0][6] is None

    def test_blank_missing_is_as_it_was(self, world, merge):
        """With `--blank-missing`, members without a column become unknown."""
        merge(POLICY + CANCELLED)
        header = "registration,number,insurer,validFrom,validTo\n"
        narrow = f"{header}AB12CDE,P-1,Acme,2026-01-01,2099-12-31\n"
        assert merge(narrow, blank_missing=True).changed == 1
        assert held(world, Policy)[0][5:7] == (None, None)

    def test_another_period_is_another_policy(self, world, merge):
        """Another period has its own key, and keeps nothing of its neighbours."""
        merge(POLICY + CANCELLED)
        merge("registration,number,validFrom,validTo\nAB12CDE,P-1,2100-01-01,2100-12-31\n")
        assert [row[1] for row in held(world, Policy)] == ["", "Acme"]

    @ON_SQLITE
    def test_many_narrow_rows_go_the_same_way(self, world, merge):
        """Many narrow rows among other policies and vehicles are merged alike."""
        lines = [
            f"AB{n:04},P-{n % 3},Acme,2026-01-01,2026-12-31,x,2026-02-01\n" for n in range(900)
        ]
        merge(POLICY + "".join(lines))
        narrow = "registration,number,validFrom,validTo\n" + "".join(
            f"AB{n:04},P-{n % 3},2026-01-01,2027-12-31\n" for n in range(1_000)
        )
        assert (merge(narrow).changed, len(held(world, Policy))) == (1_000, 1_000)
        assert sum(row[6] is not None for row in held(world, Policy)) == 900


class TestVehicles:
    def test_members_without_a_column_keep_their_values(self, world, merge):
        """A file of MOT dates changes only MOT dates."""
        merge(CAR)
        assert merge("registration,motExpiry\nAB12CDE,2028-05-13\n").changed == 1
        assert car(world) == ("FORD", 2012, True, "2028-05-13")

    def test_an_empty_cell_is_unknown(self, world, merge):
        """An empty cell of an existing column makes the value unknown."""
        merge(CAR)
        merge("registration,motExpiry\nAB12CDE,\n")
        assert car(world) == ("FORD", 2012, True, None)

    def test_a_new_row_has_the_members_of_its_file(self, world, merge):
        """Members that the file of a new row lacks are unknown."""
        merge("registration,motExpiry\nAB12CDE,2028-05-13\n")
        assert car(world) == (None, None, None, "2028-05-13")

    @ON_SQLITE
    def test_a_plate_twice_in_a_narrow_file(self, world, merge):
        """The later row of a plate counts, as in any file."""
        merge(CAR)
        narrow = "registration,year\nAB12CDE,2013\nAB12CDE,\n"
        assert merge(narrow).loaded == 2
        assert car(world) == ("FORD", None, True, "2027-05-13")

    @ON_SQLITE
    @pytest.mark.parametrize("order", [1, -1])
    def test_files_of_one_load_are_applied_in_order(self, world, merge, order):
        """Several files in one load have the same effect as several loads."""
        narrow = "registration,year,motExpiry\nAB12CDE,2013,\n"
        merge(*[CAR, narrow][::order])
        years = {1: ("FORD", 2013, True, None), -1: ("FORD", 2012, True, "2027-05-13")}
        assert car(world) == years[order]

    @ON_SQLITE
    def test_files_that_tell_different_members_add_up(self, world, merge):
        """Members from several files are combined, also for a vehicle that is new."""
        merge("registration,make\nAB12CDE,FORD\n", "registration,year\nAB12CDE,2012\n")
        assert car(world)[:2] == ("FORD", 2012)

    def test_an_unchanged_row_keeps_its_time(self, world, merge, at):
        """An unchanged row keeps its time, and a changed one gets that of the load (D21)."""
        at(FIRST)
        merge(CAR)
        at(SECOND)
        assert merge("registration,year\nAB12CDE,2012\n").changed == 0
        assert held(world)[0][-1] == FIRST
        assert merge("registration,year\nAB12CDE,2013\n").changed == 1
        assert held(world)[0][-1] == SECOND

    @ON_SQLITE
    def test_a_replace_keeps_nothing(self, world, merge):
        """A replace keeps no members: the files are all there is."""
        merge(CAR)
        merge("registration,year\nAB12CDE,2013\n", mode="replace")
        assert car(world) == (None, 2013, None, None)

    @ON_SQLITE
    def test_a_dry_run_counts_the_same(self, world, merge):
        """A dry run does not count kept members as changes."""
        merge(CAR)
        narrow = "registration,year\nAB12CDE,2012\nAB13CDE,2013\n"
        tried = merge(narrow, dry_run=True)
        assert tried == merge(narrow)._replace(dry_run=True, load=None)
        assert tried.changed == 1


@ON_SQLITE
class TestJson:
    @pytest.mark.parametrize("as_text", [json.dumps, lambda rows: "\n".join(map(json.dumps, rows))])
    def test_a_member_that_no_row_has_is_kept(self, world, merge, as_text):
        """A member that no row has is kept, like a column that is not in the header."""
        merge(CAR)
        merge(as_text([{"registration": "AB12CDE", "year": 2013}]))
        assert car(world) == ("FORD", 2013, True, "2027-05-13")

    def test_a_row_may_leave_out_what_others_have(self, world, merge):
        """If other rows have the member, leaving it out means unknown."""
        merge(CAR)
        rows = [{"registration": "AB12CDE", "year": 2013}, {"registration": "AB13CDE", "make": "X"}]
        merge("\n".join(map(json.dumps, rows)))
        assert held(world)[0][1:4] == (None, None, 2013)
        assert str(held(world)[0][6]) == "2027-05-13"

    def test_all_files_of_a_load_are_one(self, world, merge):
        """Pages of one load are combined: a member counts if any row of any page has it."""
        merge(CAR)
        merge(
            json.dumps([{"registration": "AB12CDE", "year": 2013}]),
            json.dumps([{"registration": "AB13CDE", "make": "X"}]),
        )
        assert held(world)[0][1] is None

    def test_null_says_that_nothing_is_known(self, world, merge):
        """A member with null is like a column with an empty cell."""
        merge(CAR)
        merge('{"registration": "AB12CDE", "make": null}')
        assert car(world) == (None, 2012, True, "2027-05-13")


class TestFines:
    @pytest.mark.parametrize(
        ("held_fine", "amount", "is_settled"),
        [
            ("65,2026-01-01", "65", True),
            ("65,", "0", True),
            ("0,", "65", False),
            ("65,", "65", False),
        ],
    )
    def test_a_settled_fine_stays_settled(self, world, merge, held_fine, amount, is_settled):
        """A day of settling stays; a fine settled by its amount is owed with a new amount."""
        merge(f"registration,reference,amount,settledOn\nA1,F-1,{held_fine}\n")
        merge(f"registration,reference,amount\nA1,F-1,{amount}\n")
        (row,) = held(world, Fine)
        assert (row[3], bool(row[5])) == (int(amount) * 100, is_settled)

    def test_days_of_settling_keep_the_amount(self, world, merge):
        """A file of days of settling keeps the amounts."""
        merge("registration,reference,issuedOn,amount\nA1,F-1,2026-01-01,65\n")
        merge("registration,reference,settledOn\nA1,F-1,2026-02-01\n")
        (row,) = held(world, Fine)
        assert (str(row[2]), row[3], bool(row[5])) == ("2026-01-01", 6500, True)


class TestMapped:
    def test_members_outside_the_mapping_are_kept(self, world, merge):
        """Members that the mapping leaves out are kept; constants are written to every row."""
        merge(CAR)
        path = world.directory / "map.toml"
        path.write_text(
            'kind = "vehicles"\nregister = "native"\n'
            '[columns]\nregistration = "Plate"\nyear = "Built"\n[constants]\nmake = "SEAT"\n'
        )
        mapped = MappedCsv(read_mapping(path))
        options = {"formats": {mapped.name: mapped}, "format": mapped.name, "register": "native"}
        merge("Plate,Built\nAB12CDE,2013\n", **options)
        assert car(world) == ("SEAT", 2013, True, "2027-05-13")


def test_other_sources_write_all_that_they_carry(world, merge):
    """An RDW row, in CSV or JSON, makes members without a value unknown."""
    row = {"kenteken": "AB12CDE", "merk": "FORD", "wam_verzekerd": "Ja"}
    merge(json.dumps([row | {"vervaldatum_apk": "20270513"}]))
    merge(json.dumps([row]))
    assert held(world, Vehicle, "rdw")[0][6] is None
