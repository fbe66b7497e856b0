"""Whether a service runs: a lock in the state directory, which the servers of a database share.

The lock ends with the last process of a server, even if that is killed. A command that needs the
service to be stopped holds the lock alone.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from app.errors import OperatorError
from app.storage.file_lock import hold_until_exit, make_directory, tried
from app.storage.files import read_bytes, replace

_FILE_NAME = "serving"
_TRAIL = "audit-trail"
_LISTENERS = "listeners"
_MODE = 0o640


def announce(state_dir: Path) -> None:
    """Mark the service as running until this process and the workers it forks have ended.

    Raises OperatorError if a restore is running, or if the directory cannot be written to.
    """
    try:
        make_directory(state_dir)
        is_held = hold_until_exit(state_dir / _FILE_NAME, shared=True)
    except OSError as error:
        raise _unusable(error) from error
    if not is_held:
        raise OperatorError(
            "the service cannot start while the database is being restored: start it afterwards"
        )


def is_running(state_dir: Path) -> bool:
    """Tell whether a service is running. Raises OSError if that cannot be found out."""
    try:
        with tried(state_dir / _FILE_NAME, create=False) as is_held:
            return not is_held
    except FileNotFoundError:
        return False


def note_trail(state_dir: Path, trail: Path | None) -> None:
    """Note in which audit trail the service that starts records; None for none.

    Raises OperatorError if the state directory cannot be written to.
    """
    try:
        if trail is None:
            (state_dir / _TRAIL).unlink(missing_ok=True)
        else:
            replace(state_dir / _TRAIL, os.fsencode(trail), _MODE)
    except OSError as error:
        raise _unusable(error) from error


def note_listeners(state_dir: Path, addresses: Sequence[str]) -> None:
    """Note where the service that starts listens, for commands; systemd can decide it."""
    with suppress(OSError):
        # If the disk is full, no addresses are known, rather than those of a former service.
        (state_dir / _LISTENERS).unlink(missing_ok=True)
        replace(state_dir / _LISTENERS, os.fsencode("\n".join(addresses)), _MODE)


def listeners(state_dir: Path) -> list[str]:
    """Return where the running service listens; nothing if that is not known."""
    try:
        noted = os.fsdecode(read_bytes(state_dir / _LISTENERS))
        return noted.splitlines() if is_running(state_dir) else []
    except OSError:
        return []


def records_in(state_dir: Path, trail: Path) -> bool:
    """Tell whether a service is running that records in this audit trail. Raises OSError.

    A service that was started before the trail was switched on, or moved to this directory, records
    elsewhere or not at all.
    """
    try:
        noted = read_bytes(state_dir / _TRAIL)
    except FileNotFoundError:
        return False
    return noted == os.fsencode(trail) and is_running(state_dir)


@contextmanager
def stopped(state_dir: Path) -> Iterator[None]:
    """Keep the service from starting meanwhile. Raises OperatorError if it is running."""
    with ExitStack() as stack:
        try:
            make_directory(state_dir)
            is_held = stack.enter_context(tried(state_dir / _FILE_NAME))
        except OSError as error:
            raise _unusable(error) from error
        if not is_held:
            raise OperatorError("the service is running: stop it first")
        yield


def _unusable(error: OSError) -> OperatorError:
    return OperatorError(f"the state directory cannot be used: {error}")
