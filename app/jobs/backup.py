"""A backup as a job (D47)."""

from pathlib import Path

from app.backup.retention import Limits
from app.backup.take import Registers, Taken, take
from app.config import Config
from app.jobs.job import Job
from app.storage.interface import Waiting
from app.storage.session import opened_database


class Backup(Job[Taken]):
    """A new backup in a directory.

    Args:
        keep: how many backups of this database to keep; all if None.
        with_trail: whether the audit trail is included.
        waiting: tells the user what the job waits for.
    """

    name = "backup"
    is_alerted = True

    def __init__(
        self,
        destination: Path,
        registers: Registers,
        *,
        keep: int | None,
        with_trail: bool,
        is_scheduled: bool,
        waiting: Waiting,
    ) -> None:
        self._destination = destination
        self._registers = registers
        self._keep = keep
        self._with_trail = with_trail
        self.is_scheduled = is_scheduled
        self._waiting = waiting

    def do(self) -> Taken:
        """Take the backup."""
        config = Config.from_env()
        limits = Limits(self._keep, config.backup_limit) if self._keep else None
        with opened_database(config) as engine, self._waiting("the copy of the database"):
            taken = take(
                engine,
                self._destination,
                registers=self._registers,
                limits=limits,
                audit_dir=config.audit_dir if self._with_trail else None,
            )
        self.size_bytes = sum(file.size_bytes for file in taken.manifest.all_files.values())
        return taken
