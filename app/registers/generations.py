"""The generations of a register: the one that is read, the next one, and those that wait.

Those that wait can be rolled back to (D71), or are a dropped register (D72). The register index
says which is which; here it changes, together with what is stored.
"""

from typing import Any

import peewee

from app.errors import Hindered
from app.storage.engine import Engine
from app.storage.registers import (
    REGISTERS_MAX,
    DroppedRegister,
    Entry,
    KeptRegister,
    Register,
)
from app.storage.scripts import migrate_register
from app.storage.stores import store_of
from app.storage.tables import Kind


class Generations:
    """All generations of one register; what changes them needs the register's lock.

    Whoever has the lock reads the entry once, and hands it on: nobody else changes it.
    """

    def __init__(self, engine: Engine, name: str) -> None:
        self._engine = engine
        self.name = name
        self.store = store_of(engine, name)

    def find_current(self) -> Entry | None:
        """Return the entry of the register, None if there is none of this name."""
        return next(iter(self._entries(Register)), None)

    def find_dropped(self) -> Entry | None:
        """Return the entry of the register as it was when it was dropped, or None."""
        return next(iter(self._entries(DroppedRegister)), None)

    def list_kept(self) -> list[Entry]:
        """Return the generations that a rollback can go back to, the latest first."""
        return self._entries(KeptRegister)

    def _entries(self, model: type[Register]) -> list[Entry]:
        columns = [getattr(model, name) for name in Entry._fields]
        query = model.select(*columns).where(model.name == self.name)
        ordered = query.order_by(model.generation.desc()).tuples()
        return [Entry(*row) for row in ordered.execute(self._engine)]

    def require_there(self, entry: Entry | None) -> None:
        """Raise Hindered if the register was loaded, and its data is not there."""
        was_loaded = entry is not None and entry.loaded_at is not None
        if entry is not None and was_loaded and not self.store.has_current(entry.generation):
            raise Hindered(
                f"what the register {self.name} held is not there: restore it, or drop the "
                "register and load it again"
            )

    def require_room(self, entry: Entry | None) -> None:
        """Raise Hindered if this would be a register too many (D25)."""
        if entry is None and Register.select().count(self._engine) >= REGISTERS_MAX:
            raise Hindered(f"there are {REGISTERS_MAX} registers; drop one first")

    def add(self, load_id: int) -> Entry:
        """Make the entry of a register that is new, with nothing to read yet.

        Its generation is the number of the load that makes it: none comes twice.
        """
        entry = Entry(self.name, load_id, "")
        with self._engine.atomic():
            self.require_room(None)
            self._insert(Register, entry)
        return entry

    def announce(self, entry: Entry, kind: Kind) -> Entry:
        """Let readers look for rows of this kind, before there are any.

        A kind is announced before its rows are committed, never after: rows that nobody looks
        for would be a mixture of old and new (D28).
        """
        announced = entry.with_kind(kind)
        if announced != entry:
            self._update(kinds=announced.kinds)
        return announced

    def count_merged(self, kind: Kind, held: int, loaded_at: int | None) -> None:
        """Note what the register holds after a merge.

        Args:
            held: how many rows of this kind.
            loaded_at: when it was loaded; None if it is as old as before (D51).
        """
        values: dict[str, object] = {kind.value: held}
        if loaded_at is not None:
            values["loaded_at"] = loaded_at
        self._update(**values)

    def publish(self, former: Entry | None, published: Entry) -> None:
        """Let readers have the next generation; within the commit that ends the load."""
        self.require_room(former)
        self.forget_dropped()
        # A register that nothing was ever loaded into is no way back.
        if former is not None and former.loaded_at is not None:
            self._insert(KeptRegister, former)
        self._take_away(former)
        self._insert(Register, published)
        self.store.publish_next(published.generation)

    def roll_back(self, current: Entry | None, kept: Entry) -> None:
        """Let readers have a kept generation again; within a transaction.

        Later generations are no way back any more. What readers had is removed by the next load.
        """
        is_undone = KeptRegister.generation >= kept.generation
        self._delete(KeptRegister, is_undone)
        self._give_back(current, kept)

    def drop(self, current: Entry) -> None:
        """Take the register from readers; it waits, with its ways back. Within a transaction.

        One that nothing was ever loaded into is gone at once. So is one that was made after an
        earlier drop which can still be undone: it holds nothing, and what was dropped stays.
        """
        if current.loaded_at is not None and self.find_dropped() is None:
            self._insert(DroppedRegister, current)
        self._take_away(current)

    def undrop(self, current: Entry | None, dropped: Entry) -> None:
        """Let readers have the register as it was when it was dropped; within a transaction."""
        self._delete(DroppedRegister)
        self._give_back(current, dropped)

    def migrate_waiting(self, entry: Entry) -> None:
        """Bring a generation that waits to this program's schema, before readers have it again."""
        with self.store.opened_waiting(entry.generation) as opened:
            migrate_register(*opened)

    def forget_kept(self, leave: int = 0) -> None:
        """Let no rollback go back further than to the latest generations, `leave` of them."""
        forgotten = [each.generation for each in self.list_kept()[leave:]]
        if forgotten:
            self._delete(KeptRegister, KeptRegister.generation.in_(forgotten))

    def forget_ways_back(self) -> None:
        """Make it impossible to undo what was done before: a merge has changed rows (D71)."""
        self.forget_kept()
        self.forget_dropped()

    def forget_dropped(self) -> None:
        """Make it impossible to bring the dropped register back; within the commit of a load."""
        if self._delete(DroppedRegister):
            self.forget_kept()  # They were ways back from what was dropped.

    def remove_unused(self) -> None:
        """Remove every generation but the current one and those that wait for someone."""
        self._remove_all_but(Register, DroppedRegister, KeptRegister)

    def remove_waiting(self) -> None:
        """Remove every generation but the current one: nobody gets the others back."""
        self._remove_all_but(Register)

    def remove_made(self, load_id: int) -> None:
        """Remove the register if this load, which failed, made it."""
        made = self.find_current()
        # NOTE: a register that an earlier, killed load made may hold what that one committed.
        if made is not None and made.loaded_at is None and made.generation == load_id:
            with self._engine.atomic():
                self._take_away(made)
            self.remove_unused()

    def _remove_all_but(self, *models: type[Register]) -> None:
        # NOTE: what is in use is asked of the index, whatever the caller believes it to be: what
        # was committed in between, as by a load that Ctrl-C interrupted, must not be removed.
        used = {entry.generation for model in models for entry in self._entries(model)}
        self.store.remove_unused(used)

    def _take_away(self, current: Entry | None) -> None:
        """Let readers see no such register; what they saw waits under its number."""
        self._delete(Register)
        self.store.put_aside(current and current.generation)

    def _give_back(self, current: Entry | None, waiting: Entry) -> None:
        """Let readers see a generation that waits instead of the current one."""
        self._take_away(current)
        self._insert(Register, waiting)
        self.store.bring_back(waiting.generation)

    def _insert(self, model: type[Register], entry: Entry) -> None:
        model.insert(**entry._asdict()).execute(self._engine)

    def _update(self, **values: object) -> None:
        Register.update(**values).where(Register.name == self.name).execute(self._engine)

    def _delete(self, model: type[Register], condition: peewee.Expression | None = None) -> Any:
        is_it: Any = model.name == self.name
        which = is_it if condition is None else is_it & condition
        return model.delete().where(which).execute(self._engine)
