"""The file that holds the buckets: its layout, how it is made, and what it is known by (D11).

A header page, then slots of eight bytes, all allocated when the file is made, so that a full
disk cannot stop a running service. The header names the boot and the database; at the start
of a service a file of another boot, database or layout is replaced by an empty one.
"""

import errno
import os
import secrets
import stat
import struct
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from app import file_lock
from app.directories import make_directory
from app.errors import OperatorError

FILE_NAME = "limits"
ACCOUNT_SLOTS = 1_048_576
ADDRESS_SLOTS = 65_536
SLOT_BYTES = 8
HEADER_BYTES = 4096
FILE_BYTES = HEADER_BYTES + SLOT_BYTES * (ACCOUNT_SLOTS + ADDRESS_SLOTS)
_MAGIC = b"verifyd limits\r\n"
_LAYOUT = 1
_HEADER = struct.Struct("<16s4I36s32s")
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_OPEN_FLAGS = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


class StoreError(OperatorError):
    """The buckets cannot be used; the message is the reason, for the log and the operator."""


class Identity(NamedTuple):
    """Whose buckets they are: those of one database, since one boot of this host."""

    boot_id: str
    database_id: str

    @classmethod
    def now(cls, database_id: str) -> "Identity":
        """Return the identity of a database's buckets since this host booted."""
        try:
            return cls(_BOOT_ID.read_text(encoding="ascii").strip(), database_id)
        except OSError as error:
            raise StoreError(f"the host does not tell which boot this is: {error}") from error

    @property
    def header(self) -> bytes:
        """The bytes a file of this identity begins with."""
        return _HEADER.pack(
            _MAGIC,
            _LAYOUT,
            SLOT_BYTES,
            ACCOUNT_SLOTS,
            ADDRESS_SLOTS,
            self.boot_id.encode("ascii"),
            self.database_id.encode("ascii"),
        )


def create(path: Path, identity: Identity) -> None:
    """Make the file unless it is there; replace an older one of ours. Creators at once agree.

    Raises StoreError if it cannot be made, or something that is not ours has its name.
    """
    try:
        make_directory(path.parent)
        while not _is_made(path, identity):
            pass
    except OSError as error:
        raise StoreError(f"{path} cannot be made: {error}") from error


def open_checked(path: Path, identity: Identity) -> int:
    """Return a descriptor of the file, which must be whole and of this identity.

    Raises StoreError with what is wrong; never makes or changes the file.
    """
    try:
        descriptor = _opened(path)
    except FileNotFoundError as error:
        raise StoreError(f"{path} is not there; the start of the service makes it") from error
    except OSError as error:
        raise StoreError(f"{path} cannot be opened: {error.strerror}") from error
    try:
        fault = _fault(descriptor, identity)
        if fault:
            raise StoreError(f"{path} {fault}")
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _is_made(path: Path, identity: Identity) -> bool:
    """Make or replace the file; False if another process came between: look again."""
    try:
        descriptor = _opened(path)
    except FileNotFoundError:
        with suppress(FileExistsError):
            _write_new(path, identity, os.link)
        return False
    try:
        if not _fault(descriptor, identity):
            return True
        _require_ours(path, descriptor)
        # NOTE: whoever waited here for another to replace the file finds it replaced.
        file_lock.wait_for(descriptor)
        if os.path.samestat(os.fstat(descriptor), os.stat(path)):
            _write_new(path, identity, os.replace)
        return False
    finally:
        os.close(descriptor)


def _write_new(path: Path, identity: Identity, put: Callable[[Path, Path], None]) -> None:
    """Write an empty file under another name, and `put` it in its place at once."""
    new = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(new, _OPEN_FLAGS | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.posix_fallocate(descriptor, 0, FILE_BYTES)
        os.pwrite(descriptor, identity.header, 0)
        # A power cut must not leave a file that has a name and no header.
        os.fsync(descriptor)
        put(new, path)
    finally:
        os.close(descriptor)
        new.unlink(missing_ok=True)


def _opened(path: Path) -> int:
    """Return a descriptor of a file that is safe to use: ours alone, and no link elsewhere."""
    try:
        descriptor = os.open(path, _OPEN_FLAGS)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise StoreError(f"{path} is a symbolic link; move it away") from error
        raise
    found = os.fstat(descriptor)
    fault = ""
    if not stat.S_ISREG(found.st_mode):
        fault = "is no regular file; move it away"
    elif found.st_uid != os.geteuid():
        fault = f"belongs to user {found.st_uid}, not to this one ({os.geteuid()})"
    elif found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        # SEC: whoever can write to it can lift every limit.
        fault = "can be written to by other users: chmod 600"
    if fault:
        os.close(descriptor)
        raise StoreError(f"{path} {fault}")
    return descriptor


def _require_ours(path: Path, descriptor: int) -> None:
    """Refuse to replace what somebody else made; an empty file holds nothing to lose."""
    if os.fstat(descriptor).st_size and not _magic_fits(descriptor):
        raise StoreError(f"{path} is not a file of this program; move it away")


def _magic_fits(descriptor: int) -> bool:
    return os.pread(descriptor, len(_MAGIC), 0) == _MAGIC


def _fault(descriptor: int, identity: Identity) -> str:
    """Return what is wrong with a file, or nothing."""
    if not _magic_fits(descriptor):
        return "is not a file of this program"
    size_bytes = os.fstat(descriptor).st_size
    if size_bytes != FILE_BYTES:
        return f"has {size_bytes:,} bytes instead of {FILE_BYTES:,}"
    header = os.pread(descriptor, _HEADER.size, 0)
    if header == identity.header:
        return ""
    *layout, boot_id, database_id = _HEADER.unpack(header)
    if layout != list(_HEADER.unpack(identity.header)[:-2]):
        return "is of another version of this program; start the service anew"
    if database_id.decode("ascii", "replace") != identity.database_id:
        return "belongs to another database: each needs a VERIFYD_STATE_DIR of its own"
    return f"is of an earlier boot ({boot_id.decode('ascii', 'replace')}); start the service anew"
