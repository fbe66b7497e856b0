"""The manifest of a backup, `manifest.json`. A backup is complete once it has one."""

import hashlib
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec

from app.errors import BAD_JSON, OperatorError
from app.storage.files import sync

FILE_NAME = "manifest.json"
MAIN = "main"
"""The name of the main database's file, without its suffix."""
TRAIL = "audit"
"""The directory of the audit trail in a backup."""
CONSOLE_TABLES = ("console_link", "console_session", "audit_task")
"""What a restore empties: the links and sessions of the console, and its tasks whose results
no backup has."""
# SEC: these names come from a file, and must not lead out of the backup.
_NAMES = {
    "sqlite": re.compile(r"(main|register_[a-z][a-z0-9_]*\.[0-9]+)\.db\Z"),
    "postgres": re.compile(r"main\.dump\Z"),
}
_AUDIT_NAME = re.compile(r"(\d{8}-\d{8}T\d{2}|chain)\.ndjson\Z", re.ASCII)


class BackupFile(msgspec.Struct, frozen=True):
    """One file of a backup, and the number of rows of each table in it."""

    size_bytes: int
    sha256: str
    rows: dict[str, int]


class Manifest(msgspec.Struct, frozen=True):
    """What a backup contains, and which database and program it comes from."""

    engine: Literal["sqlite", "postgres"]
    taken_at: str
    version: str
    commit: str | None
    database_id: str
    schema: int
    oldest_program: int
    """The schema of the oldest program that may use it."""
    registers: list[str] | None
    """The registers in the backup; None if none were requested."""
    files: dict[str, BackupFile]
    has_all_registers: bool = True
    """Whether `registers`, unless it is None, names all registers of the database."""
    audit: dict[str, BackupFile] | None = None
    """The files of the audit trail in the directory TRAIL; None if it was not requested."""

    @property
    def all_files(self) -> dict[str, BackupFile]:
        """Every file by its path within the backup."""
        trail = {f"{TRAIL}/{name}": file for name, file in (self.audit or {}).items()}
        return {**self.files, **trail}


def described(path: Path, rows: dict[str, int]) -> BackupFile:
    """Write a file to disk, and return its entry."""
    with path.open("rb") as stream:
        os.fsync(stream.fileno())
    return BackupFile(path.stat().st_size, _sha256(path), rows)


def write(directory: Path, manifest: Manifest) -> None:
    """Write the manifest into a backup whose other files are complete."""
    path = directory / FILE_NAME
    path.write_bytes(msgspec.json.format(msgspec.json.encode(manifest)) + b"\n")
    for synced in (path, directory):
        sync(synced)


def decoded(directory: Path) -> Manifest:
    """Return the manifest of a backup without checking its files.

    Raises OperatorError if it does not exist or cannot be read.
    """
    path = directory / FILE_NAME
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise OperatorError(f"{path} cannot be read: it is not a regular file")
        manifest = msgspec.json.decode(path.read_bytes(), type=Manifest)
    except FileNotFoundError:
        if not directory.exists():
            raise OperatorError(f"{directory} does not exist; correct the path") from None
        raise OperatorError(f"{directory} is not a backup: it has no {FILE_NAME}") from None
    except (OSError, *BAD_JSON) as error:
        raise OperatorError(f"{path} cannot be read: {error}") from error
    names = manifest.files.keys()
    if not all(map(_NAMES[manifest.engine].match, names)) or not all(
        map(_AUDIT_NAME.match, manifest.audit or ())
    ):
        raise OperatorError(f"{path} names a file that cannot be part of a backup")
    if not any(name.startswith(f"{MAIN}.") for name in names):
        raise OperatorError(f"{path} names no main database")
    return manifest


def read(directory: Path) -> Manifest:
    """Check all files of a backup, and return its manifest.

    Raises OperatorError if a file is missing or was changed.
    """
    manifest = decoded(directory)
    for name, expected in manifest.all_files.items():
        path = directory / name
        if not path.is_file() or path.stat().st_size != expected.size_bytes:
            raise OperatorError(f"{path} is missing, or its size has changed")
        if _sha256(path) != expected.sha256:
            raise OperatorError(f"{path} is damaged: its checksum differs from the manifest")
    return manifest


def list_backups(directory: Path) -> Iterator[Path]:
    """Yield the complete backups in a directory, oldest first, without links.

    Backups that cannot be opened are included: `decoded` says why.
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
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
