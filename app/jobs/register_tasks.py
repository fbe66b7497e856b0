"""What somebody asks for in the console, and a process of its own does to a register (D135).

The transaction that changes the register also ends the task. If its process is killed before that,
it is `interrupted`, and the register is as it was. Only of an acceptance, which is a load, the
history says how it ended.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import NamedTuple

import peewee

from app.actions import Actor
from app.clock_steps import old_times
from app.config import Config
from app.errors import OperatorError
from app.jobs.decisions import accept
from app.jobs.tasks import DONE, AnyTask, TaskModel, TaskTable
from app.registers.generations import is_being_loaded
from app.registers.history import DROP, PURGE, ROLLBACK, UNDROP
from app.registers.holds import reject
from app.registers.undo import drop_register, purge_register, roll_back, undrop_register
from app.storage import reserve
from app.storage.engine import Engine

ACCEPT, REJECT = "accept", "reject"


class RegisterTask(TaskModel):
    """A task. No two rows of one register are `running`."""

    register = peewee.CharField(30)
    action = peewee.CharField(10)
    to_load = peewee.BigIntegerField(null=True)
    load_id = peewee.BigIntegerField(null=True)

    class Meta:
        table_name = "register_task"


class RegisterTaskRequest(NamedTuple):
    """What somebody asks for."""

    register: str
    action: str
    """`rollback`, `drop`, `undrop`, `purge`, `accept` or `reject`."""
    to_load: int | None
    """The load to roll back to, or the held load to decide about; None for other actions."""
    seen: str
    """The version of the register that the form showed."""
    asked_by: str
    """The name of the person in the console."""


class Task(AnyTask, frozen=True):
    """A task, with how it ended."""

    register: str
    action: str
    to_load: int | None
    load_id: int | None
    """The line of the history that it added."""


_KEPT_SECONDS = 400 * 86_400


class RegisterTasks(TaskTable[Task]):
    """The tasks of an installation."""

    _model, _task, _command = RegisterTask, Task, "imports"

    def __init__(self, engine: Engine, config: Config) -> None:
        self._config = config
        old = partial(old_times, config.data_dir, _KEPT_SECONDS)
        super().__init__(engine, config.state_dir / "tasks", old)

    def latest(self, register: str, limit: int) -> list[Task]:
        """Return the latest tasks of a register, latest first."""
        return list(self._select(RegisterTask.register == register, limit))

    def of_load(self, load_id: int) -> Task | None:
        """Return the task that added a line to the history, None if a command did."""
        return next(self._select(RegisterTask.load_id == load_id), None)

    def begin(self, wanted: RegisterTaskRequest, require_current: Callable[[], object]) -> Task:
        """Create a task and start its process, once, however often it is asked for.

        If the register has a task that runs, return that one. If the same form was sent before and
        its task is done, return that one.

        Args:
            require_current: raises if the register is not what the form showed.

        Raises what `require_current` raises, and OSError if the process cannot be started.
        """
        is_of_register = RegisterTask.register == wanted.register
        is_same = (RegisterTask.seen == wanted.seen) & (RegisterTask.action == wanted.action)
        # A rejection leaves the version of the register as it was.
        is_same &= RegisterTask.to_load == wanted.to_load
        is_done = is_of_register & is_same & (RegisterTask.status == DONE)
        # A drop frees space, so it can begin on a full disk, too (D57).
        return reserve.with_reserve(
            self._engine, self._begin, wanted, is_of_register, is_done, require_current
        )

    def _do(self, task: Task) -> None:
        def noted(load_id: int) -> None:
            self._finish(task.id, load_id=load_id)

        changes: Mapping[str, Callable[..., object]] = {
            ROLLBACK: partial(roll_back, kind=None, to=task.to_load),
            DROP: drop_register,
            UNDROP: undrop_register,
            PURGE: purge_register,
        }
        # SEC: the name comes from the row that the console wrote, with the session of the request.
        # So no command line and no variable can name somebody else (D130).
        actor = Actor(task.asked_by, "console")
        if task.action == ACCEPT:
            result = accept(self._config, task.to_load or 0, actor)
            self._finish(task.id, load_id=result.load)
            return
        if task.action == REJECT:
            reject(self._engine, task.to_load or 0, actor, partial(self._finish, task.id))
            return
        changes[task.action](self._engine, task.register, actor=actor, noted=noted)
        with suppress(OperatorError):  # A purge may find nothing left to do.
            self._finish(task.id)

    def _is_alive_elsewhere(self, task: Task) -> bool:
        return super()._is_alive_elsewhere(task) or is_being_loaded(self._engine, task.register)
