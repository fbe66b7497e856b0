"""Who serves: a lock in the state directory, shared by the servers of one database on this host.

It ends with the last process of a server, however that ends. What must not happen under a
running service takes it for itself.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from app.directories import make_directory
from app.errors import OperatorError

_FILE_NAME = "serving"


def announce(state_dir: Path) -> None:
    """Let this process and the workers it forks count as a running service, until they end.

    Raises OperatorError if a restore is under way, or the directory cannot be written to.
    """
    descriptor = _opened(state_dir)
    if not _locked(descriptor, fcntl.LOCK_SH):
        os.close(descriptor)
        raise OperatorError("the database is being restored: start the service afterwards")


@contextmanager
def stopped(state_dir: Path) -> Iterator[None]:
    """Keep services from starting meanwhile. Raises OperatorError if one is running."""
    descriptor = _opened(state_dir)
    try:
        if not _locked(descriptor, fcntl.LOCK_EX):
            raise OperatorError("the service is running: stop it first")
        yield
    finally:
        os.close(descriptor)


def _opened(state_dir: Path) -> int:
    try:
        make_directory(state_dir)
        return os.open(state_dir / _FILE_NAME, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise OperatorError(f"the state directory cannot be used: {error}") from error


def _locked(descriptor: int, how: int) -> bool:
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
