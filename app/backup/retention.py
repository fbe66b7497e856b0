"""Removes old backups: those above the limits, and those whose space a new one needs."""

import logging
import os
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from app.backup import manifest
from app.errors import OperatorError
from app.storage.files import free_bytes_of, size_text

PARTIAL = ".partial"
"""The suffix of directories that are not backups yet, or no longer."""
_log = logging.getLogger("verifyd.backup")


class Limits(NamedTuple):
    """How many backups of a database are kept after a new one was taken."""

    number: int
    """Including the new one."""
    size_bytes: int
    """The oldest are removed until all together are smaller. The new one always stays."""


class Room(NamedTuple):
    """The disk space for a backup. The service may need space on the same disk."""

    directory: Path
    expendable: Sequence[Path]
    """Older backups that may be removed for it, oldest first."""

    def require(self, sources: Iterable[Path]) -> None:
        """Make room for copies if needed. Raises OperatorError if there is too little."""
        needed_bytes = sum(source.stat().st_size for source in sources)
        there = [path for path in self.expendable if path.exists()]
        if free_bytes_of(self.directory) + _freed_bytes(there) < needed_bytes:
            raise OperatorError(
                f"the backup needs {size_text(needed_bytes)} in {self.directory.parent}, and "
                f"{size_text(free_bytes_of(self.directory))} are free: make room there"
            )
        for path in there:
            if free_bytes_of(self.directory) < needed_bytes and _try_remove(path):
                _log.warning("%s: removed, because the disk had no room for a new backup", path)


def prune(older: Sequence[Path], newest: Path, limits: Limits) -> None:
    """Remove the oldest backups of a database until the rest is within the limits.

    Backups that cannot be removed are logged and skipped.

    Args:
        older: oldest first.
        newest: always stays.
    """
    counted: set[int] = set()
    size_bytes = _added_bytes(newest, counted)
    if size_bytes > limits.size_bytes:
        _log.warning("%s is larger than VERIFYD_BACKUP_LIMIT: it is the only backup kept", newest)
    surplus = []
    for number, path in enumerate(filter(Path.exists, reversed(older)), start=2):
        size_bytes += _added_bytes(path, counted)
        if number > limits.number or size_bytes > limits.size_bytes:
            surplus.append(path)
    for path in reversed(surplus):
        _try_remove(path)


def _added_bytes(backup: Path, counted: set[int]) -> int:
    """Return the disk space of a backup, without files that other backups share with it.

    Args:
        counted: the inodes of files that were counted before; those of the backup are added.
    """
    new = {
        file.st_ino: file.st_blocks * 512 for file in _files(backup) if file.st_ino not in counted
    }
    counted.update(new)
    return sum(new.values())


def _freed_bytes(backups: Sequence[Path]) -> int:
    """Return the disk space that the removal of backups frees, without files that others share."""
    files = [file for backup in backups for file in _files(backup)]
    links = Counter(file.st_ino for file in files)
    blocks = {file.st_ino: file.st_blocks for file in files if links[file.st_ino] == file.st_nlink}
    return sum(blocks.values()) * 512


def _files(backup: Path) -> Iterator[os.stat_result]:
    for directory, _, names in os.walk(backup):
        yield from (os.lstat(os.path.join(directory, name)) for name in names)


def list_own(destination: Path, database: str) -> list[Path]:
    """Return the backups of a database, oldest first.

    Backups that cannot be read are logged and left out.
    """
    return [path for path in manifest.list_backups(destination) if _is_of(path, database)]


def _is_of(backup: Path, database: str) -> bool:
    try:
        return manifest.decoded(backup).database_id == database
    except OperatorError as error:
        _log.warning("%s; this backup is left alone: repair or remove it by hand", error)
        return False


def is_gone(backup: Path) -> bool:
    """Tell whether a backup was removed completely."""
    return not backup.exists() and not _removed_name(backup).exists()


def _try_remove(backup: Path) -> bool:
    """Remove a backup, and return whether nothing of it is left. If that fails, log it."""
    # Under this name it is no longer a backup. If its removal fails, the next one removes it.
    partial = _removed_name(backup)
    try:
        backup.rename(partial)
    except OSError as error:
        _log.warning("%s cannot be removed: %s", backup, error)
        return False
    remove_partial(partial)
    return not partial.exists()


def _removed_name(backup: Path) -> Path:
    return backup.with_name(f".{backup.name}.removed{PARTIAL}")


def remove_partial(partial: Path) -> None:
    """Remove the rest of a backup; log it if that fails."""
    try:
        shutil.rmtree(partial)
    except OSError as error:
        _log.warning("%s cannot be removed: %s", partial, error)
