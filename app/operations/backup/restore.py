"""Puts a backup in place of a database whose service is stopped (D48)."""

from pathlib import Path
from typing import NamedTuple

from app.config import Config
from app.errors import OperatorError
from app.limits.file import FILE_NAME as LIMITS
from app.operations import serving
from app.operations.backup import manifest, postgres, restore_files
from app.operations.backup.manifest import Manifest
from app.setting_values import sqlite_path
from app.storage.engine import close_quietly
from app.storage.postgres import PostgresEngine
from app.storage.registers import DroppedRegister, KeptRegister, Register
from app.storage.versions import Versions, program_schema


class Restored(NamedTuple):
    """What a restore did."""

    manifest: Manifest
    replaced: Path | None
    """Where what was there before is kept; None if nothing was."""
    registers: list[str]
    """The registers that there are now; others must be loaded again."""


def restore(config: Config, source: Path) -> Restored:
    """Verify a backup, and put it in place of the database that the settings name.

    What it replaces is kept: SQLite files in a directory beside; on Postgres the database must
    be empty. Raises OperatorError if the backup is not sound, needs a newer program, or the
    database is in use; then nothing was changed.
    """
    found = manifest.read(source)
    backup = Versions(found.schema, found.oldest_program, program_schema())
    if not backup.is_served and not backup.can_migrate:
        raise OperatorError(f"{source} cannot be restored: {backup.refusal()}")
    database = sqlite_path(config.database_url)
    if found.engine != ("sqlite" if database else "postgres"):
        raise OperatorError(f"{source} is of {found.engine}, VERIFYD_DATABASE_URL names another")
    with serving.stopped(config.state_dir):
        if database:
            replaced, registers = restore_files.put_in_place(database, source, found)
        else:
            replaced, registers = None, _read_dump(config.database_url, source, found)
        # Accounts of another time must not inherit today's buckets (D11).
        (config.state_dir / LIMITS).unlink(missing_ok=True)
    return Restored(found, replaced, registers)


def _read_dump(database_url: str, source: Path, found: Manifest) -> list[str]:
    engine = PostgresEngine(database_url)
    try:
        if engine.get_tables():
            raise OperatorError(
                "the Postgres database is not empty: create a new one, name it in "
                "VERIFYD_DATABASE_URL, and restore into that"
            )
        ((name, file),) = found.files.items()
        postgres.restore(engine, source / name, file.rows)
        # What can be undone is in no backup; what was backed up with an older schema lacks tables.
        for model in (KeptRegister, DroppedRegister):
            if engine.table_exists(model._meta.table_name):
                model.delete().execute(engine)
        is_missing = Register.name.not_in(found.registers or [])
        Register.delete().where(is_missing).execute(engine)
    finally:
        close_quietly(engine)
    return found.registers or []
