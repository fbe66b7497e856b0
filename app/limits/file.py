"""The file that holds the buckets: its layout, its creation and its checks (D11).

It is a header page and slots of eight bytes. All of it is allocated when the file is created, so
that a full disk cannot stop a running service. The header names the boot and the database. The
start of a service replaces a file of another boot, database or layout by an empty one.
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
    """The buckets cannot be used; the message says why, for the log and the operator."""


class Identity(NamedTuple):
    """What the buckets belong to: one database, since one boot of this host."""

    boot_id: str
    database_id: str

    @classmethod
    def now(cls, database_id: str) -> "Identity":
        """Return the identity of a database's buckets since this host booted."""
        try:
            return cls(_BOOT_ID.read_text(encoding="ascii").strip(), database_id)
        except OSError as error:
            raise StoreError(f"the id of this boot cannot be read: {error}") from error

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
    """Create the file if it is missing, or replace an older one.

    Of processes that do so at the same time, one creates it and the others accept it. Raises
    StoreError if it cannot be created, or if another program's file has the name.
    """
    try:
        make_directory(path.parent)
        while not _is_created(path, identity):
            pass
    except OSError as error:
        raise StoreError(f"{path} cannot be created: {error}") from error


def open_checked(path: Path, identity: Identity) -> int:
    """Return a descriptor of the file, which must be whole and of this identity.

    Raises StoreError with what is wrong. Never creates or changes the file.
    """
    try:
        descriptor = _opened(path)
    except FileNotFoundError as error:
        raise StoreError(
            f"{path} does not exist; `verifyd serve` creates it at start-up"
        ) from error
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


def _is_created(path: Path, identity: Identity) -> bool:
    """Create or replace the file, and return whether it is there now; if not, call this again."""
    try:
        descriptor = _opened(path)
    except FileNotFoundError:
        with suppress(FileExistsError):
            _write_new(path, identity, os.link)
        return False
    try:
        if not _fault(descriptor, identity):
            return True
        _require_replaceable(path, descriptor)
        # NOTE: a process that waited here finds that another one has replaced the file.
        file_lock.wait_for(descriptor)
        if os.path.samestat(os.fstat(descriptor), os.stat(path)):
            _write_new(path, identity, os.replace)
        return False
    finally:
        os.close(descriptor)


def _write_new(path: Path, identity: Identity, put: Callable[[Path, Path], None]) -> None:
    """Write a file of empty buckets under another name, and `put` it in place in one step."""
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
    """Return the descriptor of a regular file that only this user can write to, and no link."""
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
        fault = f"belongs to user {found.st_uid}, not to user {os.geteuid()}, who runs this"
    elif found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        # SEC: whoever can write to it can lift every limit.
        fault = "can be written to by other users: chmod 600"
    if fault:
        os.close(descriptor)
        raise StoreError(f"{path} {fault}")
    return descriptor


def _require_replaceable(path: Path, descriptor: int) -> None:
    """Raise StoreError for a file of another program, unless it is empty."""
    if os.fstat(descriptor).st_size and not _magic_fits(descriptor):
        raise StoreError(f"{path} is not a file of this program; move it away")


def _magic_fits(descriptor: int) -> bool:
    return os.pread(descriptor, len(_MAGIC), 0) == _MAGIC


def _fault(descriptor: int, identity: Identity) -> str:
    """Return what is wrong with a file; an empty text if nothing is."""
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
        return "is of another version of this program; restart the service"
    if database_id.decode("ascii", "replace") != identity.database_id:
        return "belongs to another database: each needs a VERIFYD_STATE_DIR of its own"
    return f"is of an earlier boot ({boot_id.decode('ascii', 'replace')}); restart the service"
