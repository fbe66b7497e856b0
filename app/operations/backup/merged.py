"""Which registers cannot be loaded again from one file, so that backups hold them (D74)."""

from peewee import fn

from app.registers.history import MERGE, REPLACE, ROLLBACK
from app.registers.models import RegisterLoad
from app.storage.engine import Engine
from app.storage.registers import list_entries
from app.storage.tables import Kind


def list_merged(engine: Engine) -> list[str]:
    """Return the registers whose rows are not those of one replace for each kind, by name.

    The history tells it. Where that is not certain, after a rollback or when lines of the history
    are gone, the register counts as merged.
    """
    changes = _last_changes(engine)
    return [
        entry.name
        for entry in list_entries(engine)
        if any(entry.rows(kind) and _mode(changes, entry.name, kind) != REPLACE for kind in Kind)
    ]


def _mode(changes: dict[tuple[str, str], tuple[int, str]], register: str, kind: str) -> str:
    """Return what changed a kind of rows last; empty if the history does not tell."""
    # A rollback that changed several kinds has none in the history.
    found = [changes[key] for key in ((register, kind), (register, "")) if key in changes]
    return max(found)[1] if found else ""


def _last_changes(engine: Engine) -> dict[tuple[str, str], tuple[int, str]]:
    """Return the number and mode of what last changed each kind of rows in each register."""
    is_merge = RegisterLoad.mode == MERGE
    # A merge that runs, or was killed, can have changed rows already; a replace cannot.
    is_change = (RegisterLoad.status == "done") & (~is_merge | (RegisterLoad.changed > 0))
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
