"""Content that does not change: files that come again, and registers that stay the same (D155)."""

from peewee import Case, fn

from app import clock
from app.registers.history import (
    COUNTS,
    DROP,
    MERGE,
    PURGE,
    REPLACE,
    ROLLBACK,
    History,
    RegisterLoad,
    json_list,
)
from app.storage.engine import Engine
from app.storage.tables import Kind

_SAME = "same content as load "
"""The beginning of a note."""
_DAY_SECONDS = 86_400


def repeated_notes(
    engine: Engine, register: str, kind: Kind, format_name: str, checksum: str
) -> list[str]:
    """Return a sentence if an earlier load of the register, kind and format had the same content.

    It names the first load of the run of equal ones just before, and for how many nights the
    content has been the same: days since that load, to the nearest day, however many loads a day
    has. If other content was loaded in between, it says so.

    Args:
        checksum: SHA-256 of the content of the files.
    """
    load = RegisterLoad
    is_comparable = (load.kind == kind) & (load.format == format_name)
    is_comparable &= load.mode.in_([MERGE, REPLACE])
    loads = History(engine, register).counted().where(is_comparable)
    other = loads.where(load.checksum != checksum).first(engine)
    same = loads.where(load.checksum == checksum)
    first = same.where(load.id > (other.id if other else 0)).order_by(load.id).first(engine)
    if first is not None:
        nights = round((clock.now() - first.finished_at) / _DAY_SECONDS)
        since = f", for {nights:,} {'night' if nights == 1 else 'nights'}" if nights > 0 else ""
        return [f"{_SAME}{first.id}{since}"]
    last = same.first(engine)
    return [f"{_SAME}{last.id}, although load {other.id} had other content"] if last else []


def repeated_note(load: RegisterLoad | None) -> str | None:
    """Return the note of `repeated_notes` in a line of the history, None if it has none."""
    notes = json_list(load.notes, str) if load is not None else []
    return next((each for each in notes if each.startswith(_SAME)), None)


def changed_at_by_register(engine: Engine) -> dict[str, int]:
    """Return when the content of each register last changed, in Unix seconds.

    That is the end of the last load that changed a row, or of a later rollback or drop. If the
    history no longer has it, the content has not changed since the register's oldest line.

    Raises peewee.PeeweeException if the database cannot be read.
    """
    load = RegisterLoad
    is_change = (load.changed > 0) | load.mode.in_([ROLLBACK, DROP, PURGE])
    changed_id = fn.COALESCE(fn.MAX(Case(None, [(is_change, load.id)])), fn.MIN(load.id))
    last = load.select(changed_id).where(COUNTS).group_by(load.register)
    query = load.select(load.register, load.finished_at).where(load.id.in_(last))
    return dict(query.tuples().execute(engine))
