"""Puts the SQLite files of a backup in place, and keeps those that were there (D48)."""

import os
import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pysqlite3.dbapi2 as driver

from app import clock
from app.directories import make_directory
from app.errors import OperatorError
from app.operations.backup import manifest, sqlite
from app.operations.backup.manifest import Manifest
from app.storage.errors import driver_errors_translated
from app.storage.files import SUFFIXES, file_uri, register_file, sync
from app.storage.register_files import other_files
from app.storage.sqlite import BUSY_TIMEOUT_SECONDS


def put_in_place(database: Path, source: Path, found: Manifest) -> tuple[Path | None, list[str]]:
    """Replace a database and its registers by those of a backup; nobody may be using them.

    Registers come from the backup if they are in it. Otherwise those that are there stay, with
    their history, if they belong to the same database: loads then go on counting where they were.
    So does what can be rolled back to or undropped, which is in no backup.

    Returns where the files that were replaced are, and which registers there are now. Raises
    OperatorError or peewee.PeeweeException; then nothing was changed.
    """
    for name, file in found.files.items():
        sqlite.require_sound(source / name, file.rows)
    make_directory(database.parent)
    with _staged(database, source, found) as staged:
        with _locked(database) as former:
            main = staged[database]
            if found.registers is None or not found.has_all_registers:
                _carry_over_registers(former, main, found)
            else:
                _forget_waiting(main)
            registers = sqlite.list_registers(main)
            sync(main)
            named = [*registers, *sqlite.list_waiting(main)]
            stay = {register_file(database, *each) for each in named} - staged.keys()
            replaced = _set_aside(database, stay)
        _move(staged, database)
    return replaced, [name for name, _ in registers]


@contextmanager
def _staged(database: Path, source: Path, found: Manifest) -> Iterator[dict[Path, Path]]:
    """Copy a backup's files beside the database; gives where each belongs, and where it is.

    What was not moved there in the end is removed.
    """
    scratch = database.with_name(f".{database.name}.restoring")
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(mode=0o700)
    try:
        staged = {}
        for name in found.files:
            target = _target(database, name)
            staged[target] = scratch / target.name
            shutil.copyfile(source / name, staged[target])
            staged[target].chmod(0o640)
            sync(staged[target])
        yield staged
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _target(database: Path, name: str) -> Path:
    stem = name.removesuffix(".db")
    if stem == manifest.MAIN:
        return database
    register, _, generation = stem.removeprefix("register_").partition(".")
    return register_file(database, register, int(generation))


def _move(staged: dict[Path, Path], database: Path) -> None:
    """Put each file where it belongs, the main one last.

    Until then there is no database, and a restore that was killed can be run again.
    """
    for target in sorted(staged, key=lambda path: path == database):
        os.replace(staged[target], target)
    sync(database.parent)


@contextmanager
def _locked(database: Path) -> Iterator[Any]:
    """Open the database that is to be replaced, for nobody else; None if there is none to read.

    Raises OperatorError if somebody else has it open.
    """
    if not database.exists():
        yield None
        return
    uri = file_uri(database, "rw")
    connection = driver.connect(uri, uri=True, timeout=BUSY_TIMEOUT_SECONDS, isolation_level=None)
    with closing(connection):
        yield connection if _is_readable_alone(connection) else None


def _is_readable_alone(connection: Any) -> bool:
    try:
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        connection.execute("BEGIN EXCLUSIVE")  # The lock is kept behind the end of it.
        connection.execute("COMMIT")
        # Its log has no part in what is kept, nor may it ever meet the new file.
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.execute("SELECT database_id FROM installation")
    except driver.DatabaseError as error:
        if "locked" in str(error):
            raise OperatorError("the database is in use: end all that use it first") from None
        return False  # It is damaged: perhaps that is why there is a restore.
    return True


def _carry_over_registers(former: Any, main: Path, found: Manifest) -> None:
    """Let the restored main file know the registers that are there, and their history.

    What it says of registers that are in the backup stays. They stand in tables whose names begin
    with `register`. If what is replaced is another database, of another schema, or damaged, there
    are no others.
    """
    with driver_errors_translated(), closing(driver.connect(str(main))) as connection, connection:
        for table in sqlite.list_tables(connection):
            if not table.startswith("register"):
                continue
            # The load of a register and the register itself are known by its name.
            columns = [name for _, name, *_ in connection.execute(f'PRAGMA table_info("{table}")')]
            name_at = columns.index("register" if "register" in columns else "name")
            names = ", ".join("?" * len(found.registers or ()))
            is_missing = f'"{columns[name_at]}" NOT IN ({names})'
            connection.execute(f'DELETE FROM "{table}" WHERE {is_missing}', found.registers or ())  # noqa: S608
            if former is None or not _is_same(former, found):
                continue
            for row in former.execute(f'SELECT * FROM "{table}"'):  # noqa: S608
                if not found.has_register(row[name_at]):
                    places = ", ".join("?" * len(row))
                    # A number can have been given twice if an earlier backup was restored.
                    connection.execute(f'INSERT OR IGNORE INTO "{table}" VALUES ({places})', row)  # noqa: S608


def _forget_waiting(main: Path) -> None:
    """Let the restored main file name nothing that was in no backup."""
    with driver_errors_translated(), closing(driver.connect(str(main))) as connection, connection:
        for table in sqlite.waiting_tables(connection):
            connection.execute(f'DELETE FROM "{table}"')  # noqa: S608


def _is_same(former: Any, found: Manifest) -> bool:
    (told,) = former.execute("SELECT database_id, schema_version FROM installation").fetchall()
    return bool(tuple(told) == (found.database_id, found.schema))


def _set_aside(database: Path, stay: set[Path]) -> Path | None:
    """Move the main file and its registers, but for those that stay, to a directory beside."""
    # The main file goes first: without it nobody takes the others for a database.
    moved = [
        file.with_name(file.name + suffix)
        for file in (database, *other_files(database, stay))
        for suffix in SUFFIXES
    ]
    # NOTE: the log, empty by now, goes with the connection that holds the lock.
    moved = [file for file in moved if file.exists() and file.stat().st_size]
    if not moved:
        return None
    stamp = clock.iso_utc(clock.now()).replace("-", "").replace(":", "")
    aside = database.with_name(f"{database.stem}.replaced-{stamp}")
    aside.mkdir(mode=0o700, exist_ok=True)
    for file in moved:
        os.replace(file, aside / file.name)
    sync(aside)
    sync(database.parent)
    return aside
