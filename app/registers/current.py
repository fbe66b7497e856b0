"""What readers see of a register, opened for a load; and what killed loads did to it (D28)."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import peewee

from app import clock
from app.errors import OperatorError
from app.registers.applying.counts import Counts
from app.registers.applying.table import Applied, Table, find_applied
from app.registers.generations import Generations
from app.registers.history import History
from app.storage import reserve
from app.storage.engine import Engine
from app.storage.register_store import OpenRegister
from app.storage.registers import Entry
from app.storage.scripts import migrate_register
from app.storage.tables import Kind

FindApplied = Callable[[int], Applied | None]


@contextmanager
def opened_current(generations: Generations, entry: Entry | None) -> Iterator[OpenRegister | None]:
    """Open what readers see of a register, by its entry; None if there is none.

    Only on a connection of its own: a forked worker may do so as well.
    """
    if entry is None:
        yield None
        return
    with generations.store.opened(entry.generation) as opened:
        migrate_register(*opened)
        yield opened


@contextmanager
def opened_unchanged(
    generations: Generations, entry: Entry | None
) -> Iterator[OpenRegister | None]:
    """Open what readers see of a register, as it is: nothing is made and nothing is migrated.

    None also if a killed first load left an entry without tables.
    """
    if entry is None or not generations.store.has_current(entry.generation):
        yield None
        return
    with generations.store.opened(entry.generation, create=False) as opened:
        yield opened if Table(*opened, Kind.VEHICLES).exists() else None


def count_held(opened: OpenRegister | None, entry: Entry | None, kind: Kind) -> int:
    """Return how many rows of a kind are held, by the entry; else they are counted."""
    if opened is None or entry is None:
        return 0
    return entry.rows(kind) or Table(*opened, kind).count()


def count_known(generations: Generations, entry: Entry | None, counts: Counts) -> None:
    """Count what all rows held know, if less than half of them come again in a replace (D67)."""
    if counts.repeated * 2 < counts.held_before:
        with opened_unchanged(generations, entry) as opened:
            counts.known_held = Table(*opened, counts.kind).tally() if opened else None


def settle(engine: Engine, generations: Generations, load_id: int = 0) -> Entry | None:
    """Find out what became of killed loads before this one, and remove what they left.

    Needs the lock. Returns the register's entry, which nobody else changes from then on. Raises
    Hindered if the data of the register is missing.
    """
    entry = generations.find_current()
    generations.require_there(entry)
    with opened_current(generations, entry) as opened:
        find: FindApplied = partial(find_applied, *opened) if opened else lambda _: None
        is_changed = settle_interrupted(engine, generations, load_id, find)
    generations.remove_unused()
    return generations.find_current() if is_changed else entry


def settle_interrupted(
    engine: Engine, generations: Generations, load_id: int, find: FindApplied
) -> bool:
    """End the lines of loads before this one that never ended; return whether one was done.

    Args:
        find: returns what the register, as it is read now, knows of a load.
    """
    history = History(engine, generations.name)
    is_changed = False
    for load in history.list_running():
        if load.id == load_id:
            continue
        applied = find(load.id)
        if applied is None:
            history.interrupted(load.id)
            continue
        kind, is_fresh = Kind(load.kind), applied.loaded > 0
        finish_merge(engine, generations, load.id, kind, applied._asdict(), is_fresh=is_fresh)
        is_changed = True
    return is_changed


def finish_merge(
    engine: Engine,
    generations: Generations,
    load_id: int,
    kind: Kind,
    columns: Mapping[str, Any],
    *,
    is_fresh: bool = True,
) -> None:
    """Tell the main database that a merge's rows are in the register.

    Args:
        columns: of the history's line; `held` is how many rows of the kind the register holds now,
            `changed` how many the merge changed.
        is_fresh: whether the register is as young as this load (D51).
    """
    now = clock.now()
    with engine.atomic():
        if columns["changed"]:
            generations.forget_ways_back()
        generations.count_merged(kind, columns["held"], now if is_fresh else None)
        History(engine, generations.name).done(load_id, now, columns)


def is_applied(engine: Engine, generations: Generations, load_id: int) -> bool:
    """Tell whether a merge that was cut short is in the register all the same."""

    def find() -> Applied | None:
        current = generations.find_current()
        generations.require_there(current)
        with opened_unchanged(generations, current) as opened:
            return find_applied(*opened, load_id) if opened else None

    with suppress(OSError, peewee.PeeweeException, OperatorError):
        return reserve.written(engine, find) is not None
    return False
