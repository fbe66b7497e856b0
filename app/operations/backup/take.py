"""Takes backups: each is a directory, complete from the moment it has its name (D47)."""

import fcntl
import logging
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import peewee

from app import clock
from app.catalogue import Register, register_file
from app.database import Engine, sync
from app.directories import make_directory
from app.errors import OperatorError
from app.operations.backup import manifest, postgres, sqlite
from app.operations.backup.manifest import BackupFile, Manifest
from app.postgres import PostgresEngine
from app.schema import database_id, versions
from app.sqlite import SqliteEngine
from app.version import VERSION, revision

_LOCK = ".lock"
_PARTIAL = ".partial"
_log = logging.getLogger(__name__)


class Taken(NamedTuple):
    """A backup that was taken, and which older ones were removed for it."""

    directory: Path
    manifest: Manifest
    removed: list[Path]


def take(engine: Engine, destination: Path, *, registers: bool, keep: int | None) -> Taken:
    """Take a backup of a database that may be in use, into a new directory in `destination`.

    Args:
        registers: put the registers in, too; they can be loaded again.
        keep: how many backups of this database to leave, the new one included; all if None.
            One that cannot be read or removed is logged, and does not count.

    A backup that fails or is killed leaves none; what a killed one left is removed by the next.
    Raises OperatorError if it cannot be taken, or another is being taken to the same place.
    """
    make_directory(destination)
    with _alone(destination):
        for left in destination.glob(f".verifyd-*{_PARTIAL}"):
            _remove_partial(left)
        final = _free_name(destination)
        partial = destination / f".{final.name}{_PARTIAL}"
        # SEC: nobody else's to read, whatever the umask.
        partial.mkdir(mode=0o700)
        try:
            taken = _written(engine, partial, registers=registers)
            partial.rename(final)
        except (peewee.PeeweeException, OSError) as error:
            raise OperatorError(f"no backup was made in {destination}: {error}") from error
        finally:
            shutil.rmtree(partial, ignore_errors=True)
        sync(destination)
        removed = _prune(destination, taken.database_id, keep)
    return Taken(final, taken, removed)


def _written(engine: Engine, directory: Path, *, registers: bool) -> Manifest:
    taken_at = clock.iso_utc(clock.now())
    found = versions(engine)
    made_from = revision()
    files, names = (
        _copies(engine.path, directory, registers=registers)
        if isinstance(engine, SqliteEngine)
        else _dumped(engine, directory, registers=registers)
    )
    written = Manifest(
        engine="sqlite" if isinstance(engine, SqliteEngine) else "postgres",
        taken_at=taken_at,
        version=VERSION,
        commit=made_from and made_from.commit,
        database_id=database_id(engine),
        schema=found.database,
        oldest_program=found.oldest_program,
        registers=names if registers else None,
        files=files,
    )
    manifest.write(directory, written)
    return written


def _copies(
    database: Path, directory: Path, *, registers: bool
) -> tuple[dict[str, BackupFile], list[str]]:
    """Copy the main file, then the registers that this copy of it names.

    A load that commits in between is in its register and still running in the main file: just
    as if it had been killed there, and its next load settles it (D28).
    """
    main = directory / f"{manifest.MAIN}.db"
    files = {main.name: manifest.described(main, sqlite.copy(database, main))}
    names = []
    for name, generation in sqlite.list_registers(main) if registers else []:
        source = register_file(database, name, generation)
        target = directory / f"register_{name}.{generation}.db"
        if not source.exists():
            raise OperatorError(f"{source} is not there: was the register replaced just now?")
        files[target.name] = manifest.described(target, sqlite.copy(source, target))
        names.append(name)
    return files, names


def _dumped(
    engine: PostgresEngine, directory: Path, *, registers: bool
) -> tuple[dict[str, BackupFile], list[str]]:
    target = directory / f"{manifest.MAIN}.dump"
    rows = postgres.dump(engine, target, registers=registers)
    names = [name for (name,) in Register.select(Register.name).tuples().execute(engine)]
    return {target.name: manifest.described(target, rows)}, names


@contextmanager
def _alone(destination: Path) -> Iterator[None]:
    descriptor = os.open(destination / _LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise OperatorError(f"another backup to {destination} is running") from None
    finally:
        os.close(descriptor)


def _free_name(destination: Path) -> Path:
    """Return a name by the time; names sort as the backups were taken."""
    stamp = clock.iso_utc(clock.now()).replace("-", "").replace(":", "")
    same_second = destination.glob(f"verifyd-{stamp}-[0-9][0-9][0-9]")
    # Not the first that is free: it can be that of one that was removed, and older than all.
    number = max((int(path.name[-3:]) for path in same_second), default=-1) + 1
    if number == 1_000:
        raise OperatorError(f"there are too many backups of this second in {destination}")
    return destination / f"verifyd-{stamp}-{number:03}"


def _prune(destination: Path, database: str, keep: int | None) -> list[Path]:
    """Remove the oldest backups of a database; those of others are left alone.

    What cannot be read or removed is logged and left alone: it keeps nothing else from going.
    Returns what was removed.
    """
    if keep is None:
        return []
    ours = [path for path in manifest.list_backups(destination) if _is_of(path, database)]
    return [path for path in ours[:-keep] if _is_removed(path)]


def _is_of(backup: Path, database: str) -> bool:
    try:
        return manifest.decoded(backup).database_id == database
    except OperatorError as error:
        _log.warning("%s; this backup is left alone: restore or remove it by hand", error)
        return False


def _is_removed(backup: Path) -> bool:
    # Under this name it is no backup, should the removal be killed or fail; the next one goes on.
    partial = backup.with_name(f".{backup.name}.removed{_PARTIAL}")
    try:
        backup.rename(partial)
    except OSError as error:
        _log.warning("%s cannot be removed: %s", backup, error)
        return False
    _remove_partial(partial)
    return not partial.exists()


def _remove_partial(partial: Path) -> None:
    try:
        shutil.rmtree(partial)
    except OSError as error:
        _log.warning("%s cannot be removed: %s", partial, error)
