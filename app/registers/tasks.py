"""Tasks: what somebody asks for in the console, and a process of its own does to a register (D135).

A task is a row of the main database, which is true whatever happens. The transaction that changes
the register also ends the task. If its process is killed before that, it is `interrupted`.
"""

import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any

import peewee

from app import clock
from app.actor import Actor
from app.directories import make_directory
from app.errors import OperatorError
from app.file_lock import handed_over, tried
from app.registers.attempts import reason_of
from app.registers.history import DROP, INTERRUPTED, PURGE, ROLLBACK, UNDROP
from app.registers.lock import is_being_loaded
from app.registers.task_rows import DONE, FAILED, RUNNING, RegisterTask, Task, Wanted
from app.registers.undo import Noted, drop_register, purge_register, roll_back, undrop_register
from app.storage import reserve
from app.storage.engine import Engine

_START_SECONDS = 60
"""How long a task of another host may take to begin: its process cannot be seen from here."""
_KEPT_SECONDS = 400 * 86_400

Start = Callable[[int, int], object]
"""Starts the process of a task; takes its number, and the descriptor that the process must keep."""


_COLUMNS = tuple(getattr(RegisterTask, name) for name in Task._fields)


class Tasks:
    """The tasks of an installation.

    Args:
        state_dir: has a lock file for each task that runs on this host.
    """

    def __init__(self, engine: Engine, state_dir: Path) -> None:
        self._engine = engine
        self._directory = state_dir / "tasks"

    def find(self, task_id: int) -> Task | None:
        """Return the task with this number, None if there is none."""
        return next(self._select(RegisterTask.id == task_id), None)

    def latest(self, register: str, limit: int) -> list[Task]:
        """Return the latest tasks of a register, latest first."""
        return list(self._select(RegisterTask.register == register, limit))

    def of_load(self, load_id: int) -> Task | None:
        """Return the task that added a line to the history, None if a command did."""
        return next(self._select(RegisterTask.load_id == load_id), None)

    def running(self) -> list[Task]:
        """Return the tasks that run now."""
        found = self._select(RegisterTask.status == RUNNING)
        return [task for task in found if task.is_running]

    def begin(self, wanted: Wanted, require_current: Callable[[], object], start: Start) -> Task:
        """Create a task and start its process, once, however often it is asked for.

        If the register has a task that runs, return that one. If the same form was sent before and
        its task is done, return that one.

        Args:
            require_current: raises if the register is not what the form showed.

        Raises what `require_current` raises, and OSError if the process cannot be started.
        """
        with ExitStack() as held:
            try:
                with self._engine.atomic():
                    same = self._running_or_done(wanted)
                    if same is not None:
                        return same
                    require_current()
                    task_id = self._insert(wanted)
                    # Before the commit: whoever sees the task sees that it runs.
                    descriptor = held.enter_context(self._lock(task_id))
            except peewee.IntegrityError:  # On Postgres, somebody else was faster.
                running = next(self._select(_runs_on(wanted.register)), None)
                if running is None:
                    raise
                return running
            try:
                start(task_id, descriptor)
            except OSError as error:
                self._end(task_id, FAILED, reason=f"its process cannot be started: {error}")
        task = self.find(task_id)
        assert task is not None  # noqa: S101 - tasks are kept for a year
        return task

    def carry_out(self, task_id: int) -> None:
        """Do what a task asks for. Its own process calls this.

        Raises OperatorError if that is not possible, or if the task has ended.
        """
        task = self.find(task_id)
        if task is None or task.finished_at is not None:
            raise OperatorError(f"there is no task {task_id} that waits for its process")
        try:
            _change(self._engine, task, partial(self._finish, task_id))
            with suppress(OperatorError):  # A purge may find nothing left to do.
                self._finish(task_id)
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

    def _running_or_done(self, wanted: Wanted) -> Task | None:
        """Return the task that is already what somebody wants. End one that was killed."""
        running = next(self._select(_runs_on(wanted.register)), None)
        if running is not None and running.is_running:
            return running
        if running is not None:
            self._update(running.id, status=INTERRUPTED)
            with suppress(OSError):
                self._path(running.id).unlink()
        is_same = (RegisterTask.seen == wanted.seen) & (RegisterTask.action == wanted.action)
        done = (RegisterTask.register == wanted.register) & (RegisterTask.status == DONE)
        return next(self._select(is_same & done, 1), None)

    def _insert(self, wanted: Wanted) -> int:
        now = clock.now()
        is_old = RegisterTask.asked_at < now - _KEPT_SECONDS
        RegisterTask.delete().where(is_old & (RegisterTask.status != RUNNING)).execute(self._engine)
        host = socket.gethostname()
        columns: dict[str, Any] = {"asked_at": now, "host": host, "status": RUNNING}
        insert = RegisterTask.insert(**wanted._asdict(), **columns)
        return int(insert.execute(self._engine))

    def _finish(self, task_id: int, load_id: int | None = None) -> None:
        """Note that a task is done. Raises OperatorError if it has ended before."""
        if not self._update(task_id, status=DONE, load_id=load_id):
            raise OperatorError(f"task {task_id} has ended before")

    def _end(self, task_id: int, status: str, reason: str | None = None) -> None:
        """Note that a task ended without a change. Without it the task counts as interrupted."""
        with suppress(peewee.PeeweeException):
            end = partial(self._update, task_id, status=status, reason=reason)
            reserve.with_reserve(self._engine, end)

    def _update(self, task_id: int, **columns: object) -> int:
        """Update a task, but only if it is still running. Return how many were."""
        is_it = (RegisterTask.id == task_id) & (RegisterTask.status == RUNNING)
        query = RegisterTask.update(finished_at=clock.now(), **columns).where(is_it)
        return int(query.execute(self._engine))

    def _select(self, condition: Any, limit: int | None = None) -> Iterator[Task]:
        query = RegisterTask.select(*_COLUMNS).where(condition)
        ordered = query.order_by(RegisterTask.id.desc()).limit(limit)
        for row in list(ordered.tuples().execute(self._engine)):
            yield self._seen_from_here(Task(*row))

    def _seen_from_here(self, task: Task) -> Task:
        """Return a task as `interrupted` if its process has ended without a word."""
        if not task.is_running or self._has_process(task):
            return task
        query = RegisterTask.select(*_COLUMNS).where(RegisterTask.id == task.id)
        # A task that ended while its lock was looked at was not killed.
        again = next(Task(*row) for row in query.tuples().execute(self._engine))
        return again._replace(status=INTERRUPTED) if again.is_running else again

    def _has_process(self, task: Task) -> bool:
        if task.host != socket.gethostname():
            is_young = clock.now() - task.asked_at < _START_SECONDS
            return is_young or is_being_loaded(self._engine, task.register)
        try:
            with tried(self._path(task.id), shared=True, create=False) as is_free:
                return not is_free
        except FileNotFoundError:
            return False
        except OSError:
            return True

    def _lock(self, task_id: int) -> Any:
        make_directory(self._directory)
        return handed_over(self._path(task_id))

    def _path(self, task_id: int) -> Path:
        return self._directory / f"{task_id}.lock"


def _runs_on(register: str) -> Any:
    return (RegisterTask.register == register) & (RegisterTask.status == RUNNING)


def _change(engine: Engine, task: Task, noted: Noted) -> None:
    """Change the register as a task asks for, in the name of the person who asked (D130).

    SEC: the name comes from the row that the console wrote, with the session of the request. So
    no command line and no variable can name somebody else.
    """
    changes: Mapping[str, Callable[..., object]] = {
        ROLLBACK: partial(roll_back, kind=None, to=task.to_load),
        DROP: drop_register,
        UNDROP: undrop_register,
        PURGE: purge_register,
    }
    actor = Actor(task.asked_by, "console")
    changes[task.action](engine, task.register, actor=actor, noted=noted)
