"""The owner of the trail in a directory: one host and one database.

Two hosts cannot write to one directory, because their locks may not reach each other.
"""

import hashlib
import os
import secrets
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec

from app.audit.record import AuditError
from app.audit.segments import OWNER, RESTORING, chunks
from app.errors import BAD_JSON
from app.storage.file_lock import make_directory, owner_fault
from app.storage.files import opened, sync

_DIRECTORY_MODE = 0o700
_MACHINE_ID = Path("/etc/machine-id")


class Owner(msgspec.Struct, frozen=True):
    """The content of the file `owner.json` of a trail."""

    machine: str
    """A hash of the host's machine id."""
    database: str
    """The identifier of the database."""
    trail: str
    """A random text, which differs if another trail has replaced this one."""


def claim(directory: Path, database_id: str) -> Owner:
    """Create the trail of this host and database, or accept the one that is there.

    A service calls this when it starts. Afterwards its processes only open the trail, and do not
    create it again if it is removed. Raises AuditError if the trail is another host's or
    database's, or if it cannot be created.
    """
    if (directory / RESTORING).exists():
        raise AuditError(
            f"the restore of the audit trail in {directory} was interrupted: "
            "run verifyd restore again"
        )
    try:
        if not directory.exists():
            _make(directory)
        if not (directory / OWNER).exists():
            _write(directory, Owner(machine(), database_id, secrets.token_hex(16)))
    except OSError as error:
        raise AuditError(f"{directory} cannot be created: {error.strerror}") from error
    owner = require_own(directory, database_id)
    _claimed[str(directory)] = owner
    return owner


def claimed(directory: Path, database_id: Callable[[], str]) -> Owner:
    """Return the owner of a trail that `claim` accepted, here or before the fork.

    If the server did not call `claim`, the first use in a process does. Only then `database_id` is
    called. Raises AuditError, or what `database_id` raises.
    """
    return find_claimed(directory) or claim(directory, database_id())


def find_claimed(directory: Path) -> Owner | None:
    """Return the owner of a trail that this process or its parent accepted; None if it did not."""
    return _claimed.get(str(directory))


def find_owner(directory: Path) -> Owner | None:
    """Return the owner of a trail; None if there is no trail. Raises AuditError."""
    path = directory / OWNER
    try:
        return msgspec.json.decode(b"".join(chunks(path)), type=Owner)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise AuditError(f"{path} cannot be read: {error.strerror}") from error
    except BAD_JSON as error:
        raise AuditError(f"{path} is damaged; restore it from a backup of the trail") from error


def require_host(directory: Path) -> Owner:
    """Return the owner of a trail that this host and user may write to. Raises AuditError."""
    owner = find_owner(directory)
    if owner is None:
        raise AuditError(
            f"there is no audit trail in {directory}; set VERIFYD_AUDIT=on and start the service"
        )
    if fault := owner_fault(directory):
        raise AuditError(fault)
    if owner.machine != machine():
        raise AuditError(
            f"{directory} is the audit trail of another host; give each host a directory of its "
            f"own. If you moved the trail to this host for good, remove {directory / OWNER}"
        )
    return owner


def require_own(directory: Path, database_id: str) -> Owner:
    """Return the owner of a trail of this host, user and database. Raises AuditError."""
    owner = require_host(directory)
    if owner.database != database_id:
        raise AuditError(
            f"{directory} is the audit trail of another database; give each database its own "
            "VERIFYD_AUDIT_DIR. If this database replaces that one, as after verifyd copy, remove "
            f"{directory / OWNER}"
        )
    return owner


def require_same(directory: Path, owner: Owner) -> None:
    """Raise AuditError unless a directory still holds the trail of this owner."""
    found = find_owner(directory)
    if found is None:
        raise gone(directory)
    if found != owner:
        raise AuditError(
            f"{directory} was replaced by another audit trail; put the former one back, or "
            "restart the service to use this one"
        )


class SameOwner:
    """Checks whether a directory still holds the trail of an owner.

    PERF: the file is read only if its inode has changed, as a change of its permissions does, too.
    """

    def __init__(self, directory: Path, owner: Owner) -> None:
        self._directory = directory
        self._owner = owner
        self._path = str(directory / OWNER)
        self._read: tuple[int, int, int] | None = None
        """The device, the inode and its last change when the file was read."""

    def require(self) -> None:
        """Raise AuditError unless the trail is still this owner's."""
        try:
            found = os.stat(self._path)
        except OSError:
            stamp = None
        else:
            stamp = (found.st_dev, found.st_ino, found.st_ctime_ns)
        if stamp is None or stamp != self._read:
            require_same(self._directory, self._owner)
            self._read = stamp


def gone(directory: Path) -> AuditError:
    """Return the error of a trail that disappeared while the service runs."""
    return AuditError(
        f"the audit trail in {directory} is gone; put it back, or restart the service to "
        "begin another one"
    )


def _make(directory: Path) -> None:
    if not directory.parent.exists():
        make_directory(directory.parent)
    # SEC: the trail says who asked about whom.
    with suppress(FileExistsError):
        directory.mkdir(mode=_DIRECTORY_MODE)
    sync(directory.parent)


def _write(directory: Path, owner: Owner) -> None:
    """Write the file, unless another process does so at the same time."""
    new = directory / f".{OWNER}.{secrets.token_hex(8)}"
    with opened(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL) as descriptor:
        try:
            os.write(descriptor, msgspec.json.encode(owner) + b"\n")
            os.fsync(descriptor)
            with suppress(FileExistsError):
                os.link(new, directory / OWNER)
            sync(directory)
        finally:
            new.unlink()


def machine() -> str:
    """Return a hash of the machine id, which is confidential; of the host's name if there is none.

    Raises AuditError if it cannot be read.
    """
    try:
        identifier = _MACHINE_ID.read_text(encoding="ascii").strip()
    except FileNotFoundError:
        identifier = ""
    except OSError as error:
        raise AuditError(f"{_MACHINE_ID} cannot be read: {error.strerror}") from error
    text = f"verifyd audit {identifier or socket.gethostname()}"
    return hashlib.sha256(text.encode()).hexdigest()[:32]


_claimed: dict[str, Owner] = {}
