"""The history of loads, and the catalogue's entry of each register, in the main database."""

import getpass
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from app import clock
from app.catalogue import Register
from app.database import Engine
from app.registers.formats import Kind
from app.registers.generations import Generations
from app.registers.lock import is_being_loaded
from app.registers.models import RegisterLoad
from app.registers.writer import Applied

FindApplied = Callable[[int], Applied | None]
MERGE, REPLACE, ROLLBACK = "merge", "replace", "rollback"
DROP, UNDROP, PURGE = "drop", "undrop", "purge"
"""What a line of the history can be."""
INTERRUPTED = "interrupted"


class History:
    """Keeps the main database's record of one register and its loads."""

    def __init__(self, engine: Engine, register: str) -> None:
        self._engine = engine
        self.register = register
        self.generations = Generations(engine, register)

    def ensure_register(self, load_id: int) -> int:
        """Return the register's generation; make its entry if need be, with nothing to read yet.

        The generation of a new one is the number of the load that makes it: none comes twice.
        """
        with self._engine.atomic():
            found = self.generations.find_current()
            if found is not None:
                return int(found.generation)
            self.generations.require_room()
            insert = Register.insert(name=self.register, generation=load_id, kinds="")
            insert.execute(self._engine)
        return load_id

    def begin(self, *, kind: Kind, mode: str, format_name: str, files: Sequence[str]) -> int:
        """Note that a load runs; returns its number."""
        insert = RegisterLoad.insert(
            register=self.register,
            kind=kind,
            mode=mode,
            format=format_name,
            files="\n".join(files),
            status="running",
            loaded_by=_user(),
            started_at=clock.now(),
        )
        return int(insert.execute(self._engine))

    def announce(self, kind: Kind) -> None:
        """Let readers look for rows of this kind, before there are any.

        A kind is announced before its rows are committed, never after: rows that nobody looks
        for would be a mixture of old and new (D28).
        """
        is_it = Register.name == self.register
        kinds = Register.select(Register.kinds).where(is_it).scalar(self._engine)
        if kind[0] not in kinds:
            kinds = "".join(sorted(kinds + kind[0]))
            Register.update(kinds=kinds).where(is_it).execute(self._engine)

    def finish(self, load_id: int, kind: Kind, held: int, counts: dict[str, Any]) -> None:
        """Note that a merge's rows are in the register; there is no way back from it (D28).

        Args:
            held: how many rows of this kind the register holds now.
            counts: further columns of the history's line.
        """
        now = clock.now()
        with self._engine.atomic():
            self.generations.forget_kept()
            self.generations.forget_dropped()
            values: dict[str, Any] = {kind.value: held, "loaded_at": now}
            update = Register.update(**values).where(Register.name == self.register)
            update.execute(self._engine)
            self._end(load_id, status="done", finished_at=now, **counts)

    def switch(self, load_id: int, kind: Kind, held: int, counts: dict[str, Any]) -> None:
        """Let readers have the generation that a load made, and note that the load is done."""
        now = clock.now()
        with self._engine.atomic():
            self.generations.require_room()
            self.generations.switch(load_id, kind, held, now)
            self._end(load_id, status="done", finished_at=now, **counts)

    def fail(self, load_id: int, reason: str, counts: Mapping[str, object]) -> None:
        """Note that a load failed.

        Args:
            counts: further columns of the history's line.
        """
        now = clock.now()
        self._end(load_id, status="failed", reason=reason, finished_at=now, **counts)

    def settle_interrupted(self, load_id: int, find_applied: FindApplied) -> None:
        """Find out what became of loads before this one that never ended; needs the lock.

        Args:
            find_applied: returns what the register, as it is read now, knows of a load.
        """
        query = RegisterLoad.select().where(
            (RegisterLoad.register == self.register)
            & (RegisterLoad.status == "running")
            & (RegisterLoad.id != load_id)
        )
        for load in list(query.execute(self._engine)):
            applied = find_applied(load.id)
            if applied is None:
                self._end(load.id, status="failed", reason=INTERRUPTED)
            else:
                counts = {"loaded": applied.loaded, "changed": applied.changed}
                self.finish(load.id, Kind(load.kind), applied.held, counts)

    def note(self, mode: str, kind: str = "") -> int:
        """Note what was done at once, within the transaction that does it; returns its number."""
        now = clock.now()
        insert = RegisterLoad.insert(
            register=self.register,
            kind=kind,
            mode=mode,
            format="",
            files="",
            status="done",
            loaded_by=_user(),
            started_at=now,
            finished_at=now,
        )
        return int(insert.execute(self._engine))

    def _end(self, load_id: int, **values: object) -> None:
        # What was done cannot fail any more.
        is_it = (RegisterLoad.id == load_id) & (RegisterLoad.status == "running")
        RegisterLoad.update(**values).where(is_it).execute(self._engine)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # A container may run as a user that has no name.
        return f"user {os.geteuid()}"


def list_loads(engine: Engine, register: str | None = None) -> list[RegisterLoad]:
    """Return the loads, the latest first."""
    query = RegisterLoad.select().order_by(RegisterLoad.id.desc())
    if register is not None:
        query = query.where(RegisterLoad.register == register)
    return list(query.execute(engine))


def find_interrupted(engine: Engine) -> set[int]:
    """Return the numbers of loads that were killed, and not settled yet by the next one."""
    free = {load.id for load in _running(engine) if not is_being_loaded(engine, str(load.register))}
    # One that has ended meanwhile was not killed.
    return free & {load.id for load in _running(engine)} if free else free


def _running(engine: Engine) -> list[Any]:
    running = RegisterLoad.select().where(RegisterLoad.status == "running")
    return list(running.execute(engine))
