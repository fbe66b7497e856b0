"""Whether the disk has room for the next load of each register (D57, D76)."""

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from app import clock
from app.config import Config
from app.operations.conditions.condition import Condition
from app.operations.conditions.loads import LoadFacts
from app.registers.dropped import kept
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
_OVER_FACTOR = 1.1
"""How much more than the need must be free until a shortage is over: the space comes and goes."""


class DiskFacts(NamedTuple):
    """What was found out about the disk."""

    conditions: list[Condition]
    is_certain: bool
    """Whether a condition that is not among them is over."""


def disk_facts(
    engine: Engine, registers: Iterable[Register], facts: Iterable[LoadFacts], data_dir: Path
) -> DiskFacts:
    """Return a condition if a load like the last one of some register would find no room.

    A replace takes a multiple of what the register takes now. A merge takes the same multiple of
    the share of the rows that its files had. What `loaded/` gives up for a load counts as free
    (D74).

    Raises peewee.PeeweeException if the database cannot be read.
    """
    last = {each.register: each.last_loaded for each in facts}
    needs = {each.name: _needed_bytes(engine, each, last.get(each.name)) for each in registers}
    try:
        directory = engine.scratch_directory
        free_bytes = free_bytes_of(os.statvfs(directory))
    except OSError as error:  # tempfile raises it where every directory is full.
        return DiskFacts([_without_scratch(error)], is_certain=False)
    name = max(needs, key=lambda name: needs[name], default="")
    needed_bytes = needs.get(name, 0)
    if needed_bytes * _OVER_FACTOR > free_bytes:
        free_bytes += kept.reclaimable_bytes(data_dir, directory)
    is_certain = needed_bytes * _OVER_FACTOR <= free_bytes
    if needed_bytes <= free_bytes:
        return DiskFacts([], is_certain)
    remedy = f"make room in {directory}"
    if engine.file is not None:
        remedy += (
            ": lower VERIFYD_DROP_LIMIT, or remove a register that nobody needs with: "
            "sudo verifyd imports drop NAME --purge"
        )
    condition = Condition(
        key="disk:load",
        title=f"too little disk space for the next load of the register {name}",
        warning=(
            f"The next load of the register {name} needs about {size_text(needed_bytes)} of disk "
            f"space in {directory}, and {size_text(free_bytes)} are free."
        ),
        since=clock.now(),
        remedy=remedy,
    )
    return DiskFacts([condition], is_certain)


def _without_scratch(error: OSError) -> Condition:
    return Condition(
        key="disk:temporary",
        title="no load can be done: there is no place for temporary files",
        warning=f"No load can be done: {error.strerror or error}.",
        since=clock.now(),
        remedy="make room: df -h /tmp /var/tmp",
    )


def free_bytes_by_directory(engine: Engine, config: Config) -> dict[str, int]:
    """Return the free bytes of each directory that data is kept in, as far as they are known."""
    free = {}
    directories = [config.data_dir, config.state_dir]
    with suppress(OSError):
        directories.insert(0, engine.scratch_directory)
    for directory in directories:
        with suppress(OSError):  # It may not be there.
            path = directory.absolute()
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
