"""The history of loads, in the main database: a line for each (D69)."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from app import clock
from app.registers.lock import is_being_loaded
from app.registers.models import RegisterLoad, insert_line
from app.storage.engine import Engine

MERGE, REPLACE, ROLLBACK = "merge", "replace", "rollback"
DROP, UNDROP, PURGE = "drop", "undrop", "purge"
"""What a line of the history can be."""
INTERRUPTED = "interrupted"


class History:
    """Keeps the lines of one register."""

    def __init__(self, engine: Engine, register: str) -> None:
        self._engine = engine
        self.register = register

    def done(self, load_id: int, finished_at: int, columns: Mapping[str, object]) -> None:
        """Note that a load succeeded.

        Args:
            finished_at: Unix seconds.
            columns: further columns of the history's line.
        """
        self._end(load_id, status="done", finished_at=finished_at, **columns)

    def fail(self, load_id: int, columns: Mapping[str, object]) -> None:
        """Note that a load failed.

        Args:
            columns: of the history's line, `reason` among them.
        """
        self._end(load_id, status="failed", finished_at=clock.now(), **columns)

    def list_running(self) -> list[Any]:
        """Return the loads that run, or were killed."""
        is_it = RegisterLoad.register == self.register
        running = RegisterLoad.select().where(is_it & (RegisterLoad.status == "running"))
        return list(running.execute(self._engine))

    def interrupted(self, load_id: int) -> None:
        """Note that a load was killed before it changed anything; nobody knows when."""
        self._end(load_id, status="failed", reason=INTERRUPTED)

    def note(self, mode: str, kind: str = "") -> int:
        """Note what was done at once, within the transaction that does it; returns its number."""
        line = {"register": self.register, "kind": kind, "mode": mode, "format": "", "files": ""}
        return insert_line(self._engine, **line, status="done", finished_at=clock.now())

    def is_settled(self) -> bool:
        """Tell whether no load failed, runs or was killed since the last line that is done."""
        status = RegisterLoad.select(RegisterLoad.status)
        last = status.where(RegisterLoad.register == self.register).order_by(RegisterLoad.id.desc())
        return last.limit(1).scalar(self._engine) in (None, "done")

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
