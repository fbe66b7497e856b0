"""Rollback, drop, undrop and purge of a register, each after a question (D135).

Each starts a process of its own, and leads to the page of its task. Here the name of the person in
the console is passed on: `Wanted.asked_by`.
"""

from collections.abc import Callable, Mapping

import falcon

from app import processes
from app.console import registers as questions
from app.console.forms import VERSION_FIELD, read_fields, refresh, require_version, version_of
from app.console.registers import PLACE, require_state
from app.console.rendering import ConsoleRequest, PageError, Services, redirect, session_of
from app.jobs.register_tasks import Task, Tasks, Wanted
from app.registers.generations import is_being_loaded
from app.registers.history import DROP, PURGE, ROLLBACK, UNDROP
from app.registers.snapshots import RegisterState
from app.storage.engine import Engine

# What the console does to registers in processes of their own (D135).

_NUMBER_DIGITS_MAX = 18
_TITLES: Mapping[str, str] = {
    ROLLBACK: "Roll {register} back to load {to_load}",
    DROP: "Drop {register}",
    UNDROP: "Bring {register} back",
    PURGE: "Remove {register} for good",
}


class TaskPage:
    """One task, whether it runs or has ended."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._tasks = Tasks(services.engine, services.config.state_dir)

    def on_get(self, req: ConsoleRequest, resp: falcon.Response, task_id: str) -> None:
        """GET /console/tasks/{task_id}. Parameter: `refresh`."""
        task = self._tasks.find(number(task_id))
        if task is None:
            text = "It was removed after a year, or never was."
            raise PageError(404, "There is no such task", text, back=("registers",))
        self._services.pages.send(
            req,
            resp,
            "tasks/detail.html",
            task=task,
            title=title(task),
            refreshes=refresh(req, resp, is_running=task.is_running),
        )

    on_head = on_get


def title(task: Task) -> str:
    """Return what a task does, in a few words."""
    return _TITLES[task.action].format(register=task.register, to_load=task.to_load)


def number(text: str) -> int:
    """Return a number in a path; 0, which nothing has, for any other text."""
    is_number = text.isascii() and text.isdigit() and len(text) <= _NUMBER_DIGITS_MAX
    return int(text) if is_number else 0


_VERSION_CHARACTERS = 16


class _Action:
    """An action on a register.

    Args:
        action: its mode in the history.
        question: returns the question; raises PageError if the action is not possible now.
    """

    def __init__(
        self,
        services: Services,
        action: str,
        question: Callable[[RegisterState, int | None], questions.Question],
    ) -> None:
        self._services = services
        self._action = action
        self._question = question
        self._tasks = Tasks(services.engine, services.config.state_dir)

    def ask(
        self, req: ConsoleRequest, resp: falcon.Response, name: str, to: int | None = None
    ) -> None:
        """Show the question; or the task that already runs, if there is one."""
        engine = self._services.engine
        state = require_state(engine, name)
        running = next((task for task in self._tasks.running() if task.register == name), None)
        if running is not None:
            redirect(req, resp, "tasks", str(running.id))
            return
        question = self._possible(engine, state, to)
        self._services.pages.send(
            req,
            resp,
            "confirm.html",
            **question._asdict(),
            back=(PLACE, name),
            version=_version(state),
            is_dangerous=True,
        )

    def begin(
        self, req: ConsoleRequest, resp: falcon.Response, name: str, to: int | None = None
    ) -> None:
        """Begin the task that the form asks for, and lead to its page."""
        engine = self._services.engine
        require_state(engine, name)

        def require_current() -> None:
            state = require_state(engine, name)
            require_version(req, _version(state), (PLACE, name))
            self._possible(engine, state, to)

        seen = read_fields(req).get(VERSION_FIELD, "")[:_VERSION_CHARACTERS]
        wanted = Wanted(name, self._action, to, seen, session_of(req).name)
        try:
            task = self._tasks.begin(wanted, require_current, _start)
        except OSError as error:
            text = f"Nothing was changed: the state directory cannot be used ({error.strerror})."
            raise PageError(503, "This cannot be done now", text, (PLACE, name)) from error
        redirect(req, resp, "tasks", str(task.id))

    def _possible(self, engine: Engine, state: RegisterState, to: int | None) -> questions.Question:
        """Return the question. Raises PageError if the action is not possible now."""
        question = self._question(state, to)
        if is_being_loaded(engine, state.name):
            raise questions.impossible(
                state,
                "A load of this register is running",
                "Try again when it has ended. The page of the register leads to it.",
            )
        return question


class RegisterRollback:
    """A rollback to what an earlier load left."""

    def __init__(self, services: Services) -> None:
        self._action = _Action(services, ROLLBACK, questions.ask_rollback)

    def on_get(self, req: ConsoleRequest, resp: falcon.Response, name: str, load_id: str) -> None:
        """GET /console/registers/{name}/rollback/{load_id}. Asks for confirmation."""
        self._action.ask(req, resp, name, number(load_id))

    on_head = on_get

    def on_post(self, req: ConsoleRequest, resp: falcon.Response, name: str, load_id: str) -> None:
        """POST /console/registers/{name}/rollback/{load_id}."""
        self._action.begin(req, resp, name, number(load_id))


class RegisterDrop:
    """A drop, which an undrop can take back."""

    def __init__(self, services: Services) -> None:
        self._action = _Action(services, DROP, questions.ask_drop)

    def on_get(self, req: ConsoleRequest, resp: falcon.Response, name: str) -> None:
        """GET /console/registers/{name}/drop. Asks for confirmation."""
        self._action.ask(req, resp, name)

    on_head = on_get

    def on_post(self, req: ConsoleRequest, resp: falcon.Response, name: str) -> None:
        """POST /console/registers/{name}/drop."""
        self._action.begin(req, resp, name)


class RegisterUndrop:
    """The return of a dropped register."""

    def __init__(self, services: Services) -> None:
        self._action = _Action(services, UNDROP, questions.ask_undrop)

    def on_get(self, req: ConsoleRequest, resp: falcon.Response, name: str) -> None:
        """GET /console/registers/{name}/undrop. Asks for confirmation."""
        self._action.ask(req, resp, name)

    on_head = on_get

    def on_post(self, req: ConsoleRequest, resp: falcon.Response, name: str) -> None:
        """POST /console/registers/{name}/undrop."""
        self._action.begin(req, resp, name)


class RegisterPurge:
    """The removal of a register for good."""

    def __init__(self, services: Services) -> None:
        self._action = _Action(services, PURGE, questions.ask_purge)

    def on_get(self, req: ConsoleRequest, resp: falcon.Response, name: str) -> None:
        """GET /console/registers/{name}/purge. Asks for confirmation."""
        self._action.ask(req, resp, name)

    on_head = on_get

    def on_post(self, req: ConsoleRequest, resp: falcon.Response, name: str) -> None:
        """POST /console/registers/{name}/purge."""
        self._action.begin(req, resp, name)


def _start(task_id: int, descriptor: int) -> None:
    processes.start("imports", "carry-out", str(task_id), kept=descriptor)


def _version(state: RegisterState) -> str:
    """Return the version of a register. Each line of its history makes another one."""
    return version_of(state.name, state.last_line, state.current, state.dropped)
