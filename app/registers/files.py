"""The files of a register's generations, on SQLite (D28)."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from app.storage.engine import close_quietly
from app.storage.schema import migrate_register
from app.storage.sqlite import SqliteEngine

_PART = "-part"
_SUFFIXES = ("", "-wal", "-shm", "-journal")


@contextmanager
def written(path: Path) -> Iterator[SqliteEngine]:
    """Make a register's file, for its one writer."""
    file = SqliteEngine(path, create=True)
    try:
        migrate_register(file, None)
        # PERF: nobody else has the file, and a load that fails removes it.
        file.pragma("journal_mode", "off")
        file.pragma("synchronous", "off")
        yield file
    finally:
        close_quietly(file)


def part_of(file: Path) -> Path:
    """Return where a part of a generation is written that is to be added to its file."""
    return file.with_name(file.name + _PART)


def remove(file: Path) -> None:
    """Remove a register's file, if it is there, and what SQLite keeps beside it."""
    for suffix in _SUFFIXES:
        file.with_name(file.name + suffix).unlink(missing_ok=True)


def generations_on_disk(database: Path, name: str) -> set[int]:
    """Return the generations that a register has files of, whole or not."""
    pattern = re.compile(
        re.escape(f"{database.stem}.register_{name}.")
        + "([0-9]+)"
        + re.escape(database.suffix)
        + f"(?:{_PART})?(?:-wal|-shm|-journal)?"
    )
    found = (pattern.fullmatch(entry.name) for entry in os.scandir(database.parent))
    return {int(match[1]) for match in found if match}
