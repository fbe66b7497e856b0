"""Locks that processes of one host hold on a file (`flock`).

A lock ends with the process that holds it, however that ends, and with the last of its forked
children. Nobody needs to remove the file. If somebody does while another process waits for the
lock, that process opens the file again: two processes never hold the lock of one path.

NOTE: app.limits.store locks by itself: it keeps its file open and waits for a limited time.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_MODE = 0o600


@contextmanager
def locked(path: Path, *, shared: bool = False, create: bool = True) -> Iterator[None]:
    """Hold the lock of a file; wait until no other process holds it.

    Args:
        shared: let others hold a shared lock at the same time.
        create: create the file if it is missing. Its directory must exist.

    Raises OSError if the file cannot be opened; a symbolic link is not followed.
    """
    descriptor = _opened_and_locked(path, _operation(shared), create=create)
    try:
        yield
    finally:
        os.close(descriptor)


@contextmanager
def tried(path: Path, *, shared: bool = False, create: bool = True) -> Iterator[bool]:
    """Hold the lock of a file if it is free at this moment, and yield whether it is held.

    Takes the arguments of `locked`, and raises the same.
    """
    descriptor = _try(path, shared=shared, create=create)
    try:
        yield descriptor is not None
    finally:
        if descriptor is not None:
            os.close(descriptor)


def hold_until_exit(path: Path, *, shared: bool = False) -> bool:
    """Hold the lock of a file until this process and the children it forks have ended.

    Returns False, at once, if another process holds it. Raises OSError as `locked` does.
    """
    return _try(path, shared=shared, create=True) is not None


def wait_for(descriptor: int) -> None:
    """Lock an open file for this process alone, once no other process holds its lock.

    Closing the file ends the lock. The file can have been removed meanwhile.
    """
    fcntl.flock(descriptor, fcntl.LOCK_EX)


def _try(path: Path, *, shared: bool, create: bool) -> int | None:
    try:
        return _opened_and_locked(path, _operation(shared) | fcntl.LOCK_NB, create=create)
    except BlockingIOError:
        return None


def _operation(shared: bool) -> int:
    return fcntl.LOCK_SH if shared else fcntl.LOCK_EX


def _opened_and_locked(path: Path, operation: int, *, create: bool) -> int:
    """Return the descriptor of a locked file that has its name still."""
    flags = os.O_NOFOLLOW | (os.O_RDWR | os.O_CREAT if create else os.O_RDONLY)
    while True:
        descriptor = os.open(path, flags, _MODE)
        try:
            fcntl.flock(descriptor, operation)
            if os.fstat(descriptor).st_nlink:
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
