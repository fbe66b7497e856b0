"""The history of loads, and the catalogue's entry of each register, in the main database."""

import getpass
from collections.abc import Sequence
from typing import Any

from app import clock
from app.catalogue import REGISTERS_MAX, Register
from app.database import Engine
from app.errors import OperatorError
from app.registers.formats import Kind
from app.registers.models import RegisterLoad
from app.registers.writer import RegisterWriter


class History:
    """Keeps the main database's record of one register and its loads."""

    def __init__(self, engine: Engine, register: str) -> None:
        self._engine = engine
        self._register = register

    def find_register(self) -> Register | None:
        """Return the register's entry, or None if nothing was ever loaded into it."""
        query = Register.select().where(Register.name == self._register)
        found: Register | None = query.first(self._engine)
        if found is None and Register.select().count(self._engine) >= REGISTERS_MAX:
            raise OperatorError(f"there are {REGISTERS_MAX} registers already; drop one first")
        return found

    def begin(self, *, kind: Kind, mode: str, format_name: str, files: Sequence[str]) -> int:
        """Note that a load runs; returns its number."""
        insert = RegisterLoad.insert(
            register=self._register,
            kind=kind,
            mode=mode,
            format=format_name,
            files="\n".join(files),
            status="running",
            loaded_by=getpass.getuser(),
            started_at=clock.now(),
        )
        return int(insert.execute(self._engine))

    def announce(self, kind: Kind) -> None:
        """Let readers look for rows of this kind, before there are any.

        A kind is announced before its rows are committed, never after: rows that nobody looks
        for would be a mixture of old and new (D28).
        """
        query = Register.select(Register.kinds).where(Register.name == self._register)
        kinds = query.scalar(self._engine)
        if kinds is not None and kind[0] not in kinds:
            update = Register.update(kinds="".join(sorted(kinds + kind[0])))
            update.where(Register.name == self._register).execute(self._engine)

    def finish(self, load_id: int, kind: Kind, held: int, counts: dict[str, int]) -> None:
        """Note that a load's rows are in the register, and show the register to readers."""
        now = clock.now()
        with self._engine.atomic():
            values: dict[str, Any] = {kind.value: held, "loaded_at": now}
            if self.find_register() is None:
                Register.insert(name=self._register, generation=1, kinds=kind[0], **values).execute(
                    self._engine
                )
            else:
                self.announce(kind)
                is_it = Register.name == self._register
                Register.update(**values).where(is_it).execute(self._engine)
            self._end(load_id, status="done", finished_at=now, **counts)

    def fail(self, load_id: int, reason: str) -> None:
        """Note that a load failed and changed nothing."""
        self._end(load_id, status="failed", reason=reason, finished_at=clock.now())

    def settle_interrupted(self, writer_of: Any) -> None:
        """Find out what became of loads that were killed; needs the register's lock.

        Args:
            writer_of: returns a RegisterWriter for a kind, on the register open for writing.
        """
        interrupted = RegisterLoad.select().where(
            (RegisterLoad.register == self._register) & (RegisterLoad.status == "running")
        )
        for load in list(interrupted.execute(self._engine)):
            writer: RegisterWriter = writer_of(Kind(load.kind))
            applied = writer.find_applied(load.id)
            if applied is None:
                self.fail(load.id, "interrupted")
            else:
                counts = {"loaded": applied.loaded, "changed": applied.changed}
                self.finish(load.id, Kind(load.kind), writer.count_rows(), counts)

    def _end(self, load_id: int, **values: object) -> None:
        RegisterLoad.update(**values).where(RegisterLoad.id == load_id).execute(self._engine)


def list_loads(engine: Engine, register: str | None = None) -> list[RegisterLoad]:
    """Return the loads, the latest first."""
    query = RegisterLoad.select().order_by(RegisterLoad.id.desc())
    if register is not None:
        query = query.where(RegisterLoad.register == register)
    return list(query.execute(engine))
