"""Finds out how loads ended that were killed or failed, and records it (D28).

A merge commits twice: first in the register, then in the main database. If it is killed between
the two, the rows are in the register, but the history says that the load is still running. The
register itself remembers which loads it contains.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import msgspec
import peewee

from app import clock
from app.actions import Actor, State, Subject, record
from app.errors import OperatorError
from app.registers.applying.table import Applied, find_applied
from app.registers.generations import Generations, still_locked
from app.registers.history import INTERRUPTED, History, find_load, json_list, list_running
from app.registers.request import counts_as_loaded
from app.storage import reserve
from app.storage.engine import Engine
from app.storage.register_store import OpenRegister
from app.storage.registers import Entry
from app.storage.tables import Kind


def recover(generations: Generations, load_id: int = 0) -> Entry | None:
    """End the history lines of killed loads, and remove the data that they wrote.

    Needs the register's lock.

    Args:
        load_id: the load that calls this; 0 if no load does.

    Returns the register's entry, which nobody else changes while the lock is held. Raises
    Hindered if the data of the register is missing.
    """
    entry = generations.find_current()
    generations.require_data(entry)
    with generations.opened(entry) as opened:
        is_changed = end_killed_loads(generations, opened, load_id)
    generations.remove_unused()
    return generations.find_current() if is_changed else entry


def end_killed_loads(
    generations: Generations, opened: OpenRegister | None, load_id: int = 0
) -> bool:
    """End the history lines of killed loads: done if the register contains the load, else failed.

    Args:
        opened: the register; None if there is none, so that no load can have committed.
        load_id: the load that is running now; 0 if none is.

    Returns whether a load was found to be done: the register's entry has changed then.
    """
    history = History(generations.engine, generations.name)
    is_changed = False
    for load in list_running(generations.engine, generations.name):
        if load.id == load_id:
            continue
        applied = find_applied(opened, load.id)
        if applied is None:
            # It was killed before it changed anything; its time of end is unknown.
            history.update(load.id, status="failed", reason=INTERRUPTED)
            continue
        # A merge notes what it has read before its first commit.
        valid, accepted = load.rows - load.rejected, json_list(load.accepted, str)
        kind, is_fresh = Kind(load.kind), counts_as_loaded(valid, accepted)
        finish_merge(generations, load.id, kind, applied._asdict(), is_fresh=is_fresh)
        is_changed = True
    return is_changed


def finish_merge(
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
        is_fresh: whether the register counts as just loaded.
    """
    now, engine = clock.now(), generations.engine
    with engine.atomic():
        former = generations.find_current()
        if columns["changed"]:
            # A rollback or an undrop would lose the merged rows.
            generations.forget_snapshots()
            generations.forget_dropped()
        generations.count_merged(load_id, kind, columns["held"], now if is_fresh else None)
        History(engine, generations.name).finish(load_id, now, columns)
        record_load(engine, load_id, kind, former, columns)


def _is_applied(generations: Generations, load_id: int) -> bool:
    """Tell whether a load failed only after its commit; False if the register is unreadable."""

    def find() -> Applied | None:
        current = generations.find_current()
        generations.require_data(current)
        with generations.opened_unchanged(current) as opened:
            return find_applied(opened, load_id)

    with suppress(OSError, peewee.PeeweeException, OperatorError):
        return reserve.with_reserve(generations.engine, find) is not None
    return False


def note_failure(generations: Generations, load_id: int, columns: dict[str, object]) -> None:
    """Remove the data that a failed load wrote, then note the failure in the history.

    Nothing is removed if another load of the register has begun, and nothing is noted if the rows
    were committed after all: the next load records that it is done.

    Args:
        columns: the columns of the history line, `reason` among them.
    """
    engine = generations.engine
    ignored = (OSError, peewee.PeeweeException, OperatorError)
    # Peewee leaves a transaction open if Ctrl-C interrupts its commit. Its changes to the register
    # index are visible here, but end with the process, so nothing may be removed because of them.
    with suppress(*ignored):
        engine.rollback()
    # The removal comes first: on a full disk it makes room for the note. The entry is read again,
    # because Ctrl-C can arrive just after the commit.
    with suppress(*ignored), still_locked(engine, generations.name):
        generations.free_space(generations.find_current())
    with suppress(*ignored):
        if _is_applied(generations, load_id):
            return
        fail = History(engine, generations.name).fail
        reserve.with_reserve(engine, fail, load_id, columns)
        with still_locked(engine, generations.name):
            reserve.with_reserve(engine, generations.remove_made_by, load_id)
    reserve.fill(engine)


def record_load(
    engine: Engine,
    load_id: int,
    kind: Kind,
    former: Entry | None,
    columns: Mapping[str, Any],
) -> None:
    """Record a load that is done, if an operator ran it; call this within its last transaction.

    The history knows whose load it is. So it does not matter who finishes it: after a kill between
    the two commits of a merge, that is a later load.

    Args:
        former: the register's entry before the load. None, or never loaded, for a new register.
        columns: the columns of the history line, `held` and `changed` among them.
    """
    load = find_load(engine, load_id)
    if load.actor is None:
        return
    before = None
    if former is not None and former.loaded_at is not None:
        before = {"held": former.rows(kind)}
    accepted = json_list(load.accepted, str)
    after = {
        "held": columns["held"],
        "load": load_id,
        "kind": kind.value,
        "mode": load.mode,
        "changed": columns["changed"],
        **({"accepted": accepted} if accepted else {}),
        **({"accepts": load.accepts} if load.accepts else {}),
    }
    record(
        engine,
        msgspec.json.decode(load.actor, type=Actor),
        "imports.accept" if load.accepts else "imports.load",
        subject_of(load.register),
        before,
        after,
    )


def register_state(entry: Entry | None) -> State | None:
    """Return how many rows of each kind a register holds; None if there is none."""
    return entry and {kind.value: entry.rows(kind) for kind in Kind}


def subject_of(register: str) -> Subject:
    """Return a register as the subject of an action."""
    return Subject("register", register)
