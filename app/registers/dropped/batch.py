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

_log = logging.getLogger(__name__)


class File(NamedTuple):
    """A file, and its state when it was found: any change gives it another `state`."""

    path: Path
    state: tuple[int, ...]

    def is_unchanged(self) -> bool:
        """Tell whether the name is still that of the same file, unchanged."""
        try:
            return state_of(self.path.lstat()) == self.state
        except FileNotFoundError:
            return False


class Batch(NamedTuple):
    """The files of one load: all of them complete, and in one directory."""

    drop: Path
    register: str | None
    """The register whose directory it is; None for a file directly in the drop directory."""
    files: tuple[File, ...]
    markers: tuple[File, ...]
    wait: str
    fault: str = ""
    """Why one of the files cannot be loaded as it is."""

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
        """Raise FileFault if a file has a fault, Hindered if one may be incomplete after all.

        A load calls this before it reads the files, and again afterwards.
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
    """Move the files of a loaded batch into `loaded/`; none of them if one has changed."""
    if _is_unchanged(batch):
        _move(batch, kept.LOADED, warn, "loaded")


def remove(batch: Batch, warn: Warn) -> None:
    """Remove the files of a loaded batch; none of them if one has changed."""
    if not _is_unchanged(batch):
        return
    for file in (*batch.files, *batch.markers):
        try:
            file.path.unlink()
        except OSError as error:
            warn(f"{file.path}: loaded, but it cannot be removed: {error.strerror}")


def put_aside(batch: Batch, warn: Warn) -> Path | None:
    """Move the files of a failed batch into `failed/`; none of them if one has changed.

    Returns that directory, None if nothing was moved.
    """
    is_moved = _is_unchanged(batch) and _move(batch, kept.FAILED, warn, "not loaded")
    return batch.directory / kept.FAILED if is_moved else None


def _move(batch: Batch, kind: str, warn: Warn, what: str) -> bool:
    names = [each.path.name for each in (*batch.files, *batch.markers)]
    try:
        kept.move(batch.drop, batch.folders, kind, names)
    except OSError as error:
        aside = batch.directory / kind
        warn(f"{batch}: {what}, and cannot be moved to {aside}: {error.strerror}")
        return False
    return True


def _is_unchanged(batch: Batch) -> bool:
    """Tell whether no file has changed; otherwise all of them are loaded again."""
    changed = batch.changed()
    for path in changed:
        _log.info("%s: changed during the load; %s is left for the next run", path, batch)
    return not changed


def state_of(found: os.stat_result) -> tuple[int, ...]:
    """Return values of which at least one changes whenever the file does."""
    # NOTE: with the time of the last status change, because a copy can set the other time.
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
