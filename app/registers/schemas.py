"""The schemas of a register's generations, on Postgres (D28).

Readers see `register_NAME`, and a load makes `next_register_NAME`. Every other generation waits
under its number, as `kept_register_NAME-GENERATION`. A generation changes its name in the commit
that changes the register's entry, and is removed only later, when no reader asks for that name:
a reader would wait for the lock of the removal.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from app.storage.engine import close_quietly
from app.storage.postgres import PostgresEngine
from app.storage.schema import migrate_register
from app.storage.tables import TABLES, Kind, RegisterRef, qualified


def current_schema(name: str) -> str:
    """Return the schema of the generation that readers see."""
    return RegisterRef(name, 0, "").schema


def next_schema(name: str) -> str:
    """Return the schema of the generation that a load makes."""
    return f"next_register_{name}"


def kept_schema(name: str, generation: int) -> str:
    """Return the schema of a generation that nobody reads."""
    # NOTE: no name of a register holds a hyphen, so that no two generations share a schema.
    return f"kept_register_{name}-{generation}"


def exists(engine: PostgresEngine, schema: str) -> bool:
    """Tell whether there is a schema of this name."""
    query = "SELECT count(*) FROM pg_namespace WHERE nspname = %s"
    return bool(engine.execute_sql(query, (schema,)).fetchone()[0])


def rename(engine: PostgresEngine, schema: str, name: str) -> None:
    """Give a schema another name."""
    engine.execute_sql(f'ALTER SCHEMA "{schema}" RENAME TO "{name}"')


def remove(engine: PostgresEngine, schema: str) -> None:
    """Remove a schema, if it is there, with all it holds."""
    engine.execute_sql(f'DROP SCHEMA IF EXISTS "{schema}" CASCADE')


def hold_off_backups(engine: PostgresEngine) -> None:
    """Wait for a backup that reads registers; within the transaction that renames schemas.

    pg_dump finds its tables by their names, which must not change meanwhile (D47).
    """
    engine.execute_sql('LOCK TABLE "register_kept" IN ROW EXCLUSIVE MODE')


def remove_unused(engine: PostgresEngine, name: str, used: set[int]) -> None:
    """Remove the schemas of all generations that nobody reads, but for those of these numbers."""
    remove(engine, next_schema(name))
    remove(engine, f"kept_register_{name}")  # As programs before schema 4 named it.
    for generation in _waiting(engine, name) - used:
        remove(engine, kept_schema(name, generation))


def _waiting(engine: PostgresEngine, name: str) -> set[int]:
    pattern = re.compile(re.escape(f"kept_register_{name}-") + "([0-9]+)")
    names = engine.execute_sql("SELECT nspname FROM pg_namespace").fetchall()
    found = (pattern.fullmatch(schema) for (schema,) in names)
    return {int(match[1]) for match in found if match}


@contextmanager
def written(main: PostgresEngine, schema: str) -> Iterator[PostgresEngine]:
    """Make a register's schema, for its one writer, on a connection of its own."""
    register = PostgresEngine(main.database)
    try:
        register.execute_sql(f'CREATE SCHEMA "{schema}"')
        migrate_register(register, schema)
        for kind in TABLES:
            # PERF: a key is made faster of all rows at once than row by row.
            register.execute_sql(f"ALTER TABLE {_table(schema, kind)} DROP CONSTRAINT {_key(kind)}")
        yield register
        for kind, model in TABLES.items():
            names = ", ".join(f'"{field.column_name}"' for field in model._meta.get_primary_keys())
            add = f"ADD CONSTRAINT {_key(kind)} PRIMARY KEY ({names})"
            register.execute_sql(f"ALTER TABLE {_table(schema, kind)} {add}")
            register.execute_sql(f"ANALYZE {_table(schema, kind)}")
    finally:
        close_quietly(register)


def _table(schema: str, kind: Kind) -> str:
    return qualified(schema, TABLES[kind]._meta.table_name)


def _key(kind: Kind) -> str:
    return f'"{TABLES[kind]._meta.table_name}_pkey"'
