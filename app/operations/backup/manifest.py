"""What a backup says of itself: `manifest.json`, written last, without which it is none."""

import hashlib
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec

from app.errors import OperatorError
from app.storage.files import sync

FILE_NAME = "manifest.json"
MAIN = "main"
"""The main database's file, without its suffix."""
_CHUNK_BYTES = 1 << 20
# SEC: names come from a file; they must not lead out of the backup.
_NAMES = {
    "sqlite": re.compile(r"(main|register_[a-z][a-z0-9_]*\.[0-9]+)\.db\Z"),
    "postgres": re.compile(r"main\.dump\Z"),
}


class BackupFile(msgspec.Struct, frozen=True):
    """One file of a backup, and the rows of each table that is in it."""

    size_bytes: int
    sha256: str
    rows: dict[str, int]


class Manifest(msgspec.Struct, frozen=True):
    """What is in a backup, from which database, and by which program."""

    engine: Literal["sqlite", "postgres"]
    taken_at: str
    version: str
    commit: str | None
    database_id: str
    schema: int
    oldest_program: int
    """The oldest schema of a program that may use it (D29)."""
    registers: list[str] | None
    """Registers that are in it; None if they were not asked for."""
    files: dict[str, BackupFile]
    has_all_registers: bool = True
    """Whether `registers`, unless that is None, are all that there were."""

    def has_register(self, name: str) -> bool:
        """Tell whether a register is in it."""
        return self.registers is not None and name in self.registers


def described(path: Path, rows: dict[str, int]) -> BackupFile:
    """Return the entry of a file, which is on the disk for good by then."""
    with path.open("rb") as stream:
        os.fsync(stream.fileno())
    return BackupFile(path.stat().st_size, _sha256(path), rows)


def write(directory: Path, manifest: Manifest) -> None:
    """Write the manifest into a backup that is complete otherwise."""
    path = directory / FILE_NAME
    path.write_bytes(msgspec.json.format(msgspec.json.encode(manifest)) + b"\n")
    for synced in (path, directory):
        sync(synced)


def decoded(directory: Path) -> Manifest:
    """Return the manifest of a backup, whose files are not looked at.

    Raises OperatorError if there is none, or it cannot be read.
    """
    path = directory / FILE_NAME
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise OperatorError(f"{path} cannot be read: it is not a regular file")
        manifest = msgspec.json.decode(path.read_bytes(), type=Manifest)
    except FileNotFoundError:
        raise OperatorError(f"{directory} is no backup: it has no {FILE_NAME}") from None
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise OperatorError(f"{path} cannot be read: {error}") from error
    names = manifest.files.keys()
    if not all(map(_NAMES[manifest.engine].match, names)):
        raise OperatorError(f"{path} names a file that is no part of a backup")
    if not any(name.startswith(f"{MAIN}.") for name in names):
        raise OperatorError(f"{path} names no main database")
    return manifest


def read(directory: Path) -> Manifest:
    """Return the manifest of a backup whose files are all there, unchanged.

    Raises OperatorError with what is wrong.
    """
    manifest = decoded(directory)
    for name, expected in manifest.files.items():
        path = directory / name
        if not path.is_file() or path.stat().st_size != expected.size_bytes:
            raise OperatorError(f"{path} is missing, or not as long as it was")
        if _sha256(path) != expected.sha256:
            raise OperatorError(f"{path} is damaged: its checksum is not the manifest's")
    return manifest


def list_backups(directory: Path) -> Iterator[Path]:
    """Yield the complete backups in a directory, the oldest first; links are none.

    One that cannot be looked into is among them: `decoded` tells why.
    """
    for path in sorted(directory.glob("verifyd-*")):
        try:
            is_backup = stat.S_ISDIR(path.lstat().st_mode) and bool((path / FILE_NAME).lstat())
        except FileNotFoundError:
            is_backup = False
        except OSError:
            is_backup = True
        if is_backup:
            yield path


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()
