"""Reserves a little disk space beside a SQLite database, for writes on a full disk (D57).

Commands that free space must first write a few pages themselves. So must a load that notes why it
failed. If the disk is full, they use the space of the reserve, a file without content.
"""

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import ParamSpec, TypeVar

import peewee

from app.storage.engine import Engine
from app.storage.errors import is_out_of_space
from app.storage.files import opened

RESERVE_BYTES = 512 * 1024
_STEP_BYTES = 32 * 1024

P = ParamSpec("P")
T = TypeVar("T")


def reserve_file(database: Path) -> Path:
    """Return the reserve file of a SQLite database."""
    # NOTE: no database can have this name, whatever its suffix. The file gets truncated.
    return database.with_name(f"{database.name}-reserve")


def fill(engine: Engine) -> None:
    """Fill the reserve of a database, as far as the disk has room. Does nothing on Postgres."""
    if engine.file is not None:
        take(reserve_file(engine.file))


def take(path: Path) -> None:
    """Allocate a reserve file, as far as the disk has room."""
    with suppress(OSError), opened(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW) as descriptor:
        # In small steps, so that a disk that is nearly full gives some of it.
        for start in range(0, RESERVE_BYTES, _STEP_BYTES):
            try:
                os.posix_fallocate(descriptor, start, _STEP_BYTES)
            except OSError as error:
                if error.errno == errno.ENOSPC:
                    os.truncate(descriptor, start)
                raise


def release(path: Path) -> None:
    """Free the space of a reserve file."""
    with suppress(OSError):
        os.truncate(path, 0)


def with_reserve(
    engine: Engine, access: Callable[P, T], /, *args: P.args, **options: P.kwargs
) -> T:
    """Access the database and return the result. If the disk is full, use the reserve for it.

    Reading needs a little space as well: for the `-shm` of a file that no process has open.

    Args:
        access: a function that does all of its changes, which are few, or none. It may run twice.
        args, options: the arguments of `access`.

    Raises what `access` raises.
    """
    try:
        return access(*args, **options)
    except peewee.OperationalError as error:
        if engine.file is None or not is_out_of_space(error):
            raise
        file = reserve_file(engine.file)
    release(file)
    try:
        return access(*args, **options)
    finally:
        fill(engine)
