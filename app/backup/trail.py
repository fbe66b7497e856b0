"""Copies the audit trail into a backup, and puts it back."""

import hashlib
import logging
import os
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from app.audit.chain import Seal, kept_seals_of, pruned_of, readable_lines, seals_of
from app.audit.owner import claim, find_owner
from app.audit.segments import (
    BLOCK_BYTES,
    CHAIN,
    CLOSED_MODE,
    OPEN_MODE,
    OWNER,
    RESTORING,
    SUFFIX,
    Segment,
    list_segments,
    unchanged,
    whole_bytes,
)
from app.backup import manifest
from app.backup.manifest import TRAIL, BackupFile, Manifest
from app.backup.retention import Room
from app.errors import OperatorError
from app.storage.file_lock import make_directory
from app.storage.files import sync

_log = logging.getLogger("verifyd.backup")


def require_trail(trail: Path, database_id: str) -> None:
    """Raise OperatorError unless a directory has the trail of a database."""
    owner = find_owner(trail)
    if owner is None:
        raise OperatorError(f"there is no audit trail in {trail}; leave out --audit")
    if owner.database != database_id:
        raise OperatorError(f"{trail} is the audit trail of another database")


def copy_trail(
    trail: Path, backup: Path, older: Sequence[Path], room: Room
) -> dict[str, BackupFile]:
    """Copy a trail that is written to into a new backup. Return its files by name.

    Records are added meanwhile; `seal` and `prune` wait. A sealed segment that an earlier backup
    holds is linked, not copied: it never changes. The index is left out, because `seal` builds it.

    Args:
        older: the earlier backups of the same database, oldest first.

    Raises OperatorError if there is too little room, and OSError.
    """
    target = backup / TRAIL
    target.mkdir(mode=0o700)
    with unchanged(trail):
        lines = readable_lines(trail)
        pruned = pruned_of(lines)
        seals = {f"{name}{SUFFIX}": seal for name, seal in kept_seals_of(lines).items()}
        files = _linked(seals, target, older)
        names = [each.file_name for each in list_segments(trail) if each.name not in pruned]
        copied = [name for name in [*names, CHAIN] if name not in files]
        copied = [name for name in copied if (trail / name).exists()]
        room.require(trail / name for name in copied)
        for name in copied:
            files[name] = _copy(trail / name, target / name, is_sealed=name in seals)
            if name in seals and files[name].sha256 != seals[name].sha256:
                _log.warning(
                    "%s was changed after it was sealed; the backup has it so", trail / name
                )
    for name in seals.keys() - files.keys():
        _log.warning("%s is missing, so it is not in the backup", trail / name)
    sync(target)
    return files


def _linked(
    seals: Mapping[str, Seal], target: Path, older: Sequence[Path]
) -> dict[str, BackupFile]:
    """Link the segments that the newest earlier backup with a trail holds."""
    for backup in reversed(older):
        with suppress(OperatorError):  # It was removed meanwhile.
            held = manifest.decoded(backup).audit
            if held is not None:
                return {
                    name: held[name]
                    for name, seal in seals.items()
                    if name in held
                    and held[name].sha256 == seal.sha256
                    and _is_linked(backup / TRAIL / name, target / name, held[name].size_bytes)
                }
    return {}


def _is_linked(source: Path, target: Path, size_bytes: int) -> bool:
    """Link a file, and return whether that worked."""
    # Without the file, or on a file system without links, the segment is copied.
    with suppress(OSError):
        found = source.lstat()
        if stat.S_ISREG(found.st_mode) and found.st_size == size_bytes:
            os.link(source, target, follow_symlinks=False)
            return True
    return False


def _copy(source: Path, target: Path, *, is_sealed: bool) -> BackupFile:
    """Copy a file durably; of one that is appended to, the complete lines."""
    digest = hashlib.sha256()
    with open(source, "rb", buffering=0) as reading, open(target, "xb", opener=_private) as writing:
        size_bytes = os.fstat(reading.fileno()).st_size
        if not is_sealed:
            size_bytes = whole_bytes(reading.fileno(), size_bytes)
        remaining = size_bytes
        while remaining and (piece := reading.read(min(BLOCK_BYTES, remaining))):
            digest.update(piece)
            writing.write(piece)
            remaining -= len(piece)
        writing.flush()
        os.fsync(writing.fileno())
        os.fchmod(writing.fileno(), CLOSED_MODE if is_sealed else OPEN_MODE)
    return BackupFile(size_bytes - remaining, digest.hexdigest(), {})


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, OPEN_MODE)


@contextmanager
def staged_trail(
    trail: Path, source: Path, found: Manifest
) -> Iterator[Callable[[], object] | None]:
    """Copy the trail of a checked backup beside its place; yield a function that puts it there.

    Yields None if the backup has no trail, or if one exists: its records after the backup must not
    be lost. What an interrupted restore left is removed first, and so is a copy that was not put in
    place. The function raises OSError.

    Raises OperatorError if the trail cannot be copied.
    """
    if found.audit is None or has_trail(trail):
        yield None
        return
    _remove_staged(trail)
    try:
        try:
            _stage(trail, source / TRAIL, found.audit)
        except OSError as error:
            raise OperatorError(
                f"nothing was restored, because the audit trail cannot be copied to {trail}: "
                f"{error.strerror}"
            ) from error
        yield partial(_put_in_place, trail, found)
    finally:
        _remove_staged(trail)


def _put_in_place(trail: Path, found: Manifest) -> None:
    """Give the files of a staged trail their names. The trail then belongs to this host."""
    for name in sorted(found.audit or ()):
        os.replace(trail / RESTORING / name, trail / name)
    sync(trail)
    (trail / RESTORING).rmdir()
    sync(trail)
    claim(trail, found.database_id)


def has_trail(trail: Path) -> bool:
    """Tell whether a directory has a trail, and not the rest of an interrupted restore."""
    if not trail.is_dir() or (trail / RESTORING).exists():
        return False
    return any((trail / name).exists() for name in (OWNER, CHAIN)) or bool(list_segments(trail))


def _stage(trail: Path, source: Path, names: Mapping[str, BackupFile]) -> None:
    make_directory(trail.parent)
    trail.mkdir(mode=0o700, exist_ok=True)
    staged = trail / RESTORING
    staged.mkdir(mode=0o700)
    sealed = seals_of(readable_lines(source))
    for name in names:
        _copy(source / name, staged / name, is_sealed=name.removesuffix(SUFFIX) in sealed)
    sync(staged)


def _remove_staged(trail: Path) -> None:
    """Remove an incomplete copy, with those of its files that already have their names."""
    staged = trail / RESTORING
    if not staged.exists():
        return
    for path in trail.iterdir():
        if path.name == CHAIN or Segment.parse(path.name):
            path.unlink()
    shutil.rmtree(staged)
