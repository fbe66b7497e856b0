"""Replaces a database with a backup, while the service is stopped."""

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from itertools import chain, count
from pathlib import Path
from typing import NamedTuple

import apsw

from app import clock
from app.actions import Action, Actor, Subject, row_of
from app.backup import manifest, postgres, sqlite
from app.backup.manifest import Manifest
from app.backup.trail import staged_trail
from app.config import Config
from app.errors import OperatorError
from app.registers.identities import renew_stamp
from app.serve import service_lock
from app.serve.limits.file import FILE_NAME as LIMITS
from app.settings.values import sqlite_path
from app.storage.engine import Engine, closed_afterwards
from app.storage.errors import driver_errors_translated
from app.storage.files import SUFFIXES, connect, file_uri, register_file, require_directory, sync
from app.storage.postgres import PostgresEngine
from app.storage.register_files import other_files
from app.storage.register_store import OpenRegister
from app.storage.registers import Register
from app.storage.sqlite import BUSY_TIMEOUT_SECONDS, SqliteEngine, lock_alone
from app.storage.tables import schema_of
from app.storage.versions import Versions, program_schema
from app.watches.repository import renew_feeds
from app.watches.tables import WatchFeed


def put_in_place(
    database: Path, source: Path, found: Manifest, action: Mapping[str, object]
) -> tuple[Path | None, list[str]]:
    """Replace a database and its registers with those of a backup. No process may use them.

    Registers come from the backup if it contains them. Existing registers stay otherwise, with
    their history, if they belong to the same database. Their snapshots and the dropped registers
    stay as well, because backups do not contain them.

    Args:
        action: a row for the record of actions in the restored database.

    Returns the directory with the replaced files, and the registers of the restored database.
    Raises OperatorError or peewee.PeeweeException; then nothing was changed.
    """
    for name, file in found.files.items():
        sqlite.require_sound(source / name, file.rows)
    with _staged(database, source, found) as staged:
        with _locked(database) as former:
            main = staged[database]
            _adapt(main, former, found, action)
            registers = sqlite.list_registers(main)
            copies = {each[0]: staged.get(register_file(database, *each)) for each in registers}
            _renew_stamps(main, copies)
            for copy in staged.values():
                sync(copy)
            named = [*registers, *sqlite.list_waiting(main)]
            stay = {register_file(database, *each) for each in named} - staged.keys()
            replaced = _set_aside(database, stay)
        _move(staged, database)
    return replaced, [name for name, _ in registers]


@contextmanager
def _staged(database: Path, source: Path, found: Manifest) -> Iterator[dict[Path, Path]]:
    """Copy the files of a backup beside the database; yield each copy by the path it will get.

    Copies that were not moved to their paths at the end are removed.
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
    """Move each file to its path, the main file last.

    Until then there is no database, so a restore that was killed can be run again.
    """
    for target in sorted(staged, key=lambda path: path == database):
        os.replace(staged[target], target)
    sync(database.parent)


@contextmanager
def _locked(database: Path) -> Iterator[apsw.Connection | None]:
    """Open the database that will be replaced, for this process alone; None if it is unreadable.

    Raises OperatorError if another process uses it, and peewee.PeeweeException if it is no file.
    """
    if not database.exists():
        yield None
        return
    with driver_errors_translated():
        opened = connect(file_uri(database, "rw"))
    with closing(opened) as connection:
        connection.set_busy_timeout(int(BUSY_TIMEOUT_SECONDS * 1000))
        yield connection if _is_readable_alone(connection) else None


def _is_readable_alone(connection: apsw.Connection) -> bool:
    try:
        lock_alone(connection)
        # Its log is not kept, and must never be used with the new file.
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.execute("SELECT database_id FROM installation")
    except apsw.BusyError:
        raise OperatorError("the database is in use: stop everything that uses it first") from None
    except apsw.Error:
        return False  # It is damaged, which may be the reason for the restore.
    return True


def _adapt(
    main: Path, former: apsw.Connection | None, found: Manifest, action: Mapping[str, object]
) -> None:
    """Make the main file of a backup fit the registers that stay, and record the restore."""
    with closed_afterwards(SqliteEngine(main)) as engine, engine.atomic():
        if found.registers is None or not found.has_all_registers:
            with driver_errors_translated():
                _carry_over_registers(former, engine.connection(), found)
        else:
            # Backups have no snapshots and dropped registers.
            _empty(engine, sqlite.WAITING_TABLES)
        if former is not None:
            with driver_errors_translated():
                _carry_over_hosts(former, engine.connection(), found)
        _end_visits_and_record(engine, action)


def _renew_stamps(main: Path, copies: Mapping[str, Path | None]) -> None:
    """Give each restored register a new stamp; a register without a copy stays as it is."""
    with closed_afterwards(SqliteEngine(main)) as engine:
        for name, copy in copies.items():
            if copy is not None:
                with closed_afterwards(SqliteEngine(copy)) as register:
                    renew_stamp(engine, name, OpenRegister(register, None))


def _end_visits_and_record(engine: Engine, action: Mapping[str, object]) -> None:
    """Sign everybody out of a restored database, refuse old cursors, and record the restore."""
    # A session or link may have ended since the backup.
    _empty(engine, manifest.CONSOLE_TABLES)
    if engine.table_exists(WatchFeed._meta.table_name):
        renew_feeds(engine)
    if engine.table_exists(Action._meta.table_name):
        Action.insert(**action).execute(engine)


def _empty(engine: Engine, tables: Iterable[str]) -> None:
    """Remove the rows of tables. An older schema may lack some of these tables."""
    for table in filter(engine.table_exists, tables):
        engine.execute_sql(f'DELETE FROM "{table}"')  # noqa: S608 - ours


def _carry_over_registers(
    former: apsw.Connection | None, connection: apsw.Connection, found: Manifest
) -> None:
    """Copy the existing registers and their history into the restored main file.

    Registers that the backup contains keep what the backup says. All these tables have names that
    begin with `register`. Nothing is copied from another database, from one with another schema,
    or from a damaged one.
    """
    in_backup = found.registers or []
    if former is not None:
        told = former.execute("SELECT database_id, schema_version FROM installation").fetchone()
        if told != (found.database_id, found.schema):
            former = None
    for table in sqlite.list_tables(connection):
        if not table.startswith("register"):
            continue
        # Loads have the name of their register in `register`, registers in `name`.
        columns = [name for _, name, *_ in connection.execute(f'PRAGMA table_info("{table}")')]
        name_at = columns.index("register" if "register" in columns else "name")
        names = ", ".join("?" * len(in_backup))
        is_missing = f'"{columns[name_at]}" NOT IN ({names})'
        connection.execute(f'DELETE FROM "{table}" WHERE {is_missing}', in_backup)  # noqa: S608
        for row in former.execute(f'SELECT * FROM "{table}"') if former else ():  # noqa: S608
            if row[name_at] not in in_backup:
                places = ", ".join("?" * len(row))
                # A number can exist twice if an earlier backup was restored.
                connection.execute(f'INSERT OR IGNORE INTO "{table}" VALUES ({places})', row)  # noqa: S608


def _carry_over_hosts(
    former: apsw.Connection, connection: apsw.Connection, found: Manifest
) -> None:
    """Keep what is known of the hosts whose audit trail is on: an older backup must not forget it.

    A backup of an older schema gets the table, which the migration then finds.
    """
    (told,) = former.execute("SELECT database_id FROM installation").fetchall()
    tables = former.execute("SELECT sql FROM sqlite_master WHERE name = 'audit_host'").fetchall()
    if not tables or told[0] != found.database_id:
        return
    if "audit_host" not in sqlite.list_tables(connection):
        connection.execute(str(tables[0][0]))
    connection.execute("DELETE FROM audit_host")
    for row in former.execute("SELECT * FROM audit_host"):
        places = ", ".join("?" * len(row))
        connection.execute(f"INSERT INTO audit_host VALUES ({places})", row)  # noqa: S608


def _set_aside(database: Path, stay: set[Path]) -> Path | None:
    """Move the main file, and the registers that do not stay, to a directory beside them."""
    # The main file goes first: without it the others are not a database.
    moved = [
        file.with_name(file.name + suffix)
        for file in (database, *other_files(database, stay))
        for suffix in SUFFIXES
    ]
    # NOTE: the log is empty now, and disappears with the connection that holds the lock.
    moved = [file for file in moved if file.exists() and file.stat().st_size]
    if not moved:
        return None
    stamp = clock.iso_utc(clock.now()).replace("-", "").replace(":", "")
    name = f"{database.stem}.replaced-{stamp}"
    # Another restore of this second may have kept a database of the same name.
    names = chain([name], (f"{name}-{number}" for number in count(1)))
    aside = next(path for path in map(database.with_name, names) if not path.exists())
    aside.mkdir(mode=0o700)
    for file in moved:
        os.replace(file, aside / file.name)
    sync(aside)
    sync(database.parent)
    return aside


class Restored(NamedTuple):
    """The result of a restore."""

    manifest: Manifest
    replaced: Path | None
    """The directory that keeps the replaced files; None if there were none."""
    registers: list[str]
    """The registers of the restored database; others must be loaded again."""
    has_audit: bool
    """Whether the audit trail was restored. One that exists stays as it is."""


def restore(config: Config, source: Path, *, actor: Actor | None = None) -> Restored:
    """Check a backup, and replace the database of the settings with it.

    The restore is recorded in the restored database, unless its schema is older than the record.

    The replaced SQLite files are kept in a directory beside the database. A Postgres database must
    be empty. The audit trail is restored if the backup has one and the host has none.

    Args:
        actor: who restores; None for the user of this process.

    Raises OperatorError if the backup is damaged or needs a newer program, or if the database is in
    use; then nothing was changed.
    """
    found = manifest.read(source)
    backup = Versions(found.schema, found.oldest_program, program_schema())
    if not backup.is_served and not backup.can_migrate:
        raise OperatorError(f"{source} cannot be restored: {backup.refusal()}")
    database = sqlite_path(config.database_url)
    if found.engine != ("sqlite" if database else "postgres"):
        raise OperatorError(
            f"{source} is a backup of {found.engine}, but VERIFYD_DATABASE_URL names another engine"
        )
    if database:
        require_directory(database.absolute().parent, "VERIFYD_DATABASE_URL")
    after = {"taken_at": found.taken_at, "registers": found.registers or []}
    subject = Subject("backup", source.absolute().name)
    action = row_of(actor, "backups.restore", subject, None, after) or {}
    with (
        service_lock.stopped(config.state_dir),
        staged_trail(config.audit_dir, source, found) as put_trail_in_place,
    ):
        if database:
            replaced, registers = put_in_place(database, source, found, action)
        else:
            replaced, registers = None, _restore_dump(config.database_url, source, found, action)
        # The restored accounts must not inherit the buckets of the replaced ones (D11).
        (config.state_dir / LIMITS).unlink(missing_ok=True)
        if put_trail_in_place is not None:
            put_trail_in_place()
    return Restored(found, replaced, registers, has_audit=put_trail_in_place is not None)


def _restore_dump(
    database_url: str, source: Path, found: Manifest, action: Mapping[str, object]
) -> list[str]:
    with closed_afterwards(PostgresEngine(database_url)) as engine:
        if engine.get_tables():
            raise OperatorError(
                "the Postgres database is not empty: create a new one, name it in "
                "VERIFYD_DATABASE_URL, and restore into that"
            )
        ((name, file),) = found.files.items()
        postgres.restore(engine, source / name, file.rows)
        with engine.atomic():
            # Backups have no snapshots and dropped registers.
            _empty(engine, sqlite.WAITING_TABLES)
            is_missing = Register.name.not_in(found.registers or [])
            Register.delete().where(is_missing).execute(engine)
            for name in found.registers or []:
                renew_stamp(engine, name, OpenRegister(engine, schema_of(name)))
            _end_visits_and_record(engine, action)
    return found.registers or []
