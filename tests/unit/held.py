"""Read what a register holds and which generations are stored; simulate a killed load."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from app.registers.history import MERGE, REPLACE, insert_line, list_loads
from app.registers.holds import Hold, note_hold
from app.registers.rules import RulesBroken
from app.storage.engine import Engine
from app.storage.registers import Register
from app.storage.sqlite import SqliteEngine
from app.storage.stores import store_of
from app.storage.tables import Kind, Vehicle
from tests.conftest import World

HEADER = "registration,make\n"


def vehicles(*makes: str) -> str:
    """Return a file of vehicles with these makes; the plates start at AB10CDE."""
    return HEADER + "".join(f"AB1{n}CDE,{make}\n" for n, make in enumerate(makes))


def loaded(world: World, content: str, **options: Any) -> Any:
    """Replace the vehicles of the register native, or load as the options say."""
    path = world.directory / "new.csv"
    path.write_text(content)
    return world.load_files(path, mode=options.pop("mode", "replace"), **options)


def held_load(world: World) -> Path:
    """Load 60 policies into `fleet`, let 20 be held as the last load, and return their file."""
    drop = world.directory / "drop"
    file = drop / "fleet" / "failed" / "next.csv"
    file.parent.mkdir(parents=True)
    header = "registration,number,insurer,validFrom,validTo\n"
    row = "AB{:02}CDE,P-1,Brackenmoor Mutual,2020-01-01,2030-12-31\n".format
    options: Any = {"register": "fleet", "mode": REPLACE}
    file.write_text(header + "".join(map(row, range(60))))
    world.load_files(file, **options)
    file.write_text(header + "".join(map(row, range(20))))
    with pytest.raises(RulesBroken) as refused:
        world.load_files(file, **options)
    hold = Hold(str(drop), ["fleet"], ["next.csv"], [], ["--mode", "replace"])
    note_hold(world.engine, list_loads(world.engine)[0].id, hold, refused.value.broken)
    return file


def begun(
    engine: Engine,
    register: str,
    kind: Kind = Kind.VEHICLES,
    mode: str = MERGE,
    files: Sequence[str] = ("a.csv",),
) -> int:
    """Record a running load, as a load does when it begins; return its number."""
    line = {"register": register, "kind": kind.value, "mode": mode, "format": "native-csv"}
    return insert_line(engine, **line, files="\n".join(files), status="running")


def held(world: World, model: Any = Vehicle, register: str = "native") -> list[tuple[Any, ...]]:
    """Return all rows of a register that readers see, sorted by key."""
    found = Register.select().where(Register.name == register).get(world.engine)
    with store_of(world.engine, register).opened(found.generation) as (engine, schema):
        name = f'"{schema}"."{model._meta.table_name}"' if schema else model._meta.table_name
        return list(engine.execute_sql(f"SELECT * FROM {name} ORDER BY 1, 2").fetchall())


def makes(world: World) -> list[str]:
    """Return the makes in the register native, sorted by plate."""
    return [row[1] for row in held(world)]


def generations(world: World, register: str = "native") -> list[str]:
    """Return what is stored of a register: its files, or its schemas."""
    if isinstance(world.engine, SqliteEngine):
        names = [path.name for path in world.directory.glob(f"*.register_{register}.*.db*")]
        return sorted(name for name in names if not name.endswith(("-wal", "-shm")))
    query = "SELECT nspname FROM pg_namespace WHERE nspname LIKE %s ORDER BY 1"
    found = world.engine.execute_sql(query, (f"%register_{register}%",)).fetchall()
    return [name for (name,) in found]
