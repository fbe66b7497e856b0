"""A little disk space kept beside a SQLite database, so that a full disk can be mended (D57).

What frees space, and what says why a load failed, has to be written first: a few pages. When the
disk has no room for them, they get that of a file made for this purpose, which holds nothing.
"""

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import peewee

from app.storage.engine import Engine
from app.storage.errors import is_out_of_space

RESERVE_BYTES = 512 * 1024
_STEP_BYTES = 32 * 1024

T = TypeVar("T")


def reserve_file(database: Path) -> Path:
    """Return the file whose space is the reserve of a SQLite database."""
    # NOTE: the name of no database, whatever its suffix: this file is truncated.
    return database.with_name(f"{database.name}-reserve")


def fill(engine: Engine) -> None:
    """Take the space of the reserve, as far as the disk has it; nothing on Postgres."""
    if engine.file is not None:
        take(reserve_file(engine.file))


def take(path: Path) -> None:
    """Take the space of a reserve file, as far as the disk has it."""
    with suppress(OSError):
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(path, flags, 0o600)
        try:
            _allocate(descriptor)
        finally:
            os.close(descriptor)


def release(path: Path) -> None:
    """Give the space of a reserve file back to the disk."""
    with suppress(OSError):
        os.truncate(path, 0)


def written(engine: Engine, write: Callable[[], T]) -> T:
    """Run a small write and return its result; on a full disk, run it again with the reserve.

    Args:
        write: makes all of its changes or none; it may run twice.

    Raises what `write` raises.
    """
    try:
        return write()
    except peewee.OperationalError as error:
        if engine.file is None or not is_out_of_space(error):
            raise
        file = reserve_file(engine.file)
    release(file)
    try:
        return write()
    finally:
        fill(engine)


def _allocate(descriptor: int) -> None:
    """Take the space in small steps: on a disk that is nearly full, as many as it has room for."""
    for start in range(0, RESERVE_BYTES, _STEP_BYTES):
        try:
            os.posix_fallocate(descriptor, start, _STEP_BYTES)
        except OSError as error:
            if error.errno == errno.ENOSPC:
                os.truncate(descriptor, start)
            raise
