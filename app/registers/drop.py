"""The drop directory: which register files can be loaded, and what becomes of them (D60).

Each file directly in it is a load of its own; the files in a directory below it are one load of
the register of that name. SEC: others than us can write there. Links are not followed, names are
only names, and nothing is removed but the very files that were loaded.
"""

import errno
import logging
import os
import pwd
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from app import clock
from app.config import is_register_name

FAILED = "failed"
"""The directory, beside what is loaded, for files that could not be."""
_PARTIAL = ".part"
_NOT_OURS = ("lost+found",)  # The root of a file system has it.
_WHOLE_AFTER_NS = 60_000_000_000
_log = logging.getLogger(__name__)

Warn = Callable[[str], None]
"""Reports to the operator, in a sentence, what needs a look."""


class File(NamedTuple):
    """A file as it was when it was looked at: a later change is a later `state`."""

    path: Path
    state: tuple[int, ...]

    def is_unchanged(self) -> bool:
        """Tell whether the name still stands for the same file, untouched."""
        try:
            return _state(self.path.lstat()) == self.state
        except FileNotFoundError:
            return False


class Batch(NamedTuple):
    """The files of one load; all of them are whole, and in one directory."""

    directory: Path
    register: str | None
    """The register that the directory is of; None for a file directly in the drop."""
    files: tuple[File, ...]

    def __str__(self) -> str:
        if self.register is None:
            return str(self.files[0].path)
        return f"{self.directory} ({', '.join(file.path.name for file in self.files)})"


def batches(drop: Path, warn: Warn) -> Iterator[Batch]:
    """Yield what can be loaded, each looked at when its turn comes.

    What is still being written, hidden, or put aside is left in silence; anything else that
    cannot be loaded is left, too, and reported to `warn`. Raises OSError if `drop` cannot be read.
    """
    for name in sorted(os.listdir(drop)):
        path = drop / name
        if _is_left(name) or (found := _found(path)) is None:
            continue
        if not stat.S_ISDIR(found.st_mode):
            batch = _batch(drop, None, [name], warn)
        elif name.endswith(_PARTIAL):
            continue
        elif is_register_name(name):
            batch = _register_batch(path, warn)
        else:
            warn(f"{shown(path)}: skipped: its name is not a register name")
            continue
        if batch is not None:
            yield batch


def remove(batch: Batch, warn: Warn) -> None:
    """Remove the files of a batch that was loaded; none of them if one has changed since."""
    if not _is_unchanged(batch):
        return
    for file in batch.files:
        try:
            file.path.unlink()
        except OSError as error:
            warn(f"{file.path}: loaded, but it cannot be removed: {error.strerror}")


def put_aside(batch: Batch, warn: Warn) -> Path | None:
    """Move the files of a batch that failed into FAILED; none of them if one has changed since.

    Nothing that is there already is replaced. Returns the directory, None if nothing was moved.
    """
    if not _is_unchanged(batch):
        return None
    aside = batch.directory / FAILED
    try:
        aside.mkdir(exist_ok=True)
        if aside.is_symlink():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        for file in batch.files:
            file.path.rename(_free_name(aside / file.path.name))
    except OSError as error:
        warn(f"{batch}: not loaded, and cannot be moved to {aside}: {error.strerror}")
        return None
    return aside


def _is_unchanged(batch: Batch) -> bool:
    """Tell whether all files are those that were loaded; one set is loaded again as a whole."""
    changed = [file.path for file in batch.files if not file.is_unchanged()]
    for path in changed:
        _log.info("%s: changed during the load; %s is left for the next run", path, batch)
    return not changed


def shown(path: Path) -> str:
    """Return a path for a person; quoted if it has characters that would not show."""
    text = str(path)
    return text if text.isprintable() else repr(text)


def _register_batch(directory: Path, warn: Warn) -> Batch | None:
    try:
        names = sorted(os.listdir(directory))
    except OSError as error:
        warn(f"{directory}: skipped: {error.strerror}")
        return None
    return _batch(directory, directory.name, names, warn)


def _batch(directory: Path, register: str | None, names: list[str], warn: Warn) -> Batch | None:
    """Return the load of the files of these names, if all are whole and can be loaded."""
    files = []
    for name in names:
        path = directory / name
        found = None if _is_left(name) else _found(path)
        if found is None or (register is not None and stat.S_ISDIR(found.st_mode)):
            continue
        fault = _fault(name, found)
        if fault:
            others = "" if register is None else "; the files beside it are skipped, too"
            warn(f"{shown(path)}: skipped: {fault}{others}")
            return None
        if not _is_whole(name, found):
            _log.info("%s: left for the next run: it is still being written", path)
            return None
        files.append(File(path, _state(found)))
    if files and not os.access(directory, os.W_OK | os.X_OK):
        # What cannot be removed would be loaded every night again.
        warn(f"{directory}: skipped: the user {_user()} must be able to write to {directory}")
        return None
    return Batch(directory, register, tuple(files)) if files else None


def _fault(name: str, found: os.stat_result) -> str:
    """Return why a file cannot be loaded, or nothing."""
    if not stat.S_ISREG(found.st_mode):
        return "it is not a regular file"
    if not name.isprintable():
        # The history of loads, and whoever reads the log, could not tell it apart.
        return "its name has control characters, or is not UTF-8"
    return ""


def _is_whole(name: str, found: os.stat_result) -> bool:
    # NOTE: a time to come is that of another clock, which the file was copied with.
    is_quiet = abs(clock.now_ns() - found.st_mtime_ns) >= _WHOLE_AFTER_NS
    return is_quiet and not name.endswith(_PARTIAL)


def _is_left(name: str) -> bool:
    """Tell whether a name is nothing to load: hidden, or one of our own directories."""
    return name.startswith(".") or name in (FAILED, *_NOT_OURS)


def _found(path: Path) -> os.stat_result | None:
    try:
        return path.lstat()
    except FileNotFoundError:  # It has just gone.
        return None


def _state(found: os.stat_result) -> tuple[int, ...]:
    # NOTE: the time of the last change of state, because a copy can bring the other with it.
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def _user() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def _free_name(path: Path) -> Path:
    """Return a path that nothing has yet: with the suffix .1, .2 and so on if it is taken."""
    free, number = path, 0
    while os.path.lexists(free):
        number += 1
        free = path.with_name(f"{path.name}.{number}")
    return free
