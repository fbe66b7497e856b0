"""Publishes, rolls back, drops and brings back the generations of a register (D72).

Readers see the current generation. Others wait: snapshots for a rollback, and the generation of a
dropped register for an undrop. The register index says which is which. Each change here updates
the index and the stored generations together.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cached_property
from typing import Any

import peewee

from app.errors import Hindered
from app.storage.engine import Engine
from app.storage.identity import (
    Expected,
    Identity,
    StoredIdentity,
    fault_of,
    new_stamp,
    read_identity,
    write_identity,
)
from app.storage.register_store import OpenRegister
from app.storage.registers import (
    REGISTERS_MAX,
    DroppedRegister,
    Entry,
    KeptRegister,
    Register,
    Unreadable,
    list_entries,
)
from app.storage.stores import store_of
from app.storage.tables import TABLES, Kind
from app.storage.versions import database_id


class Generations:
    """The generations of one register. Every change needs the register's lock.

    While a caller holds the lock, nobody else changes the register's entry. So it reads the entry
    once and passes it on.
    """

    def __init__(self, engine: Engine, name: str) -> None:
        self.engine = engine
        self.name = name
        self.store = store_of(engine, name)

    @cached_property
    def _installation(self) -> str:
        # A forked worker must not use the connection of this process, so this is read before.
        return database_id(self.engine)

    def identity(self, generation: int, stamp: str) -> Identity:
        """Return the identity of a generation, to be written into its data."""
        return Identity(self._installation, self.name, generation, stamp)

    def fault(self, entry: Entry, held: StoredIdentity) -> str | None:
        """Return a clause that says why data is not that of an entry; None if it is."""
        one = self._installation, self.name, entry.generation, entry.stamp, entry.last_load
        return fault_of(Expected(*one), held)

    def _require_own(self, opened: OpenRegister, entry: Entry) -> None:
        """Raise Hindered if data is not that of an entry: nothing may be written to it."""
        fault = self.fault(entry, read_identity(*opened))
        if fault:
            raise Hindered(str(Unreadable(self.name, fault)))

    def find_current(self) -> Entry | None:
        """Return the register's entry, None if it has none."""
        return next(iter(self.entries(Register)), None)

    def find_dropped(self) -> Entry | None:
        """Return the entry of the dropped register, None if it was not dropped."""
        return next(iter(self.entries(DroppedRegister)), None)

    def list_kept(self) -> list[Entry]:
        """Return the entries of the snapshots that a rollback can go back to, latest first."""
        return self.entries(KeptRegister)

    def entries(self, model: type[Register]) -> list[Entry]:
        """Return the register's entries in one table of the index, latest first."""
        return list_entries(self.engine, model, self.name)

    @contextmanager
    def opened(self, entry: Entry | None) -> Iterator[OpenRegister | None]:
        """Open the current generation for writing, and migrate it if its schema is old.

        The connection is a new one, so that a forked worker can call this as well.

        Args:
            entry: the register's entry; None if it has none.

        Yields None if there is no register. Raises Hindered if its data is that of another one.
        """
        if entry is None:
            yield None
            return
        with self.store.opened(entry.generation) as opened:
            opened.migrate()
            is_new = entry.loaded_at is None and read_identity(*opened).identity is None
            if entry.stamp and (is_new or not entry.kinds):  # Nothing was ever loaded.
                write_identity(*opened, self.identity(entry.generation, entry.stamp))
            else:
                self._require_own(opened, entry)
            yield opened

    @contextmanager
    def opened_unchanged(self, entry: Entry | None) -> Iterator[OpenRegister | None]:
        """Open the current generation without creating or migrating anything.

        Yields None if there is no register, or if a killed first load left it without tables.
        """
        if entry is None or not self.store.has_current(entry.generation):
            yield None
            return
        with self.store.opened(entry.generation, create=False) as opened:
            table = TABLES[Kind.VEHICLES]._meta.table_name
            has_tables = opened.engine.table_exists(table, schema=opened.schema)
            if has_tables and entry.kinds:
                self._require_own(opened, entry)
            yield opened if has_tables else None

    @contextmanager
    def opened_entry(self, model: type[Register], entry: Entry) -> Iterator[OpenRegister | None]:
        """Open the data of an entry in one table of the index; yield None if it is missing."""
        store, generation = self.store, entry.generation
        if not (store.has_current if model is Register else store.has_waiting)(generation):
            yield None
        elif model is Register:
            with store.opened(generation, create=False) as opened:
                yield opened
        else:
            with store.opened_waiting(generation) as opened:
                yield opened

    def require_data(self, entry: Entry | None) -> None:
        """Raise Hindered if the register was loaded, but its data is missing."""
        if entry is None or entry.loaded_at is None:
            return
        if not self.store.has_current(entry.generation):
            raise Hindered(
                f"the data of the register {self.name} is missing; restore it from a backup, or "
                "drop the register and load it again"
            )

    def require_room(self, entry: Entry | None) -> None:
        """Raise Hindered if the register is new, and there are eight registers already (D25)."""
        if entry is None and Register.select().count(self.engine) >= REGISTERS_MAX:
            raise Hindered(f"there are {REGISTERS_MAX} registers; drop one first")

    def add(self, load_id: int) -> Entry:
        """Add the entry of a new register; readers skip it until a kind is announced.

        Its generation is the number of the load, so that no number is used twice.
        """
        entry = Entry(self.name, load_id, "", stamp=new_stamp())
        with self.engine.atomic():
            self.require_room(None)
            self._insert(Register, entry)
        return entry

    def announce(self, entry: Entry, kind: Kind) -> Entry:
        """Let readers look for rows of this kind, and return the changed entry.

        Call this before the rows are committed. Otherwise readers would see some of the new rows
        but not those of this kind (D28).
        """
        announced = entry.with_kind(kind)
        if announced != entry:
            self._update(kinds=announced.kinds)
        return announced

    def note_identity(
        self, model: type[Register], generation: int, stamp: str, last_load: int
    ) -> None:
        """Note in an entry which data is the right one."""
        is_it: Any = (model.name == self.name) & (model.generation == generation)
        model.update(stamp=stamp, last_load=last_load).where(is_it).execute(self.engine)

    def count_merged(self, load_id: int, kind: Kind, held: int, loaded_at: int | None) -> None:
        """Update the register's entry after a merge.

        Args:
            load_id: the number of the merge.
            held: how many rows of this kind the register holds now.
            loaded_at: when it was loaded, in Unix seconds; None to keep the former time.
        """
        values: dict[str, object] = {kind.value: held, "last_load": load_id}
        if loaded_at is not None:
            values["loaded_at"] = loaded_at
        self._update(**values)

    def publish(self, former: Entry | None, published: Entry) -> None:
        """Make the next generation the current one, and the former one a snapshot.

        Call this within the transaction that ends the load.

        Args:
            former: the register's entry; None if the register is new.
            published: its next entry.
        """
        self.require_room(former)
        self.forget_dropped()
        # A register that was never loaded holds nothing to go back to.
        if former is not None and former.loaded_at is not None:
            self._insert(KeptRegister, former)
        self._set_aside(former)
        self._insert(Register, published)
        self.store.publish_next()

    def roll_back(self, current: Entry | None, kept: Entry) -> None:
        """Make a snapshot the current generation again; call this within a transaction.

        The index then lists neither this snapshot nor later ones. The next load removes the former
        generation.
        """
        self._delete(KeptRegister, KeptRegister.generation >= kept.generation)
        self._bring_back(current, kept)

    def drop(self, current: Entry) -> None:
        """Hide the register from readers, so that it can be undropped with its snapshots.

        A register that was never loaded cannot be undropped. Nor can one that was created
        after a drop that can still be undone: it holds nothing, and the earlier one stays.

        Call this within a transaction.
        """
        if current.loaded_at is not None and self.find_dropped() is None:
            self._insert(DroppedRegister, current)
        self._set_aside(current)

    def undrop(self, current: Entry | None, dropped: Entry) -> None:
        """Bring the dropped register back as it was; call this within a transaction."""
        self._delete(DroppedRegister)
        self._bring_back(current, dropped)

    def migrate_waiting(self, entry: Entry) -> None:
        """Migrate a waiting generation to this program's schema, before readers see it again.

        Raises Hindered if the data in its place is that of another one.
        """
        with self.store.opened_waiting(entry.generation) as opened:
            opened.migrate()
            self._require_own(opened, entry)

    def forget_snapshots(self, keep: int = 0) -> None:
        """Remove all snapshots but the latest from the index.

        Args:
            keep: how many of the latest stay.
        """
        forgotten = [each.generation for each in self.list_kept()[keep:]]
        if forgotten:
            self._delete(KeptRegister, KeptRegister.generation.in_(forgotten))

    def forget_dropped(self) -> None:
        """Remove the dropped register and its snapshots from the index.

        Call this within a transaction.
        """
        if self._delete(DroppedRegister):
            self.forget_snapshots()

    def remove_unused(self) -> None:
        """Remove the data of every generation that is not in the index."""
        self._remove_all_but(Register, DroppedRegister, KeptRegister)

    def free_space(self, current: Entry | None) -> None:
        """Remove all data that nobody needs, and empty the log of the current generation."""
        self.remove_unused()
        if current is not None:
            self.store.truncate_log(current.generation)

    def remove_waiting(self) -> None:
        """Remove the data of every generation but the current one, for a purge."""
        self._remove_all_but(Register)

    def remove_made_by(self, load_id: int) -> None:
        """Remove the register if this load created it, and nothing was loaded into it.

        A register that an earlier load created stays, even if that load was killed: it may hold
        rows that were committed.
        """
        made = self.find_current()
        if made is not None and made.loaded_at is None and made.generation == load_id:
            with self.engine.atomic():
                self._set_aside(made)
            self.remove_unused()

    def _remove_all_but(self, *models: type[Register]) -> None:
        """Remove the data of every generation that is not in these tables of the index."""
        # NOTE: the index is read again. A caller that Ctrl-C interrupted does not know whether its
        # last commit took place, and must not remove what that published.
        used = {entry.generation for model in models for entry in self.entries(model)}
        self.store.remove_unused(used)

    def _set_aside(self, current: Entry | None) -> None:
        """Remove the register's entry; the data of its current generation stays, to wait."""
        self._delete(Register)
        self.store.put_aside(current and current.generation)

    def _bring_back(self, current: Entry | None, waiting: Entry) -> None:
        """Make a waiting generation the current one."""
        self._set_aside(current)
        self._insert(Register, waiting)
        self.store.bring_back(waiting.generation)

    def _insert(self, model: type[Register], entry: Entry) -> None:
        with self._waiting_for_backup(model):
            model.insert(**entry._asdict()).execute(self.engine)

    def _update(self, **values: object) -> None:
        Register.update(**values).where(Register.name == self.name).execute(self.engine)

    def _delete(self, model: type[Register], condition: peewee.Expression | None = None) -> Any:
        """Delete the register's entries in one table of the index; return how many there were."""
        is_it: Any = model.name == self.name
        which = is_it if condition is None else is_it & condition
        with self._waiting_for_backup(model):
            return model.delete().where(which).execute(self.engine)

    def _waiting_for_backup(self, model: type[Register]) -> AbstractContextManager[object]:
        return self.store.waiting_for_backup() if model is KeptRegister else nullcontext()


# The lock of a register: it allows one load at a time, whoever starts it.


@contextmanager
def locked(engine: Engine, register: str) -> Iterator[Callable[[Engine], None]]:
    """Hold a register's lock; it ends with the process at the latest, even if that is killed.

    Yields a function that raises Hindered if the lock has been lost: on Postgres it ends with the
    connection. Call it with the engine of the transaction that changes the register, last. Raises
    Hindered at once if another process holds the lock.
    """
    with store_of(engine, register).tried_lock() as require_held:
        if require_held is None:
            # The message names no load: the history does not say who holds the lock. Its latest
            # running line may be of a killed load, while a drop or a rollback holds the lock.
            raise Hindered(
                f"another load of the register {register} is running; try again when it has ended"
            )
        yield require_held


@contextmanager
def still_locked(engine: Engine, register: str) -> Iterator[None]:
    """Keep holding a register's lock, or take it again if it may have ended with its connection.

    Raises Hindered if another process has taken it.
    """
    if store_of(engine, register).lock_outlives_connection:
        yield
    else:
        with locked(engine, register):
            yield


def is_being_loaded(engine: Engine, register: str) -> bool:
    """Tell whether a process holds a register's lock, without hindering a load that begins now.

    Returns True if that cannot be found out.
    """
    return store_of(engine, register).is_locked()
