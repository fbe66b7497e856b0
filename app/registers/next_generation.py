"""The generation of a register that a replace writes, before anybody reads it (D28, D54)."""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from app.registers import files, schemas
from app.registers.files import part_of, remove
from app.storage.engine import Engine, close_quietly, sync
from app.storage.postgres import PostgresEngine
from app.storage.sqlite import SqliteEngine
from app.storage.tables import TABLES, Kind, qualified


class NextGeneration(NamedTuple):
    """A generation that nobody reads yet: engine and schema, for one connection of its own."""

    engine: Engine
    schema: str | None

    def copy_from_file(self, source: Path, kinds: Iterable[Kind]) -> None:
        """Add all rows of some kinds that another file of SQLite holds."""
        self.engine.execute_sql("ATTACH DATABASE ? AS source", (os.fspath(source.absolute()),))
        self.copy_from_schema("source", kinds)
        self.engine.execute_sql("DETACH DATABASE source")

    def copy_from_schema(self, schema: str, kinds: Iterable[Kind]) -> None:
        """Add all rows of some kinds that another schema holds."""
        for kind in kinds:
            name = TABLES[kind]._meta.table_name
            self.engine.execute_sql(
                f"INSERT INTO {qualified(self.schema or 'main', name)} "  # noqa: S608 - names of ours
                f"SELECT * FROM {qualified(schema, name)}"
            )

    @contextmanager
    def opened_part(self) -> Iterator["NextGeneration"]:
        """Open a part of this generation, for another process to write at the same time.

        It is there when this is left, all of it or nothing.
        """
        if isinstance(self.engine, SqliteEngine):
            with files.written(part_of(self.engine.path)) as file:
                yield NextGeneration(file, None)
        else:
            register = PostgresEngine(self.engine.database)
            try:
                with register.atomic():
                    yield NextGeneration(register, self.schema)
            finally:
                close_quietly(register)

    def add_part(self, kind: Kind) -> None:
        """Add rows of a part that is whole; in Postgres they are there."""
        if isinstance(self.engine, SqliteEngine):
            self.copy_from_file(part_of(self.engine.path), [kind])

    def remove_part(self) -> None:
        """Remove a part, whole or not; in Postgres what was not committed is not there."""
        if isinstance(self.engine, SqliteEngine):
            remove(part_of(self.engine.path))


@contextmanager
def written_file(path: Path) -> Iterator[NextGeneration]:
    """Make the file of the next generation, for its one writer; on the disk for good at the end."""
    with files.written(path) as file:
        yield NextGeneration(file, None)
        # So that a later merge does not hold up readers, as in every register.
        file.pragma("journal_mode", "wal")
    for synced in (path, path.parent):
        sync(synced)


@contextmanager
def written_schema(main: PostgresEngine, schema: str) -> Iterator[NextGeneration]:
    """Make the schema of the next generation, for its one writer."""
    with schemas.written(main, schema) as register:
        yield NextGeneration(register, schema)
