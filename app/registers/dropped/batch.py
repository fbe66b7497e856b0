"""The files of one load from the drop directory, and where they go afterwards (D60, D74)."""

import logging
import os
from pathlib import Path
from typing import NamedTuple

from app.errors import Hindered
from app.registers.dropped import kept, uploads
from app.registers.dropped.kept import Warn
from app.registers.dropped.uploads import QUIET
from app.registers.formats import FileFault

_log = logging.getLogger("app.registers.dropped.batch")


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
    def directory(self) -> Path:
        """The directory of the files."""
        return self.drop.joinpath(*self.folders)

    @property
    def folders(self) -> tuple[str, ...]:
        """The path from the drop directory to the files."""
        return () if self.register is None else (self.register,)

    def __str__(self) -> str:
        if self.register is None:
            return str(self.files[0].path)
        return f"{self.directory} ({', '.join(file.path.name for file in self.files)})"

    def require_whole(self) -> None:
        """Raise FileFault if a file has a fault, Hindered if a file may be incomplete after all.

        A load calls this before and after it reads the files.
        """
        if self.fault:
            raise FileFault(self.fault)
        for path in self.changed():
            raise Hindered(f"{path} was changed while it was read")
        for file in self.files:
            if self.wait == QUIET and uploads.is_being_written(file.path):
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


def put_aside(batch: Batch, warn: Warn) -> Path | None:
    """Move the files of a failed batch to `failed/`, unless one of them has changed.

    Returns the path of `failed/`, None if nothing was moved.
    """
    is_moved = _is_unchanged(batch) and _move(batch, kept.FAILED, warn, "not loaded")
    return batch.directory / kept.FAILED if is_moved else None


def _move(batch: Batch, kind: str, warn: Warn, what: str) -> bool:
    """Move the files of a batch and their markers; return whether that succeeded.

    Args:
        kind: LOADED or FAILED.
        what: what happened to the batch, for the warning.
    """
    names = [each.path.name for each in (*batch.files, *batch.markers)]
    try:
        kept.move(batch.drop, batch.folders, kind, names)
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
