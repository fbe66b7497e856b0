"""The buckets of one installation, shared by every process on the host (D11)."""

import fcntl
import hashlib
import ipaddress
import os
import struct
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path

from app import clock
from app.limits import bucket
from app.limits.bucket import SECOND_NS, Outcome, Rate
from app.limits.file import (
    ACCOUNT_SLOTS,
    ADDRESS_SLOTS,
    FILE_BYTES,
    HEADER_BYTES,
    SLOT_BYTES,
    Identity,
    StoreError,
    create,
    open_checked,
)

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_WAIT_SECONDS = 2
"""How long a take waits for others. Each needs microseconds, so one that lasts is stopped."""
_PAUSE_SECONDS = 20e-6
_OPENINGS_MAX = 3
_IPV6_PREFIX_BYTES = 8
_FULL_AT = struct.Struct("<Q")
_Ask = Callable[[Rate, int, int], Outcome]

_started: dict[str, Identity] = {}
"""The files that this process, or the one it was forked from, created or found at its start."""


def start(path: Path, database_id: str) -> Identity:
    """Create the file if it is missing, or replace an older one, at the start of a service.

    Afterwards this process and its children only open it: they do not replace a file that was
    removed. Raises StoreError if it cannot be created.
    """
    identity = Identity.now(database_id)
    create(path, identity)
    _started[str(path)] = identity
    return identity


def started(path: Path, database_id: Callable[[], str]) -> Identity:
    """Return the identity of the file that was created at the start of this service.

    Under a server that does not call `start`, the first use in a process is the start; only then
    `database_id` is called. Raises StoreError, or what `database_id` raises.
    """
    return _started.get(str(path)) or start(path, database_id())


class LimitStore:
    """Buckets by number, accounts first, then addresses; for all threads of all processes.

    The first use in each process opens the file. Each use checks that the name still leads to the
    same file; a file of the same identity that was put in its place is opened instead.

    Args:
        identity: returns the identity that the file must have; called before each opening.
        monotonic_ns: a clock that is the same for all processes [the host's].
    """

    def __init__(
        self,
        path: Path,
        identity: Callable[[], Identity],
        monotonic_ns: Callable[[], int] | None = None,
    ) -> None:
        # PERF: a text, because lstat() of a Path takes a third longer.
        self._path = str(path)
        self._identity = identity
        self._monotonic_ns = monotonic_ns or clock.monotonic_ns
        self._threads = threading.Lock()
        self._descriptor = -1
        self._inode = (0, 0)
        _stores.add(self)

    def take(self, slot: int, rate: Rate) -> Outcome:
        """Take a token from a bucket if there is one (D8).

        Raises StoreError with the reason if the store cannot be used; nothing is taken then.
        """
        return self._settle(slot, rate, bucket.take)

    def peek(self, slot: int, rate: Rate) -> Outcome:
        """Return what is in a bucket, and take nothing. Raises StoreError."""
        return self._settle(slot, rate, bucket.peek, is_kept=False)

    def fill(self, slot: int, rate: Rate) -> Outcome:
        """Fill a bucket. Raises StoreError."""
        return self._settle(slot, rate, lambda rate, _, now_ns: bucket.peek(rate, now_ns, now_ns))

    def require_usable(self) -> None:
        """Check that the file can be used, and change nothing. Raises StoreError."""
        self.peek(0, bucket.rate(1, 1))

    def address_slot(self, address: Address | None) -> int:
        """Return the bucket of an address: of an IPv4 /32, an IPv6 /64, or local clients (D10).

        SEC: hashed with a key, so that nobody can look for addresses that share a bucket.
        """
        prefix = b"" if address is None else address.packed[:_IPV6_PREFIX_BYTES]
        key = self._identity().database_id.encode("ascii")
        digest = hashlib.blake2b(prefix, digest_size=8, key=key).digest()
        return ACCOUNT_SLOTS + int.from_bytes(digest) % ADDRESS_SLOTS

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _settle(self, slot: int, rate: Rate, ask: _Ask, *, is_kept: bool = True) -> Outcome:
        if not 0 <= slot < ACCOUNT_SLOTS + ADDRESS_SLOTS:
            raise StoreError(f"{self._path} has no bucket {slot:,}")
        place = HEADER_BYTES + SLOT_BYTES * slot
        # PERF: without a timeout, acquiring a free lock takes a tenth of the time.
        if not (self._threads.acquire(False) or self._threads.acquire(timeout=_WAIT_SECONDS)):
            raise StoreError(f"{self._path} is held by another thread")
        try:
            descriptor = self._locked_file()
            try:
                stored = os.pread(descriptor, SLOT_BYTES, place)
                # NOTE: read under the lock, so that takes happen in the order of their times.
                outcome = ask(rate, _FULL_AT.unpack(stored)[0], self._monotonic_ns())
                kept = _FULL_AT.pack(outcome.full_at_ns)
                if is_kept and kept != stored and os.pwrite(descriptor, kept, place) < SLOT_BYTES:
                    raise StoreError(f"{self._path} takes no more bytes")
                return outcome
            finally:
                fcntl.flock(descriptor, fcntl.LOCK_UN)
        except (OSError, struct.error) as error:
            self.close()
            raise StoreError(f"{self._path} cannot be used: {error}") from error
        finally:
            self._threads.release()

    def _locked_file(self) -> int:
        """Return the descriptor of the file that has the name now, locked for this process."""
        for _ in range(_OPENINGS_MAX):
            if self._descriptor < 0:
                self._open()
            self._lock()
            try:
                found = os.lstat(self._path)
            except FileNotFoundError:
                self.close()
                continue
            is_same = (found.st_dev, found.st_ino) == self._inode
            if is_same and found.st_size == FILE_BYTES:
                return self._descriptor
            self.close()
        raise StoreError(f"{self._path} was replaced again and again")

    def _open(self) -> None:
        self._descriptor = open_checked(Path(self._path), self._identity())
        found = os.fstat(self._descriptor)
        self._inode = (found.st_dev, found.st_ino)

    def _lock(self) -> None:
        """Lock the file; processes exclude each other by descriptors opened since they forked."""
        ends_at_ns = 0
        while True:
            try:
                return fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                ends_at_ns = ends_at_ns or clock.monotonic_ns() + _WAIT_SECONDS * SECOND_NS
                if clock.monotonic_ns() > ends_at_ns:
                    raise StoreError(f"{self._path} is locked by a stopped process") from None
                time.sleep(_PAUSE_SECONDS)


def account_slot(account_number: int) -> int:
    """Return the bucket of an account, by its number in the database, from 1.

    Raises StoreError beyond the last slot: it would be an address's.
    """
    if not 1 <= account_number <= ACCOUNT_SLOTS:
        raise StoreError(f"account {account_number:,} has no bucket: there are {ACCOUNT_SLOTS:,}")
    return account_number - 1


_stores: "weakref.WeakSet[LimitStore]" = weakref.WeakSet()


def _forget_parent() -> None:
    for store in _stores:
        # A thread of the parent may have held the lock; this process does not have that thread.
        store._threads = threading.Lock()
        store.close()


os.register_at_fork(after_in_child=_forget_parent)
