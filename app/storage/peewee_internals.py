"""The undocumented names of Peewee that we need, all in one place.

A new release may rename them. The first two would then fail in every command and test.
"""

from contextlib import AbstractContextManager
from typing import Any

import peewee

sqlite_driver: Any = peewee.sqlite3  # type: ignore[attr-defined]
"""The driver that Peewee opens SQLite files with. Adapters must be registered with this one."""

exception_wrapper: AbstractContextManager[None] = peewee.__exception_wrapper__  # type: ignore[attr-defined]
"""A context that turns errors of both drivers into errors of Peewee."""


def connection_state(database: peewee.Database) -> Any:
    """Return what Peewee keeps of this thread's connection.

    `reset()` forgets the connection without closing it, `set_connection()` uses it again.
    """
    return database._state  # type: ignore[attr-defined]
