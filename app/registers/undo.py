"""Takes back what was done to a register: replaces, and the drop of it as a whole (D71, D72).

All of it frees disk space or puts right what is wrong, so it works on a full disk (D57).
"""

import logging
from contextlib import suppress

import peewee

from app.errors import OperatorError
from app.registers.current import settle
from app.registers.generations import Generations
from app.registers.history import DROP, MERGE, PURGE, REPLACE, ROLLBACK, UNDROP, History
from app.registers.lock import alone
from app.registers.snapshots import Snapshot, require_not_dropped, require_snapshot
from app.storage import reserve
from app.storage.engine import Engine
from app.storage.registers import DroppedRegister, Entry, KeptRegister, Register
from app.storage.tables import Kind

_log = logging.getLogger(__name__)


def roll_back(
    engine: Engine, register: str | None, kind: Kind | None, to: int | None = None
) -> dict[str, object]:
    """Let readers have what a register held before a replace (D28).

    Args:
        register: None if only one can be rolled back.
        kind: the only kind that may change, None if any may.
        to: the load that left what is wanted; before the last replace if None.

    Returns the register, the kind that changes, the rows of it, and the load that left them; kind
    and rows are None if several kinds change. Raises OperatorError.
    """
    name = register or _only_kept(engine)
    generations, history = Generations(engine, name), History(engine, name)
    require_not_dropped(generations)

    def rolled_back() -> tuple[int, Snapshot, Kind | None]:
        settle(engine, generations)
        current = require_not_dropped(generations)
        found = require_snapshot(engine, generations, current, to, kind)
        generations.migrate_waiting(found.kept)
        replaced = Kind(min(found.undone)) if len(found.undone) == 1 else None
        with engine.atomic():
            load_id = history.note(ROLLBACK, replaced or "")
            history.take_back(load_id, [MERGE, REPLACE], after=found.load_id)
            generations.roll_back(current, found.kept)
        return load_id, found, replaced

    with alone(engine, name):
        load_id, found, replaced = reserve.written(engine, rolled_back)
    held = found.kept.rows(replaced) if replaced else None
    _log.info("load %d, rollback of %s to load %d: done", load_id, name, found.load_id)
    return {
        "register": name,
        "kind": replaced and replaced.value,
        "held": held,
        "load": found.load_id,
    }


def drop_register(engine: Engine, name: str) -> None:
    """Take a register from readers; answers are without it from the next request (D72).

    What it holds stays, for `undrop_register`, until a load of this name changes something or
    `purge_register` removes it. Raises OperatorError if there is no register of that name, or a
    load of it is running.
    """
    generations, history = Generations(engine, name), History(engine, name)
    require_register(engine, generations)

    def dropped() -> int:
        # What a damaged register knows of a killed load does not matter.
        with suppress(OSError, peewee.PeeweeException, OperatorError):
            settle(engine, generations)
        current = require_register(engine, generations)
        with engine.atomic():
            load_id = history.note(DROP)
            generations.drop(current)
        return load_id

    with alone(engine, name):
        load_id = reserve.written(engine, dropped)
        _remove_unused(generations)
    reserve.fill(engine)
    _log.info("load %d, drop of %s: done", load_id, name)


def undrop_register(engine: Engine, name: str) -> Entry:
    """Let readers have a dropped register again, as it was, and return its entry (D72).

    Raises OperatorError if it was not dropped or was loaded since, if what it held is not there,
    or there is no room for it.
    """
    generations, history = Generations(engine, name), History(engine, name)
    _require_dropped(engine, generations)

    def undropped() -> tuple[int, Entry]:
        settle(engine, generations)
        current, dropped = _require_dropped(engine, generations)
        if not generations.store.has_waiting(dropped.generation):
            raise OperatorError(f"what the register {name} held is not there: load it again")
        generations.require_room(current)
        generations.migrate_waiting(dropped)
        with engine.atomic():
            load_id = history.note(UNDROP)
            # Older drops stay: this generation was made after them.
            history.take_back(load_id, [DROP], after=dropped.generation)
            generations.undrop(current, dropped)
        return load_id, dropped

    with alone(engine, name):
        load_id, entry = reserve.written(engine, undropped)
        _remove_unused(generations)
    _log.info("load %d, undrop of %s: done", load_id, name)
    return entry


def purge_register(engine: Engine, name: str) -> None:
    """Remove a register, dropped before or not, and all it holds, for good (D72).

    Where only loads of that name failed, perhaps since it was mistyped, their warning ends.

    Raises OperatorError if there is none of it, or a load of it is running.
    """
    generations, history = Generations(engine, name), History(engine, name)
    if generations.find_current() is not None:
        drop_register(engine, name)
    elif generations.find_dropped() is None and history.is_settled():
        raise OperatorError(f"there is no register {name}")

    def purged() -> int:
        with engine.atomic():
            generations.forget_dropped()
            return history.note(PURGE)

    with alone(engine, name):
        if generations.find_dropped() is None and history.is_settled():
            return  # Nothing was ever loaded into it, or it was loaded again just now.
        # In this order: a purge that is killed can be repeated.
        generations.remove_waiting()
        load_id = reserve.written(engine, purged)
    reserve.fill(engine)
    _log.info("load %d, purge of %s: done", load_id, name)


def require_register(engine: Engine, generations: Generations) -> Entry:
    """Return the entry of a register; OperatorError if there is none of this name."""
    name = generations.name
    current = generations.find_current()
    if current is not None:
        return current
    if generations.find_dropped() is not None:
        raise OperatorError(
            f"the register {name} was dropped already; add --purge to free its disk space"
        )
    failed = ""
    if not History(engine, name).is_settled():
        failed = (
            f"; end the warning about its failed loads with `verifyd imports drop {name} --purge`"
        )
    raise OperatorError(f"there is no register {name}{failed}")


def _remove_unused(generations: Generations) -> None:
    with suppress(OSError, peewee.PeeweeException):  # The next load does so as well.
        generations.remove_unused()


def _require_dropped(engine: Engine, generations: Generations) -> tuple[Entry | None, Entry]:
    """Return the entry that is in the way of a dropped register, if any, and its own."""
    name = generations.name
    dropped = generations.find_dropped()
    current = generations.find_current()
    # What has its name now, if anything, holds nothing: a load that changes a row forgets this.
    if dropped is not None:
        return current, dropped
    reason = "it was not dropped, or was loaded since" if current else "there is none"
    query = DroppedRegister.select(DroppedRegister.name).order_by(DroppedRegister.name)
    names = ", ".join(each for (each,) in query.tuples().execute(engine)) or "none"
    raise OperatorError(
        f"the register {name} cannot be brought back: {reason}. Dropped registers: {names}"
    )


def _only_kept(engine: Engine) -> str:
    is_read = KeptRegister.name.in_(Register.select(Register.name))
    query = KeptRegister.select(KeptRegister.name).where(is_read).distinct()
    names = [name for (name,) in query.order_by(KeptRegister.name).tuples().execute(engine)]
    if not names:
        raise OperatorError("no register can be rolled back: none was replaced last")
    if len(names) > 1:
        raise OperatorError(f"which register? --register is one of {', '.join(names)}")
    return str(names[0])
