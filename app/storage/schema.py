"""Versions of what is stored: migrations, and which programs may use a database (D29).

`N` is the schema the database is at, `M` the oldest program that may still use it, `P` the
schema this program was written for. It serves if M <= P <= N, and migrates if P > N.
Each script in `migrations/main` ends by writing its own N and M into `installation`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import peewee
from playhouse.migrations import Migration, Runner

from app.errors import OperatorError
from app.storage.engine import Engine, close_quietly
from app.storage.postgres import PostgresEngine
from app.storage.registers import Register, is_stored, register_file
from app.storage.sqlite import SqliteEngine
from app.storage.tables import RegisterRef

_SCRIPTS = Path(__file__).parent / "migrations"
_MIGRATION_LOCK = 0x766664  # any number of our own; Postgres locks by number


class Installation(peewee.Model):
    """The one row that says what this database is."""

    database_id = peewee.FixedCharField(32)
    schema_version = peewee.IntegerField()
    oldest_program = peewee.IntegerField()

    class Meta:
        table_name = "installation"


class Versions(NamedTuple):
    """The three numbers of D29; `database` is 0 if there is nothing of ours in it yet."""

    database: int
    oldest_program: int
    program: int

    @property
    def is_served(self) -> bool:
        """Tell whether this program may serve from the database as it is."""
        return self.oldest_program <= self.program <= self.database

    @property
    def can_migrate(self) -> bool:
        """Tell whether `migrate` would bring the database to this program's schema."""
        return self.program > self.database

    def refusal(self) -> str | None:
        """Return a sentence that says why this program cannot serve, or None if it can."""
        if self.is_served:
            return None
        if self.database == 0:
            return "the database is empty: run `verifyd migrate`"
        if self.can_migrate:
            return (
                f"the database is at schema {self.database}, this program needs "
                f"{self.program}: run `verifyd migrate`"
            )
        return (
            f"the database is at schema {self.database} and needs a program of schema "
            f"{self.oldest_program} or newer; this one is {self.program}: upgrade verifyd"
        )


def program_schema() -> int:
    """Return P: the number of the newest migration this program brings."""
    scripts = Migration.load_directory(str(_SCRIPTS / "main"))
    return max(int(script.idx) for script in scripts)


def versions(engine: Engine) -> Versions:
    """Return the versions of a database and of this program.

    Raises peewee.PeeweeException if the database cannot be read.
    """
    if not engine.table_exists("installation"):
        return Versions(0, 0, program_schema())
    row: Any = Installation.select().get(engine)
    return Versions(row.schema_version, row.oldest_program, program_schema())


def migrate(engine: Engine) -> list[str]:
    """Bring the main database and every register to this program's schema.

    Returns the names of the scripts that ran; none if it was current. All of them or none
    take effect in the main database, whatever happens in between; two at once run one after
    the other. Raises OperatorError if the database belongs to a newer program.
    """
    if isinstance(engine, SqliteEngine):
        engine.pragma("foreign_keys", 0)  # a rebuilt table must not cascade into others
    with _one_at_a_time(engine):
        before = versions(engine)
        if before.database == 0 and engine.get_tables():
            # A mistyped URL must not add our tables to somebody else's (D27).
            raise OperatorError("the database holds tables of another program")
        if not before.can_migrate and not before.is_served:
            raise OperatorError(before.refusal() or "")
        applied: list[str] = Runner(engine, str(_SCRIPTS / "main")).up()
    for name, generation in _registers(engine):
        with opened_register(engine, name, generation) as (register, schema):
            applied += [f"{name}: {script}" for script in migrate_register(register, schema)]
    return applied


def migrate_register(register: Engine, schema: str | None) -> list[str]:
    """Create or bring up to date the tables of one register; returns the scripts that ran.

    Args:
        register: as `opened_register` gives it, with `schema`.
    """
    with _one_at_a_time(register):
        applied: list[str] = Runner(register, str(_SCRIPTS / "register"), schema=schema).up()
    return applied


def pending_migrations(engine: Engine) -> list[str]:
    """Return the names of the scripts that `migrate` would run; nothing is changed.

    Raises peewee.PeeweeException if the database or a register cannot be read.
    """
    pending = _pending(Runner(engine, str(_SCRIPTS / "main")))
    if not engine.table_exists("register"):
        return pending
    for name, generation in _registers(engine):
        with opened_register(engine, name, generation, create=False) as (register, schema):
            runner = Runner(register, str(_SCRIPTS / "register"), schema=schema)
            pending += [f"{name}: {script}" for script in _pending(runner)]
    return pending


def _pending(runner: Runner) -> list[str]:
    return [script.name for script in runner.status() if script.path and not script.applied]


@contextmanager
def _one_at_a_time(engine: Engine) -> Iterator[None]:
    """Hold a transaction in which nobody else migrates, whatever host it is on (D29)."""
    with engine.atomic():
        # NOTE: SQLite's write transactions run one by one anyway (D27).
        if isinstance(engine, PostgresEngine):
            engine.execute_sql("SELECT pg_advisory_xact_lock(%s)", (_MIGRATION_LOCK,))
        yield


@contextmanager
def opened_register(
    engine: Engine, name: str, generation: int, *, create: bool = True
) -> Iterator[tuple[Engine, str | None]]:
    """Open a register for writing, on a connection of its own: the engine, and its schema there.

    A SQLite register is a file; on Postgres it is a schema of the same database. So a load
    never holds the lock that keys and domains are written under (D25).

    Args:
        create: make the file or the schema if it is missing.
    """
    register: Engine
    schema: str | None = None
    if isinstance(engine, SqliteEngine):
        register = SqliteEngine(register_file(engine.path, name, generation), create=create)
    else:
        register = PostgresEngine(engine.database)
        schema = RegisterRef(name, generation, "").schema
        if create:
            register.execute_sql(f'CREATE SCHEMA IF NOT EXISTS "{schema}"')
    try:
        yield register, schema
    finally:
        close_quietly(register)


def _registers(engine: Engine) -> list[tuple[str, int]]:
    """Return name and generation of the registers that anything was loaded into.

    One that is not there stays so: an empty one in its place would hide the loss.
    """
    query = Register.select(Register.name, Register.generation).where(Register.kinds != "")
    return [
        (name, generation)
        for name, generation in list(query.tuples().execute(engine))
        if is_stored(engine, name, generation, RegisterRef(name, generation, "").schema)
    ]


def database_id(engine: Engine) -> str:
    """Return what tells this database from any other, a copy restored elsewhere excepted."""
    return str(Installation.select(Installation.database_id).scalar(engine))
