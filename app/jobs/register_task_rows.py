"""The table of tasks of registers, and what such a task is (D135)."""

from typing import NamedTuple

import peewee

from app.jobs.tasks import RUNNING, TaskModel


class RegisterTask(TaskModel):
    """A task. No two rows of one register are `running`."""

    register = peewee.CharField(30)
    action = peewee.CharField(10)
    to_load = peewee.BigIntegerField(null=True)
    seen = peewee.CharField(16)
    load_id = peewee.BigIntegerField(null=True)

    class Meta:
        table_name = "register_task"


class Wanted(NamedTuple):
    """What somebody asks for."""

    register: str
    action: str
    """`rollback`, `drop`, `undrop` or `purge`."""
    to_load: int | None
    """The load to roll back to; None for other actions."""
    seen: str
    """The version of the register that the form showed."""
    asked_by: str
    """The name of the person in the console."""


class Task(NamedTuple):
    """A task, with how it ended."""

    id: int
    register: str
    action: str
    to_load: int | None
    seen: str
    asked_by: str
    asked_at: int
    host: str
    """The host whose process does it."""
    status: str
    """`running`, `done`, `failed` or `interrupted`."""
    load_id: int | None
    """The line of the history that it added."""
    reason: str | None
    """Why it failed."""
    finished_at: int | None

    @property
    def is_running(self) -> bool:
        """Whether its process still works on it."""
        return self.status == RUNNING
