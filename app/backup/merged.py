"""Finds the registers that cannot be loaded again from one file, so they are backed up (D74)."""

from peewee import fn

from app.registers.history import COUNTS, MERGE, REPLACE, ROLLBACK
from app.registers.models import RegisterLoad
from app.storage.engine import Engine
from app.storage.registers import list_entries
from app.storage.tables import Kind


def list_merged(engine: Engine) -> list[str]:
    """Return the names of the registers that hold more than the rows of one replace per kind.

    The history shows it. If the history is not certain, as after a rollback or when old lines were
    removed, the register counts as merged.
    """
    changes = _last_changes(engine)
    return [
        entry.name
        for entry in list_entries(engine)
        if any(entry.rows(kind) and _mode(changes, entry.name, kind) != REPLACE for kind in Kind)
    ]


def _mode(changes: dict[tuple[str, str], tuple[int, str]], register: str, kind: str) -> str:
    """Return the mode of the last change of a kind; empty if the history does not have it."""
    # A rollback of several kinds has no kind in the history.
    found = [changes[key] for key in ((register, kind), (register, "")) if key in changes]
    return max(found)[1] if found else ""


def _last_changes(engine: Engine) -> dict[tuple[str, str], tuple[int, str]]:
    """Return number and mode of the last change, by register and kind."""
    is_merge = RegisterLoad.mode == MERGE
    # A merge that is running or was killed may have changed rows already; a replace cannot.
    is_change = COUNTS & (~is_merge | (RegisterLoad.changed > 0))
    is_change &= RegisterLoad.mode.in_([MERGE, REPLACE, ROLLBACK])
    is_change |= (RegisterLoad.status == "running") & is_merge
    last = (
        RegisterLoad.select(fn.MAX(RegisterLoad.id))
        .where(is_change)
        .group_by(RegisterLoad.register, RegisterLoad.kind)
    )
    load = RegisterLoad
    query = load.select(load.register, load.kind, load.id, load.mode)
    rows = query.where(load.id.in_(last)).tuples().execute(engine)
    return {(register, kind): (number, mode) for register, kind, number, mode in rows}
