"""Finds the register files in the drop directory that can be loaded (D60).

Each file directly in it is a load of its own. The files in a directory below it are one load of
the register of that name. SEC: others can write there. Links are not followed, and names are only
names.
"""

import logging
import os
import pwd
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from app import clock
from app.registers.dropped import kept, uploads
from app.registers.dropped.batch import Batch, File, state_of
from app.registers.dropped.kept import Warn
from app.registers.dropped.uploads import upload_of
from app.registers.reading.dated_names import in_order_of_dates, is_dated
from app.setting_values import is_register_name

_PARTIAL = ".part"
_NOT_OURS = ("lost+found",)  # The root of a file system has it.
_PATIENCE_NS = 86_400_000_000_000
_log = logging.getLogger(__name__)


def batches(drop: Path, wait: str, warn: Warn) -> Iterator[Batch]:
    """Yield the loads, and look at the files of each only when its turn comes.

    Files of the DVSA, whose names have a date, come in the order of their dates. While one of them
    is still there, no later one is loaded: an older delta must not be applied after a newer one.

    Files that are still being uploaded are left, and reported to `warn` after a day. Hidden files
    and our own directories are left. Anything else that cannot be loaded is left and reported.

    Args:
        wait: how to tell that a file is complete, a value of `VERIFYD_DROP_WAIT` (D73).

    Raises OSError if `drop` cannot be read.
    """
    finder = _Finder(drop, wait, warn)
    left = ""
    for name in _in_order(os.listdir(drop)):
        path = drop / name
        found = None if _is_left(name) else _found(path)
        if found is None:
            continue
        if left and _is_dated(name):
            finder.wait_for(path, found, f"{left} must be loaded before it, and is still there")
            continue
        batch = finder.find(name, found)
        if batch is not None:
            yield batch
        if _is_dated(name) and os.path.lexists(path):
            left = name


def shown(path: Path) -> str:
    """Return a path for messages; quoted if it has characters that would not show."""
    text = str(path)
    return text if text.isprintable() else repr(text)


class _Finder:
    """Finds the files that can be loaded, and reports those that cannot."""

    def __init__(self, drop: Path, wait: str, warn: Warn) -> None:
        self._drop = drop
        self._wait = wait
        self._warn = warn

    def find(self, name: str, found: os.stat_result) -> Batch | None:
        """Return the load of a file or directory in the drop directory, if it can be loaded."""
        path = self._drop / name
        if not stat.S_ISDIR(found.st_mode):
            return self.batch(None, [name])
        if name.endswith(_PARTIAL):
            self.wait_for(path, found, "its name ends in .part")
        elif is_register_name(name):
            return self.register_batch(name)
        else:
            self._warn(f"{shown(path)}: skipped: its name is not a register name")
        return None

    def register_batch(self, register: str) -> Batch | None:
        """Return the load of the files in a register's directory, if they can be loaded."""
        directory = self._drop / register
        try:
            names = sorted(os.listdir(directory))
        except OSError as error:
            self._warn(f"{directory}: skipped: {error.strerror}")
            return None
        return self.batch(register, names)

    def batch(self, register: str | None, names: Sequence[str]) -> Batch | None:
        """Return the load of files by their names, if all are complete and can be loaded."""
        directory = self._drop if register is None else self._drop / register
        files, markers, fault = [], [], ""
        for name in names:
            path = directory / name
            found = None if _is_left(name) else _found(path)
            if found is None or (register is not None and stat.S_ISDIR(found.st_mode)):
                continue
            if uploads.is_marker(name):
                self._look_at_marker(path, found)
                continue
            refusal = _refusal(name, found)
            if refusal:
                others = "" if register is None else "; the files beside it are skipped, too"
                self._warn(f"{shown(path)}: skipped: {refusal}{others}")
                return None
            upload = self._upload_of(path, found)
            if upload.waits_for:
                self.wait_for(path, found, upload.waits_for)
                return None
            fault = fault or (upload.fault and f"{name}: {upload.fault}")
            files.append(File(path, state_of(found)))
            markers += [File(each, state_of(state)) for each, state in upload.markers.items()]
        if files and not os.access(directory, os.W_OK | os.X_OK):
            # Files that cannot be moved would be loaded again every night.
            must = f"the user {_user()} must be able to write to {directory}"
            self._warn(f"{directory}: skipped: {must}")
            return None
        whole = Batch(self._drop, register, tuple(files), tuple(markers), self._wait, fault)
        return whole if files else None

    def _upload_of(self, path: Path, found: os.stat_result) -> uploads.Upload:
        if path.name.endswith(_PARTIAL):
            return uploads.Upload({}, "its name ends in .part")
        try:
            return upload_of(path, found, self._wait)
        except OSError as error:
            return uploads.Upload({}, f"it cannot be compared with its checksum: {error.strerror}")

    def wait_for(self, path: Path, found: os.stat_result, reason: str) -> None:
        """Leave an incomplete file for the next run; report it if it has waited for a day."""
        since_ns = uploads.changed_at_ns(found)
        if clock.now_ns() - since_ns < _PATIENCE_NS:
            _log.info("%s: left for the next run: %s", shown(path), reason)
            return
        since = clock.iso_utc(since_ns // 1_000_000_000)
        self._warn(f"{shown(path)}: still waiting, unchanged since {since}: {reason}")

    def _look_at_marker(self, marker: Path, found: os.stat_result) -> None:
        """Report a marker whose file is missing."""
        if not os.path.lexists(marker.with_name(uploads.marked(marker.name))):
            self.wait_for(marker, found, "the file that it belongs to is missing")


def _in_order(names: Iterable[str]) -> list[str]:
    """Return names in the order of loading: sorted, but those with a date by their dates."""
    names = sorted(names)
    dated = iter(in_order_of_dates(list(filter(_is_dated, names)), str))
    return [next(dated) if _is_dated(name) else name for name in names]


def _is_dated(name: str) -> bool:
    """Tell whether a file must be loaded after those of earlier dates."""
    return is_dated(name) and not uploads.is_marker(name)


def _refusal(name: str, found: os.stat_result) -> str:
    """Return why a file cannot be loaded, or nothing."""
    if not stat.S_ISREG(found.st_mode):
        return "it is not a regular file"
    if not name.isprintable():
        # It could not be told apart in the history and in the log.
        return "its name has control characters, or is not UTF-8"
    return ""


def _is_left(name: str) -> bool:
    """Tell whether a name is never loaded: hidden, or one of our own directories."""
    return name.startswith(".") or name in (*kept.OURS, *_NOT_OURS)


def _found(path: Path) -> os.stat_result | None:
    try:
        return path.lstat()
    except FileNotFoundError:  # It has just been removed.
        return None


def _user() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())
