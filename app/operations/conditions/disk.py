"""Whether the disk has room for the next load of each register (D57, D76)."""

import os
from collections.abc import Iterable, Iterator

from app import clock
from app.config import Config
from app.operations.conditions.condition import Condition
from app.operations.conditions.loads import LoadFacts
from app.registers.history import REPLACE
from app.registers.space import free_bytes_of, size_text
from app.storage.engine import Engine
from app.storage.registers import Register
from app.storage.stores import store_of
from app.storage.tables import Kind

_SQLITE_FACTOR = 2.5
"""Disk that a replace takes at most, in sizes of the register.

The next generation, half of it once more, and the rows that wait to be written: 2.3 was measured.
"""
_POSTGRES_FACTOR = 1
"""Only the rows that wait are on this host."""


def disk_conditions(
    engine: Engine, registers: Iterable[Register], facts: Iterable[LoadFacts]
) -> Iterator[Condition]:
    """Yield a condition if a load like the last one of some register would find no room.

    A replace takes a multiple of what the register takes now. A merge takes the same multiple of
    the share of the rows that its files had.
    """
    directory = engine.scratch_directory
    free_bytes = free_bytes_of(os.statvfs(directory))
    modes = {each.register: each.last_done for each in facts}
    needs = {
        register.name: _needed_bytes(engine, register, modes.get(register.name))
        for register in registers
    }
    short = {name: needed for name, needed in needs.items() if needed > free_bytes}
    if not short:
        return
    name = max(short, key=lambda name: short[name])
    yield Condition(
        key="disk:load",
        title=f"too little disk space for the next load of the register {name}",
        warning=(
            f"The next load of the register {name} needs about {size_text(short[name])} of disk "
            f"space in {directory}, and {size_text(free_bytes)} are free."
        ),
        since=clock.now(),
        remedy=f"make room in {directory}",
    )


def free_bytes_by_directory(engine: Engine, config: Config) -> dict[str, int]:
    """Return the free bytes of each directory that data is kept in."""
    directories = [engine.scratch_directory, config.data_dir, config.state_dir]
    free = {}
    for directory in directories:
        path = directory.absolute()
        if path.is_dir():
            free[str(path)] = free_bytes_of(os.statvfs(path))
    return free


def _needed_bytes(engine: Engine, register: Register, last: object) -> int:
    held = sum(getattr(register, kind) for kind in Kind)
    if getattr(last, "mode", REPLACE) == REPLACE:
        share = 1.0
    else:
        share = min(1.0, int(getattr(last, "rows", held)) / max(held, 1))
    store = store_of(engine, str(register.name))
    factor = _POSTGRES_FACTOR if engine.file is None else _SQLITE_FACTOR
    return int(factor * share * store.size_bytes(int(str(register.generation))))
