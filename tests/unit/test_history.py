"""The history of loads, and what it makes of loads that were killed (D25, D28)."""

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
    """The history of a register that nothing was loaded into yet."""
    return History(world.engine, "native")


@pytest.fixture
def generations(world):
    """The generations of the same register."""
    return Generations(world.engine, "native")


def statuses(world) -> list[tuple[str, str | None]]:
    """How the loads ended, the first one first."""
    return [(each.status, each.reason) for each in reversed(list_loads(world.engine))]


def register(world) -> Any:
    """The entry of the register, None if there is none."""
    return Register.select().first(world.engine)


def test_a_load_runs_until_it_is_told_otherwise(world, history):
    """A line is there from the beginning, so that a killed load leaves a trace."""
    begun(world.engine, "native")
    (line,) = list_loads(world.engine)
    assert (line.status, line.files, line.finished_at) == ("running", "a.csv", None)


def test_a_register_is_named_after_the_load_that_made_it(world, history, generations):
    """Its generation is that load's number."""
    load_id = begun(world.engine, "native")
    entry = generations.add(load_id)
    assert (entry, entry.generation) == (generations.find_current(), load_id)


def test_no_generation_comes_twice(world):
    """A reader must never take a new register for one that was dropped."""
    generations = []
    for _ in range(3):
        world.load([ROW])
        generations.append(register(world).generation)
        drop_register(world.engine, "native")
    assert len(set(generations)) == 3


def test_finish_tells_all_counts(world, history, generations, monkeypatch):
    """The line gets what was read and changed, the register what it holds and since when."""
    monkeypatch.setattr(clock, "now", lambda: 1_900_000_000)
    load_id = begun(world.engine, "native")
    generations.add(load_id)
    finish_merge(world.engine, generations, load_id, Kind.VEHICLES, COUNTS | {"held": 7})
    (line,) = list_loads(world.engine)
    assert {name: getattr(line, name) for name in COUNTS} == COUNTS
    assert (line.status, line.finished_at) == ("done", 1_900_000_000)
    assert (register(world).vehicles, register(world).loaded_at) == (7, 1_900_000_000)


def test_a_kind_is_announced_once(world, generations):
    """The letters of the kinds come in their order, each once, and none goes."""
    entry = generations.add(1)
    for kind in (Kind.VEHICLES, Kind.FINES, Kind.VEHICLES):
        entry = generations.announce(entry, kind)
    assert register(world).kinds == "fv"


def test_a_failed_load_leaves_a_register_that_has_rows(world, history, generations):
    """Only a register that was made for the load itself goes."""
    world.load([ROW])
    load_id = begun(world.engine, "native")
    history.fail(load_id, {"reason": "the disk is full"})
    generations.remove_made_by(load_id)
    assert statuses(world) == [("done", None), ("failed", "the disk is full")]
    assert register(world) is not None


def test_a_load_that_never_committed_was_interrupted(world, history, generations):
    """The register knows nothing of it: it changed nothing."""
    world.load([ROW])
    begun(world.engine, "native")
    end_killed_loads(world.engine, generations, begun(world.engine, "native"), lambda _: None)
    assert [status for status, _ in statuses(world)] == ["done", "failed", "running"]
    assert statuses(world)[1][1] == "interrupted"


def test_a_load_that_committed_was_done(world, history, generations):
    """Its counts are those that the register kept; the register's own are brought up to date."""
    world.load([ROW])
    begun(world.engine, "native")
    applied = Applied(loaded=5, changed=4, held=9)
    end_killed_loads(world.engine, generations, begun(world.engine, "native"), lambda _: applied)
    line = list_loads(world.engine)[1]
    assert (line.status, line.loaded, line.changed) == ("done", 5, 4)
    assert register(world).vehicles == 9


def test_loads_of_other_registers_are_left_alone(world, history):
    """One of theirs may be running this very moment."""
    begun(world.engine, "native")
    other = begun(world.engine, "other")
    end_killed_loads(world.engine, Generations(world.engine, "other"), other, lambda _: None)
    assert statuses(world) == [("running", None), ("running", None)]


def test_loads_are_listed_by_register(world, history):
    """The latest first, of one register or of all."""
    first, second = begun(world.engine, "native"), begun(world.engine, "other")
    assert [line.id for line in list_loads(world.engine)] == [second, first]
    assert [line.id for line in list_loads(world.engine, "other")] == [second]
