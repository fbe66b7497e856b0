"""`verifyd import` killed at any moment leaves the old or the new rows, no mixture (D28)."""

import os
import random
import secrets
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from app.actions import Criteria, list_actions
from app.registers.generations import is_being_loaded
from app.registers.history import RegisterLoad, list_loads
from app.registers.rules import RULES
from app.storage.registers import Register
from app.storage.sqlite import SqliteEngine
from app.storage.stores import store_of
from app.storage.tables import TABLES
from tests.conftest import World
from tests.system.processes import EVERY_RULE_ACCEPTED, environment, until
from tests.system.warm import WarmProcess

ROWS = 5_000
# The file must be larger than a piece, so that the load forks; the filler is in an unused column,
# which costs next to nothing.
PADDING = "-" * 2_000
HEADER = "registration,make,year,lastUpdated,padding\n"
POLICY = {
    "registration": "AB00001",
    "number": "P-1",
    "validFrom": "2026-01-01",
    "validTo": "2099-12-31",
}
# The commits are near the end.
LATE = 0.8, 1.05
MODES = pytest.mark.parametrize("mode", ["replace", "merge"])
ENGINES = pytest.mark.parametrize("database_kind", ["sqlite", "postgres"])


class Delivery(NamedTuple):
    """A register file, and the register's content after its load."""

    path: Path
    make: str
    content: list[list[tuple[Any, ...]]]


def written(path: Path, make: str, rows: range) -> Path:
    """Write a file of vehicles that are all of one make."""
    lines = (f"AB{n:05},{make},2012,2026-01-01T00:00:00Z,{PADDING}\n" for n in rows)
    path.write_text(HEADER + "".join(lines))
    return path


def begun(world: World, mode: str, path: Path) -> WarmProcess:
    """Start a load in its own process group, and wait until it is in the history."""
    query = RegisterLoad.select()
    lines = query.count(world.engine)
    env = environment(database_url=world.config.database_url, state_dir=world.config.state_dir)
    with open(os.devnull, "r+") as null:
        load = WarmProcess(
            ["import", str(path), "--mode", mode, *EVERY_RULE_ACCEPTED],
            [null.fileno()] * 3,
            env=env,
            is_leader=True,
        )
    until(lambda: query.count(world.engine) > lines or load.poll() is not None, "the load to begin")
    return load


def content(world: World) -> list[list[tuple[Any, ...]]]:
    """Return the register's content: the rows of each table, sorted by key."""
    entry: Any = Register.select().get(world.engine)
    with store_of(world.engine, entry.name).opened(entry.generation) as (engine, schema):
        return [
            engine.execute_sql(
                f"SELECT * FROM {schema or 'main'}.{model._meta.table_name} "
                f"ORDER BY {', '.join(field.column_name for field in model._meta.sorted_fields)}"
            ).fetchall()
            for model in TABLES.values()
        ]


def require_integrity(world: World) -> None:
    """Fail unless the structure of database and register is sound."""
    entry: Any = Register.select().get(world.engine)
    with store_of(world.engine, entry.name).opened(entry.generation) as (register, schema):
        if isinstance(world.engine, SqliteEngine):
            for engine in (world.engine, register):
                check = engine.execute_sql("PRAGMA integrity_check").fetchall()
                assert check == [("ok",)]
        else:
            query = (
                "SELECT relname FROM pg_class "
                "WHERE relkind = 'r' AND relnamespace = %s::regnamespace AND NOT EXISTS "
                "(SELECT FROM pg_constraint WHERE contype = 'p' AND conrelid = pg_class.oid)"
            )
            assert register.execute_sql(query, (schema,)).fetchall() == []  # without a key


def require_nobody(group: int) -> None:
    """Wait until no process of a killed load is left; they end by themselves."""
    until(lambda: not living(group), "the children of the load to end")


def living(group: int) -> list[str]:
    """Return the processes of a group, without zombies."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, its_group = stat.read_text().rpartition(")")[2].split()[:3]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(its_group) == group and state != "Z":
            found.append(stat.parent.name)
    return found


def stored(world: World) -> list[str]:
    """Return what is stored of the register: its files, or its schemas."""
    if isinstance(world.engine, SqliteEngine):
        names = [path.name for path in world.directory.glob("verifyd.register_*")]
        return sorted(name for name in names if not name.endswith(("-wal", "-shm", ".lock")))
    query = "SELECT nspname FROM pg_namespace WHERE nspname LIKE '%%register%%' ORDER BY 1"
    return [name for (name,) in world.engine.execute_sql(query).fetchall()]


def require_settled(world: World, mode: str) -> None:
    """Fail if a killed load left a generation, file, schema or running line, or no record."""
    entry: Any = Register.select().get(world.engine)
    assert len(stored(world)) == (2 if mode == "replace" else 1), stored(world)
    loads = list_loads(world.engine)
    assert Counter(line.status for line in loads)["running"] == 0
    recorded = list_actions(world.engine, Criteria(action="imports.load"))
    by_operator = [line.id for line in loads if line.status == "done" and line.actor]
    assert sorted(each.after["load"] for each in recorded if each.after) == sorted(by_operator)
    assert by_operator
    assert entry.vehicles == len(content(world)[0])


def kill_often(world: World, mode: str, kills: int) -> None:
    """Kill loads at random moments, and check what is stored after each."""
    seed = secrets.randbits(32)
    chance = random.Random(seed)
    print(f"seed {seed}")
    path = written(world.directory / "first.csv", "FORD", range(ROWS))
    world.load_files(path, mode=mode, accept=list(RULES))
    world.load([POLICY])
    there = Delivery(path, "FORD", content(world))
    rows = range(ROWS - 500 if mode == "replace" else ROWS)
    path = written(world.directory / "second.csv", "SEAT", rows)
    seconds = measured(world, mode, path)
    other, there = there, Delivery(path, "SEAT", content(world))
    client = world.client(world.alice_key)
    outcomes: Counter[str] = Counter()
    while (number := outcomes.total() - outcomes["ended"]) < kills:
        share = chance.uniform(*LATE) if number % 3 == 2 else chance.random()
        load = begun(world, mode, other.path)
        time.sleep(share * seconds)  # This test tries random moments.
        load.kill()
        has_ended = load.wait() == 0
        assert load.returncode in (0, -signal.SIGKILL)
        require_nobody(load.pid)
        until(lambda: not is_being_loaded(world.engine, "native"), "the lock to be free")
        require_integrity(world)
        found = content(world)
        assert found in (there.content, other.content), f"a mixture, killed at {share:.3f}"
        is_new = found == other.content
        assert is_new or not has_ended
        if is_new:
            there, other = other, there
        outcomes["ended" if has_ended else "new" if is_new else "old"] += 1
        if has_ended:  # It was faster than the measured one.
            seconds *= 0.95
        answer = client.get("/v1/vehicle/AB00001/insurance").json
        assert (answer["vehicle"]["make"], answer["insured"]) == (there.make, True)
    print(f"{mode} on {world.store.name}, {seconds:.2f} s: {dict(outcomes)}")
    world.load_files(other.path, mode=mode, accept=list(RULES))
    assert content(world) == other.content
    require_settled(world, mode)


def measured(world: World, mode: str, path: Path) -> float:
    """Run a load to its end; return the seconds since its line in the history."""
    load = begun(world, mode, path)
    begun_ns = time.monotonic_ns()
    assert load.wait() == 0
    return (time.monotonic_ns() - begun_ns) / 1e9


@pytest.mark.parametrize(("mode", "database_kind"), [("replace", "sqlite"), ("merge", "postgres")])
def test_a_load_killed_at_any_moment(world, mode):
    """The rows are the old or the new ones, and the next load completes."""
    kill_often(world, mode, 5)


@pytest.mark.system_long
@ENGINES
@MODES
def test_a_load_killed_at_fifty_moments(world, mode):
    """The same holds at enough moments to meet the rare ones."""
    kill_often(world, mode, 50)
