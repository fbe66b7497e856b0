"""Stores a register on SQLite: one file per generation, and a lock file.

Only the register index says which file readers see, so no file is renamed when that changes. A
reader that has attached a file can read it until its next request, even if it was removed. It
cannot mistake a later file for it, because the number of a generation is never used again.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import peewee

from app.storage.engine import Engine, closed_afterwards
from app.storage.file_lock import tried
from app.storage.files import SUFFIXES, register_file, sync
from app.storage.register_store import NextGeneration, OpenRegister, RegisterStore
from app.storage.registers import Register
from app.storage.sqlite import SqliteEngine
from app.storage.tables import Kind
from app.storage.versions import migrate_register

_PART = "-part"


class RegisterFiles(RegisterStore):
    """The files of one register, beside the main database."""

    lock_outlives_connection = True

    def __init__(self, engine: SqliteEngine, name: str) -> None:
        self._engine = engine
        self._database = engine.file
        self._name = name

    def has_current(self, generation: int) -> bool:
        """Tell whether the file of a generation exists."""
        return self._file(generation).exists()

    has_waiting = has_current

    @contextmanager
    def opened(self, generation: int, *, create: bool = True) -> Iterator[OpenRegister]:
        """Open the file of a generation for writing."""
        with closed_afterwards(SqliteEngine(self._file(generation), create=create)) as file:
            yield OpenRegister(file, None)

    def opened_waiting(self, generation: int) -> AbstractContextManager[OpenRegister]:
        """Open the file of a generation for writing."""
        return self.opened(generation, create=False)

    @contextmanager
    def opened_next(self, generation: int) -> Iterator[NextGeneration]:
        """Create the file of a generation, for its only writer."""
        path = self._file(generation)
        with _made(path) as made:
            yield _NextFile(OpenRegister(made, None), path, self._file)
            # Readers must not wait for a later merge.
            made.pragma("journal_mode", "wal")
        for synced in (path, path.parent):
            sync(synced)

    def publish_next(self) -> None:
        """Do nothing: the register index says which file readers see."""

    def put_aside(self, generation: int | None) -> None:
        """Do nothing: the register index says which file readers see."""

    def bring_back(self, generation: int) -> None:
        """Do nothing: the register index says which file readers see."""

    def remove_unused(self, used: set[int]) -> None:
        """Remove the files of all other generations, complete or not."""
        for generation in self._generations() - used:
            file = self._file(generation)
            _remove(file)
            _remove(_part_of(file))

    def size_bytes(self, generation: int) -> int:
        """Return the size of the file of a generation; 0 if it does not exist."""
        try:
            return self._file(generation).stat().st_size
        except FileNotFoundError:
            return 0

    def truncate_log(self, generation: int) -> None:
        """Truncate the write-ahead log of a generation, as soon as no reader needs it.

        While the service runs, the log never shrinks by itself, not even after a rollback.
        """
        if self.has_current(generation):
            with self.opened(generation, create=False) as opened:
                opened.engine.execute_sql("PRAGMA wal_checkpoint(TRUNCATE)")

    @contextmanager
    def tried_lock(self, *, shared: bool = False) -> Iterator[Callable[[Engine], None] | None]:
        """Try to lock the lock file of the register without waiting."""
        # `is_locked` holds a shared lock for a moment, which must not keep a load from running.
        with tried(self._lock_file, outlast_shared=True) as is_ours:
            try:
                yield (lambda _: None) if is_ours else None
            finally:
                if is_ours and not self._is_register():
                    # The name may be a typing error: do not keep a lock file for it.
                    self._lock_file.unlink(missing_ok=True)

    def is_locked(self) -> bool:
        """Tell whether a process holds the lock. If its file cannot be opened, return True."""
        try:
            with tried(self._lock_file, shared=True, create=False) as is_free:
                return not is_free
        except FileNotFoundError:
            return False
        except OSError:
            return True

    def _file(self, generation: int) -> Path:
        return register_file(self._database, self._name, generation)

    @property
    def _lock_file(self) -> Path:
        return self._database.with_name(f"{self._database.stem}.register_{self._name}.lock")

    def _generations(self) -> set[int]:
        """Return the generations that have files, complete or not."""
        files = _files_of(self._database, self._name)
        pattern = re.compile(f"{files}(?:{_PART})?(?:{'|'.join(SUFFIXES)})")
        found = (pattern.fullmatch(entry.name) for entry in os.scandir(self._database.parent))
        return {int(match[1]) for match in found if match}

    def _is_register(self) -> bool:
        """Tell whether there is a register of this name. If the database fails, return True."""
        try:
            return Register.select().where(Register.name == self._name).exists(self._engine)
        except peewee.PeeweeException:
            return True


class _NextFile(NextGeneration):
    def __init__(self, opened: OpenRegister, path: Path, file_of: Callable[[int], Path]) -> None:
        super().__init__(opened)
        self._part = _part_of(path)
        self._file_of = file_of

    def copy_current(self, generation: int, kinds: Iterable[Kind]) -> None:
        """Add all rows of these kinds from the file of another generation."""
        self._copy(self._file_of(generation), kinds)

    @contextmanager
    def opened_part(self) -> Iterator[OpenRegister]:
        """Create a file of its own for the part."""
        with _made(self._part) as part:
            yield OpenRegister(part, None)

    def add_part(self, kind: Kind) -> None:
        """Add the rows from the file of the part."""
        self._copy(self._part, [kind])

    def remove_part(self) -> None:
        """Remove the file of the part."""
        _remove(self._part)

    def _copy(self, source: Path, kinds: Iterable[Kind]) -> None:
        execute = self.opened.engine.execute_sql
        execute("ATTACH DATABASE ? AS source", (os.fspath(source.absolute()),))
        self.opened.copy_from("source", kinds)
        execute("DETACH DATABASE source")


def other_files(database: Path, used: Iterable[Path]) -> list[Path]:
    """Return the files of registers beside a database that are not in use, ordered by name."""
    pattern = re.compile(_files_of(database, "[a-z0-9_]+"))
    found = {path for path in database.parent.iterdir() if pattern.fullmatch(path.name)}
    return sorted(found.difference(used))


def _files_of(database: Path, register: str) -> str:
    """Return a pattern for the names that `register_file` makes; its group is the generation."""
    stem, suffix = re.escape(database.stem), re.escape(database.suffix)
    return rf"{stem}\.register_{register}\.([0-9]+){suffix}"


@contextmanager
def _made(path: Path) -> Iterator[SqliteEngine]:
    """Create a file with the empty tables of a register, for its only writer."""
    with closed_afterwards(SqliteEngine(path, create=True)) as file:
        migrate_register(file, None)
        # PERF: no journal is needed. The file has no other user, and a load that fails removes it.
        file.pragma("journal_mode", "off")
        file.pragma("synchronous", "off")
        yield file


def _part_of(file: Path) -> Path:
    """Return the file for the part of a generation that a second process writes."""
    return file.with_name(file.name + _PART)


def _remove(file: Path) -> None:
    """Remove a database file, if it exists, and the files that SQLite keeps beside it."""
    for suffix in SUFFIXES:
        file.with_name(file.name + suffix).unlink(missing_ok=True)
