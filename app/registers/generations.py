"""The generations of a register: the one that is read, the next one, and those that wait.

Those that wait can be rolled back to (D71), or are a dropped register (D72). On SQLite each
generation is a file, on Postgres a schema; its number is that of the load that made it.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from app.errors import Hindered
from app.registers import files, schemas
from app.registers.applying.table import TABLES
from app.registers.files import part_of, remove
from app.registers.formats import Kind
from app.registers.next_generation import NextGeneration, written_file, written_schema
from app.registers.schemas import current_schema, kept_schema, next_schema
from app.storage.engine import Engine
from app.storage.postgres import PostgresEngine
from app.storage.registers import (
    REGISTERS_MAX,
    DroppedRegister,
    KeptRegister,
    Register,
    is_stored,
    register_file,
)
from app.storage.schema import migrate_register, opened_register
from app.storage.sqlite import SqliteEngine


class Generations:
    """All generations of one register; what changes them needs the register's lock."""

    def __init__(self, engine: Engine, name: str) -> None:
        self._engine = engine
        self.name = name

    def find_current(self) -> Any:
        """Return the entry of the register, None if there is none of this name."""
        return Register.select().where(Register.name == self.name).first(self._engine)

    def find_dropped(self) -> Any:
        """Return the entry of the register as it was when it was dropped, or None."""
        is_it = DroppedRegister.name == self.name
        return DroppedRegister.select().where(is_it).first(self._engine)

    def list_kept(self) -> list[Any]:
        """Return the generations that a rollback can go back to, the latest first."""
        query = KeptRegister.select().where(KeptRegister.name == self.name)
        return list(query.order_by(KeptRegister.generation.desc()).execute(self._engine))

    def is_waiting_there(self, entry: Any) -> bool:
        """Tell whether a generation that waits is stored: a restored database may lack it."""
        schema = kept_schema(self.name, entry.generation)
        return is_stored(self._engine, self.name, entry.generation, schema)

    def is_current_there(self) -> bool:
        """Tell whether the generation that readers see is stored."""
        entry = self.find_current()
        schema = current_schema(self.name)
        return entry is not None and is_stored(self._engine, self.name, entry.generation, schema)

    def require_there(self) -> None:
        """Raise Hindered if the register was loaded, and what it held is not there."""
        current = self.find_current()
        was_loaded = current is not None and current.loaded_at is not None
        if was_loaded and not self.is_current_there():
            raise Hindered(
                f"what the register {self.name} held is not there: restore it, or drop the "
                "register and load it again"
            )

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
            opened = written_file(register_file(self._engine.path, self.name, load_id))
        else:
            opened = written_schema(self._engine, next_schema(self.name))
        with opened as made:
            yield made

    def carry_over(self, made: NextGeneration, replaced: Kind) -> None:
        """Copy what the register holds of the other kinds into its next generation."""
        current = self.find_current()
        if current is None:
            return
        kinds = [kind for kind in TABLES if kind != replaced and kind[0] in current.kinds]
        if isinstance(self._engine, SqliteEngine):
            file = register_file(self._engine.path, self.name, current.generation)
            made.copy_from_file(file, kinds)
        else:
            made.copy_from_schema(current_schema(self.name), kinds)

    def switch(self, load_id: int, kind: Kind, held: int, loaded_at: int | None) -> None:
        """Let readers have the next generation; within the commit that ends the load.

        Args:
            held: how many rows of the kind it holds.
        """
        current = self.find_current()
        self.forget_dropped()
        entry = _columns(current) if current else {"kinds": ""}
        # A register that nothing was ever loaded into is no way back.
        if current is not None and current.loaded_at is not None:
            KeptRegister.insert(**entry).execute(self._engine)
        self._take_away(current)
        entry |= {"name": self.name, "generation": load_id, "loaded_at": loaded_at}
        entry |= {kind.value: held, "kinds": "".join(sorted({*str(entry["kinds"]), kind[0]}))}
        self._give(entry, next_schema(self.name))

    def roll_back(self, kept: Any) -> None:
        """Let readers have a kept generation again; within a transaction.

        Later generations are no way back any more. What readers had is removed by the next load.
        """
        self._take_away(self.find_current())
        is_undone = KeptRegister.generation >= kept.generation
        KeptRegister.delete().where((KeptRegister.name == self.name) & is_undone).execute(
            self._engine
        )
        self._give(_columns(kept), kept_schema(self.name, kept.generation))

    def drop(self) -> None:
        """Take the register from readers; it waits, with its ways back. Within a transaction.

        One that nothing was ever loaded into is gone at once. So is one that was made after an
        earlier drop which can still be undone: it holds nothing, and what was dropped stays.
        """
        current = self.find_current()
        if current.loaded_at is not None and self.find_dropped() is None:
            DroppedRegister.insert(**_columns(current)).execute(self._engine)
        self._take_away(current)

    def undrop(self, dropped: Any) -> None:
        """Let readers have the register as it was when it was dropped; within a transaction."""
        self._take_away(self.find_current())
        DroppedRegister.delete().where(DroppedRegister.name == self.name).execute(self._engine)
        self._give(_columns(dropped), kept_schema(self.name, dropped.generation))

    def _take_away(self, current: Any) -> None:
        """Let readers see no such register; what they saw waits under its number."""
        Register.delete().where(Register.name == self.name).execute(self._engine)
        if isinstance(self._engine, PostgresEngine):
            schemas.hold_off_backups(self._engine)
            schema = current_schema(self.name)
            if current is None:
                schemas.remove(self._engine, schema)  # Nobody reads what has no entry.
            elif schemas.exists(self._engine, schema):
                schemas.rename(self._engine, schema, kept_schema(self.name, current.generation))

    def _give(self, entry: dict[str, Any], schema: str) -> None:
        """Let readers see a generation, which on Postgres is in this schema until now."""
        Register.insert(**entry).execute(self._engine)
        if isinstance(self._engine, PostgresEngine):
            schemas.rename(self._engine, schema, current_schema(self.name))

    def migrate_waiting(self, entry: Any) -> None:
        """Bring a generation that waits to this program's schema, before readers have it again."""
        with opened_register(self._engine, self.name, entry.generation, create=False) as opened:
            register, schema = opened
            migrate_register(register, schema and kept_schema(self.name, entry.generation))

    def forget_kept(self, leave: int = 0) -> None:
        """Let no rollback go back further than to the latest generations, `leave` of them."""
        forgotten = [each.generation for each in self.list_kept()[leave:]]
        if forgotten:
            is_one = KeptRegister.generation.in_(forgotten)
            delete = KeptRegister.delete().where((KeptRegister.name == self.name) & is_one)
            delete.execute(self._engine)

    def forget_dropped(self) -> None:
        """Make it impossible to bring the dropped register back; within the commit of a load."""
        is_it = DroppedRegister.name == self.name
        if DroppedRegister.delete().where(is_it).execute(self._engine):
            self.forget_kept()  # They were ways back from what was dropped.

    def remove_unused(self) -> None:
        """Remove every generation but the current one and those that wait for someone.

        A reader that has one attached goes on reading the removed file until its next request.
        No generation is used twice, so that it never takes a later one for this.
        """
        self._remove_all_but([self.find_current(), self.find_dropped(), *self.list_kept()])

    def remove_waiting(self) -> None:
        """Remove every generation but the current one: nobody gets the others back."""
        self._remove_all_but([self.find_current()])

    def _remove_all_but(self, entries: Iterable[Any]) -> None:
        used = {each.generation for each in entries if each}
        if isinstance(self._engine, PostgresEngine):
            schemas.remove_unused(self._engine, self.name, used)
            return
        for generation in files.generations_on_disk(self._engine.path, self.name) - used:
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
            with self._engine.atomic():
                self._take_away(made)
            self.remove_unused()


def _columns(entry: Any) -> dict[str, Any]:
    return {name: getattr(entry, name) for name in Register._meta.fields}
