"""Appends records to the trail before their answers are sent (D115).

An answer that cannot be recorded must not be sent. An appended record survives the end of its
process at once, and a power cut after the next sync, at most a second later.
"""

import atexit
import errno
import logging
import os
import secrets
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from app import clock
from app.audit.open_segment import OpenSegment, open_current
from app.audit.owner import Owner, SameOwner
from app.audit.record import AuditError, Record, encode_lines
from app.storage.files import opened, sync

_INTERVAL_SECONDS = 1
_log = logging.getLogger("verifyd.trail")


class Syncing:
    """Syncs the segments of a trail once a second, in a thread of its own.

    After a failed sync the kernel may have dropped data, and later syncs would not report that. So
    nothing is recorded until a new file can be written and synced. Then the segment is closed, and
    the next record begins another one.

    Args:
        lend: returns a duplicate of the current segment's descriptor, -1 if there is none.
        abandon: closes the current segment for all processes.
    """

    def __init__(
        self, directory: Path, lend: Callable[[], int], abandon: Callable[[], None]
    ) -> None:
        self.fault = ""
        """Why nothing can be recorded now; empty if the last sync succeeded."""
        self._directory = directory
        self._lend = lend
        self._abandon = abandon
        self._retired: deque[int] = deque()
        self._synced = (0, 0)
        self._is_syncing = threading.Lock()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread, unless it runs."""
        if self._thread is None:
            self._stopping.clear()
            self._thread = threading.Thread(target=self._run, name="audit-sync", daemon=True)
            self._thread.start()
            atexit.register(self.sync)

    def retire(self, descriptor: int) -> None:
        """Take over a segment that this process no longer writes to; sync it and close it."""
        self._retired.append(descriptor)

    def sync(self) -> None:
        """Sync what was written since the last time. Sets `fault` if that fails."""
        with self._is_syncing:
            if self.fault:
                self._recover()
                return
            try:
                while self._retired:
                    self._sync(self._retired.popleft())
                descriptor = self._lend()
                if descriptor >= 0:
                    self._sync(descriptor)
            except OSError as error:
                self.fault = f"{self._directory} could not be synced to disk: {error.strerror}"
                _log.error("%s; look-ups are refused until it can be", self.fault)

    def close(self) -> None:
        """End the thread after a last sync."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._stopping.set()
            thread.join()
            atexit.unregister(self.sync)
        self.sync()

    def _run(self) -> None:
        while not self._stopping.wait(_INTERVAL_SECONDS):
            self.sync()

    def _sync(self, descriptor: int) -> None:
        """Sync a segment if it has grown, whichever process wrote to it, and close the descriptor.

        A process that was killed can no longer sync what it wrote.
        """
        try:
            found = os.fstat(descriptor)
            state = (found.st_ino, found.st_size)
            if state != self._synced:
                os.fdatasync(descriptor)
                self._synced = state
        finally:
            os.close(descriptor)

    def _recover(self) -> None:
        try:
            self._probe()
            self._abandon()
        except (OSError, AuditError):
            return  # The next second tries again.
        self.fault = ""
        _log.warning("%s can be synced to disk again", self._directory)

    def _probe(self) -> None:
        """Write and sync a file, and remove it. Raises OSError."""
        path = self._directory / f".probe.{secrets.token_hex(8)}"
        with opened(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL) as descriptor:
            try:
                os.write(descriptor, bytes(4096))
                os.fsync(descriptor)
            finally:
                path.unlink()
        sync(self._directory)


_WAIT_SECONDS = 2
_OPENINGS_MAX = 5
_KEPT_OPEN = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG}
"""After these errors the same descriptor works again."""


class Trail:
    """The trail of this host, for all threads of all processes.

    The first record of each process opens the segment of the hour. A segment that was closed or
    removed is never written to again. One that was moved away, or whose directory no longer has the
    file of its owner, is not written to after a tenth of a second.

    Args:
        owner: returns the owner that the directory must have. Called each time a segment is opened.
    """

    def __init__(self, directory: Path, owner: Callable[[], Owner]) -> None:
        self._directory = directory
        self._owner = owner
        self.segment: OpenSegment | None = None
        self._begin()
        _trails.add(self)

    def append(self, *records: Record) -> None:
        """Append records together. Raises AuditError if that is impossible; then none was."""
        lines = encode_lines(records)
        # PERF: acquiring a free lock takes a tenth of the time without a timeout.
        if not (self._threads.acquire(False) or self._threads.acquire(timeout=_WAIT_SECONDS)):
            raise AuditError(f"another thread has used {self._directory} for {_WAIT_SECONDS} s")
        try:
            self._append(lines)
        except OSError as error:
            if error.errno not in _KEPT_OPEN:
                self._retire()
            raise AuditError(
                f"the audit trail in {self._directory} cannot be written to: {error.strerror}"
            ) from error
        finally:
            self._threads.release()

    def sync(self) -> None:
        """Write everything to disk now, as commands do before they end. Raises AuditError."""
        self._syncing.sync()
        if self._syncing.fault:
            raise AuditError(self._syncing.fault)

    @property
    def fault(self) -> str:
        """Why nothing can be recorded since a sync failed; empty if the last one succeeded."""
        return self._syncing.fault

    def close(self) -> None:
        """Sync as far as that is possible, and close the files. The next record opens them."""
        with self._threads:
            self._retire()
        self._syncing.close()

    def _append(self, lines: bytes) -> None:
        if self._syncing.fault:
            raise AuditError(self._syncing.fault)
        for _ in range(_OPENINGS_MAX):
            now_ns = clock.now_ns()
            segment = self.segment
            if segment is None or now_ns >= segment.ends_at_ns:
                segment = self._open()
            if segment.append(lines, now_ns):
                return
            if not segment.is_closed():
                self._least = segment.number + 1
            self._retire()
        raise AuditError(f"{self._directory} was changed {_OPENINGS_MAX} times while it was opened")

    def _open(self) -> OpenSegment:
        """Open the segment of this hour in place of the former one."""
        require_owner = SameOwner(self._directory, self._owner()).require
        require_owner()
        segment = open_current(self._directory, self._least, require_owner)
        self._retire()
        self.segment = segment
        # It also closes what can be opened, but not written to.
        self._syncing.start()
        return segment

    def _retire(self) -> None:
        """Stop using the segment. It is closed after its last sync."""
        if self.segment is not None:
            self._syncing.retire(self.segment.descriptor)
            self.segment = None

    def _lend(self) -> int:
        """Return a duplicate of the segment's descriptor, -1 if no segment is open."""
        with self._threads:
            return -1 if self.segment is None else os.dup(self.segment.descriptor)

    def _abandon(self) -> None:
        """Close the segment for all processes after a failed sync. Raises OSError, AuditError."""
        with self._threads:
            if self.segment is not None:
                self.segment.close_for_all()
                os.close(self.segment.descriptor)
                self.segment = None

    def _begin(self) -> None:
        self.segment = None
        self._least = 0
        self._threads = threading.Lock()
        self._syncing: Syncing = Syncing(self._directory, self._lend, self._abandon)

    def forget_parent(self) -> None:
        """Begin again in a forked process, where no thread of the parent exists."""
        if self.segment is not None:
            os.close(self.segment.descriptor)
        self._begin()


def sync_fault() -> str:
    """Return why this process cannot sync a trail to disk; empty if it can, or uses none."""
    return next((trail.fault for trail in _trails if trail.fault), "")


_trails: "weakref.WeakSet[Trail]" = weakref.WeakSet()


def _forget_parent() -> None:
    for trail in _trails:
        trail.forget_parent()


os.register_at_fork(after_in_child=_forget_parent)


@contextmanager
def durable(directory: Path, owner: Owner) -> Iterator[Trail]:
    """Yield a trail for one process. At the end its records are on disk. Raises AuditError."""
    trail = Trail(directory, lambda: owner)
    try:
        yield trail
        trail.sync()
    finally:
        trail.close()


def record_use(directory: Path, owner: Owner, record: Record) -> None:
    """Record a search, export or report of a trail durably, before it shows anything.

    Raises AuditError.
    """
    with durable(directory, owner) as trail:
        trail.append(record)
