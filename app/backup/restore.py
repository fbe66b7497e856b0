"""Replaces a database with a backup, while the service is stopped (D48)."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from app.actions import Action, Subject, row_of
from app.actor import Actor
from app.backup import manifest, postgres, restore_files
from app.backup.manifest import Manifest
from app.backup.trail import staged_trail
from app.config import Config
from app.errors import OperatorError
from app.serve import instance
from app.serve.limits.file import FILE_NAME as LIMITS
from app.setting_values import sqlite_path
from app.storage.engine import close_quietly
from app.storage.files import require_directory
from app.storage.postgres import PostgresEngine
from app.storage.registers import DroppedRegister, KeptRegister, Register
from app.storage.versions import Versions, program_schema


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

    The restored database records that, unless its schema is older than the record (D130).

    The replaced SQLite files are kept in a directory beside the database. A Postgres database must
    be empty. The audit trail is restored if the backup has one and the host has none (D126).

    Args:
        actor: who restores; None for whoever runs this process.

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
        instance.stopped(config.state_dir),
        staged_trail(config.audit_dir, source, found) as trail,
    ):
        if database:
            replaced, registers = restore_files.put_in_place(database, source, found, action)
        else:
            replaced, registers = None, _restore_dump(config.database_url, source, found, action)
        # The restored accounts must not inherit the buckets of the replaced ones (D11).
        (config.state_dir / LIMITS).unlink(missing_ok=True)
        if trail is not None:
            trail.put_in_place()
    return Restored(found, replaced, registers, has_audit=trail is not None)


def _restore_dump(
    database_url: str, source: Path, found: Manifest, action: Mapping[str, object]
) -> list[str]:
    engine = PostgresEngine(database_url)
    try:
        if engine.get_tables():
            raise OperatorError(
                "the Postgres database is not empty: create a new one, name it in "
                "VERIFYD_DATABASE_URL, and restore into that"
            )
        ((name, file),) = found.files.items()
        postgres.restore(engine, source / name, file.rows)
        with engine.atomic():
            # Backups have no snapshots and dropped registers; an older schema lacks their tables.
            for model in (KeptRegister, DroppedRegister):
                if engine.table_exists(model._meta.table_name):
                    model.delete().execute(engine)
            # Everybody is signed out: a session or link may have ended since the backup (D132).
            for table in manifest.CONSOLE_TABLES:
                if engine.table_exists(table):
                    engine.execute_sql(f'DELETE FROM "{table}"')  # noqa: S608 - ours
            is_missing = Register.name.not_in(found.registers or [])
            Register.delete().where(is_missing).execute(engine)
            if engine.table_exists(Action._meta.table_name):
                Action.insert(**action).execute(engine)
    finally:
        close_quietly(engine)
    return found.registers or []
