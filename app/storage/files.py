"""The files of SQLite databases: their names, and what shows that one was written to."""

import os
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

SUFFIXES = ("", "-wal", "-shm", "-journal")
"""Of the files that SQLite keeps for a database."""


class Stamp(NamedTuple):
    """What tells whether a file was written to."""

    size_bytes: int
    changed_at_ns: int


def register_file(database: Path, name: str, generation: int) -> Path:
    """Return the file of a register's generation, beside the main SQLite database."""
    return database.with_name(f"{database.stem}.register_{name}.{generation}{database.suffix}")


def file_uri(path: Path, mode: str) -> str:
    """Return the SQLite URI of a file, opened `ro`, `rw` or `rwc`."""
    return f"file:{quote(str(path.absolute()))}?mode={mode}"


def is_at_rest(file: Path) -> bool:
    """Tell whether all that a database holds is in the file itself, and nothing in its log."""
    try:
        return file.with_name(f"{file.name}-wal").stat().st_size == 0
    except FileNotFoundError:
        return True


def stamp_of(file: Path) -> Stamp:
    """Return what changes when a file is written to."""
    found = file.stat()
    return Stamp(found.st_size, found.st_mtime_ns)


def sync(path: Path) -> None:
    """See that a file, or the names in a directory, survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
