"""Rollbacks: how far back a register can go, and what makes them impossible (D28)."""

from functools import partial
from typing import Any

import pytest

from app.errors import OperatorError
from app.registers.generations import Generations, locked
from app.registers.history import list_loads
from app.registers.undo import drop_register, roll_back
from app.storage.engine import close_quietly, open_engine
from app.storage.registers import KeptRegister, Register
from app.storage.tables import Kind
from tests.conftest import ON_POSTGRES
from tests.unit.held import HEADER, generations, loaded, makes, vehicles

PATH = "/v1/vehicle/AB12CDE/insurance"
POLICIES = "registration,number,validFrom,validTo\nAB12CDE,{},2026-01-01,2099-12-31\n"


@pytest.fixture
def replace(world):
    """`replace(CONTENT)` replaces the vehicles of the register native by default."""
    return partial(loaded, world)


@pytest.fixture
def four(replace) -> list[int]:
    """Load four makes in turn; three earlier states are kept."""
    makes = ("FORD", "SEAT", "KIA", "OPEL")
    for make in makes:
        replace(vehicles(make), keep_snapshots=3)
    return list(range(1, len(makes) + 1))


class TestOneStep:
    def test_the_rows_from_before_are_back(self, world, replace, alice):
        """Rows, counts and answers are the former ones; the rolled-back state is removed."""
        replace(f"{HEADER}AB12CDE,FORD\n")
        replace(f"{HEADER}AB12CDE,SEAT\nAB13CDE,SEAT\n")
        assert roll_back(world.engine, None, None) == {
            "register": "native",
            "kind": "vehicles",
            "held": 1,
            "load": 1,
        }
        assert alice.get(PATH).json["vehicle"]["make"] == "FORD"
        assert Register.select().get(world.engine).vehicles == 1
        assert [line.mode for line in list_loads(world.engine)] == ["rollback"] + ["replace"] * 2

    def test_there_is_one_way_back(self, world, replace):
        """By default only the state before the last replace is kept."""
        for make in ("FORD", "SEAT", "KIA"):
            replace(vehicles(make))
        assert len(generations(world)) == 2
        roll_back(world.engine, "native", None)
        with pytest.raises(OperatorError, match="no earlier state is kept"):
            roll_back(world.engine, "native", None)
        assert makes(world) == ["SEAT"]

    def test_after_a_merge_it_is_refused(self, world, four, replace):
        """The merged rows would be lost, so a merge removes all earlier states."""
        replace(vehicles("FIAT"), mode="merge", keep_snapshots=3)
        with pytest.raises(OperatorError, match="its last load was a merge"):
            roll_back(world.engine, "native", None)
        assert len(generations(world)) == 1
        assert KeptRegister.select().count(world.engine) == 0

    @pytest.mark.parametrize("content", [HEADER, vehicles("SEAT")])
    def test_after_a_merge_that_changed_nothing_it_is_not(self, world, replace, content):
        """A merge without changes has no rows to lose."""
        replace(vehicles("FORD"))
        replace(vehicles("SEAT"))
        assert replace(content, mode="merge").changed == 0
        roll_back(world.engine, "native", None)
        assert makes(world) == ["FORD"]

    def test_a_merge_that_changed_nothing_is_not_the_reason(self, world, replace):
        """The message names the load after which a rollback became impossible."""
        replace(vehicles("FORD"))
        replace(HEADER, mode="merge")
        with pytest.raises(OperatorError, match="it held nothing before its last load"):
            roll_back(world.engine, "native", None)

    def test_after_a_load_that_failed_it_is_not(self, world, replace):
        """A failed load changes nothing, so the rollback stays possible."""
        replace(vehicles("FORD"))
        replace(vehicles("SEAT"))
        with pytest.raises(OperatorError, match="never closed"):
            replace(f'{HEADER}AB12CDE,"FORD\n')
        roll_back(world.engine, "native", None)
        assert makes(world) == ["FORD"]

    def test_a_first_load_cannot_be_rolled_back(self, world, replace):
        """A first load cannot be rolled back, but its register can be dropped."""
        replace(vehicles("FORD"))
        with pytest.raises(OperatorError, match="it held nothing before"):
            roll_back(world.engine, "native", None)

    def test_the_kind_must_be_that_of_the_last_load(self, world, replace):
        """An operator who names policies must not roll back vehicles."""
        replace(vehicles("FORD"))
        replace(vehicles("SEAT"))
        with pytest.raises(OperatorError, match="changes its vehicles, not its policies"):
            roll_back(world.engine, "native", Kind.POLICIES)
        assert roll_back(world.engine, "native", Kind.VEHICLES)["held"] == 1

    def test_an_unknown_register_is_refused(self, world):
        """Without a replaced register there is nothing to roll back."""
        with pytest.raises(OperatorError, match="there is no register rdw"):
            roll_back(world.engine, "rdw", None)
        with pytest.raises(OperatorError, match="no register can be rolled back"):
            roll_back(world.engine, None, None)

    def test_with_several_one_must_be_named(self, world, replace):
        """The message lists the registers, without dropped ones."""
        for register in ("a", "b", "c"):
            for make in ("FORD", "SEAT"):
                replace(vehicles(make), register=register)
        drop_register(world.engine, "c")
        with pytest.raises(OperatorError, match=r"one with --register: a, b$"):
            roll_back(world.engine, None, None)

    def test_a_replace_after_a_rollback_is_a_new_generation(self, world, replace, alice):
        """Generation numbers are never reused, so that workers notice the change."""
        for make in ("FORD", "SEAT"):
            replace(f"{HEADER}AB12CDE,{make}\n")
        roll_back(world.engine, None, None)
        replace(f"{HEADER}AB12CDE,KIA\n")
        assert alice.get(PATH).json["vehicle"]["make"] == "KIA"
        assert len(generations(world)) == 2

    def test_it_waits_for_no_load(self, world, replace):
        """A rollback or a drop is refused while a load of the register runs."""
        replace(vehicles("FORD"))
        replace(vehicles("SEAT"))
        other = open_engine(world.config.database_url)
        undo = partial(roll_back, world.engine, "native", None)
        with locked(other, "native"):
            for refused in (undo, partial(drop_register, world.engine, "native")):
                with pytest.raises(OperatorError, match="another load of the register native"):
                    refused()
        close_quietly(other)
        assert makes(world) == ["SEAT"]


class TestSeveralSteps:
    def test_each_rollback_goes_further_back(self, world, four, alice):
        """Each rollback goes back one state and removes the later one."""
        for make, stored in (("KIA", 3), ("SEAT", 2), ("FORD", 1)):
            roll_back(world.engine, None, None)
            assert makes(world) == [make]
            assert KeptRegister.select().count(world.engine) == stored - 1
        with pytest.raises(OperatorError, match="it held nothing before its last load"):
            roll_back(world.engine, "native", None)

    def test_a_load_that_was_taken_back_counts_for_no_state(self, world, replace):
        """A merge that changed nothing is taken back with the replace before it."""
        for make in ("FORD", "SEAT"):
            replace(vehicles(make))
        replace(vehicles("SEAT"), mode="merge")
        roll_back(world.engine, "native", None)
        replace(vehicles("KIA"))
        assert roll_back(world.engine, "native", None, to=1)["load"] == 1
        assert makes(world) == ["FORD"]

    def test_a_drop_is_not_blamed_on_the_setting(self, world, replace):
        """Loads before a drop are no reason to keep more snapshots."""
        replace(vehicles("FORD"))
        drop_register(world.engine, "native")
        replace(vehicles("SEAT"))
        with pytest.raises(OperatorError, match="it held nothing before its last load"):
            roll_back(world.engine, "native", None)

    def test_no_more_are_kept_than_asked_for(self, world, four, replace):
        """The oldest state is removed, and its disk space freed."""
        replace(vehicles("FIAT"), keep_snapshots=3)
        assert len(generations(world)) == 4
        kept = KeptRegister.select(KeptRegister.generation).tuples().execute(world.engine)
        assert sorted(kept) == [(2,), (3,), (4,)]

    @pytest.mark.parametrize(("keep", "stored"), [(2, 3), (1, 2), (0, 1)])
    def test_fewer_from_the_next_load_on(self, world, four, replace, keep, stored):
        """Under a lower limit the next load removes the extra states."""
        replace(vehicles("FIAT"), keep_snapshots=keep)
        assert len(generations(world)) == stored
        assert KeptRegister.select().count(world.engine) == keep

    def test_extra_states_are_removed_before_a_load(self, world, four, replace):
        """Extra states are removed before a load reads, even if it then fails."""
        with pytest.raises(OperatorError, match="never closed"):
            replace(f'{HEADER}AB12CDE,"FORD\n', keep_snapshots=1)
        assert len(generations(world)) == 2
        roll_back(world.engine, None, None)
        assert makes(world) == ["KIA"]

    def test_with_none_kept_a_rollback_is_refused(self, world, replace):
        """With none kept, the refusal names the setting, and only current rows take disk space."""
        for make in ("FORD", "SEAT"):
            replace(vehicles(make), keep_snapshots=0)
        assert len(generations(world)) == 1
        with pytest.raises(OperatorError, match=r"no earlier state is kept \(VERIFYD_KEEP"):
            roll_back(world.engine, "native", None)

    def test_it_can_go_back_several_at_once(self, world, four, replace):
        """`--to` removes the states after the given load, and keeps those before it."""
        assert roll_back(world.engine, None, None, to=2)["load"] == 2
        assert makes(world) == ["SEAT"]
        roll_back(world.engine, None, None)
        assert makes(world) == ["FORD"]
        replace(vehicles("FIAT"), keep_snapshots=3)
        assert len(generations(world)) == 2

    @pytest.mark.parametrize("to", [4, 5, 99])
    def test_a_refusal_lists_the_possible_states(self, world, four, to):
        """A refusal lists the possible states, also if the current one is asked for."""
        with pytest.raises(OperatorError) as refused:
            roll_back(world.engine, "native", None, to=to)
        told = str(refused.value)
        assert f"native cannot be rolled back to load {to}. It can go back to load 3 of 20" in told
        assert told.count("(1 vehicles, 0 policies, 0 fines)") == 3
        assert makes(world) == ["OPEL"]

    def test_a_state_is_named_after_the_last_load_in_it(self, world, replace):
        """A kept state is named after the last load in it, which can be a merge."""
        for make in ("FORD", "SEAT"):
            replace(vehicles(make), mode="merge")
        replace(vehicles("KIA"))
        assert roll_back(world.engine, None, None, to=2)["load"] == 2
        assert makes(world) == ["SEAT"]

    def test_several_kinds_can_change_at_once(self, world, replace):
        """If several kinds change, the result names none; naming one kind is refused."""
        replace(vehicles("FORD"), keep_snapshots=3)
        replace(POLICIES.format("P-1"), keep_snapshots=3, allow_shrink=True)
        replace(vehicles("SEAT"), keep_snapshots=3)
        with pytest.raises(OperatorError, match="changes its policies and vehicles, not its veh"):
            roll_back(world.engine, None, Kind.VEHICLES, to=1)
        done = roll_back(world.engine, None, None, to=1)
        assert done == {"register": "native", "kind": None, "held": None, "load": 1}
        assert Register.select().get(world.engine).policies == 0

    def test_states_of_a_register_stay_while_it_is_dropped(self, world, four):
        """A dropped register keeps its states, and can be rolled back once it is undropped."""
        drop_register(world.engine, "native")
        with pytest.raises(OperatorError, match='was dropped; run "verifyd imports undrop native"'):
            roll_back(world.engine, "native", None)
        assert KeptRegister.select().count(world.engine) == 3

    def test_a_state_that_is_not_there_is_refused(self, world, four):
        """A missing state, as after its file was removed by hand, is refused without changes."""
        _lose(world, 3)
        with pytest.raises(OperatorError, match="native held after load 3 is missing"):
            roll_back(world.engine, "native", None)
        assert makes(world) == ["OPEL"]
        roll_back(world.engine, "native", None, to=2)
        assert makes(world) == ["SEAT"]


def _lose(world: Any, generation: int) -> None:
    (name,) = [
        each for each in generations(world) if str(generation) in each.partition("native")[2]
    ]
    if world.engine.__class__.__name__ == "SqliteEngine":
        (world.directory / name).unlink()
    else:
        world.engine.execute_sql(f'DROP SCHEMA "{name}" CASCADE')


@ON_POSTGRES
def test_states_kept_by_older_programs_are_removed(world, replace):
    """A schema without a number, from a program before schema 4, is removed."""
    replace(vehicles("FORD"))
    world.engine.execute_sql("CREATE SCHEMA kept_register_native")
    Generations(world.engine, "native").remove_unused()
    assert generations(world) == ["register_native"]
