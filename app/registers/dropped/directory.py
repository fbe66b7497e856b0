"""Finds the register files in the drop directory that can be loaded, and puts them away (D60).

Each file in the drop directory itself is a load of its own. The files in a directory below it are
one load of the register with that name.

SEC: others can write to the drop directory. Links are not followed, and no name is read as an
option.
"""

import logging
import os
import re
import shlex
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from app import clock
from app.errors import Hindered
from app.registers.dropped import kept
from app.registers.dropped.kept import Warn
from app.registers.dropped.uploads import (
    QUIET,
    Upload,
    changed_at_ns,
    is_being_written,
    is_marker,
    lstat_if_exists,
    marked_name,
    upload_of,
)
from app.registers.formats import FileFault
from app.registers.reading.sources import date_of, sorted_by_date
from app.settings.values import REGISTER_NAME_RULE, is_register_name
from app.storage.file_lock import user_name

_PARTIAL = (
    ".part",
    ".filepart",  # WinSCP
    ".partial",  # rclone
    ".part.minio",
    ".crdownload",  # Chromium
    ".download",
    ".tmp",
    ".temp",
    ".upload",
    ".uploading",
    ".incomplete",
    ".swp",
    "~",
)
"""The ends of names by which programs say that a file is not complete. Case does not matter."""
_OF_S3 = re.compile(r"\.\w+(\.(?=[0-9]*[a-f])[0-9a-f]{8})\Z", re.IGNORECASE)
"""What boto3 adds to the name of a file that it loads. Eight digits alone may be a date."""
_OF_SYSTEMS = {
    "lost+found",  # At the root of a file system.
    "@eadir",  # Synology
    "#recycle",
    "$recycle.bin",  # Windows
    "system volume information",
    "thumbs.db",
    "desktop.ini",
}
"""Names in lower case that systems and file servers put everywhere. Those of others are hidden."""
_SILENT_NS = 86_400_000_000_000
"""How long a file may wait before the operator is warned: a day."""
_log = logging.getLogger("verifyd.registers")


class File(NamedTuple):
    """A file and its state when it was found."""

    path: Path
    state: tuple[int, ...]
    """The values of `state_of`."""

    def is_unchanged(self) -> bool:
        """Tell whether the path still leads to the same file, unchanged."""
        try:
            return state_of(self.path.lstat()) == self.state
        except FileNotFoundError:
            return False


class Batch(NamedTuple):
    """The files of one load: all in one directory, and all complete."""

    drop: Path
    """The drop directory."""
    register: str | None
    """The register that the files' directory is named after; None in the drop directory itself."""
    files: tuple[File, ...]
    markers: tuple[File, ...]
    wait: str
    """How to tell that a file is complete, a value of `VERIFYD_DROP_WAIT`."""
    fault: str = ""
    """Why one of the files cannot be loaded; empty if all can."""

    @property
    def names(self) -> list[str]:
        """The names of the files, without those of markers."""
        return [file.path.name for file in self.files]

    @property
    def directory(self) -> Path:
        return self.drop.joinpath(*self.folders)

    @property
    def folders(self) -> tuple[str, ...]:
        """The path from the drop directory to the files."""
        return () if self.register is None else (self.register,)

    def __str__(self) -> str:
        if self.register is None:
            return str(self.files[0].path)
        return f"{self.directory} ({', '.join(self.names)})"

    def require_whole(self) -> None:
        """Raise FileFault if a file has a fault, Hindered if a file may be incomplete after all.

        A load calls this before and after it reads the files.
        """
        if self.fault:
            raise FileFault(self.fault)
        for path in self.changed():
            raise Hindered(f"{path} was changed while it was read")
        for file in self.files:
            if self.wait == QUIET and is_being_written(file.path):
                raise Hindered(f"{file.path}: a process has it open for writing")

    def changed(self) -> list[Path]:
        """Return the files and markers that have changed since they were found."""
        return [each.path for each in (*self.files, *self.markers) if not each.is_unchanged()]


def keep(batch: Batch, warn: Warn) -> None:
    """Move the files of a loaded batch to `loaded/`, unless one of them has changed."""
    if _is_unchanged(batch):
        _move(batch, kept.LOADED, warn, "loaded")


def remove(batch: Batch, warn: Warn) -> None:
    """Remove the files of a loaded batch, unless one of them has changed."""
    if not _is_unchanged(batch):
        return
    for file in (*batch.files, *batch.markers):
        try:
            file.path.unlink()
        except OSError as error:
            warn(f"{file.path}: loaded, but it cannot be removed: {error.strerror}")


def put_aside(batch: Batch, warn: Warn, **options: Any) -> Path | None:
    """Move the files of a failed batch to `failed/`, unless one of them has changed.

    Takes the further options of `kept.move`, and raises what `announce` raises but OSError.
    Returns the path of `failed/`, None if nothing was moved.
    """
    is_moved = _is_unchanged(batch) and _move(batch, kept.FAILED, warn, "not loaded", **options)
    return batch.directory / kept.FAILED if is_moved else None


def _move(batch: Batch, kind: str, warn: Warn, what: str, **options: Any) -> bool:
    """Move the files of a batch and their markers; return whether that succeeded.

    Args:
        kind: LOADED or FAILED.
        what: what happened to the batch, for the warning.
    """
    names = [each.path.name for each in (*batch.files, *batch.markers)]
    try:
        kept.move(batch.drop, batch.folders, kind, names, **options)
    except OSError as error:
        aside = batch.directory / kind
        warn(f"{batch}: {what}, and cannot be moved to {aside}: {error.strerror}")
        return False
    return True


def _is_unchanged(batch: Batch) -> bool:
    """Tell whether no file has changed; log which ones have: the next run loads the batch again."""
    changed = batch.changed()
    for path in changed:
        _log.info("%s: changed during the load; %s is left for the next run", path, batch)
    return not changed


def state_of(found: os.stat_result) -> tuple[int, ...]:
    """Return values of a file; whenever the file changes, at least one of them does."""
    # NOTE: the status change time is among them, because a copy can set the modification time.
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def batches(drop: Path, wait: str, warn: Warn) -> Iterator[Batch]:
    """Yield the batches to load. The files of each are examined only when it is their turn.

    DVSA files have a date in their names and come in the order of these dates. While one of them is
    still in the directory, no later one is loaded: an older delta must not be applied after a newer
    one.

    Incomplete files stay, and are reported after a day. Hidden files and our own directories are
    ignored. Everything else that cannot be loaded stays and is reported.

    Args:
        wait: how to tell that a file is complete, a value of `VERIFYD_DROP_WAIT`.
        warn: receives the reports.

    Raises OSError if `drop` cannot be read.
    """
    finder = _Finder(drop, wait, warn)
    blocking = ""
    for name in _in_order(os.listdir(drop)):
        path = drop / name
        if _is_ignored(name):
            continue
        found = lstat_if_exists(path)
        if found is None:
            # Perhaps its upload has just ended, and its new name was not listed.
            blocking = blocking or (name if _is_dated(name) else "")
            continue
        if blocking and _is_dated(name):
            finder.postpone(path, found, f"{blocking} must be loaded before it, and is still there")
            continue
        batch = finder.find(name, found)
        if batch is not None:
            yield batch
        if _is_dated(name) and os.path.lexists(path):
            blocking = name


def shown(path: Path) -> str:
    """Return a path for messages, quoted if it contains unprintable characters."""
    text = str(path)
    return text if text.isprintable() else repr(text)


class _Finder:
    """Makes batches of the files that can be loaded, and reports the other files."""

    def __init__(self, drop: Path, wait: str, warn: Warn) -> None:
        self._drop = drop
        self._wait = wait
        self._warn = warn

    def find(self, name: str, found: os.stat_result) -> Batch | None:
        """Return the batch of a file or directory in the drop directory, None if it must stay."""
        path = self._drop / name
        if not stat.S_ISDIR(found.st_mode):
            return self._batch(None, [name])
        if partial := _partial_end(name):
            self.postpone(path, found, f"its name ends in {partial}")
        elif not is_register_name(name):
            self._warn(
                f"{shown(path)}: skipped: its name is not a register name, which has "
                f"{REGISTER_NAME_RULE}"
            )
        else:
            try:
                return self._batch(name, sorted(os.listdir(path)))
            except OSError as error:
                self._warn(f"{path}: skipped: {error.strerror}")
        return None

    def _batch(self, register: str | None, names: Sequence[str]) -> Batch | None:
        """Return the batch of these files, None if one of them cannot be loaded yet."""
        directory = self._drop if register is None else self._drop / register
        # A marker may have come since the directory was listed.
        beside = os.listdir(directory)
        files, markers, fault, owners = [], [], "", {}
        for name in names:
            path = directory / name
            if _is_ignored(name):
                continue
            found = lstat_if_exists(path)
            if found is None:
                # Perhaps its upload has just ended, and its rows belong to this load.
                _log.info("%s: renamed or removed; %s waits for the next run", path, directory)
                return None
            if register is not None and stat.S_ISDIR(found.st_mode):
                continue
            if is_marker(name):
                if marked_name(name, beside) is None:
                    self.postpone(path, found, "the file that it belongs to is missing")
                continue
            upload = self._find_upload(path, found, beside, is_alone=register is None)
            if upload is None:
                return None
            fault = fault or (upload.fault and f"{name}: {upload.fault}")
            files.append(File(path, state_of(found)))
            markers += [File(each, state_of(state)) for each, state in upload.markers.items()]
            owners[path] = found.st_uid
            owners |= {each: state.st_uid for each, state in upload.markers.items()}
        if not files:
            return None
        if hindrance := _why_immovable(directory, owners):
            self._warn(f"{directory}: skipped: {hindrance}")
            return None
        return Batch(self._drop, register, tuple(files), tuple(markers), self._wait, fault)

    def _find_upload(
        self, path: Path, found: os.stat_result, beside: Sequence[str], *, is_alone: bool
    ) -> Upload | None:
        """Return the upload of a complete file; report any other file, and return None.

        Args:
            beside: the names in its directory.
            is_alone: whether the load has no other files.
        """
        refusal = ""
        if not stat.S_ISREG(found.st_mode):
            refusal = "it is not a regular file"
        elif not path.name.isprintable():
            # The history and the log could not show which file it is.
            refusal = "its name has control characters, or is not UTF-8"
        if refusal:
            others = "" if is_alone else "; the files beside it are skipped, too"
            self._warn(f"{shown(path)}: skipped: {refusal}{others}")
            return None
        if partial := _partial_end(path.name):
            upload = Upload({}, f"its name ends in {partial}")
        else:
            try:
                upload = upload_of(path, found, self._wait, beside)
            except OSError as error:
                upload = Upload({}, f"it cannot be compared with its checksum: {error.strerror}")
        if upload.waits_for:
            self.postpone(path, found, upload.waits_for, is_overdue=upload.is_overdue)
            return None
        return upload

    def postpone(
        self, path: Path, found: os.stat_result, reason: str, *, is_overdue: bool = False
    ) -> None:
        """Log that a file stays for the next run; report it if it has not changed for a day.

        What is overdue is reported at once.
        """
        since_ns = changed_at_ns(found)
        if clock.now_ns() - since_ns < _SILENT_NS and not is_overdue:
            _log.info("%s: left for the next run: %s", shown(path), reason)
            return
        since = clock.iso_utc(since_ns // 1_000_000_000)
        self._warn(f"{shown(path)}: still waiting, unchanged since {since}: {reason}")


def _why_immovable(directory: Path, owners: Mapping[Path, int]) -> str:
    """Return why files cannot be moved out of their directory; empty if they can.

    Files that cannot be moved after their load would be loaded again every night.

    Args:
        owners: the number of the user that owns each file.
    """
    if not os.access(directory, os.W_OK | os.X_OK):
        return f"the user {user_name()} must be able to write to {directory}"
    found, user = directory.stat(), os.geteuid()
    aside = directory / kept.LOADED
    there = lstat_if_exists(aside)
    if there and not (
        stat.S_ISDIR(there.st_mode)
        and there.st_dev == found.st_dev
        and os.access(aside, os.W_OK | os.X_OK)
    ):
        return (
            f"its files cannot be moved to {aside}: that must be a directory on the same file "
            f"system, and the user {user_name()} must be able to write to it"
        )
    if not found.st_mode & stat.S_ISVTX or user in (0, found.st_uid):
        return ""
    for path, owner in owners.items():
        if owner != user:
            return (
                f"only its owner can move {path.name} out of a directory with the sticky bit; "
                f"run chmod -t {shlex.quote(str(directory))}, or make {user_name()} its owner"
            )
    return ""


def _partial_end(name: str) -> str:
    """Return the end of a name that says that the file is not complete; empty if none does."""
    if temporary := _OF_S3.search(name):
        return temporary[1]
    return next((end for end in _PARTIAL if name.lower().endswith(end)), "")


def _in_order(names: Iterable[str]) -> list[str]:
    """Return names in the order of loading: by name, but DVSA files by date among themselves."""
    names = sorted(names)
    dated = iter(sorted_by_date(list(filter(_is_dated, names)), str))
    return [next(dated) if _is_dated(name) else name for name in names]


def _is_dated(name: str) -> bool:
    """Tell whether a name has a DVSA date, so that files of earlier dates must be loaded first."""
    return date_of(name) is not None and not is_marker(name)


def _is_ignored(name: str) -> bool:
    """Tell whether a name is hidden, or belongs to a directory without uploads."""
    # Office keeps `~$NAME` beside a file that somebody has open.
    return name.startswith((".", "~$")) or name in kept.OURS or name.lower() in _OF_SYSTEMS
