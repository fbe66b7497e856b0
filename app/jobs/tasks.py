"""Tasks: what somebody asks for in the console, and a process of its own does (D135, D138).

A task is a row of the main database, which is true whatever happens. The process inherits a lock of
the worker that starts it: if it is killed, its task is `interrupted`.
"""

import socket
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec
import peewee

from app import clock, processes
from app.config import Config
from app.errors import OperatorError
from app.jobs.job import NICENESS, Job
from app.registers.attempts import reason_of
from app.storage import reserve
from app.storage.engine import Engine
from app.storage.file_lock import locked, make_directory, tried
from app.storage.session import opened_database

RUNNING, DONE, FAILED, INTERRUPTED = "running", "done", "failed", "interrupted"
_START_SECONDS = 60
"""How long a task of another host may take to begin: its process cannot be seen from here."""


class TaskModel(peewee.Model):
    """The columns that each table of tasks has. Times are Unix seconds."""

    id = peewee.AutoField()
    seen = peewee.CharField(16)
    asked_by = peewee.CharField(100)
    asked_at = peewee.BigIntegerField()
    host = peewee.CharField(255)
    status = peewee.CharField(12)
    reason = peewee.TextField(null=True)
    finished_at = peewee.BigIntegerField(null=True)


class AnyTask(msgspec.Struct, frozen=True):
    """What tasks of all kinds have. Times are Unix seconds."""

    id: int
    seen: str
    """The version of the data in the form: each click on one form sends the same."""
    asked_by: str
    """The name of the person in the console."""
    asked_at: int
    host: str
    """The host whose process does the task."""
    status: str
    """`running`, `done`, `failed` or `interrupted`."""
    reason: str | None
    """Why it failed."""
    finished_at: int | None

    @property
    def is_running(self) -> bool:
        """Whether its process still works on it."""
        return self.status == RUNNING


T = TypeVar("T", bound=AnyTask)


class TaskTable(ABC, Generic[T]):
    """The tasks of one table.

    Args:
        directory: has a lock file for each task that runs on this host.
        old_times: returns the times whose tasks are removed, in Unix seconds.
    """

    _model: type[TaskModel]
    _task: type[T]
    """A struct whose members are columns of the model."""
    _command: str
    """Its `carry-out` carries a task out."""

    def __init__(self, engine: Engine, directory: Path, old_times: Callable[[], range]) -> None:
        self._engine = engine
        self._columns = [getattr(self._model, name) for name in self._task.__struct_fields__]
        self._directory = directory
        self._old_times = old_times
        self.host = socket.gethostname()

    def find(self, task_id: int) -> T | None:
        """Return the task with this number, None if there is none."""
        return next(self._select(self._model.id == task_id), None)

    def running(self) -> list[T]:
        """Return the tasks that run now."""
        return [task for task in self._select(self._model.status == RUNNING) if task.is_running]

    def carry_out(self, task_id: int) -> None:
        """Carry a task out. The process of the task calls this.

        Raises OperatorError if that is not possible, or if the task has ended.
        """
        task = self.find(task_id)
        if task is None or task.finished_at is not None:
            raise OperatorError(f"there is no task {task_id} that waits for its process")
        try:
            self._do(task)
        except (OperatorError, peewee.PeeweeException, OSError, KeyboardInterrupt) as error:
            self._end(task_id, FAILED, reason=reason_of(error))
            raise
        except Exception as error:
            # SEC: the message of an unexpected error can quote a record.
            self._end(task_id, FAILED, reason=f"unexpected {type(error).__name__}; see the log")
            raise
        finally:
            with suppress(OSError):
                self._path(task_id).unlink()

    @abstractmethod
    def _do(self, task: T) -> None:
        """Carry a task out, then call `_finish`."""

    def _is_alive_elsewhere(self, task: T) -> bool:
        """Tell whether a task of another host may still run."""
        return clock.now() - task.asked_at < _START_SECONDS

    def _begin(
        self,
        wanted: Any,
        alone: peewee.Expression,
        done: peewee.Expression,
        require_current: Callable[[], object] = lambda: None,
        prepare: Callable[[T], object] = lambda _: None,
    ) -> T:
        """Create a task and start its process, once, however often it is asked for.

        Args:
            wanted: a named tuple of the columns that are only this table's.
            alone: the condition of those tasks of which only one may run; a unique index says so,
                too. If one runs, it is returned. One that was killed is ended.
            done: the condition of those tasks that have already done this.
            require_current: raises if it must not be done any more.
            prepare: stores what the process needs. If it raises OSError, the task has failed.

        Raises what `require_current` raises, and OSError if there can be no lock file.
        """
        runs_alone = alone & (self._model.status == RUNNING)
        with ExitStack() as held:
            try:
                with self._engine.atomic():
                    same = self._running(runs_alone) or next(self._select(done, 1), None)
                    if same is not None:
                        return same
                    require_current()
                    task_id = self._insert(wanted)
                    # Before the commit: whoever sees the task sees that it runs.
                    make_directory(self._directory)
                    lock = locked(self._path(task_id), waits=False)
                    descriptor = held.enter_context(lock)
            except peewee.IntegrityError:  # On Postgres, somebody else was faster.
                running = next(self._select(runs_alone), None)
                if running is None:
                    raise
                return running
            is_it = self._model.id == task_id
            try:
                prepare(next(self._select(is_it)))
                processes.start(self._command, "carry-out", str(task_id), kept=descriptor)
            except OSError as error:
                self._end(task_id, FAILED, reason=f"its process cannot be started: {error}")
        return next(self._select(is_it))

    def _running(self, runs_alone: peewee.Expression) -> T | None:
        """Return the task that runs. End one that was killed."""
        running = next(self._select(runs_alone), None)
        if running is None or running.is_running:
            return running
        self._update(running.id, status=INTERRUPTED)
        with suppress(OSError):
            self._path(running.id).unlink()
        return None

    def _insert(self, wanted: Any) -> int:
        old, model = self._old_times(), self._model
        is_old = (model.asked_at.between(old.start, old.stop - 1)) & (model.status != RUNNING)
        model.delete().where(is_old).execute(self._engine)
        row = {**wanted._asdict(), "asked_at": clock.now(), "host": self.host, "status": RUNNING}
        return int(model.insert(**row).execute(self._engine))

    def _finish(self, task_id: int, **columns: object) -> None:
        """Note that a task is done. Raises OperatorError if it has ended before."""
        if not self._update(task_id, status=DONE, **columns):
            raise OperatorError(f"task {task_id} has ended before")

    def _end(self, task_id: int, status: str, reason: str | None = None) -> None:
        """Note that a task ended without a change. Without it the task counts as interrupted."""
        with suppress(peewee.PeeweeException):
            reserve.with_reserve(self._engine, self._update, task_id, status=status, reason=reason)

    def _update(self, task_id: int, **columns: object) -> int:
        """Update a task, but only if it is still running. Return how many were."""
        is_it = (self._model.id == task_id) & (self._model.status == RUNNING)
        query = self._model.update(finished_at=clock.now(), **columns).where(is_it)
        return int(query.execute(self._engine))

    def _select(self, condition: peewee.Expression, limit: int | None = None) -> Iterator[T]:
        """Return tasks as they are seen from here, latest first."""
        return map(self._seen_from_here, self._read(condition, limit))

    def _read(self, condition: peewee.Expression, limit: int | None = None) -> list[T]:
        query = self._model.select(*self._columns).where(condition)
        ordered = query.order_by(self._model.id.desc()).limit(limit)
        return [self._task(*row) for row in ordered.tuples().execute(self._engine)]

    def _seen_from_here(self, task: T) -> T:
        """Return a task as `interrupted` if its process has ended without a word."""
        if not task.is_running or self._has_process(task):
            return task
        # A task that ended while its lock was looked at was not killed.
        (again,) = self._read(self._model.id == task.id)
        if again.is_running:
            return msgspec.structs.replace(again, status=INTERRUPTED)
        return again

    def _has_process(self, task: T) -> bool:
        if task.host != self.host:
            return self._is_alive_elsewhere(task)
        try:
            with tried(self._path(task.id), shared=True, create=False) as is_free:
                return not is_free
        except OSError as error:
            return not isinstance(error, FileNotFoundError)

    def _path(self, task_id: int) -> Path:
        return self._directory / f"{task_id}.lock"


@dataclass
class TaskJob(Job[None]):
    """What a task asks for, in the process that the console started for it."""

    niceness = NICENESS

    tasks: Callable[[Engine, Config], TaskTable[Any]]
    """Returns the tasks of an installation."""
    task_id: int
    is_alerted: bool = False
    """Whether the task can begin or end what alerts report."""

    def do(self, config: Config) -> None:
        with opened_database(config) as engine:
            self.tasks(engine, config).carry_out(self.task_id)
