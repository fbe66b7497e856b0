"""Brings the main database and every register to this program's schema (D29)."""

from collections.abc import Iterator
from contextlib import AbstractContextManager

from app.errors import OperatorError
from app.storage.engine import Engine
from app.storage.register_store import OpenRegister
from app.storage.registers import Register
from app.storage.scripts import migrate_main, migrate_register, pending_main, pending_register
from app.storage.stores import store_of
from app.storage.versions import versions


def migrate(engine: Engine) -> list[str]:
    """Bring the main database and every register to this program's schema.

    Returns the names of the scripts that ran; none if it was current. All of them or none
    take effect in the main database, whatever happens in between; two at once run one after
    the other. Raises OperatorError if the database belongs to a newer program.
    """
    with engine.migration():
        before = versions(engine)
        if before.database == 0 and engine.get_tables():
            # A mistyped URL must not add our tables to somebody else's (D27).
            raise OperatorError("the database holds tables of another program")
        if not before.can_migrate and not before.is_served:
            raise OperatorError(before.refusal() or "")
        applied = migrate_main(engine)
    for name, opened in _registers(engine):
        with opened as register:
            applied += [f"{name}: {script}" for script in migrate_register(*register)]
    return applied


def pending_migrations(engine: Engine) -> list[str]:
    """Return the names of the scripts that `migrate` would run; nothing is changed.

    Raises peewee.PeeweeException if the database or a register cannot be read.
    """
    pending = pending_main(engine)
    if not engine.table_exists("register"):
        return pending
    for name, opened in _registers(engine):
        with opened as register:
            pending += [f"{name}: {script}" for script in pending_register(*register)]
    return pending


def _registers(engine: Engine) -> Iterator[tuple[str, AbstractContextManager[OpenRegister]]]:
    """Yield the registers that anything was loaded into, and what opens each of them.

    One that is not there stays so: an empty one in its place would hide the loss.
    """
    query = Register.select(Register.name, Register.generation).where(Register.kinds != "")
    for name, generation in list(query.tuples().execute(engine)):
        store = store_of(engine, name)
        if store.has_current(generation):
            yield name, store.opened(generation, create=False)
