"""Which registers cannot be loaded again from one file, so that backups hold them (D74)."""

from peewee import fn

from app.catalogue import KINDS, Register
from app.database import Engine
from app.registers.history import MERGE, REPLACE
from app.registers.models import RegisterLoad


def list_merged(engine: Engine) -> list[str]:
    """Return the registers whose rows are not those of one replace for each kind, by name.

    The history tells it. Where that is not certain, after a rollback or when lines of the history
    are gone, the register counts as merged.
    """
    what_last_changed = _last_changes(engine)
    return [
        str(register.name)
        for register in Register.select().order_by(Register.name).execute(engine)
        if any(
            getattr(register, kind) and what_last_changed.get((register.name, kind)) != REPLACE
            for kind in KINDS
        )
    ]


def _last_changes(engine: Engine) -> dict[tuple[str, str], str]:
    """Return the mode of the last load that changed each kind of rows in each register."""
    is_merge = RegisterLoad.mode == MERGE
    # A merge that runs, or was killed, can have changed rows already; a replace cannot.
    is_change = (RegisterLoad.status == "done") & (~is_merge | (RegisterLoad.changed > 0))
    is_change |= (RegisterLoad.status == "running") & is_merge
    last = (
        RegisterLoad.select(fn.MAX(RegisterLoad.id))
        .where(is_change)
        .group_by(RegisterLoad.register, RegisterLoad.kind)
    )
    query = RegisterLoad.select(RegisterLoad.register, RegisterLoad.kind, RegisterLoad.mode)
    rows = query.where(RegisterLoad.id.in_(last)).tuples().execute(engine)
    return {(register, kind): mode for register, kind, mode in rows}
