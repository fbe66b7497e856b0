"""Creates, checks and opens the file of the buckets (D11).

The file is a header of one page, and slots of eight bytes. All its space is allocated when it is
created, so that a full disk cannot stop a running service. The header names the boot and the
database. When a service starts, it replaces a file of another boot, database or layout.
"""

import errno
import fcntl
import os
import secrets
import stat
import struct
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from app import clock
from app.errors import OperatorError
from app.storage.file_lock import make_directory
from app.storage.files import opened

FILE_NAME = "limits"
ACCOUNT_SLOTS = 1_048_576
ADDRESS_SLOTS = 65_536
SLOT_BYTES = 8
HEADER_BYTES = 4096
FILE_BYTES = HEADER_BYTES + SLOT_BYTES * (ACCOUNT_SLOTS + ADDRESS_SLOTS)
_MAGIC = b"verifyd limits\r\n"
_LAYOUT = 1
_HEADER = struct.Struct("<16s4I36s32s")
_OPEN_FLAGS = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK


class StoreError(OperatorError):
    """The buckets cannot be used. The message says why, for the log and the operator."""


class Identity(NamedTuple):
    """The database and the boot of this host that the buckets belong to."""

    boot_id: str
    database_id: str

    @classmethod
    def now(cls, database_id: str) -> "Identity":
        """Return the identity of a database's buckets in the current boot."""
        try:
            return cls(clock.boot_id(), database_id)
        except OSError as error:
            raise StoreError(f"the id of the current boot cannot be read: {error}") from error

    @property
    def header(self) -> bytes:
        """The first bytes of a file of this identity."""
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
    """Create the file, or replace one of another identity.

    If several processes do so at the same time, one creates the file and the others accept it.
    Raises StoreError if it cannot be created, or if a file of another program has its name.
    """
    try:
        make_directory(path.parent)
        while not _try_create(path, identity):
            pass
    except OSError as error:
        raise StoreError(f"{path} cannot be created: {error}") from error


def open_checked(path: Path, identity: Identity) -> int:
    """Open the file, which must be complete and of this identity, and return its descriptor.

    Raises StoreError if anything is wrong with it. Never creates or changes the file.
    """
    try:
        descriptor = _opened(path)
    except FileNotFoundError as error:
        raise StoreError(
            f'{path} does not exist; "verifyd serve" creates it at start-up'
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


def _try_create(path: Path, identity: Identity) -> bool:
    """Try once to create or replace the file. Return False if the caller must look again."""
    try:
        descriptor = _opened(path)
    except FileNotFoundError:
        with suppress(FileExistsError):
            _write_new(path, identity, os.link)
        return False
    try:
        if not _fault(descriptor, identity):
            return True
        if os.fstat(descriptor).st_size and not _magic_fits(descriptor):
            raise StoreError(f"{path} is not a file of this program; move it away")
        # NOTE: another process may have replaced the file while this one waited.
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.path.samestat(os.fstat(descriptor), os.stat(path)):
            _write_new(path, identity, os.replace)
        return False
    finally:
        os.close(descriptor)


def _write_new(path: Path, identity: Identity, put: Callable[[Path, Path], None]) -> None:
    """Write a file of full buckets under another name, and let `put` give it its name."""
    new = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    with opened(new, _OPEN_FLAGS | os.O_CREAT | os.O_EXCL) as descriptor:
        try:
            os.posix_fallocate(descriptor, 0, FILE_BYTES)
            os.pwrite(descriptor, identity.header, 0)
            # After a power cut, no file of this name may lack its header.
            os.fsync(descriptor)
            put(new, path)
        finally:
            new.unlink(missing_ok=True)


def _opened(path: Path) -> int:
    """Open a file, and return its descriptor.

    Raises StoreError if it is a link, not a regular file, or if other users can write to it.
    """
    try:
        descriptor = os.open(path, _OPEN_FLAGS)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise StoreError(f"{path} is a symbolic link; move it away") from error
        raise
    found = os.fstat(descriptor)
    fault = ""
    if not stat.S_ISREG(found.st_mode):
        fault = "is not a regular file; move it away"
    elif found.st_uid != os.geteuid():
        fault = f"belongs to user {found.st_uid}, not to user {os.geteuid()}; run chown on it"
    elif found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        # SEC: whoever can write to the file can lift every limit.
        fault = "can be written to by other users; run chmod 600 on it"
    if fault:
        os.close(descriptor)
        raise StoreError(f"{path} {fault}")
    return descriptor


def _magic_fits(descriptor: int) -> bool:
    return os.pread(descriptor, len(_MAGIC), 0) == _MAGIC


def _fault(descriptor: int, identity: Identity) -> str:
    """Return what is wrong with a file; an empty text if nothing is wrong."""
    if not _magic_fits(descriptor):
        return "is not a file of this program; move it away"
    size_bytes = os.fstat(descriptor).st_size
    if size_bytes != FILE_BYTES:
        return f"has {size_bytes:,} bytes instead of {FILE_BYTES:,}; restart the service"
    header = os.pread(descriptor, _HEADER.size, 0)
    if header == identity.header:
        return ""
    *layout, boot_id, database_id = _HEADER.unpack(header)
    if layout != list(_HEADER.unpack(identity.header)[:-2]):
        return "was created by another version of this program; restart the service"
    if database_id.decode("ascii", "replace") != identity.database_id:
        return "belongs to another database; give each database its own VERIFYD_STATE_DIR"
    return f"is from an earlier boot ({boot_id.decode('ascii', 'replace')}); restart the service"
