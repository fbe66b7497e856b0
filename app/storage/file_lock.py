"""Locks that processes of one host hold on a file (`flock`).

A lock ends when the process that holds it and all its forked children have ended, for whatever
reason. The file need not be removed. If it is removed while a process waits for the lock, that
process opens the file again. So two processes never hold the lock of one path.
"""

import fcntl
import os
import pwd
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from app import clock

_MODE = 0o600
SOON_NS = 2 * 10**9
_PAUSE_SECONDS = 20e-6
_PAUSE_SECONDS_MAX = 1e-3


@contextmanager
def locked(
    path: Path, *, shared: bool = False, create: bool = True, waits: bool = True
) -> Iterator[int]:
    """Hold the lock of a file, and yield its descriptor.

    The lock ends with the context. A process that this one starts with the descriptor holds the
    lock, too, until it ends.

    Args:
        shared: allow other processes to hold a shared lock at the same time.
        create: create the file if it is missing. Its directory must exist.
        waits: wait until no other process holds the lock.

    Raises OSError if the file cannot be opened or is a symbolic link; BlockingIOError if another
    process holds the lock, and this does not wait.
    """
    descriptor = _opened_and_locked(path, shared=shared, create=create, waits=waits)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def tried(
    path: Path, *, shared: bool = False, create: bool = True, outlast_shared: bool = False
) -> Iterator[bool]:
    """Try to lock a file without waiting. Yield True if the lock is held, else False.

    Takes the arguments `shared` and `create` of `locked`, and raises the same errors.

    Args:
        outlast_shared: try again while others hold only shared locks. Use it if they hold these
            just long enough to see whether the lock is free.
    """
    descriptor = _try(path, shared=shared, create=create)
    while descriptor is None and outlast_shared and _is_only_shared(path, create=create):
        descriptor = _try(path, shared=shared, create=create)
    try:
        yield descriptor is not None
    finally:
        if descriptor is not None:
            os.close(descriptor)


def hold_until_exit(path: Path, *, shared: bool = False) -> bool:
    """Lock a file until this process and its forked children have ended.

    Returns False if another process holds the lock for two seconds: one that only looks whether it
    is free, with `tried`, holds it for a moment. Raises OSError as `locked` does.
    """
    ends_at_ns = clock.monotonic_ns() + SOON_NS
    while _try(path, shared=shared, create=True) is None:
        if clock.monotonic_ns() > ends_at_ns:
            return False
        time.sleep(_PAUSE_SECONDS_MAX)
    return True


def locked_soon(descriptor: int) -> bool:
    """Lock an open file alone, and return True; False if others hold the lock for two seconds.

    For locks that are held for microseconds, unless a process was stopped.
    """
    ends_at_ns, pause_seconds = 0, _PAUSE_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            ends_at_ns = ends_at_ns or clock.monotonic_ns() + SOON_NS
            if clock.monotonic_ns() > ends_at_ns:
                return False
            # PERF: on a busy machine the process that holds the lock may wait for a processor.
            time.sleep(pause_seconds)
            pause_seconds = min(2 * pause_seconds, _PAUSE_SECONDS_MAX)
        else:
            return True


def _try(path: Path, *, shared: bool, create: bool) -> int | None:
    try:
        return _opened_and_locked(path, shared=shared, create=create, waits=False)
    except BlockingIOError:
        return None


def _is_only_shared(path: Path, *, create: bool) -> bool:
    """Tell whether a shared lock is possible now, so no process holds the lock alone."""
    descriptor = _try(path, shared=True, create=create)
    if descriptor is not None:
        os.close(descriptor)
    return descriptor is not None


def _opened_and_locked(path: Path, *, shared: bool, create: bool, waits: bool) -> int:
    """Lock the file that has this path, and return its descriptor."""
    # Without O_NONBLOCK a pipe in place of the file would be waited for.
    flags = os.O_NOFOLLOW | os.O_NONBLOCK
    flags |= os.O_RDWR | os.O_CREAT if create else os.O_RDONLY
    operation = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    if not waits:
        operation |= fcntl.LOCK_NB
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


_OWNER_ONLY = 0o750


def make_directory(path: Path) -> None:
    """Create a directory and its missing parents with mode 0750, less what the umask removes.

    Raises OSError.
    """
    if not path.parent.exists():
        # SEC: Path.mkdir(parents=True) would create the parents with the default mode.
        make_directory(path.parent)
    path.mkdir(mode=_OWNER_ONLY, exist_ok=True)


def owner_fault(path: Path) -> str | None:
    """Return why this process must not create files beside a file or in a directory, or None.

    The service, which runs as the owner, could not use files of another user. Raises OSError.
    """
    owner = path.stat().st_uid
    if owner == os.geteuid():
        return None
    return (
        f"{path} belongs to user {owner}, not to you ({os.geteuid()}); "
        f"run the command as its owner: sudo -u '#{owner}' verifyd ..."
    )


def user_name() -> str:
    """Return the name of the user of this process, or the number of one without a name."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())
