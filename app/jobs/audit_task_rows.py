"""The table of what the console asks of the trail, and what such a task is (D138)."""

from typing import Final, NamedTuple

import msgspec
import peewee

from app.audit.record import Criteria
from app.jobs.tasks import RUNNING, TaskModel

SEARCH: Final = "search"
EXPORT: Final = "export"
REPORT: Final = "report"
VERIFY: Final = "verify"


class AuditTask(TaskModel):
    """A task. SEC: its question and its result are in files, so that no row has a plate."""

    kind = peewee.CharField(10)
    seen = peewee.CharField(16)

    class Meta:
        table_name = "audit_task"


class Question(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a task asks of the trail."""

    criteria: Criteria = msgspec.field(default_factory=Criteria)
    """Of a search, an export or a report. Times are those of records."""
    form: str = ""
    """Of an export: `csv` or `ndjson`."""
    digest: str | None = None
    """Of a verification: one that was kept elsewhere."""
    request_id: str | None = None


class Wanted(NamedTuple):
    """A task that somebody asks for."""

    kind: str
    """`search`, `export`, `report` or `verify`."""
    seen: str
    """The same for each click on one form with the same fields."""
    asked_by: str
    """The name of the person in the console."""


class Task(NamedTuple):
    """A task, with how it ended. Times are Unix seconds."""

    id: int
    kind: str
    seen: str
    asked_by: str
    asked_at: int
    host: str
    """The host whose trail it reads."""
    status: str
    """`running`, `done`, `failed` or `interrupted`."""
    reason: str | None
    """Why it failed."""
    finished_at: int | None

    @property
    def is_running(self) -> bool:
        """Whether its process still works on it."""
        return self.status == RUNNING
