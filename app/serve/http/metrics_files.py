"""What workers have counted, in files: one directory per master, one file per worker.

`/metrics` adds the files up. The counts of ended workers are added to one file, so that the number
of files does not grow.
"""

import logging
import os
import shutil
from collections.abc import Collection
from operator import add
from pathlib import Path
from typing import Final

import msgspec

from app.storage.file_lock import locked, make_directory, tried
from app.storage.files import read_bytes

SECONDS_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)
"""The upper bounds of the buckets of request times; the last bucket has none."""
_NOT_TIMED: Final = (0.0,) * (len(SECONDS_BUCKETS) + 2)
_ENDED = 0  # No process has this number.
_SUFFIX = ".counts"
_LOCK = "lock"
_log = logging.getLogger("verifyd.metrics")


class RequestCounts(msgspec.Struct):
    """What workers have counted."""

    seconds: dict[tuple[str, int], list[float]] = {}
    """By route and status: the sum of the seconds, then the number of requests in each bucket."""
    limited: dict[tuple[str, str], int] = {}
    """Charged requests, by plan and outcome."""
    authentication_failures: int = 0
    database_errors: int = 0
    dropped_log_lines: int = 0

    def timed(self, route: str, status: int) -> list[float]:
        """Return the times of a route and status, to be added to."""
        times = self.seconds.get((route, status))
        if times is None:
            times = self.seconds[route, status] = list(_NOT_TIMED)
        return times

    def add(self, other: "RequestCounts") -> None:
        """Add what others have counted."""
        for labels, numbers in other.seconds.items():
            self.seconds[labels] = list(map(add, self.timed(*labels), numbers))
        for names, number in other.limited.items():
            self.limited[names] = self.limited.get(names, 0) + number
        self.authentication_failures += other.authentication_failures
        self.database_errors += other.database_errors
        self.dropped_log_lines += other.dropped_log_lines


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(RequestCounts).decode
_own: Path | None = None
"""The directory of this process, or of the master that it was forked from."""


def prepare(state_dir: Path) -> None:
    """Create an empty directory for this master and its workers; remove those of ended masters.

    Raises OSError.
    """
    global _own  # noqa: PLW0603 - workers are forked after it
    parent = state_dir / "metrics"
    for old in parent.glob("*"):
        if old.name == str(os.getpid()) or not Path("/proc", old.name).is_dir():
            shutil.rmtree(old, ignore_errors=True)
    _own = parent / str(os.getpid())
    _make(_own)


def remove() -> None:
    """Remove the directory of this master when it ends."""
    if _own is not None and _own.name == str(os.getpid()):
        shutil.rmtree(_own, ignore_errors=True)


def write(counts: RequestCounts) -> None:
    """Write what this worker has counted, if it has a master.

    Raises OSError; then what was written before stays.
    """
    if _own is not None:
        # The directory can have been removed, as all of /run is in some containers.
        _make(_own)
        _replace(_file_of(_own, os.getpid()), counts)


def left() -> RequestCounts:
    """Return what an ended worker with the number of this one left, if it was not yet folded.

    Raises OSError if it left nothing; or msgspec.MsgspecError if the file is damaged.
    """
    return RequestCounts() if _own is None else _decode(read_bytes(_file_of(_own, os.getpid())))


def total(counts: RequestCounts) -> RequestCounts:
    """Return what all workers have written.

    Without a master, or on a full disk from which the directory was removed, that is nothing:
    then it is what this process has counted.

    Raises OSError; or msgspec.MsgspecError if a file is damaged.
    """
    if _own is None or not (_own / _LOCK).exists():
        return counts
    added = RequestCounts()
    # `fold` must not run meanwhile, or something would be counted twice.
    with locked(_own / _LOCK, shared=True, create=False):
        for path in _own.glob(f"*{_SUFFIX}"):
            added.add(_decode(read_bytes(path)))
    return added


def fold(living: Collection[int]) -> None:
    """Add the counts of ended workers to those of earlier ones, and remove their files.

    The master calls this and must survive it: a failure is logged, and the next call tries again.
    """
    if _own is None:
        return
    try:
        with tried(_own / _LOCK, create=False) as is_locked:
            # Otherwise a worker is reading, and the files stay until the next worker ends.
            if is_locked:
                _fold(_own, living)
    except Exception as error:
        _log.warning(
            "counts of an ended worker cannot be added: %s: %s", type(error).__name__, error
        )


def _fold(own: Path, living: Collection[int]) -> None:
    total_file = _file_of(own, _ENDED)
    ended = [each for each in own.glob(f"*{_SUFFIX}") if int(each.stem) not in living]
    added = RequestCounts()
    for path in ended:
        try:
            added.add(_decode(read_bytes(path)))
        except msgspec.MsgspecError as error:
            # If the file stayed, /metrics would fail.
            _log.warning("%s is damaged, and its counts are lost: %s", path, error)
    _replace(total_file, added)
    for path in ended:
        if path != total_file:
            path.unlink(missing_ok=True)


def _make(own: Path) -> None:
    make_directory(own)
    (own / _LOCK).touch(0o600)


def _file_of(own: Path, pid: int) -> Path:
    return own / f"{pid}{_SUFFIX}"


def _replace(path: Path, counts: RequestCounts) -> None:
    """Write a file at once or not at all; after a crash of the host nobody needs it."""
    new = path.with_suffix(".new")
    try:
        new.touch(0o600)
        new.write_bytes(_encode(counts))
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)
