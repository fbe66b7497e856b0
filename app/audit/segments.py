"""The files of a trail: numbered segments of records, one per hour, the chain and the index.

A segment that its owner may write to is open. One that its owner may only read is closed, and no
process appends to it any more.

The last line of a file may be incomplete, if its process was killed or power failed while it wrote.
No client was answered for such a line, so it is cut off.
"""

import calendar
import errno
import os
import re
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, Self

from app import clock
from app.audit.record import AuditError
from app.storage.file_lock import locked, tried

CHAIN = "chain.ndjson"
OWNER = "owner.json"
RESTORING = ".restoring"
"""Where `verifyd restore` gathers the files of a trail before they get their names."""
SUFFIX = ".ndjson"
OPEN_MODE = 0o600
CLOSED_MODE = 0o400
_CHANGING = "changing.lock"
_OPENING = "opening.lock"
_NAME = re.compile(
    r"(?P<number>\d{8})-(?P<hour>\d{4}(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])T([01]\d|2[0-3]))\.ndjson",
    re.ASCII,
)
_HOUR = "%Y%m%dT%H"
_HOUR_NS = 3600 * 10**9
_WAIT_NS = 2 * 10**9
"""How long to wait for a lock that is held for milliseconds, unless a process was stopped."""
_PAUSE_SECONDS = 0.001


class Segment(NamedTuple):
    """A segment by its number and its hour in UTC, such as `20261122T15`."""

    number: int
    hour: str

    @property
    def name(self) -> str:
        """Its name without the suffix, as the chain and messages have it."""
        return f"{self.number:08}-{self.hour}"

    @property
    def file_name(self) -> str:
        return f"{self.name}{SUFFIX}"

    @property
    def ends_at_ns(self) -> int:
        """When its hour ends, in Unix nanoseconds."""
        return calendar.timegm(time.strptime(self.hour, _HOUR)) * 10**9 + _HOUR_NS

    @classmethod
    def parse(cls, file_name: str) -> Self | None:
        """Return the segment of a file; None if the file is no segment."""
        found = _NAME.fullmatch(file_name)
        return cls(int(found["number"]), found["hour"]) if found else None


def segment_number(name: str) -> int:
    """Return the number of the segment of this name, without suffix; 0 if it is no segment's."""
    segment = Segment.parse(f"{name}{SUFFIX}")
    return segment.number if segment else 0


def hour_of(epoch_ns: int) -> str:
    """Return the hour of a time, as names of segments have it."""
    return time.strftime(_HOUR, time.gmtime(epoch_ns // 10**9))


def list_segments(directory: Path) -> list[Segment]:
    """Return the segments of a trail by number. Raises OSError."""
    # PERF: names have the order of their segments, and are sorted in a tenth of the time.
    return [*filter(None, map(Segment.parse, sorted(os.listdir(directory))))]


def is_open(mode: int) -> bool:
    """Tell whether a segment of this mode is still appended to."""
    return bool(mode & stat.S_IWUSR)


@contextmanager
def opening(directory: Path) -> Iterator[None]:
    """Hold the short lock under which segments are opened and created.

    Raises AuditError if another process holds it for two seconds, and OSError.
    """
    ends_at_ns = clock.monotonic_ns() + _WAIT_NS
    while True:
        with tried(directory / _OPENING) as is_held:
            if is_held:
                yield
                return
        if clock.monotonic_ns() > ends_at_ns:
            raise AuditError(f"{directory / _OPENING} is locked by a stopped process")
        time.sleep(_PAUSE_SECONDS)


@contextmanager
def changing(directory: Path) -> Iterator[None]:
    """Hold the lock of `seal` and `prune`, which change what was written. Raises OSError."""
    with locked(directory / _CHANGING):
        yield


@contextmanager
def unchanged(directory: Path) -> Iterator[None]:
    """Keep `seal` and `prune` waiting. A copy of a trail may have no lock file, and needs none."""
    if not (directory / _CHANGING).exists():
        yield
        return
    with locked(directory / _CHANGING, shared=True, create=False):
        yield


BLOCK_BYTES = 1 << 20


def whole_bytes(descriptor: int, size: int) -> int:
    """Return how many of the first `size` bytes of a file are complete lines. Raises OSError."""
    end = size
    while end:
        start = max(0, end - BLOCK_BYTES)
        newline = os.pread(descriptor, end - start, start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        end = start
    return 0


def cut_incomplete(descriptor: int, size: int) -> int:
    """Cut an incomplete last line off a file of this size; return the new size. Raises OSError."""
    if not size or os.pread(descriptor, 1, size - 1) == b"\n":
        return size
    whole = whole_bytes(descriptor, size)
    os.ftruncate(descriptor, whole)
    return whole


def write_whole(descriptor: int, lines: bytes, size: int) -> None:
    """Append lines to a file of this size, or keep the file unchanged. Raises OSError."""
    written = os.write(descriptor, lines)
    if written < len(lines):
        os.ftruncate(descriptor, size)
        # The usual reason why a file takes only a part.
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def chunks(path: Path) -> Iterator[bytes]:
    """Yield the content of a file in pieces of 1 MiB. Raises OSError, also if it is no file."""
    with open(path, "rb", buffering=0, opener=open_regular) as file:
        while piece := file.read(BLOCK_BYTES):
            yield piece


@contextmanager
def opened_regular(path: Path) -> Iterator[int]:
    """Open a file to read it. Raises OSError, also if it is no regular file."""
    with open(path, "rb", buffering=0, opener=open_regular) as file:
        yield file.fileno()


def open_regular(path: str | Path, flags: int) -> int:
    """Open a file of the trail. Raises OSError, also if a pipe or a link has replaced it."""
    descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return descriptor


def line_groups(path: Path) -> Iterator[tuple[int, list[bytes]]]:
    """Yield the complete lines of a file in lists, each with the offset of its first line.

    The lines have no line ends. Raises OSError.
    """
    rest, offset = b"", 0
    for piece in chunks(path):
        *lines, rest_of_piece = (rest + piece).split(b"\n")
        if lines:
            yield offset, lines
            offset += len(rest) + len(piece) - len(rest_of_piece)
        rest = rest_of_piece


def lines_beginning_in(
    descriptor: int, start: int, end: int, needle: bytes = b""
) -> Iterator[bytes]:
    """Yield the complete lines that begin in a part of a file, without line ends. Raises OSError.

    Args:
        start, end: the part, in bytes.
        needle: what each line contains.
    """
    # A line begins at `start` only if the byte before it ends another one.
    at = max(0, start - 1)
    data = os.pread(descriptor, end - at, at)
    if start and b"\n" not in data:
        return  # All of it is the middle of a line, which may be very long.
    while not data.endswith(b"\n"):
        more = os.pread(descriptor, end - start, at + len(data))
        if not more:
            break
        # Only the line that begins last in the part is needed whole.
        newline = more.find(b"\n")
        data += more if newline < 0 else more[: newline + 1]
    first = 0 if at == start else data.find(b"\n") + 1
    if at != start and not first:
        return
    # PERF: to find nothing in a block takes a tenth of the time of looking into each line.
    if needle not in data:
        return
    offset = at + first
    for line in data[first:].split(b"\n")[:-1]:
        if offset >= end:
            return
        if needle in line:
            yield line
        offset += len(line) + 1
