"""The buckets of one installation, which all processes of the host share."""

import fcntl
import hashlib
import os
import struct
import threading
import weakref
from collections.abc import Callable
from pathlib import Path

from app import clock
from app.actions import Actor, Subject, changing, record
from app.serve.limits import bucket
from app.serve.limits.bucket import Admission, Rate
from app.serve.limits.file import (
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
from app.settings.values import Address
from app.storage.engine import Engine
from app.storage.file_lock import locked_soon

_WAIT_SECONDS = 2
"""How long a thread waits for another one."""
_OPENINGS_MAX = 3
_IPV6_PREFIX_BYTES = 8
_FULL_AT = struct.Struct("<Q")
_Operation = Callable[[Rate, int, int], Admission]

_identities: dict[str, Identity] = {}
"""The identity of each file that `start` created or accepted, here or before the fork."""


def start(path: Path, database_id: str) -> Identity:
    """Create the file when a service starts, or replace one of another identity.

    Afterwards this process and its children only open it. They do not create it again if it is
    removed. Raises StoreError if it cannot be created.
    """
    identity = Identity.now(database_id)
    create(path, identity)
    _identities[str(path)] = identity
    return identity


def identity_of(path: Path, database_id: Callable[[], str]) -> Identity:
    """Return the identity of the file that `start` created.

    If the server did not call `start`, the first use in a process does. Only then `database_id` is
    called. Raises StoreError, or what `database_id` raises.
    """
    return _identities.get(str(path)) or start(path, database_id())


class LimitStore:
    """Buckets by number, first those of accounts, then those of addresses.

    All threads of all processes can use it. The first use in each process opens the file. Each
    use checks that the path still leads to the same file. If another file of the same identity
    has replaced it, that one is opened.

    Args:
        identity: returns the identity that the file must have. Called each time it is opened.
        monotonic_ns: a clock that all processes share [the time since boot].
    """

    def __init__(
        self,
        path: Path,
        identity: Callable[[], Identity],
        monotonic_ns: Callable[[], int] | None = None,
    ) -> None:
        # PERF: lstat() of a Path takes a third longer than that of a text.
        self._path = str(path)
        self._identity = identity
        self._monotonic_ns = monotonic_ns or clock.monotonic_ns
        self._threads = threading.Lock()
        self._descriptor = -1
        self._inode = (0, 0)
        self._is_held = False
        self._is_looked_at = False
        """Whether the path is known to lead to the file while this is held."""
        _stores.add(self)

    def take(self, slot: int, rate: Rate) -> Admission:
        """Take a token from a bucket if there is one.

        Raises StoreError if the file cannot be used. Then no token is taken.
        """
        return self._use(slot, rate, bucket.take)

    def peek(self, slot: int, rate: Rate) -> Admission:
        """Return the state of a bucket without taking a token. Raises StoreError."""
        return self._use(slot, rate, bucket.peek, writes=False)

    def fill(self, slot: int, rate: Rate) -> Admission:
        """Fill a bucket. Raises StoreError."""
        return self._use(slot, rate, lambda rate, _, now_ns: bucket.peek(rate, now_ns, now_ns))

    def hold(self) -> None:
        """Look only once from now on whether the path leads to the same file, until `release`."""
        self._is_held, self._is_looked_at = True, False

    def release(self) -> None:
        """Look each time again."""
        self._is_held = self._is_looked_at = False

    def require_usable(self) -> None:
        """Raise StoreError if the file cannot be used. Changes nothing."""
        self.peek(0, bucket.rate(1, 1))

    def address_slot(self, address: Address | None) -> int:
        """Return the bucket of an IPv4 /32 or IPv6 /64; None stands for local clients.

        SEC: the hash has a key, so that nobody can find addresses that share a bucket.
        """
        prefix = b"" if address is None else address.packed[:_IPV6_PREFIX_BYTES]
        key = self._identity().database_id.encode("ascii")
        digest = hashlib.blake2b(prefix, digest_size=8, key=key).digest()
        return ACCOUNT_SLOTS + int.from_bytes(digest) % ADDRESS_SLOTS

    def close(self) -> None:
        """Close the file. The next use opens it again."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
            self._is_looked_at = False

    def __del__(self) -> None:
        """Close the file with the application that used it."""
        self.close()

    def _use(
        self, slot: int, rate: Rate, operation: _Operation, *, writes: bool = True
    ) -> Admission:
        if not 0 <= slot < ACCOUNT_SLOTS + ADDRESS_SLOTS:
            raise StoreError(f"{self._path} has no bucket {slot:,}")
        place = HEADER_BYTES + SLOT_BYTES * slot
        # PERF: acquiring a free lock takes a tenth of the time without a timeout.
        if not (self._threads.acquire(False) or self._threads.acquire(timeout=_WAIT_SECONDS)):
            raise StoreError(f"another thread has used {self._path} for {_WAIT_SECONDS} s")
        try:
            descriptor = self._locked_file()
            try:
                stored = os.pread(descriptor, SLOT_BYTES, place)
                # NOTE: read under the lock, so that the times are in the order of the requests.
                outcome = operation(rate, _FULL_AT.unpack(stored)[0], self._monotonic_ns())
                new = _FULL_AT.pack(outcome.full_at_ns)
                if writes and new != stored and os.pwrite(descriptor, new, place) < SLOT_BYTES:
                    raise StoreError(f"{self._path} was written only in part")
                return outcome
            finally:
                fcntl.flock(descriptor, fcntl.LOCK_UN)
        except (OSError, struct.error) as error:
            self.close()
            raise StoreError(f"{self._path} cannot be used: {error}") from error
        finally:
            self._threads.release()

    def _locked_file(self) -> int:
        """Lock the file that has the path now, and return its descriptor."""
        for _ in range(_OPENINGS_MAX):
            if self._descriptor < 0:
                self._open()
            # This process has opened the file itself: a fork would share the lock.
            if not locked_soon(self._descriptor):
                raise StoreError(f"{self._path} is locked by a stopped process")
            if self._is_looked_at:
                return self._descriptor
            try:
                found = os.lstat(self._path)
            except FileNotFoundError:
                self.close()
                continue
            is_same = (found.st_dev, found.st_ino) == self._inode
            if is_same and found.st_size == FILE_BYTES:
                self._is_looked_at = self._is_held
                return self._descriptor
            self.close()
        raise StoreError(f"{self._path} was replaced {_OPENINGS_MAX} times while it was opened")

    def _open(self) -> None:
        self._descriptor = open_checked(Path(self._path), self._identity())
        found = os.fstat(self._descriptor)
        self._inode = (found.st_dev, found.st_ino)


def account_slot(account_number: int) -> int:
    """Return the bucket of an account by its number in the database, which is at least 1.

    Raises StoreError if the number is too large: the bucket would be that of an address.
    """
    if not 1 <= account_number <= ACCOUNT_SLOTS:
        raise StoreError(f"account {account_number:,} has no bucket: there are {ACCOUNT_SLOTS:,}")
    return account_number - 1


_stores: "weakref.WeakSet[LimitStore]" = weakref.WeakSet()


def _forget_parent() -> None:
    for store in _stores:
        # A thread of the parent may hold the lock, and does not exist in this process.
        store._threads = threading.Lock()
        store.close()


os.register_at_fork(after_in_child=_forget_parent)


def reset_limit(
    engine: Engine,
    store: LimitStore,
    account_id: int,
    account_name: str,
    rate: Rate,
    *,
    actor: Actor | None = None,
) -> Admission:
    """Fill the bucket of an account, and record who did it.

    Args:
        rate: the rate of the account's plan.
        actor: None for the user of this process.

    Raises StoreError if the file cannot be used; then nothing is recorded.
    """
    slot = account_slot(account_id)
    with changing(engine):
        left = store.peek(slot, rate).remaining
        subject = Subject("account", account_name, account_name)
        states = {"remaining": left}, {"remaining": rate.limit}
        record(engine, actor, "limits.reset", subject, *states)
        # Last, because the file takes no part in the transaction.
        return store.fill(slot, rate)
