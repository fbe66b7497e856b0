"""The history of loads, and how killed loads are settled (D25, D28)."""

from typing import Any

import pytest

from app import clock
from app.registers.applying.table import Applied
from app.registers.generations import Generations
from app.registers.history import History, list_loads
from app.registers.recovery import end_killed_loads, finish_merge
from app.registers.undo import drop_register
from app.storage.registers import Register
from app.storage.tables import Kind
from tests.unit.held import begun

ROW = {"registration": "AB12CDE", "make": "FORD"}
COUNTS = {"rows": 3, "loaded": 2, "changed": 1, "rejected": 1, "skipped": 0}


@pytest.fixture
def history(world):
    """The history of a register without loads."""
    return History(world.engine, "native")


@pytest.fixture
def generations(world):
    """The generations of the same register."""
    return Generations(world.engine, "native")


def statuses(world) -> list[tuple[str, str | None]]:
    """Return how the loads ended, the first one first."""
    return [(each.status, each.reason) for each in reversed(list_loads(world.engine))]


def register(world) -> Any:
    """Return the register's entry; None if there is none."""
    return Register.select().first(world.engine)


def test_a_load_is_running_until_it_is_finished(world, history):
    """The line exists from the beginning, so that a killed load leaves a trace."""
    begun(world.engine, "native")
    (line,) = list_loads(world.engine)
    assert (line.status, line.files, line.finished_at) == ("running", "a.csv", None)


def test_a_register_is_named_after_the_load_that_made_it(world, history, generations):
    """A register's generation is the number of the load that made it."""
    load_id = begun(world.engine, "native")
    entry = generations.add(load_id)
    assert (entry, entry.generation) == (generations.find_current(), load_id)


def test_no_generation_comes_twice(world):
    """Generations are never reused: a reader must not confuse a new register with a dropped one."""
    generations = []
    for _ in range(3):
        world.load([ROW])
        generations.append(register(world).generation)
        drop_register(world.engine, "native")
    assert len(set(generations)) == 3


def test_finish_records_all_counts(world, history, generations, monkeypatch):
    """The line gets the load's counts, the register its rows and their time."""
    monkeypatch.setattr(clock, "now", lambda: 1_900_000_000)
    load_id = begun(world.engine, "native")
    generations.add(load_id)
    finish_merge(world.engine, generations, load_id, Kind.VEHICLES, COUNTS | {"held": 7})
    (line,) = list_loads(world.engine)
    assert {name: getattr(line, name) for name in COUNTS} == COUNTS
    assert (line.status, line.finished_at) == ("done", 1_900_000_000)
    assert (register(world).vehicles, register(world).loaded_at) == (7, 1_900_000_000)


def test_a_kind_is_announced_once(world, generations):
    """The letters of the kinds are in order, each occurs once, and none is removed."""
    entry = generations.add(1)
    for kind in (Kind.VEHICLES, Kind.FINES, Kind.VEHICLES):
        entry = generations.announce(entry, kind)
    assert register(world).kinds == "fv"


def test_a_failed_load_leaves_a_register_that_has_rows(world, history, generations):
    """A failed load removes a register only if it was made for that load."""
    world.load([ROW])
    load_id = begun(world.engine, "native")
    history.fail(load_id, {"reason": "the disk is full"})
    generations.remove_made_by(load_id)
    assert statuses(world) == [("done", None), ("failed", "the disk is full")]
    assert register(world) is not None


def test_a_load_that_never_committed_was_interrupted(world, history, generations):
    """If the register does not know of the load, nothing was changed."""
    world.load([ROW])
    begun(world.engine, "native")
    end_killed_loads(world.engine, generations, begun(world.engine, "native"), lambda _: None)
    assert [status for status, _ in statuses(world)] == ["done", "failed", "running"]
    assert statuses(world)[1][1] == "interrupted"


def test_a_load_that_committed_was_done(world, history, generations):
    """The line and the register get the counts that the load committed."""
    world.load([ROW])
    begun(world.engine, "native")
    applied = Applied(loaded=5, changed=4, held=9)
    end_killed_loads(world.engine, generations, begun(world.engine, "native"), lambda _: applied)
    line = list_loads(world.engine)[1]
    assert (line.status, line.loaded, line.changed) == ("done", 5, 4)
    assert register(world).vehicles == 9


def test_loads_of_other_registers_are_left_alone(world, history):
    """A load of another register may still be running."""
    begun(world.engine, "native")
    other = begun(world.engine, "other")
    end_killed_loads(world.engine, Generations(world.engine, "other"), other, lambda _: None)
    assert statuses(world) == [("running", None), ("running", None)]


def test_loads_are_listed_by_register(world, history):
    """The list has one register or all, the latest load first."""
    first, second = begun(world.engine, "native"), begun(world.engine, "other")
    assert [line.id for line in list_loads(world.engine)] == [second, first]
    assert [line.id for line in list_loads(world.engine, "other")] == [second]
