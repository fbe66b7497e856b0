"""The history of loads, how killed loads are settled, and how long lines stay (D25, D28, D69)."""

from contextlib import suppress
from typing import Any

import pytest

from app import clock
from app.errors import OperatorError
from app.registers.applying.table import Applied, note_applied
from app.registers.generations import Generations
from app.registers.history import History, RegisterLoad, list_loads, prune_history
from app.registers.recovery import end_killed_loads, finish_merge
from app.registers.undo import drop_register
from app.storage.registers import Register
from app.storage.tables import Kind
from tests.conftest import STORAGE
from tests.unit.held import begun

pytestmark = STORAGE

DAY = 86_400
NOW = 1_900_000_000
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
    finish_merge(generations, load_id, Kind.VEHICLES, COUNTS | {"held": 7}, is_fresh=True)
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
    end_killed_loads(generations, None, begun(world.engine, "native"))
    assert [status for status, _ in statuses(world)] == ["done", "failed", "running"]
    assert statuses(world)[1][1] == "interrupted"


def test_a_load_that_committed_was_done(world, history, generations):
    """The line and the register get the counts that the load committed."""
    world.load([ROW])
    killed, running = begun(world.engine, "native"), begun(world.engine, "native")
    with generations.opened(generations.find_current()) as opened:
        note_applied(opened, killed, Applied(loaded=5, changed=4, held=9))
        end_killed_loads(generations, opened, running)
    line = list_loads(world.engine)[1]
    assert (line.status, line.loaded, line.changed) == ("done", 5, 4)
    assert register(world).vehicles == 9


def test_loads_of_other_registers_are_left_alone(world, history):
    """A load of another register may still be running."""
    begun(world.engine, "native")
    other = begun(world.engine, "other")
    end_killed_loads(Generations(world.engine, "other"), None, other)
    assert statuses(world) == [("running", None), ("running", None)]


def test_loads_are_listed_by_register(world, history):
    """The list has one register or all, the latest load first."""
    first, second = begun(world.engine, "native"), begun(world.engine, "other")
    assert [line.id for line in list_loads(world.engine)] == [second, first]
    assert [line.id for line in list_loads(world.engine, "other")] == [second]


class TestPrune:
    @pytest.fixture
    def line(self, world):
        """`line(DAYS, STATUS...)` adds a line of this many days ago, and returns its number."""

        def add(days: int, status: str = "failed", **columns: Any) -> int:
            base = {"register": "", "kind": "", "mode": "merge", "format": "", "files": "a.csv"}
            columns = base | {"loaded_by": "x", "started_at": NOW - days * DAY} | columns
            return int(RegisterLoad.insert(status=status, **columns).execute(world.engine))

        return add

    @pytest.fixture(autouse=True)
    def _at(self, monkeypatch):
        monkeypatch.setattr(clock, "now", lambda: NOW)

    def left(self, world) -> list[int]:
        """Return the numbers of the remaining lines."""
        prune_history(world.engine, world.config.data_dir)
        return sorted(each.id for each in list_loads(world.engine))

    def test_failures_go_after_400_days(self, world, line):
        """Failures are removed after 400 days; a running load stays until it is settled."""
        line(401)
        assert self.left(world) == []
        kept = [line(399), line(401, "running")]
        assert self.left(world) == kept

    def test_lines_that_the_next_load_needs_stay(self, world, line):
        """The last seven lines that count stay, for each register, kind, mode and format."""
        own = {"register": "rdw", "kind": "vehicles", "mode": "replace", "format": "rdw-csv"}
        line(900, "done", **own)
        line(850, "done", **own, reason="rolled back by load 9")
        kept = [line(800 - n, "done", **own) for n in range(7)]
        kept += [line(800, "done", **own | {"mode": "merge"})]
        kept += [line(800, "done", **own | {"format": "rdw-json"})]
        kept += [line(800, "done", **own | {"kind": "fines"})]
        assert self.left(world) == kept

    def test_the_next_load_does_it(self, world, line):
        """Every load removes old lines, whether it succeeds, fails or is refused early."""
        path = world.directory / "a.csv"
        done, failed, refused = ("registration\nA1\n", 'registration\n"', "not a register")
        for content, status in ((done, "done"), (failed, "failed"), (refused, "failed")):
            old = line(401)
            path.write_text(content)
            with suppress(OperatorError):
                world.load_files(path)
            newest = list_loads(world.engine)[0]
            assert (newest.status, newest.id) == (status, old + 1)
            assert old not in [each.id for each in list_loads(world.engine)]


def test_a_dry_run_counts_the_rows_if_a_killed_merge_is_not_recorded(world):
    """The entry says how many rows there are, but only once killed loads are recorded."""
    file = world.directory / "cars.csv"
    file.write_text("registration,make\nAB12CDE,FORD\n")
    world.load_files(file)
    Register.update(vehicles=7).execute(world.engine)
    assert world.load_files(file, dry_run=True).held == 7
    begun(world.engine, "native")
    assert world.load_files(file, dry_run=True).held == 1
