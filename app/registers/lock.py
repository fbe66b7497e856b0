"""One load of a register at a time, whoever starts it (D28)."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from app.database import Engine, SqliteEngine
from app.errors import OperatorError


@contextmanager
def alone(engine: Engine, register: str) -> Iterator[None]:
    """Hold a register's lock; it ends with the process, however that ends.

    Raises OperatorError at once if another process holds it.
    """
    if isinstance(engine, SqliteEngine):
        descriptor = os.open(_lock_file(engine.path, register), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            _require(_try_flock(descriptor), register)
            yield
        finally:
            os.close(descriptor)
    else:
        key = f"verifyd register {register}"
        query = "SELECT pg_try_advisory_lock(hashtext(%s))"
        (is_ours,) = engine.execute_sql(query, (key,)).fetchone()
        _require(is_ours, register)
        try:
            yield
        finally:
            engine.execute_sql("SELECT pg_advisory_unlock(hashtext(%s))", (key,))


def _lock_file(database: Path, register: str) -> Path:
    return database.with_name(f"{database.stem}.register_{register}.lock")


def _try_flock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _require(is_ours: Any, register: str) -> None:
    if not is_ours:
        raise OperatorError(f"another load of the register {register} is running")
