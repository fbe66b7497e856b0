"""Writes the trail to disk once a second, so that a power cut loses at most that much (D115)."""

import atexit
import logging
import os
import secrets
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path

from app.audit.record import AuditError
from app.storage.files import sync

_INTERVAL_SECONDS = 1
_log = logging.getLogger("app.audit.syncing")


class Syncing:
    """Syncs the segments of a trail in a thread of its own.

    After a failed sync the kernel may have dropped what it could not write, and later syncs would
    not say so. So nothing is recorded any more until a new file could be written and synced. Then
    the segment is closed, and the next record begins another one.

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
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.write(descriptor, bytes(4096))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
            path.unlink()
        sync(self._directory)
