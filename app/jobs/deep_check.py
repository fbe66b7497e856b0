"""The deep check of all data as a job (D153)."""

from dataclasses import dataclass, field

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

    def do(self) -> list[str]:
        """Read everything."""
        with opened_database(Config.from_env()) as engine, self.waiting("the check of all data"):
            for fault in deep_faults(engine):
                self.found.append(fault)
        return self.found

    def faults(self, error: BaseException | None) -> list[str]:
        """Return what is damaged, also if the run did not come to its end."""
        return [*self.found, *super().faults(error)]
