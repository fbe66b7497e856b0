"""Takes backups: each is a directory that gets its name when it is complete.

Half a backup must not look like a whole one.
"""

import os
import shutil
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

import peewee
from peewee import fn

from app import clock
from app.backup import manifest, postgres, sqlite, trail
from app.backup.manifest import BackupFile, Manifest
from app.backup.retention import PARTIAL, Limits, Room, is_gone, list_own, prune, remove_partial
from app.errors import OperatorError
from app.registers.history import COUNTS, MERGE, REPLACE, ROLLBACK, RegisterLoad
from app.storage.engine import Engine, closed_afterwards
from app.storage.errors import message_of
from app.storage.file_lock import make_directory, tried, user_name
from app.storage.files import register_file, require_directory, sync
from app.storage.registers import list_entries
from app.storage.sqlite import SqliteEngine
from app.storage.tables import Kind
from app.storage.versions import database_id, versions
from app.version import VERSION, revision


def list_merged(engine: Engine) -> list[str]:
    """Return the names of the registers that hold more than the rows of one replace per kind.

    Such a register cannot be loaded again from one file. If the history is not certain, as after a
    rollback or when old lines were removed, the register counts as merged.
    """
    changes = _last_changes(engine)
    return [
        entry.name
        for entry in list_entries(engine)
        if any(entry.rows(kind) and _mode(changes, entry.name, kind) != REPLACE for kind in Kind)
    ]


def _mode(changes: dict[tuple[str, str], tuple[int, str]], register: str, kind: str) -> str:
    """Return the mode of the last change of a kind; empty if the history does not have it."""
    # A rollback of several kinds has no kind in the history.
    found = [changes[key] for key in ((register, kind), (register, "")) if key in changes]
    return max(found)[1] if found else ""


def _last_changes(engine: Engine) -> dict[tuple[str, str], tuple[int, str]]:
    """Return number and mode of the last change, by register and kind."""
    is_merge = RegisterLoad.mode == MERGE
    # A merge that is running or was killed may have changed rows already; a replace cannot.
    is_change = COUNTS & (~is_merge | (RegisterLoad.changed > 0))
    is_change &= RegisterLoad.mode.in_([MERGE, REPLACE, ROLLBACK])
    is_change |= (RegisterLoad.status == "running") & is_merge
    last = (
        RegisterLoad.select(fn.MAX(RegisterLoad.id))
        .where(is_change)
        .group_by(RegisterLoad.register, RegisterLoad.kind)
    )
    load = RegisterLoad
    query = load.select(load.register, load.kind, load.id, load.mode)
    rows = query.where(load.id.in_(last)).tuples().execute(engine)
    return {(register, kind): (number, mode) for register, kind, number, mode in rows}


Registers = Literal["none", "merged", "all"]
"""The registers in a backup; `merged` are those that one file cannot bring back.

All others can be loaded again.
"""
_LOCK = ".lock"


class NewBackup(NamedTuple):
    """A new backup, and the older ones that were removed for it."""

    directory: Path
    manifest: Manifest
    removed: list[Path]


def take(
    engine: Engine,
    destination: Path,
    *,
    registers: Registers,
    limits: Limits | None = None,
    audit_dir: Path | None = None,
) -> NewBackup:
    """Take a backup of a database that may be in use, into a new directory in `destination`.

    Args:
        registers: the registers to include.
        limits: how many backups of this database to keep; all if None. Backups that cannot be read
            or removed are logged, and do not count.
        audit_dir: the audit trail to include; none if None.

    A failed backup leaves nothing. The files of a killed one are removed by the next. Raises
    OperatorError if it cannot be taken, or if another backup to this directory is running.
    """
    require_directory(destination.absolute().parent, "the path")
    _require_writable(destination)
    with tried(destination / _LOCK) as is_held:
        if not is_held:
            raise OperatorError(
                f"another backup to {destination} is running; try again when it has ended"
            )
        for left in destination.glob(f".verifyd-*{PARTIAL}"):
            remove_partial(left)
        final = _free_name(destination)
        partial = destination / f".{final.name}{PARTIAL}"
        # SEC: other users must not read it, whatever the umask.
        partial.mkdir(mode=0o700)
        older = list_own(destination, database_id(engine)) if limits or audit_dir else []
        room = Room(partial, older[:-1] if limits else [])
        try:
            audit = None
            if audit_dir is not None:
                # First, while no earlier backup was removed for its space.
                trail.require_trail(audit_dir, database_id(engine))
                audit = trail.copy_trail(audit_dir, partial, older, room)
            taken = _write_files(engine, partial, registers, room, audit)
            partial.rename(final)
        except (peewee.PeeweeException, OSError, OperatorError) as error:
            reason = message_of(error)
            raise OperatorError(f"no backup was made in {destination}: {reason}") from error
        finally:
            shutil.rmtree(partial, ignore_errors=True)
        sync(destination)
        if limits:
            prune(older, final, limits)
        removed = [path for path in older if is_gone(path)]
    return NewBackup(final, taken, removed)


def _write_files(
    engine: Engine,
    directory: Path,
    registers: Registers,
    room: Room,
    audit: dict[str, BackupFile] | None,
) -> Manifest:
    """Write the files of the database, then the manifest, and return the manifest."""
    taken_at = clock.iso_utc(clock.now())
    found = versions(engine)
    made_from = revision()
    if engine.file is not None:
        held, files = _copies(engine.file, directory, registers, room)
    else:
        dump = directory / f"{manifest.MAIN}.dump"
        list_wanted = None if registers == "none" else partial(_wanted, engine, registers)
        held, rows = postgres.dump(engine, dump, list_wanted)
        files = {dump.name: manifest.described(dump, rows)}
    written = Manifest(
        engine=engine.dialect,
        taken_at=taken_at,
        version=VERSION,
        commit=made_from and made_from.commit,
        database_id=database_id(engine),
        schema=found.database,
        oldest_program=found.oldest_program,
        registers=None if registers == "none" else held,
        has_all_registers=registers == "all",
        files=files,
        audit=audit,
    )
    manifest.write(directory, written)
    return written


def _wanted(engine: Engine, registers: Registers) -> list[str]:
    if registers == "none":
        return []
    if registers == "merged":
        return list_merged(engine)
    return [entry.name for entry in list_entries(engine) if entry.kinds]


def _copies(
    database: Path, directory: Path, registers: Registers, room: Room
) -> tuple[list[str], dict[str, BackupFile]]:
    """Copy the main file, then those of the registers that this copy names.

    If a load commits in between, its rows are in the register while the main file says that it is
    running. That is the same as for a killed load, and the next load of the register handles it
    (D28).

    Returns the names of these registers, and the files.
    """
    room.require([database])
    main = directory / f"{manifest.MAIN}.db"
    rows = sqlite.copy(database, main)
    # Not from the database, which may have other registers by now.
    with closed_afterwards(SqliteEngine(main)) as copied:
        held = _wanted(copied, registers)
    files = {main.name: manifest.described(main, rows)}
    sources = {
        directory / f"register_{name}.{generation}.db": register_file(database, name, generation)
        for name, generation in sqlite.list_registers(main)
        if name in held
    }
    for source in sources.values():
        if not source.exists():
            raise OperatorError(
                f"{source} does not exist; if the register was replaced meanwhile, try again"
            )
    room.require(sources.values())
    for target, source in sources.items():
        files[target.name] = manifest.described(target, sqlite.copy(source, target))
    return held, files


def _require_writable(destination: Path) -> None:
    """Make the directory of all backups. Raises OperatorError if backups cannot be made in it."""
    is_writable = False
    try:
        make_directory(destination)
        is_writable = os.access(destination, os.W_OK | os.X_OK)
    except PermissionError:
        pass
    except FileExistsError as error:
        raise OperatorError(
            f"no backup was made: {destination} is not a directory; correct the path"
        ) from error
    except OSError as error:
        raise OperatorError(
            f"no backup was made: the directory {destination} cannot be created: {error.strerror}"
        ) from error
    if not is_writable:
        user = user_name()
        raise OperatorError(
            f"no backup was made: the user {user} must be able to write to {destination}; "
            f"run: sudo install -d -o {user} -m 700 {destination}"
        )


def _free_name(destination: Path) -> Path:
    """Return a name with the current time, so that names sort by age."""
    stamp = clock.iso_utc(clock.now()).replace("-", "").replace(":", "")
    same_second = destination.glob(f"verifyd-{stamp}-[0-9][0-9][0-9]")
    # Not the first free number: a removed backup can have had it, and the names must sort by age.
    number = max((int(path.name[-3:]) for path in same_second), default=-1) + 1
    if number == 1_000:
        raise OperatorError(
            f"there are too many backups of this second in {destination}; try again"
        )
    return destination / f"verifyd-{stamp}-{number:03}"
