"""One load of a register at a time, whoever starts it (D28)."""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import peewee

from app.errors import Hindered
from app.storage.engine import Engine
from app.storage.registers import Register
from app.storage.sqlite import SqliteEngine


@contextmanager
def alone(engine: Engine, register: str) -> Iterator[Callable[[], None]]:
    """Hold a register's lock; it ends with the process, however that ends.

    Yields what raises Hindered if the lock was lost meanwhile: on Postgres it ends with the
    connection. Raises Hindered at once if another process holds it.
    """
    with _tried(engine, register) as is_ours:
        if not is_ours:
            raise Hindered(f"another load of the register {register} is running")
        yield _loss_noticed(engine)


@contextmanager
def still_alone(engine: Engine, register: str) -> Iterator[None]:
    """Hold on to a register's lock, also where the connection that held it was lost.

    Raises Hindered if another process holds it by now.
    """
    if isinstance(engine, SqliteEngine):
        yield
        return
    # NOTE: a session of Postgres may take a lock that it has.
    with alone(engine, register):
        yield


def is_being_loaded(engine: Engine, register: str) -> bool:
    """Tell whether somebody holds a register's lock. A load that begins meanwhile is not hindered.

    If nobody can tell, it is held.
    """
    if not isinstance(engine, SqliteEngine):
        # The lock has the number of its key's hash, in two halves.
        held = (
            "SELECT count(*) FROM pg_locks WHERE granted AND locktype = 'advisory' "
            "AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) "
            "AND objsubid = 1 AND (classid::bigint << 32) | objid::bigint = hashtext(%s)"
        )
        (count,) = engine.execute_sql(held, (_key(register),)).fetchone()
        return bool(count)
    try:
        descriptor = os.open(_lock_file(engine.path, register), os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


@contextmanager
def _tried(engine: Engine, register: str) -> Iterator[bool]:
    """Take the lock if it is free, and tell whether it was."""
    if isinstance(engine, SqliteEngine):
        path = _lock_file(engine.path, register)
        descriptor, is_ours = _opened(path)
        try:
            yield is_ours
        finally:
            if is_ours and not _is_register(engine, register):
                # The name may be mistyped, and never come again.
                path.unlink(missing_ok=True)
            os.close(descriptor)
    else:
        key = _key(register)
        query = "SELECT pg_try_advisory_lock(hashtext(%s))"
        (is_ours,) = engine.execute_sql(query, (key,)).fetchone()
        try:
            yield bool(is_ours)
        finally:
            # What became of the load does not depend on it.
            with suppress(peewee.PeeweeException):
                if is_ours:
                    engine.execute_sql("SELECT pg_advisory_unlock(hashtext(%s))", (key,))


def _loss_noticed(engine: Engine) -> Callable[[], None]:
    connection = None if isinstance(engine, SqliteEngine) else engine.connection()

    def require_held() -> None:
        if connection is not None:
            engine.execute_sql("SELECT 1")  # If the connection is lost, this makes another one.
            if engine.connection() is not connection:
                raise Hindered("the connection to the database was lost; nothing was changed")

    return require_held


def _key(register: str) -> str:
    """Return what the lock on Postgres is named by."""
    return f"verifyd register {register}"


def _lock_file(database: Path, register: str) -> Path:
    return database.with_name(f"{database.stem}.register_{register}.lock")


def _opened(path: Path) -> tuple[int, bool]:
    """Open a lock's file; return its descriptor, and whether the lock is ours now."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if not _locked(descriptor):
            return descriptor, False
        if os.fstat(descriptor).st_nlink:
            return descriptor, True
        os.close(descriptor)  # Whoever held it has removed it just now.


def _locked(descriptor: int) -> bool:
    """Lock a file; tell whether it is ours now. Who only looks at it shares it for a moment."""
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
        else:
            return True


def _is_register(engine: Engine, name: str) -> bool:
    """Tell whether there is a register of this name; if nobody can tell, there may be."""
    try:
        return Register.select().where(Register.name == name).exists(engine)
    except peewee.PeeweeException:
        return True
