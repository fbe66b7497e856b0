"""A backup as a job."""

from dataclasses import dataclass
from pathlib import Path

from app.backup.retention import Limits
from app.backup.take import NewBackup, Registers, take
from app.config import Config
from app.jobs.job import Job
from app.storage.interface import Waiting
from app.storage.session import opened_database


@dataclass(kw_only=True)
class Backup(Job[NewBackup]):
    """A new backup in a directory."""

    name = "backup"
    is_alerted = True

    destination: Path
    registers: Registers
    keep: int | None
    """How many backups of this database to keep; all if None."""
    with_trail: bool
    """Whether the audit trail is included."""
    is_scheduled: bool
    waiting: Waiting
    """Tells the user what the job waits for."""

    def do(self, config: Config) -> NewBackup:
        limits = Limits(self.keep, config.backup_limit) if self.keep else None
        with opened_database(config) as engine, self.waiting("the copy of the database"):
            taken = take(
                engine,
                self.destination,
                registers=self.registers,
                limits=limits,
                audit_dir=config.audit_dir if self.with_trail else None,
            )
        self.size_bytes = sum(file.size_bytes for file in taken.manifest.all_files.values())
        return taken
