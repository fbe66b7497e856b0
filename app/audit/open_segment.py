"""The segment that a process appends to, and how it finds the right one."""

import logging
import os
import stat
from collections.abc import Callable
from fcntl import LOCK_EX, LOCK_NB, LOCK_UN, flock
from pathlib import Path

from app import clock
from app.audit.chain import last_sealed_number
from app.audit.record import AuditError
from app.audit.segments import (
    CLOSED_MODE,
    OPEN_MODE,
    Segment,
    cut_incomplete,
    hour_of,
    is_open,
    list_segments,
    opening,
    write_whole,
)
from app.storage.file_lock import locked_soon
from app.storage.files import sync

_log = logging.getLogger("verifyd.trail")
_FLAGS = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW
_TAKE = LOCK_EX | LOCK_NB
_COMPARED_NS = 10**8

Check = Callable[[], None]


class OpenSegment:
    """A segment that this process has open. The file must be locked for each use."""

    def __init__(
        self, directory: Path, segment: Segment, descriptor: int, require_owner: Check
    ) -> None:
        self.number = segment.number
        self.ends_at_ns = segment.ends_at_ns
        self.descriptor = descriptor
        # PERF: lstat() of a Path takes a third longer than that of a text.
        self.path = str(directory / segment.file_name)
        found = os.fstat(descriptor)
        self._inode = (found.st_dev, found.st_ino)
        self._require_owner = require_owner
        self._compared_at_ns = 0
        """When the path last led to this file."""
        self._size = -1
        """Its size after this process last wrote to it."""

    def lock(self) -> None:
        """Lock the file, which this process has opened itself: a fork would share the lock.

        Raises AuditError if another process holds the lock for two seconds.
        """
        if not locked_soon(self.descriptor):
            raise AuditError(f"{self.path} is locked by a stopped process")

    def unlock(self) -> None:
        """Let other processes write."""
        flock(self.descriptor, LOCK_UN)

    def append(self, lines: bytes, now_ns: int) -> bool:
        """Append lines; return False if the file was closed, removed or replaced.

        They are appended as a whole or not at all. Raises OSError, and AuditError as `lock` does
        or if the directory no longer holds the trail of its owner.

        PERF: fstat() notices all of that at once, except that the directory was moved away. The
        path, whose lstat() takes twice as long, and the owner are therefore compared ten times a
        second. In one function a look-up takes 2 us less than in four.
        """
        descriptor = self.descriptor
        try:
            flock(descriptor, _TAKE)
        except BlockingIOError:
            self.lock()
        try:
            found = os.fstat(descriptor)
            if not found.st_nlink or not is_open(found.st_mode):
                return False
            if not 0 <= now_ns - self._compared_at_ns < _COMPARED_NS:
                if not self._has_its_path():
                    return False
                self._require_owner()
                self._compared_at_ns = now_ns
            size = found.st_size
            if size != self._size:
                # Another process wrote last, and may have been killed meanwhile.
                size = cut_incomplete(descriptor, size)
            self._size = -1
            write_whole(descriptor, lines, size)
            self._size = size + len(lines)
            return True
        finally:
            flock(descriptor, LOCK_UN)

    def _has_its_path(self) -> bool:
        try:
            found = os.lstat(self.path)
        except FileNotFoundError:
            return False
        return (found.st_dev, found.st_ino) == self._inode

    def is_closed(self) -> bool:
        """Tell whether the segment was closed; otherwise it was removed or replaced."""
        return not is_open(os.fstat(self.descriptor).st_mode)

    def close_for_all(self) -> None:
        """Close the segment, so that no process appends to it any more. Raises OSError."""
        self.lock()
        try:
            size = os.fstat(self.descriptor).st_size
            whole = cut_incomplete(self.descriptor, size)
            if whole < size:
                _log.warning(
                    "%s ended with an incomplete record: %d bytes", self.path, size - whole
                )
            os.fchmod(self.descriptor, CLOSED_MODE)
        finally:
            self.unlock()


def open_segment(
    directory: Path, segment: Segment, require_owner: Check = lambda: None
) -> OpenSegment:
    """Open a segment that exists. Raises AuditError if it is no file, and OSError."""
    path = directory / segment.file_name
    descriptor = os.open(path, _FLAGS)
    # A pipe would take records, and keep none.
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise AuditError(f"{path} is not a regular file; find out who put it there, and remove it")
    return OpenSegment(directory, segment, descriptor, require_owner)


def open_current(directory: Path, least: int, require_owner: Check) -> OpenSegment:
    """Open the segment to append to now, or create it.

    It is the newest one, unless that is closed or its hour is over. The hour of a new segment is
    never before that of the newest: a clock that is set back changes nothing.

    Args:
        least: the lowest number that is allowed, which is higher than that of a segment that
            disappeared from under this process.
        require_owner: raises AuditError if the directory no longer holds the owner's trail.

    Raises AuditError, and OSError.
    """
    with opening(directory):
        newest = max(list_segments(directory), default=Segment(0, ""))
        hour = max(hour_of(clock.now_ns()), newest.hour)
        sealed = last_sealed_number(directory)
        # SEC: what is appended to a sealed segment is never sealed, whatever its permissions are.
        is_usable = newest.number >= max(least, sealed + 1) and newest.hour == hour
        # NOTE: root can open a closed segment, too.
        if is_usable and is_open((directory / newest.file_name).stat().st_mode):
            return open_segment(directory, newest, require_owner)
        number = max(newest.number, sealed) + 1
        segment = Segment(max(number, least), hour)
        path = directory / segment.file_name
        descriptor = os.open(path, _FLAGS | os.O_CREAT | os.O_EXCL, OPEN_MODE)
        try:
            # A power cut must not take the name, and with it all records.
            sync(directory)
        except OSError:
            os.close(descriptor)
            path.unlink()
            raise
        return OpenSegment(directory, segment, descriptor, require_owner)
