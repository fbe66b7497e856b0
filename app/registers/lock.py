"""The lock of a register: it allows one load at a time, whoever starts it (D28)."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from app.errors import Hindered
from app.storage.engine import Engine
from app.storage.stores import store_of


@contextmanager
def locked(engine: Engine, register: str) -> Iterator[Callable[[], None]]:
    """Hold a register's lock; it ends with the process at the latest, even if that is killed.

    Yields a function that raises Hindered if the lock has been lost: on Postgres it ends with the
    connection. Raises Hindered at once if another process holds the lock.
    """
    with store_of(engine, register).tried_lock() as require_held:
        if require_held is None:
            # The message names no load: the history does not say who holds the lock. Its latest
            # running line can be that of a killed load, while a drop or a rollback holds the lock.
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
