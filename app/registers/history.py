"""The history of loads, and the catalogue's entry of each register, in the main database."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from app import clock
from app.registers.applying.table import Applied
from app.registers.formats import Kind
from app.registers.generations import Generations
from app.registers.lock import is_being_loaded
from app.registers.models import RegisterLoad, insert_line
from app.storage.engine import Engine
from app.storage.registers import Register

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

    def finish(
        self,
        load_id: int,
        kind: Kind,
        held: int,
        counts: dict[str, Any],
        *,
        is_fresh: bool = True,
    ) -> None:
        """Note that a merge's rows are in the register; if it changed any, no way leads back (D71).

        Args:
            held: how many rows of this kind the register holds now.
            counts: further columns of the history's line, `changed` among them.
            is_fresh: whether the register is as young as this load (D51).
        """
        now = clock.now()
        with self._engine.atomic():
            if counts["changed"]:
                self.generations.forget_kept()
                self.generations.forget_dropped()
            values: dict[str, Any] = {kind.value: held} | ({"loaded_at": now} if is_fresh else {})
            update = Register.update(**values).where(Register.name == self.register)
            update.execute(self._engine)
            self._end(load_id, status="done", held=held, finished_at=now, **counts)

    def switch(
        self,
        load_id: int,
        kind: Kind,
        held: int,
        counts: dict[str, Any],
        *,
        is_fresh: bool = True,
    ) -> None:
        """Let readers have the generation that a load made, and note that the load is done."""
        now = clock.now()
        with self._engine.atomic():
            self.generations.require_room()
            found = self.generations.find_current()
            loaded_at = now if is_fresh else found and found.loaded_at
            self.generations.switch(load_id, kind, held, loaded_at)
            self._end(load_id, status="done", held=held, finished_at=now, **counts)

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
                is_fresh = applied.loaded > 0
                self.finish(load.id, Kind(load.kind), applied.held, counts, is_fresh=is_fresh)

    def note(self, mode: str, kind: str = "") -> int:
        """Note what was done at once, within the transaction that does it; returns its number."""
        line = {"register": self.register, "kind": kind, "mode": mode, "format": "", "files": ""}
        return insert_line(self._engine, **line, status="done", finished_at=clock.now())

    def is_settled(self) -> bool:
        """Tell whether no load failed, runs or was killed since the last line that is done."""
        status = RegisterLoad.select(RegisterLoad.status)
        last = status.where(RegisterLoad.register == self.register).order_by(RegisterLoad.id.desc())
        return last.limit(1).scalar(self._engine) in (None, "done")

    def has_running(self) -> bool:
        """Tell whether a load of the register runs, or was killed and is not settled yet."""
        is_it = (RegisterLoad.register == self.register) & (RegisterLoad.status == "running")
        return bool(RegisterLoad.select().where(is_it).exists(self._engine))

    def take_back(self, by: int, modes: Sequence[str], after: int) -> None:
        """Let what was done count no more, since line `by` took it back (D69).

        Args:
            modes: of the lines.
            after: the last line that still counts.
        """
        is_it = (
            (RegisterLoad.register == self.register)
            & (RegisterLoad.status == "done")
            & RegisterLoad.reason.is_null()
            & RegisterLoad.mode.in_(modes)
            & (RegisterLoad.id > after)
        )
        reason = f"taken back by load {by}"
        RegisterLoad.update(reason=reason).where(is_it).execute(self._engine)

    def _end(self, load_id: int, **values: object) -> None:
        # What was done cannot fail any more.
        is_it = (RegisterLoad.id == load_id) & (RegisterLoad.status == "running")
        RegisterLoad.update(**values).where(is_it).execute(self._engine)


def note_refused(engine: Engine, reason: str, **line: object) -> int:
    """Note an attempt that failed before its load began; returns its number.

    Args:
        line: what is known of it: columns of the history's line.
    """
    ended = {"status": "failed", "reason": reason, "finished_at": clock.now()}
    return insert_line(engine, **(dict.fromkeys(("register", "kind", "format"), "") | line | ended))


def list_loads(
    engine: Engine,
    register: str | None = None,
    *,
    failed_or: Collection[int] | None = None,
    limit: int | None = None,
) -> list[RegisterLoad]:
    """Return the loads, the latest first.

    Args:
        failed_or: return only loads that failed, and those of these numbers.
        limit: how many at most.
    """
    query = RegisterLoad.select().order_by(RegisterLoad.id.desc()).limit(limit)
    if register is not None:
        query = query.where(RegisterLoad.register == register)
    if failed_or is not None:
        is_failed = RegisterLoad.status == "failed"
        query = query.where(is_failed | RegisterLoad.id.in_(list(failed_or)))
    return list(query.execute(engine))


def find_load(engine: Engine, load_id: int) -> Any:
    """Return a load by its number, None if there is none."""
    return RegisterLoad.select().where(RegisterLoad.id == load_id).first(engine)


def find_interrupted(engine: Engine) -> set[int]:
    """Return the numbers of loads that were killed, and not settled yet by the next one."""
    free = {load.id for load in _running(engine) if not is_being_loaded(engine, str(load.register))}
    # One that has ended meanwhile was not killed.
    return free & {load.id for load in _running(engine)} if free else free


def _running(engine: Engine) -> list[Any]:
    running = RegisterLoad.select().where(RegisterLoad.status == "running")
    return list(running.execute(engine))
