"""The generations of a register: the one that is read, the next one, and the one before (D28).

On SQLite each is a file, named by the number of the load that made it. On Postgres each is a
schema: `register_NAME` is read, `next_register_NAME` is being made, `kept_register_NAME` is the
one before; a schema changes its name in the commit that changes the register's entry.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from app.catalogue import REGISTERS_MAX, KeptRegister, Register, is_stored, register_file
from app.database import Engine, close_quietly, sync
from app.errors import Hindered
from app.postgres import PostgresEngine
from app.registers.files import generations_on_disk, part_of, remove, written
from app.registers.formats import Kind
from app.registers.writer import TABLES, qualified
from app.schema import migrate_register, opened_register
from app.sqlite import SqliteEngine


class NextGeneration(NamedTuple):
    """A generation that nobody reads yet: engine and schema, for one connection of its own."""

    engine: Engine
    schema: str | None


class Generations:
    """All generations of one register; what changes them needs the register's lock."""

    def __init__(self, engine: Engine, name: str) -> None:
        self._engine = engine
        self.name = name

    def find_current(self) -> Any:
        """Return the entry of the register, None if there is none of this name."""
        return Register.select().where(Register.name == self.name).first(self._engine)

    def find_kept(self) -> Any:
        """Return the generation that a rollback would go back to, or None."""
        return KeptRegister.select().where(KeptRegister.name == self.name).first(self._engine)

    def is_kept_there(self) -> bool:
        """Tell whether the kept generation can be read: a restored database may lack it."""
        return self._is_there(self.find_kept(), _kept_schema(self.name))

    def is_current_there(self) -> bool:
        """Tell whether the generation that readers see is stored."""
        return self._is_there(self.find_current(), _current_schema(self.name))

    def require_there(self) -> None:
        """Raise Hindered if the register was loaded, and what it held is not there."""
        current = self.find_current()
        was_loaded = current is not None and current.loaded_at is not None
        if was_loaded and not self.is_current_there():
            raise Hindered(
                f"what the register {self.name} held is not there: restore it, or drop the "
                "register and load it again"
            )

    def _is_there(self, entry: Any, schema: str) -> bool:
        if entry is None:
            return False
        return is_stored(self._engine, entry.name, entry.generation, schema)

    def require_room(self) -> None:
        """Raise Hindered if this would be a register too many (D25)."""
        if self.find_current() is None and Register.select().count(self._engine) >= REGISTERS_MAX:
            raise Hindered(f"there are {REGISTERS_MAX} registers; drop one first")

    @contextmanager
    def opened_next(self, load_id: int) -> Iterator[NextGeneration]:
        """Make the next generation, without rows, and open it for its one writer.

        What a killed load left is removed before; what this one leaves if it fails is the caller's
        to remove.
        """
        self.remove_unused()
        if isinstance(self._engine, SqliteEngine):
            with self._sqlite_file(self._engine, load_id) as made:
                yield made
        else:
            with self._postgres_schema(self._engine) as made:
                yield made

    @contextmanager
    def _sqlite_file(self, main: SqliteEngine, load_id: int) -> Iterator[NextGeneration]:
        path = register_file(main.path, self.name, load_id)
        with written(path) as file:
            yield NextGeneration(file, None)
            # So that a later merge does not hold up readers, as in every register.
            file.pragma("journal_mode", "wal")
        for synced in (path, path.parent):
            sync(synced)

    @contextmanager
    def _postgres_schema(self, main: PostgresEngine) -> Iterator[NextGeneration]:
        schema = _next_schema(self.name)
        register = PostgresEngine(main.database)
        try:
            register.execute_sql(f'CREATE SCHEMA "{schema}"')
            migrate_register(register, schema)
            for kind in TABLES:
                # PERF: a key is made faster of all rows at once than row by row.
                register.execute_sql(
                    f"ALTER TABLE {_table(schema, kind)} DROP CONSTRAINT {_key(kind)}"
                )
            yield NextGeneration(register, schema)
            for kind, model in TABLES.items():
                names = ", ".join(
                    f'"{field.column_name}"' for field in model._meta.get_primary_keys()
                )
                add = f"ADD CONSTRAINT {_key(kind)} PRIMARY KEY ({names})"
                register.execute_sql(f"ALTER TABLE {_table(schema, kind)} {add}")
                register.execute_sql(f"ANALYZE {_table(schema, kind)}")
        finally:
            close_quietly(register)

    def carry_over(self, made: NextGeneration, replaced: Kind) -> None:
        """Copy what the register holds of the other kinds into its next generation."""
        current = self.find_current()
        if current is None:
            return
        kinds = [kind for kind in TABLES if kind != replaced and kind[0] in current.kinds]
        if isinstance(self._engine, SqliteEngine):
            _copy_from_file(made, _file(self._engine, current), kinds)
        else:
            _copy_from_schema(made, _current_schema(self.name), kinds)

    @contextmanager
    def opened_part(self, made: NextGeneration) -> Iterator[NextGeneration]:
        """Open a part of the next generation, for another process to write at the same time.

        It is there when this is left, all of it or nothing.
        """
        if isinstance(made.engine, SqliteEngine):
            with written(part_of(made.engine.path)) as file:
                yield NextGeneration(file, None)
        else:
            register = PostgresEngine(made.engine.database)
            try:
                with register.atomic():
                    yield NextGeneration(register, made.schema)
            finally:
                close_quietly(register)

    def add_part(self, made: NextGeneration, kind: Kind) -> None:
        """Add rows of a part that is whole; in Postgres they are there."""
        if isinstance(made.engine, SqliteEngine):
            _copy_from_file(made, part_of(made.engine.path), [kind])

    def remove_part(self, made: NextGeneration) -> None:
        """Remove a part, whole or not; in Postgres what was not committed is not there."""
        if isinstance(made.engine, SqliteEngine):
            remove(part_of(made.engine.path))

    def switch(self, load_id: int, kind: Kind, held: int, loaded_at: int) -> None:
        """Let readers have the next generation; within the commit that ends the load.

        Args:
            held: how many rows of the kind it holds.
        """
        current = self.find_current()
        self.forget_kept()
        entry = _columns(current) if current else {"kinds": ""}
        # A register that nothing was ever loaded into is no way back.
        is_kept = current is not None and current.loaded_at is not None
        if is_kept:
            KeptRegister.insert(**entry).execute(self._engine)
        if current is not None:
            Register.delete().where(Register.name == self.name).execute(self._engine)
        entry |= {"name": self.name, "generation": load_id, "loaded_at": loaded_at}
        entry |= {kind.value: held, "kinds": "".join(sorted({*str(entry["kinds"]), kind[0]}))}
        Register.insert(**entry).execute(self._engine)
        if isinstance(self._engine, PostgresEngine):
            if is_kept:
                self._rename(_current_schema(self.name), _kept_schema(self.name))
            self._drop_schema(_current_schema(self.name))
            self._rename(_next_schema(self.name), _current_schema(self.name))

    def roll_back(self) -> None:
        """Let readers have the kept generation again; within a transaction.

        What they had stays until the next load: one of them may be about to open it.
        """
        kept = self.find_kept()
        Register.delete().where(Register.name == self.name).execute(self._engine)
        KeptRegister.delete().where(KeptRegister.name == self.name).execute(self._engine)
        Register.insert(**_columns(kept)).execute(self._engine)
        if isinstance(self._engine, PostgresEngine):
            self._drop_schema(_next_schema(self.name))
            self._rename(_current_schema(self.name), _next_schema(self.name))
            self._rename(_kept_schema(self.name), _current_schema(self.name))

    def forget_kept(self) -> None:
        """Make a rollback impossible; within the commit of a later load."""
        KeptRegister.delete().where(KeptRegister.name == self.name).execute(self._engine)
        if isinstance(self._engine, PostgresEngine):
            self._drop_schema(_kept_schema(self.name))

    def remove_unused(self) -> None:
        """Remove every generation but the current and the kept one.

        A reader that has one attached goes on reading the removed file until its next request.
        No generation is used twice, so that it never takes a later one for this.
        """
        if isinstance(self._engine, PostgresEngine):
            self._drop_schema(_next_schema(self.name))
            return
        used = {each.generation for each in (self.find_current(), self.find_kept()) if each}
        for generation in generations_on_disk(self._engine.path, self.name) - used:
            file = register_file(self._engine.path, self.name, generation)
            remove(file)
            remove(part_of(file))

    def truncate_log(self) -> None:
        """Give back the disk space of the register's log, on SQLite, once readers let go of it.

        It stays as long as it ever was while the service runs, also what was rolled back.
        """
        if isinstance(self._engine, SqliteEngine) and self.is_current_there():
            generation = self.find_current().generation
            with opened_register(self._engine, self.name, generation, create=False) as (file, _):
                file.execute_sql("PRAGMA wal_checkpoint(TRUNCATE)")

    def remove_made(self, load_id: int) -> None:
        """Remove the register if this load, which failed, made it."""
        made = self.find_current()
        # NOTE: a register that an earlier, killed load made may hold what that one committed.
        if made is not None and made.loaded_at is None and made.generation == load_id:
            self.remove_all()

    def remove_all(self) -> None:
        """Remove the register: its entry first, then what it stored."""
        with self._engine.atomic():
            self.forget_kept()
            Register.delete().where(Register.name == self.name).execute(self._engine)
            if isinstance(self._engine, PostgresEngine):
                self._drop_schema(_current_schema(self.name))
        self.remove_unused()

    def _rename(self, schema: str, name: str) -> None:
        self._engine.execute_sql(f'ALTER SCHEMA "{schema}" RENAME TO "{name}"')

    def _drop_schema(self, schema: str) -> None:
        self._engine.execute_sql(f'DROP SCHEMA IF EXISTS "{schema}" CASCADE')


def _copy_from_file(made: NextGeneration, source: Path, kinds: Iterable[Kind]) -> None:
    made.engine.execute_sql("ATTACH DATABASE ? AS source", (os.fspath(source.absolute()),))
    _copy_from_schema(made, "source", kinds)
    made.engine.execute_sql("DETACH DATABASE source")


def _copy_from_schema(made: NextGeneration, schema: str, kinds: Iterable[Kind]) -> None:
    for kind in kinds:
        made.engine.execute_sql(
            f"INSERT INTO {_table(made.schema or 'main', kind)} "  # noqa: S608 - names of ours
            f"SELECT * FROM {_table(schema, kind)}"
        )


def _file(engine: SqliteEngine, entry: Any) -> Path:
    return register_file(engine.path, entry.name, entry.generation)


def _current_schema(name: str) -> str:
    return f"register_{name}"


def _next_schema(name: str) -> str:
    return f"next_register_{name}"


def _kept_schema(name: str) -> str:
    return f"kept_register_{name}"


def _table(schema: str, kind: Kind) -> str:
    return qualified(schema, TABLES[kind]._meta.table_name)


def _key(kind: Kind) -> str:
    return f'"{TABLES[kind]._meta.table_name}_pkey"'


def _columns(entry: Any) -> dict[str, Any]:
    return {name: getattr(entry, name) for name in Register._meta.fields}
