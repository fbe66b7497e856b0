"""Opens the store of a register, and migrates the main database and every register."""

from collections.abc import Iterator
from contextlib import AbstractContextManager

from app.errors import OperatorError
from app.storage.engine import Engine
from app.storage.postgres import PostgresEngine
from app.storage.register_files import RegisterFiles
from app.storage.register_schemas import RegisterSchemas
from app.storage.register_store import OpenRegister, RegisterStore
from app.storage.registers import Register
from app.storage.sqlite import SqliteEngine
from app.storage.versions import main_scripts, pending, versions


def store_of(engine: Engine, name: str) -> RegisterStore:
    """Return the store of a register that need not exist: files on SQLite, else schemas."""
    if isinstance(engine, SqliteEngine):
        return RegisterFiles(engine, name)
    if isinstance(engine, PostgresEngine):
        return RegisterSchemas(engine, name)
    raise TypeError(type(engine).__name__)


def connected_again(engine: Engine) -> Engine:
    """Return an engine for the same database, with connections of its own."""
    if isinstance(engine, SqliteEngine):
        return SqliteEngine(engine.file)
    if isinstance(engine, PostgresEngine):
        return PostgresEngine(engine.database)
    raise TypeError(type(engine).__name__)


def migrate(engine: Engine) -> list[str]:
    """Migrate the main database and every register to this program's schema.

    Returns the names of the scripts that ran; an empty list if all schemas were current. The
    scripts of the main database run in one transaction. If two processes migrate at the same time,
    the second one waits. Raises OperatorError if the database needs a newer program, or holds
    tables of another program.
    """
    with engine.migration():
        before = versions(engine)
        if before.database == 0 and engine.get_tables():
            # A mistyped URL must not add our tables to somebody else's database.
            raise OperatorError("the database holds tables of another program; check its URL")
        if not before.can_migrate and not before.is_served:
            raise OperatorError(before.refusal() or "")
        applied: list[str] = main_scripts(engine).up()
    for name, opened in _registers(engine):
        with opened as register:
            applied += [f"{name}: {script}" for script in register.migrate()]
    return applied


def pending_migrations(engine: Engine) -> list[str]:
    """Return the names of the scripts that `migrate` would run. Changes nothing.

    Raises peewee.PeeweeException if the database or a register cannot be read.
    """
    names = pending(main_scripts(engine))
    if not engine.table_exists("register"):
        return names
    for name, opened in _registers(engine):
        with opened as register:
            names += [f"{name}: {script}" for script in register.pending_migrations()]
    return names


def _registers(engine: Engine) -> Iterator[tuple[str, AbstractContextManager[OpenRegister]]]:
    """Yield the name of each register that anything was loaded into, and what opens it.

    A register whose data is missing is left out: an empty one in its place would hide the loss.
    """
    # NOTE: an older schema lacks other columns.
    columns = Register.name, Register.generation, Register.kinds
    for name, generation, kinds in (
        Register.select(*columns).order_by(Register.name).tuples().execute(engine)
    ):
        store = store_of(engine, name)
        if kinds and store.has_current(generation):
            yield name, store.opened(generation, create=False)
