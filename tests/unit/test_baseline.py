"""Limits on a load that follow from earlier loads of its register."""

from typing import Any

import pytest

from app.errors import OperatorError
from app.registers.history import RegisterLoad, list_loads
from app.registers.undo import drop_register, roll_back, undrop_register
from tests.conftest import ON_SQLITE
from tests.unit import test_format_mid as mid


@pytest.fixture
def replace(world):
    """`replace(ROWS)` replaces the vehicles of the register native by this many."""

    def run(rows: int, *, first: int = 0, **options: Any):
        path = world.directory / "new.csv"
        plates = range(first, first + rows)
        path.write_text("registration,make\n" + "".join(f"AB{n:05},FORD\n" for n in plates))
        return world.load_files(path, mode=options.pop("mode", "replace"), **options)

    return run


def refused(replace, rows: int, most: int, since: int | None) -> None:
    """A replace by this few rows is refused, and a dry run says the same."""
    told = f"rows: {most - rows:,} of {most:,} vehicles in force would be gone"
    told += f" since load {since}, over" if since else ", over"
    for dry_run in (True, False):
        with pytest.raises(OperatorError, match=told):
            replace(rows, dry_run=dry_run)


class TestShrink:
    @ON_SQLITE
    def test_small_steps_add_up(self, world, replace):
        """Steps that are each below a tenth are refused once they add up to more."""
        replace(1_000)
        assert replace(910).held == 910
        refused(replace, 829, 1_000, 1)
        assert replace(900).held == 900

    def test_an_accepted_loss_is_the_new_reference(self, replace):
        """An accepted loss is not refused again the next night."""
        replace(1_000)
        replace(500, allow_shrink=True)
        assert replace(460).held == 460
        refused(replace, 440, 500, 2)

    def test_seven_replaces_are_compared(self, replace):
        """Only the last seven replaces count, so that a register may shrink slowly."""
        for rows in (100, 99, 98, 97, 96, 95, 94):
            replace(rows)
        refused(replace, 89, 100, 1)
        replace(94)
        assert replace(90).held == 90

    @ON_SQLITE
    def test_refused_loads_do_not_count(self, replace):
        """A refused load does not count for later comparisons."""
        replace(100)
        for _ in range(8):
            refused(replace, 50, 100, None)
        replace(95)
        refused(replace, 86, 100, 1)

    def test_a_load_that_was_rolled_back_does_not_count(self, world, replace):
        """Neither its rows count, nor what the operator allowed for it."""
        replace(100)
        replace(200)
        roll_back(world.engine, "native", None)
        replace(95)
        replace(20, allow_shrink=True)
        roll_back(world.engine, "native", None)
        refused(replace, 88, 100, 1)
        assert replace(92).held == 92
        taken_back = [each.id for each in list_loads(world.engine) if each.reason and each.held]
        assert taken_back == [5, 2]

    def test_other_kinds_and_registers_are_apart(self, world, replace):
        """Each kind and each register is compared with its own earlier loads."""
        replace(100)
        replace(10, register="other")
        path = world.directory / "fines.csv"
        path.write_text("registration,reference,amount\nAB12CDE,F-1,5\n")
        world.load_files(path, mode="replace")
        assert replace(95).held == 95

    @ON_SQLITE
    def test_merged_rows_count_while_they_are_held(self, replace):
        """Rows that merges added count as long as they are held."""
        replace(100)
        replace(120, mode="merge")
        refused(replace, 105, 120, None)

    def test_a_register_that_was_dropped_begins_again(self, world, replace):
        """The rows of a dropped register do not count for a new one of its name."""
        replace(100)
        drop_register(world.engine, "native")
        assert replace(10, dry_run=True).held == 10
        replace(10)
        replace(9)

    def test_a_register_that_was_brought_back_goes_on(self, world, replace):
        """After an undrop the register's earlier loads count again."""
        replace(100)
        drop_register(world.engine, "native")
        undrop_register(world.engine, "native")
        refused(replace, 89, 100, None)

    def test_only_the_last_drop_is_taken_back(self, world, replace):
        """Loads before an older drop that was never undone stay forgotten."""
        replace(1_000)
        drop_register(world.engine, "native")
        replace(100)
        drop_register(world.engine, "native")
        undrop_register(world.engine, "native")
        assert replace(100).held == 100
        reasons = [each.reason for each in list_loads(world.engine) if each.mode == "drop"]
        assert reasons == ["taken back by load 5", None]

    def test_lines_of_an_older_program_do_not_matter(self, world, replace):
        """Lines of older programs, which do not record held rows, are ignored."""
        replace(100)
        RegisterLoad.update(held=None, is_terminated=None, accepted=None).execute(world.engine)
        replace(91)
        assert replace(85).held == 85


@ON_SQLITE
def test_what_a_first_merge_brings_does_not_add_up(world):
    """The first fines make many vehicles fail, and the second ones few: neither breaks a rule."""
    world.load([{"registration": f"A{n}", "make": "FORD"} for n in range(300)])
    fines = [{"registration": f"A{n}", "reference": "F", "amount": "9"} for n in range(62)]
    world.load(fines[:60])
    assert world.load(fines[60:]).changed == 2
    with pytest.raises(OperatorError, match="13 plates would fail because of fines"):
        world.load([fine | {"registration": f"A{100 + n}"} for n, fine in enumerate(fines[:11])])


class TestDeletions:
    @pytest.fixture
    def delete(self, world):
        """`delete(ROWS)` merges deletions of this many vehicles into the register native."""

        def run(rows: int, **options: Any):
            path = world.directory / "delta.json"
            record = '{{"registration": "AB{:05}", "motTests": [], "modification": "DELETED"}}'
            path.write_text(f"[{', '.join(map(record.format, range(rows)))}]")
            return world.load_files(path, register="native", **options)

        return run

    @ON_SQLITE
    @pytest.mark.parametrize(("held", "rows"), [(500, 51), (90, 10)])
    def test_a_merge_that_removes_much_is_refused(self, world, replace, delete, held, rows):
        """A merge that deletes more than a tenth, and at least ten rows, is refused as a whole."""
        replace(held)
        told = f"{rows} of {held} vehicles in force would be gone, over 10 %; .*--accept rows"
        for dry_run in (True, False):
            with pytest.raises(OperatorError, match=told):
                delete(rows, dry_run=dry_run)
        assert replace(held, mode="merge").changed == 0
        assert delete(rows, allow_shrink=True).held == held - rows

    @ON_SQLITE
    @pytest.mark.parametrize(("held", "rows"), [(500, 50), (9, 4)])
    def test_a_merge_may_remove_some(self, replace, delete, held, rows):
        """A merge may delete a tenth, or a few rows of a small register."""
        replace(held)
        assert delete(rows).held == held - rows

    def test_policies_are_counted_as_well(self, world):
        """Without this limit a change file could leave every vehicle without insurance."""
        path = world.directory / "changes.txt"
        for update in "ND":
            records = (mid.record(update=update, plate=f"A{n}") for n in range(20))
            path.write_text(mid.file(*records))
            if update == "N":
                assert world.load_files(path).held == 20
        with pytest.raises(OperatorError, match="rows: no policies would be left of 20"):
            world.load_files(path)

    def test_an_accepted_loss_is_the_new_reference(self, replace, delete):
        """A replace is not compared with what preceded an accepted merge."""
        replace(500)
        delete(250, allow_shrink=True)
        assert replace(250, first=250).held == 250
        with pytest.raises(OperatorError, match="26 of 250 vehicles in force would be gone, over"):
            replace(224, first=250)
