"""Keeps the files of past loads in `loaded/` and `failed/` below the drop directory.

Nothing that grows by itself may fill the disk, so both have limits of age and size.

SEC: others can write to the drop directory. No link is followed on the way to a file that is moved
or removed.
"""

import errno
import fcntl
import logging
import os
import re
import stat
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from app import clock
from app.registers.dropped.uploads import MARKER_SUFFIX, marked_name
from app.settings.values import is_register_name
from app.storage.file_lock import make_directory
from app.storage.files import free_bytes_of, read_bytes, replace

LOADED, FAILED = "loaded", "failed"
OURS = (LOADED, FAILED)
"""The directories for files that were loaded and files that failed, beside new files."""
_REMEMBERED = "drop-directory"
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_log = logging.getLogger("verifyd.registers")

Warn = Callable[[str], None]
"""Reports a sentence to the operator."""


class _KeptFile(NamedTuple):
    """A file in `loaded/` or `failed/`."""

    folders: tuple[str, ...]
    """The path from the drop directory to the file's directory."""
    name: str
    since: float
    """When it was moved here, in Unix seconds."""
    size_bytes: int
    """The disk space that it takes."""
    device: int


def is_kept(directory: Path, name: str) -> bool:
    """Tell whether a file is in LOADED or FAILED under its name, or with a number after it.

    If the directory cannot be read, the file counts as there.
    """
    numbered = re.compile(rf"{re.escape(name)}(\.[0-9]+)?")
    try:
        return any(map(numbered.fullmatch, os.listdir(directory)))
    except FileNotFoundError:
        return False
    except OSError:
        return True


def are_there(drop: Path, place: Sequence[str], names: Sequence[str]) -> bool:
    """Tell whether all of these names are in a directory below the drop directory.

    They count as there if that cannot be found out, as on a host without the drop directory.
    """
    try:
        with _opened(drop, place) as directory:
            for name in names:
                os.lstat(name, dir_fd=directory)
    except OSError as error:
        is_gone = error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
        return not (is_gone and drop.is_dir())
    return True


def list_names(drop: Path, place: Sequence[str]) -> list[str]:
    """Return the names in a directory below the drop directory. Raises OSError."""
    with _opened(drop, place) as directory:
        return os.listdir(directory)


def remove(drop: Path, place: Sequence[str], names: Sequence[str]) -> None:
    """Remove files from a directory below the drop directory. Raises OSError."""
    with _opened(drop, place) as directory:
        for name in names:
            os.unlink(name, dir_fd=directory)


def move(
    drop: Path,
    folders: Sequence[str],
    kind: str,
    names: Sequence[str],
    *,
    of: Sequence[str] = (),
    announce: Callable[[Sequence[str]], object] | None = None,
) -> None:
    """Move files and their markers to `loaded/` or `failed/` beside them.

    No file is overwritten: if a name is taken, it gets the next free number, as in `a.csv.1`. The
    modification time of each file becomes the time of the move.

    Args:
        folders: the path from `drop` to the files' directory.
        kind: LOADED or FAILED.
        names: the names of the files, then the names of their markers.
        of: the path from that directory to the files, such as `[FAILED]`; empty if they are in it.
        announce: receives the names that they get. If it raises, nothing is moved.

    Raises OSError if a file cannot be moved. The files before it have been moved then.
    """
    with _opened(drop, folders) as beside, _opened(drop, [*folders, *of]) as source:
        with suppress(FileExistsError):
            os.mkdir(kind, 0o750, dir_fd=beside)
        with _opened(drop, [*folders, kind]) as target:
            # An accepted load moves its files while another process may move others.
            with suppress(OSError):  # Not every file system can lock a directory.
                fcntl.flock(target, fcntl.LOCK_EX)
            there = os.listdir(target)
            numbers: dict[str, str] = {}
            for name in names:
                # The file of a marker may be gone.
                if marked_name(name, names) is None:
                    numbers[name] = _next_number(name, there)
                    # A later file of this load may already be called `a.csv.1`.
                    there.append(f"{name}{numbers[name]}")
            moved = []
            for name in names:
                # A marker gets the number of its file, before its suffix.
                stem = marked_name(name, numbers) or name
                moved.append(f"{name[: len(stem)]}{numbers[stem]}{name[len(stem) :]}")
            if announce is not None:
                announce(moved)
            for name, new in zip(names, moved, strict=True):
                os.rename(name, new, src_dir_fd=source, dst_dir_fd=target)
                with suppress(OSError):  # Only the owner can set the time; see `_since`.
                    os.utime(new, dir_fd=target, follow_symlinks=False)


def prune(
    drop: Path,
    kind: str,
    old: range,
    bytes_max: int,
    warn: Warn,
    spared: Collection[Path] = (),
) -> None:
    """Remove files that are too old, then the oldest ones until the others fit the size limit.

    Args:
        kind: LOADED or FAILED.
        old: the times, in Unix seconds, since which files were kept too long.
        bytes_max: the size limit for all directories of this kind together.
        spared: files that are never removed. They count for the size limit.
    """
    root = drop.resolve()
    kept = sorted(_kept(drop, kind), key=attrgetter("since", "name"))
    total_bytes = sum(each.size_bytes for each in kept)
    for each in kept:
        is_spared = root.joinpath(*each.folders, each.name) in spared
        if not is_spared and (int(each.since) in old or total_bytes > bytes_max):
            _remove(drop, each, warn)
            total_bytes -= each.size_bytes


def make_room(drop: Path, directory: Path, needed_bytes: int, warn: Warn) -> bool:
    """Remove the oldest files of `loaded/` until a directory has room for a load.

    Nothing is removed if there is room already, or if all files together are too small.
    Returns whether files were removed and there is room now.

    Args:
        directory: where the load needs the space.
    """
    kept = _reclaimable(drop, directory)
    missing_bytes = needed_bytes - free_bytes_of(directory)
    if missing_bytes <= 0 or sum(each.size_bytes for each in kept) < missing_bytes:
        return False
    for each in sorted(kept, key=attrgetter("since", "name")):
        if free_bytes_of(directory) >= needed_bytes:
            break
        _remove(drop, each, warn)
    return free_bytes_of(directory) >= needed_bytes


def remember(data_dir: Path, drop: Path) -> None:
    """Store the path of the nightly job's drop directory, for `reclaimable_bytes`.

    If it cannot be stored, no space counts as reclaimable.
    """
    with suppress(OSError):
        if remembered(data_dir) != drop:
            make_directory(data_dir)
            replace(data_dir / _REMEMBERED, os.fsencode(drop))


def reclaimable_bytes(data_dir: Path, directory: Path) -> int:
    """Return how many bytes `make_room` could free in a directory, for the nightly job."""
    with suppress(OSError):
        drop = remembered(data_dir)
        return sum(each.size_bytes for each in _reclaimable(drop, directory)) if drop else 0
    return 0


def remembered(data_dir: Path) -> Path | None:
    """Return the drop directory of the nightly job, None if none is stored."""
    with suppress(FileNotFoundError):
        return Path(os.fsdecode(read_bytes(data_dir / _REMEMBERED)))
    return None


def _reclaimable(drop: Path, directory: Path) -> list[_KeptFile]:
    """Return the loaded files on the same file system as a directory."""
    device = directory.stat().st_dev
    return [each for each in _kept(drop, LOADED) if each.device == device]


def _kept(drop: Path, kind: str) -> Iterator[_KeptFile]:
    """Yield the files in all directories of one kind: LOADED or FAILED."""
    for folders in [(), *((name,) for name in sorted(os.listdir(drop)) if is_register_name(name))]:
        if folders and folders[0] in OURS:
            continue
        place = (*folders, kind)
        with suppress(OSError), _opened(drop, place) as directory:  # It may not exist.
            for name in os.listdir(directory):
                found = os.lstat(name, dir_fd=directory)
                if stat.S_ISREG(found.st_mode):
                    size_bytes = found.st_blocks * 512
                    yield _KeptFile(place, name, _since(found), size_bytes, found.st_dev)


def _since(found: os.stat_result) -> float:
    """Return when a file was moved here, in Unix seconds."""
    # `move` cannot set the modification time of another user's file, so that can be long ago. The
    # status change time is then that of the move.
    is_ours = found.st_uid == os.geteuid()
    return found.st_mtime if is_ours else max(found.st_mtime, found.st_ctime)


def _remove(drop: Path, each: _KeptFile, warn: Warn) -> None:
    """Remove a file, or report that this is not possible."""
    path = drop.joinpath(*each.folders, each.name)
    try:
        with _opened(drop, each.folders) as directory:
            os.unlink(each.name, dir_fd=directory)
    except OSError as error:
        warn(f"{path} cannot be removed: {error.strerror}")
        return
    _log.info("%s: removed; it was kept since %s", path, clock.iso_utc(int(each.since)))


def _next_number(name: str, there: Sequence[str]) -> str:
    """Return the number to append to a name, such as `.1`; empty if the name is free.

    Args:
        there: the names that are taken, including markers.
    """
    numbered = rf"{re.escape(name)}(?:\.([0-9]{{1,9}}))?(?:{MARKER_SUFFIX})?"
    pattern = re.compile(numbered, re.IGNORECASE)
    taken = [int(found[1] or 0) for found in map(pattern.fullmatch, there) if found]
    return f".{max(taken) + 1}" if taken else ""


@contextmanager
def _opened(drop: Path, folders: Sequence[str]) -> Iterator[int]:
    """Open a directory below the drop directory, and yield its descriptor.

    The path to the drop directory itself may have links. Raises OSError if a link comes after it.
    """
    descriptor = os.open(drop, _DIRECTORY & ~os.O_NOFOLLOW)
    try:
        for folder in folders:
            inner = os.open(folder, _DIRECTORY, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = inner
        yield descriptor
    finally:
        os.close(descriptor)
