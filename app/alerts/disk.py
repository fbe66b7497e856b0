"""Whether the disk has room for the next load of each register (D57)."""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from app import clock
from app.alerts.loads import LoadFacts
from app.alerts.message import Condition
from app.config import Config
from app.registers.dropped import kept
from app.registers.history import REPLACE, RegisterLoad
from app.storage.engine import Engine
from app.storage.files import free_bytes_of, size_text
from app.storage.registers import Entry
from app.storage.stores import store_of
from app.storage.tables import Kind

_SQLITE_FACTOR = 2.5
"""The disk space that a replace needs at most, as a multiple of the size of the register.

It needs the next generation, another half of it, and the sorted rows. 2.3 was measured.
"""
_POSTGRES_FACTOR = 1
"""Only the sorted rows are on this host."""
_OVER_FACTOR = 1.1
"""A shortage is over when this multiple of the need is free, because free space varies."""


class DiskFacts(NamedTuple):
    """The conditions of the disk."""

    conditions: list[Condition]
    is_certain: bool
    """Whether the condition is over if it was not found."""


def disk_facts(
    engine: Engine, registers: Iterable[Entry], facts: Iterable[LoadFacts], data_dir: Path
) -> DiskFacts:
    """Return a condition if the disk has no room for another load like the last of a register.

    A replace needs a multiple of the register's size. A merge needs the same multiple of the share
    of rows that its files had. Files in `loaded/` that a load may remove count as free space.

    Raises peewee.PeeweeException if the database cannot be read.
    """
    last = {each.register: each.last_loaded for each in facts}
    needs = {each.name: _needed_bytes(engine, each, last.get(each.name)) for each in registers}
    try:
        directory = engine.scratch_directory
        free_bytes = free_bytes_of(directory)
    except OSError as error:  # tempfile raises it if every directory is full.
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
            ": lower VERIFYD_DROP_LIMIT, or remove a register that is not needed with: "
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
        title="no load is possible: there is no space for temporary files",
        warning=f"No load is possible: {error.strerror or error}.",
        since=clock.now(),
        remedy="make room: df -h /tmp /var/tmp",
    )


def free_bytes_by_directory(engine: Engine, config: Config) -> dict[str, int]:
    """Return the free bytes of each data directory that can be read."""
    free = {}
    directories = [config.data_dir, config.state_dir]
    if config.audit:
        directories.append(config.audit_dir)
    with suppress(OSError):
        directories.insert(0, engine.scratch_directory)
    for directory in directories:
        with suppress(OSError):  # It may not exist.
            path = directory.absolute()
            free[str(path)] = free_bytes_of(path)
    return free


def _needed_bytes(engine: Engine, register: Entry, last: RegisterLoad | None) -> int:
    share = 1.0
    if last is not None and last.mode != REPLACE:
        share = min(1.0, last.rows / max(sum(map(register.rows, Kind)), 1))
    store = store_of(engine, register.name)
    factor = _POSTGRES_FACTOR if engine.file is None else _SQLITE_FACTOR
    return int(factor * share * store.size_bytes(register.generation))


_LITTLE_BYTES = 1024 * 1024
"""What the log of the database may soon need."""


def write_fault(engine: Engine) -> str | None:
    """Return a sentence for the operator if domains cannot be created, now or soon; otherwise None.

    Look-ups work without writes, so nothing else shows this fault.

    Raises peewee.PeeweeException if the database cannot be read.
    """
    refusal = engine.write_refusal()
    if refusal is not None:
        return f"The database cannot be written to: {refusal}."
    if engine.file is not None:
        directory = engine.file.absolute().parent
        free_bytes = free_bytes_of(directory)
        if free_bytes < _LITTLE_BYTES:
            return f"The disk of {directory} is full: {size_text(free_bytes)} are free."
    return None
