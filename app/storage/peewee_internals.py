"""The undocumented names of Peewee that we need, all in one place.

A new release may rename them. The first would then fail in every command and test.
"""

from contextlib import AbstractContextManager
from typing import Any

import peewee

exception_wrapper: AbstractContextManager[None] = peewee.__exception_wrapper__  # type: ignore[attr-defined]
"""A context that turns errors of both drivers into errors of Peewee."""


def connection_state(database: peewee.Database) -> Any:
    """Return what Peewee keeps of this thread's connection.

    `reset()` forgets the connection without closing it, `set_connection()` uses it again.
    """
    return database._state  # type: ignore[attr-defined]
