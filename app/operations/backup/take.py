"""Takes backups: each is a directory, complete from the moment it has its name (D47)."""

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal, NamedTuple

import peewee

from app import clock
from app.directories import make_directory, user_name
from app.errors import OperatorError
from app.file_lock import tried
from app.operations.backup import manifest, postgres, sqlite
from app.operations.backup.manifest import BackupFile, Manifest
from app.operations.backup.merged import list_merged
from app.operations.backup.retention import (
    PARTIAL,
    Limits,
    Room,
    is_gone,
    list_own,
    prune,
    remove_partial,
)
from app.storage.engine import Engine
from app.storage.errors import message_of
from app.storage.files import register_file, sync
from app.storage.registers import Register
from app.storage.versions import database_id, versions
from app.version import VERSION, revision

Registers = Literal["none", "merged", "all"]
"""Which registers a backup holds; `merged` are those that one file cannot bring back (D74)."""
_LOCK = ".lock"


class Taken(NamedTuple):
    """A backup that was taken, and which older ones were removed for it."""

    directory: Path
    manifest: Manifest
    removed: list[Path]


def take(
    engine: Engine, destination: Path, *, registers: Registers, limits: Limits | None = None
) -> Taken:
    """Take a backup of a database that may be in use, into a new directory in `destination`.

    Args:
        registers: which registers to put in, too.
        limits: which backups of this database to leave; all if None. One that cannot be read or
            removed is logged, and does not count.

    A backup that fails or is killed leaves none; what a killed one left is removed by the next.
    Raises OperatorError if it cannot be taken, or another is being taken to the same place.
    """
    if not destination.absolute().parent.is_dir():
        # A mistyped name must not look like a disk that is not mounted.
        raise OperatorError(f"the directory {destination.absolute().parent} does not exist")
    _require_writable(destination)
    with _alone(destination):
        for left in destination.glob(f".verifyd-*{PARTIAL}"):
            remove_partial(left)
        final = _free_name(destination)
        partial = destination / f".{final.name}{PARTIAL}"
        # SEC: nobody else's to read, whatever the umask.
        partial.mkdir(mode=0o700)
        older = list_own(destination, database_id(engine)) if limits else []
        try:
            taken = _written(engine, partial, registers, Room(partial, older[:-1]))
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
    return Taken(final, taken, removed)


def _written(engine: Engine, directory: Path, registers: Registers, room: Room) -> Manifest:
    taken_at = clock.iso_utc(clock.now())
    found = versions(engine)
    made_from = revision()
    wanted = _wanted(engine, registers)
    if engine.file is not None:
        files = _copies(engine.file, directory, wanted, room)
    else:
        files = _dumped(engine, directory, wanted)
    written = Manifest(
        engine=engine.dialect,
        taken_at=taken_at,
        version=VERSION,
        commit=made_from and made_from.commit,
        database_id=database_id(engine),
        schema=found.database,
        oldest_program=found.oldest_program,
        registers=None if registers == "none" else wanted,
        has_all_registers=registers == "all",
        files=files,
    )
    manifest.write(directory, written)
    return written


def _wanted(engine: Engine, registers: Registers) -> list[str]:
    """Return the names of the registers to put in."""
    if registers == "none":
        return []
    if registers == "merged":
        return list_merged(engine)
    query = Register.select(Register.name).where(Register.kinds != "").order_by(Register.name)
    return [str(name) for (name,) in query.tuples().execute(engine)]


def _copies(
    database: Path, directory: Path, wanted: Sequence[str], room: Room
) -> dict[str, BackupFile]:
    """Copy the main file, then the registers that this copy of it names.

    A load that commits in between is in its register and still running in the main file: just
    as if it had been killed there, and its next load settles it (D28).
    """
    room.require([database])
    main = directory / f"{manifest.MAIN}.db"
    files = {main.name: manifest.described(main, sqlite.copy(database, main))}
    sources = {
        directory / f"register_{name}.{generation}.db": register_file(database, name, generation)
        for name, generation in sqlite.list_registers(main)
        if name in wanted
    }
    for source in sources.values():
        if not source.exists():
            raise OperatorError(f"{source} is not there: was the register replaced just now?")
    room.require(sources.values())
    for target, source in sources.items():
        files[target.name] = manifest.described(target, sqlite.copy(source, target))
    return files


def _dumped(engine: Engine, directory: Path, wanted: Sequence[str]) -> dict[str, BackupFile]:
    target = directory / f"{manifest.MAIN}.dump"
    rows = postgres.dump(engine, target, wanted)
    return {target.name: manifest.described(target, rows)}


def _require_writable(destination: Path) -> None:
    """Make the directory of all backups. Raises OperatorError if backups cannot be made in it."""
    is_writable = False
    with suppress(PermissionError):
        make_directory(destination)
        is_writable = os.access(destination, os.W_OK | os.X_OK)
    if not is_writable:
        user = user_name()
        raise OperatorError(
            f"no backup was made: the user {user} must be able to write to {destination}; "
            f"run: sudo install -d -o {user} -m 700 {destination}"
        )


@contextmanager
def _alone(destination: Path) -> Iterator[None]:
    with tried(destination / _LOCK) as is_held:
        if not is_held:
            raise OperatorError(f"another backup to {destination} is running")
        yield


def _free_name(destination: Path) -> Path:
    """Return a name by the time; names sort as the backups were taken."""
    stamp = clock.iso_utc(clock.now()).replace("-", "").replace(":", "")
    same_second = destination.glob(f"verifyd-{stamp}-[0-9][0-9][0-9]")
    # Not the first that is free: it can be that of one that was removed, and older than all.
    number = max((int(path.name[-3:]) for path in same_second), default=-1) + 1
    if number == 1_000:
        raise OperatorError(f"there are too many backups of this second in {destination}")
    return destination / f"verifyd-{stamp}-{number:03}"
