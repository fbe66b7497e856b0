"""Finds out how killed loads of a register ended, and records it (D28).

A merge commits twice: first in the register, then in the main database. If it is killed between
the two, the rows are in the register, but the history says that the load is still running. The
register itself remembers which loads it contains.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import peewee

from app import clock
from app.errors import OperatorError
from app.registers.applying.table import Applied, find_applied
from app.registers.current import opened_current, opened_unchanged
from app.registers.generations import Generations
from app.registers.history import History, list_running
from app.registers.models import json_list
from app.registers.recorded import record_load
from app.registers.request import counts_as_loaded
from app.storage import reserve
from app.storage.engine import Engine
from app.storage.register_store import OpenRegister
from app.storage.registers import Entry
from app.storage.tables import Kind

FindApplied = Callable[[int], Applied | None]


def recover(engine: Engine, generations: Generations, load_id: int = 0) -> Entry | None:
    """End the history lines of killed loads, and remove what they left behind.

    Needs the register's lock.

    Args:
        load_id: the load that calls this; 0 if no load does.

    Returns the register's entry, which nobody else changes while the lock is held. Raises
    Hindered if the data of the register is missing.
    """
    entry = generations.find_current()
    generations.require_data(entry)
    with opened_current(generations, entry) as opened:
        find = partial(_find_applied, opened)
        is_changed = end_killed_loads(engine, generations, load_id, find)
    generations.remove_unused()
    return generations.find_current() if is_changed else entry


def end_killed_loads(
    engine: Engine, generations: Generations, load_id: int, find: FindApplied
) -> bool:
    """End the history lines of killed loads: done if the register contains the load, else failed.

    Args:
        load_id: the load that is running now.
        find: returns what a load did to the register; None if it never committed.

    Returns whether a load was found to be done: the register's entry has changed then.
    """
    history = History(engine, generations.name)
    is_changed = False
    for load in list_running(engine, generations.name):
        if load.id == load_id:
            continue
        applied = find(load.id)
        if applied is None:
            history.fail_interrupted(load.id)
            continue
        # A merge notes what it has read before its first commit.
        valid, accepted = load.rows - load.rejected, json_list(load.accepted, str)
        kind, is_fresh = Kind(load.kind), counts_as_loaded(valid, accepted)
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
    is_fresh: bool,
) -> None:
    """Record in the main database that a merge is committed in the register.

    Args:
        columns: the columns of the history line. `held` is how many rows of the kind the register
            holds now, `changed` how many rows the merge changed.
        is_fresh: whether the register counts as just loaded (D51).
    """
    now = clock.now()
    with engine.atomic():
        former = generations.find_current()
        if columns["changed"]:
            generations.forget_undo_states()
        generations.count_merged(kind, columns["held"], now if is_fresh else None)
        History(engine, generations.name).finish(load_id, now, columns)
        record_load(engine, load_id, kind, former, columns)


def is_applied(engine: Engine, generations: Generations, load_id: int) -> bool:
    """Tell whether the register contains a load that failed afterwards; False if unreadable."""

    def find() -> Applied | None:
        current = generations.find_current()
        generations.require_data(current)
        with opened_unchanged(generations, current) as opened:
            return _find_applied(opened, load_id)

    with suppress(OSError, peewee.PeeweeException, OperatorError):
        return reserve.with_reserve(engine, find) is not None
    return False


def _find_applied(opened: OpenRegister | None, load_id: int) -> Applied | None:
    return find_applied(opened, load_id) if opened else None
