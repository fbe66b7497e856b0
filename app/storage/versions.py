"""Decides whether this program can use a database, by their schema versions (D29).

There are three numbers: N is the schema of the database, P the schema that this program was written
for, and M the schema of the oldest program that can use the database. This program serves if
M <= P <= N, and migrates if P > N. Each script in `migrations/main` ends by writing its own N and M
into the table `installation`.
"""

from pathlib import Path
from typing import NamedTuple

import peewee
from playhouse.migrations import Migration, Runner

from app.storage.engine import Engine

SCRIPTS = Path(__file__).parent / "migrations"
_UNKNOWN_SCHEMA = 22
"""The first schema that has `tells_unknown`; before it, a migration is pending."""


def main_scripts(engine: Engine) -> Runner:
    """Return what runs the scripts of a main database. Call `up` within `Engine.migration`."""
    return Runner(engine, str(SCRIPTS / "main"))


def register_scripts(engine: Engine, schema: str | None) -> Runner:
    """Return what runs the scripts of one register, as `migrate_register` does."""
    return Runner(engine, str(SCRIPTS / "register"), schema=schema)


def migrate_register(engine: Engine, schema: str | None) -> list[str]:
    """Create or migrate the tables of one register, and return the names of the scripts that ran.

    Args:
        engine: the engine of the register.
        schema: the schema of its tables; None for the default schema of the connection.
    """
    with engine.migration():
        applied: list[str] = register_scripts(engine, schema).up()
    return applied


def pending(runner: Runner) -> list[str]:
    """Return the names of the scripts that a database or register lacks."""
    return [script.name for script in runner.status() if script.path and not script.applied]


class Installation(peewee.Model):
    """The only row of this table identifies the database and its schema."""

    database_id = peewee.FixedCharField(32)
    schema_version = peewee.IntegerField()
    oldest_program = peewee.IntegerField()
    tells_unknown = peewee.BooleanField()
    """Whether answers tell what is not known (D198). Former programs have no such column."""

    class Meta:
        table_name = "installation"


class Versions(NamedTuple):
    """N, M and P of D29. An empty database is at schema 0."""

    database: int
    oldest_program: int
    program: int

    @property
    def is_served(self) -> bool:
        """Tell whether this program can serve from the database as it is."""
        return self.oldest_program <= self.program <= self.database

    @property
    def can_migrate(self) -> bool:
        """Tell whether `migrate` would bring the database to this program's schema."""
        return self.program > self.database

    def refusal(self) -> str | None:
        """Return a sentence that says why this program cannot serve; None if it can."""
        if self.is_served:
            return None
        if self.database == 0:
            return 'the database is empty: run "verifyd migrate"'
        if self.can_migrate:
            return (
                f"the database is at schema {self.database}, this program needs "
                f'{self.program}: run "verifyd migrate"'
            )
        return (
            f"the database is at schema {self.database} and needs a program of schema "
            f"{self.oldest_program} or newer; this one is {self.program}: upgrade verifyd"
        )


def program_schema() -> int:
    """Return P, the schema of this program: the number of its newest migration."""
    scripts = Migration.load_directory(str(SCRIPTS / "main"))
    return max(int(script.idx) for script in scripts)


def versions(engine: Engine) -> Versions:
    """Return the versions of a database and of this program.

    Raises peewee.PeeweeException if the database cannot be read.
    """
    if not engine.table_exists("installation"):
        return Versions(0, 0, program_schema())
    query = Installation.select(Installation.schema_version, Installation.oldest_program)
    row = query.get(engine)
    return Versions(row.schema_version, row.oldest_program, program_schema())


def database_id(engine: Engine) -> str:
    """Return the identifier of a database. A copy that is restored elsewhere has the same one."""
    return str(Installation.select(Installation.database_id).scalar(engine))


def tells_unknown(engine: Engine) -> bool:
    """Tell whether answers name what is not known (D198)."""
    if versions(engine).database < _UNKNOWN_SCHEMA:
        return False
    return bool(Installation.select(Installation.tells_unknown).scalar(engine))


def set_tells_unknown(engine: Engine, tells: bool) -> None:
    """Change whether answers name what is not known, for all hosts of the database."""
    Installation.update(tells_unknown=tells).execute(engine)
