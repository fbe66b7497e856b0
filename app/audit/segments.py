"""The files of a trail: numbered segments of records, one per hour, and what is beside them.

A segment that its owner may write to is open. One that its owner may only read is closed, and no
process appends to it any more.
"""

import calendar
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
from app.file_lock import locked, tried

CHAIN = "chain.ndjson"
OWNER = "owner.json"
INDEX = "index"
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
        """The name of its file."""
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


def hour_of(epoch_ns: int) -> str:
    """Return the hour of a time, as names of segments have it."""
    return time.strftime(_HOUR, time.gmtime(epoch_ns // 10**9))


def list_segments(directory: Path) -> list[Segment]:
    """Return the segments of a trail by number. Raises OSError."""
    return sorted(filter(None, map(Segment.parse, os.listdir(directory))))


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
    """Keep `seal` and `prune` waiting. A copy of a trail may lack the lock, and needs none."""
    if not (directory / _CHANGING).exists():
        yield
        return
    with locked(directory / _CHANGING, shared=True, create=False):
        yield
