"""Rolls back replaces; drops, undrops and purges registers.

All of this works on a full disk, because it frees space or corrects a mistake (D57). Each function
records who did it (D130): `actor`, by default whoever runs this process.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import peewee

from app.actions import Actor, Name, State, record
from app.errors import OperatorError
from app.registers.generations import Generations, locked
from app.registers.history import DROP, MERGE, REPLACE, History
from app.registers.recovery import end_killed_loads, recover, register_state, subject_of
from app.registers.snapshots import Snapshot, require_not_dropped, require_snapshot
from app.storage import reserve
from app.storage.engine import Engine
from app.storage.registers import DroppedRegister, Entry, KeptRegister, list_entries
from app.storage.tables import Kind

_log = logging.getLogger("verifyd.registers")

Noted = Callable[[int], object]
"""Called with the number of the history line, in the transaction that makes the change. If it
raises, nothing is changed."""


@contextmanager
def _recorded(
    generations: Generations,
    actor: Actor | None,
    noted: Noted,
    action: Name,
    before: State | None,
    after: State | None,
    kind: str = "",
) -> Iterator[int]:
    """Make a change of a register in one transaction with its history line and its record.

    Args:
        before, after: the state of the register, for the record.
        kind: the only kind that changes; empty if several may.

    Yields the number of the line.
    """
    engine, name = generations.engine, generations.name
    with engine.atomic():
        load_id = History(engine, name).add_done(action.removeprefix("imports."), kind)
        yield load_id
        record(engine, actor, action, subject_of(name), before, after)
        noted(load_id)


def roll_back(
    engine: Engine,
    register: str | None,
    kind: Kind | None,
    to: int | None = None,
    *,
    actor: Actor | None = None,
    noted: Noted = lambda _: None,
) -> dict[str, object]:
    """Go back to the rows that a register held before a replace.

    Args:
        register: the name; None if only one register can be rolled back.
        kind: the only kind that may change; None if all may.
        to: go back to the state after this load; None for the state before the last replace.

    Returns `register`, `kind`, `held` and `load`: the kind that changed, how many rows of it the
    register holds now, and the load after which it held them. `kind` and `held` are None if several
    kinds changed. Raises OperatorError if there is nothing to go back to.
    """
    name = register or _only_kept(engine)
    generations = Generations(engine, name)

    def rolled_back() -> tuple[int, Snapshot]:
        # If a merge after a drop was killed between its commits, the register is not dropped.
        recover(generations)
        current = require_not_dropped(generations)
        found = require_snapshot(generations, current, to, kind)
        generations.migrate_waiting(found.kept)
        after = {**(register_state(found.kept) or {}), "load": found.load_id}
        states = register_state(current), after
        only_kind = found.only_kind or ""
        with _recorded(
            generations, actor, noted, "imports.rollback", *states, only_kind
        ) as load_id:
            History(engine, name).take_back(load_id, [MERGE, REPLACE], after=found.load_id)
            generations.roll_back(current, found.kept)
        return load_id, found

    with locked(engine, name):
        load_id, found = reserve.with_reserve(engine, rolled_back)
    _log.info("load %d, rollback of %s to load %d: done", load_id, name, found.load_id)
    changed = found.only_kind
    return {
        "register": name,
        "kind": changed and changed.value,
        "held": changed and found.kept.rows(changed),
        "load": found.load_id,
    }


def drop_register(
    engine: Engine, name: str, *, actor: Actor | None = None, noted: Noted = lambda _: None
) -> None:
    """Drop a register: from the next request on, answers do not use it.

    `undrop_register` can bring its data back, until a load of this name changes a row or
    `purge_register` removes it. Raises OperatorError if there is no such register, or a load of it
    is running.
    """
    generations = Generations(engine, name)
    require_register(generations)

    def dropped() -> int:
        # A damaged register must be dropped as well, even if killed loads cannot be recovered.
        with suppress(OSError, peewee.PeeweeException, OperatorError):
            recover(generations)
        current = require_register(generations)
        before = register_state(current)
        with _recorded(generations, actor, noted, "imports.drop", before, None) as load_id:
            generations.drop(current)
        return load_id

    with locked(engine, name):
        load_id = reserve.with_reserve(engine, dropped)
        _remove_unused(generations)
    reserve.fill(engine)
    _log.info("load %d, drop of %s: done", load_id, name)


def undrop_register(
    engine: Engine, name: str, *, actor: Actor | None = None, noted: Noted = lambda _: None
) -> Entry:
    """Bring a dropped register back as it was, and return its entry.

    Raises OperatorError if it was not dropped or was loaded since, if its data is missing, or if
    there are eight registers already.
    """
    generations = Generations(engine, name)
    _require_dropped(generations)

    def undropped() -> tuple[int, Entry]:
        recover(generations)
        current, dropped = _require_dropped(generations)
        if not generations.store.has_waiting(dropped.generation):
            raise OperatorError(f"the data of the register {name} is missing; load it again")
        generations.require_room(current)
        generations.migrate_waiting(dropped)
        states = register_state(current), register_state(dropped)
        with _recorded(generations, actor, noted, "imports.undrop", *states) as load_id:
            # Drops before this generation was made still count: they dropped earlier ones.
            History(engine, name).take_back(load_id, [DROP], after=dropped.generation)
            generations.undrop(current, dropped)
        return load_id, dropped

    with locked(engine, name):
        load_id, entry = reserve.with_reserve(engine, undropped)
        _remove_unused(generations)
    _log.info("load %d, undrop of %s: done", load_id, name)
    return entry


def purge_register(
    engine: Engine, name: str, *, actor: Actor | None = None, noted: Noted = lambda _: None
) -> None:
    """Remove a register and its data for good, whether it was dropped before or not.

    One that was not dropped before is dropped first; that is an action of its own.
    If all loads of that name failed, perhaps because it was mistyped, this ends the warning about
    them. Raises OperatorError if there is no such register, or a load of it is running.
    """
    generations = Generations(engine, name)
    if generations.find_current() is not None:
        drop_register(engine, name, actor=actor)
    elif generations.find_dropped() is None and History(engine, name).ended_well():
        raise OperatorError(f"there is no register {name}")

    def purged() -> int:
        before = register_state(generations.find_dropped()) or {}
        with _recorded(generations, actor, noted, "imports.purge", before, None) as load_id:
            # No later load may come to record how loads ended that were killed.
            end_killed_loads(generations, None)
            generations.forget_dropped()
        return load_id

    with locked(engine, name):
        if generations.find_dropped() is None and History(engine, name).ended_well():
            return  # It was never loaded, or it was loaded again just now.
        # The data is removed first, so that a purge that is killed can be repeated.
        generations.remove_waiting()
        load_id = reserve.with_reserve(engine, purged)
    reserve.fill(engine)
    _log.info("load %d, purge of %s: done", load_id, name)


def require_register(generations: Generations) -> Entry:
    """Return the register's entry; raise OperatorError if there is nothing to drop."""
    name = generations.name
    current = generations.find_current()
    if current is not None:
        return current
    if generations.find_dropped() is not None:
        raise OperatorError(
            f"the register {name} was dropped already; add --purge to free its disk space"
        )
    if History(generations.engine, name).ended_well():
        raise OperatorError(f"there is no register {name}")
    raise OperatorError(
        f'there is no register {name}; run "verifyd imports drop {name} --purge" to end the '
        "warning about its failed loads"
    )


def _remove_unused(generations: Generations) -> None:
    """Free disk space if that is possible now; otherwise the next load does."""
    with suppress(OSError, peewee.PeeweeException):
        generations.remove_unused()


def _require_dropped(generations: Generations) -> tuple[Entry | None, Entry]:
    """Return the current entry of that name, if any, and the one of the dropped register.

    The current one holds nothing: a load that changes a row forgets the dropped register. Raises
    OperatorError, which lists the dropped registers, if this one was not dropped.
    """
    name = generations.name
    dropped = generations.find_dropped()
    current = generations.find_current()
    if dropped is not None:
        return current, dropped
    reason = "it was not dropped, or was loaded since" if current else "it does not exist"
    dropped_names = [each.name for each in list_entries(generations.engine, DroppedRegister)]
    raise OperatorError(
        f"the register {name} cannot be brought back: {reason}. Dropped registers: "
        f"{', '.join(dropped_names) or 'none'}"
    )


def _only_kept(engine: Engine) -> str:
    """Return the only register with snapshots; raise OperatorError if there are none or several."""
    kept = {each.name for each in list_entries(engine, KeptRegister)}
    names = [each.name for each in list_entries(engine) if each.name in kept]
    if not names:
        raise OperatorError("no register can be rolled back: none has a snapshot")
    if len(names) > 1:
        raise OperatorError(
            f"several registers can be rolled back; choose one with --register: {', '.join(names)}"
        )
    return names[0]
