"""Appends records to the trail before their answers leave (D115).

What cannot be recorded must not be answered. A record that was appended survives the end of its
process at once, and a power cut after the next sync, which comes each second.
"""

import errno
import os
import threading
import weakref
from collections.abc import Callable
from pathlib import Path

from app import clock
from app.audit.open_segment import OpenSegment, open_current
from app.audit.owner import Owner, SameOwner
from app.audit.record import AuditError, Record, encode_json
from app.audit.syncing import Syncing

_WAIT_SECONDS = 2
_OPENINGS_MAX = 5
_KEPT_OPEN = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG}
"""After these errors the same descriptor works again."""


class Trail:
    """The trail of this host, for all threads of all processes.

    The first record of each process opens the segment of the hour. Each record checks that its path
    still leads to it, so that a segment that was closed, removed or replaced is never written to;
    nor is one whose directory no longer has the file of its owner.

    Args:
        owner: returns the owner that the directory must have. Called each time a segment is opened.
    """

    def __init__(self, directory: Path, owner: Callable[[], Owner]) -> None:
        self._directory = directory
        self._owner = owner
        self.segment: OpenSegment | None = None
        self._begin()
        _trails.add(self)

    def append(self, record: Record) -> None:
        """Append a record. Raises AuditError if it cannot be recorded; then nothing was."""
        line = encode_json(record) + b"\n"
        # PERF: acquiring a free lock takes a tenth of the time without a timeout.
        if not (self._threads.acquire(False) or self._threads.acquire(timeout=_WAIT_SECONDS)):
            raise AuditError(f"another thread has used {self._directory} for {_WAIT_SECONDS} s")
        try:
            self._append(line)
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

    def _append(self, line: bytes) -> None:
        if self._syncing.fault:
            raise AuditError(self._syncing.fault)
        for _ in range(_OPENINGS_MAX):
            now_ns = clock.now_ns()
            segment = self.segment
            if segment is None or now_ns >= segment.ends_at_ns:
                segment = self._open()
            if segment.append(line, now_ns):
                self._syncing.start()
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
        return segment

    def _retire(self) -> None:
        """Let go of the segment, which is closed after its last sync."""
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
