"""The deep check of all data and of the audit trail as a job (D153, D167)."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from app.audit.record import AuditError
from app.audit.segments import OWNER, SUFFIX
from app.audit.verified import Verified
from app.audit.verify import verify
from app.config import Config
from app.jobs.job import NICENESS, Job
from app.registers.deep_check import deep_faults
from app.storage.interface import Waiting
from app.storage.session import opened_database


@dataclass(kw_only=True)
class DeepCheck(Job[list[str]]):
    """Reads all data, and returns a sentence for each damage."""

    name = "check"
    niceness = NICENESS
    is_alerted = True

    is_scheduled: bool
    waiting: Waiting
    """Tells the user what the job waits for."""
    found: list[str] = field(default_factory=list)
    files_read: int | None = None
    """How many files of the audit trail were read; None if there is no trail."""

    def do(self, config: Config) -> list[str]:
        """Read everything. The trail comes first, because it does not need the database."""
        with self.waiting("the check of all data"):
            self.found += self._trail_faults(config)
            with opened_database(config) as engine:
                for fault in deep_faults(engine):
                    self.found.append(fault)
        return self.found

    def faults(self, error: BaseException | None) -> list[str]:
        """Return what is damaged, also if the run did not come to its end."""
        return [*self.found, *super().faults(error)]

    def _trail_faults(self, config: Config) -> Iterator[str]:
        """Yield a sentence for each fault of the trail, also if it is switched off.

        SEC: faults name segments and lines of the chain. Notes can quote what a person wrote.
        """
        directory, verified = config.audit_dir, Verified.load(config.data_dir)
        try:
            if not _has_trail(directory):
                return
            found = verify(directory, keep=config.audit_keep, verified=verified)
        except AuditError as error:
            yield f"The audit trail could not be verified: {error}."
            return
        except OSError as error:
            # A file that was opened and then cannot be read is not named.
            where = f"{error.filename}: " if error.filename else ""
            yield f"The audit trail could not be verified: {where}{error.strerror}."
            return
        self.files_read = verified.read
        for fault in found.faults:
            yield f"The audit trail has a fault: {fault.sentence} [{fault.kind}]."
        verified.save(config.data_dir)


def _has_trail(directory: Path) -> bool:
    """Tell whether a directory has files of a trail. Raises OSError."""
    try:
        names = os.listdir(directory)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return any(name == OWNER or name.endswith(SUFFIX) for name in names)
