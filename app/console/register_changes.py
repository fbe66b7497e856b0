"""Rollback, drop, undrop and purge of a register, accepting and rejecting a load: each a question.

Each starts a process of its own, and opens the page of its task. The task has the name of the
person in the console: `RegisterTaskRequest.asked_by`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping

import falcon

from app.console.form_pages import ConfirmationText, ask
from app.console.forms import VERSION_FIELD, read_fields, refresh, require_version, version_of
from app.console.registers import PLACE, require_state
from app.console.rendering import ConsoleRequest, Values
from app.console.resources import PageError, Resource, missing, number_in_path, redirect, view
from app.errors import OperatorError
from app.jobs.register_tasks import ACCEPT, REJECT, RegisterTaskRequest
from app.registers.generations import is_being_loaded
from app.registers.history import DROP, MERGE, PURGE, ROLLBACK, UNDROP
from app.registers.holds import HeldLoad, explained, require_acceptable, require_rejectable
from app.registers.snapshots import RegisterState
from app.storage.engine import Engine
from app.text import as_sentence

_TITLES: Mapping[str, str] = {
    ROLLBACK: "Roll {register} back to load {to_load}",
    DROP: "Drop {register}",
    UNDROP: "Bring {register} back",
    PURGE: "Remove {register} for good",
    ACCEPT: "Accept load {to_load} of {register}",
    REJECT: "Reject load {to_load} of {register}",
}
_VERSION_CHARACTERS = 16


class TaskPage(Resource):
    """One task, whether it runs or has ended."""

    @view("tasks/detail.html")
    def on_get(self, req: ConsoleRequest, resp: falcon.Response, task_id: str) -> Values:
        """GET /console/tasks/{task_id}. Parameter: `refresh`."""
        task = self.services.tasks.find(number_in_path(task_id))
        if task is None:
            raise missing("task", "It was removed after a year, or never was.", PLACE)
        return {
            "task": task,
            "title": _TITLES[task.action].format(register=task.register, to_load=task.to_load),
            "refreshes": refresh(req, resp, is_running=task.is_running),
        }


class _RegisterAction(Resource, ABC):
    """A question before an action on a register: GET asks it, and POST begins a task."""

    action: str
    """Its mode in the history."""

    @abstractmethod
    def _question(self, state: RegisterState, to: int | None) -> ConfirmationText:
        """Return the question. Raises PageError if the action is pointless in this state.

        Args:
            to: the load in the path: to go back to, or to decide about; None if it names none.
        """

    def on_get(
        self, req: ConsoleRequest, resp: falcon.Response, name: str, load_id: str = ""
    ) -> None:
        """Ask for confirmation, or show the task that already runs."""
        state = require_state(self.engine, name)
        tasks = self.services.tasks.running()
        running = next((task for task in tasks if task.register == name), None)
        if running is not None:
            redirect(req, resp, "tasks", str(running.id))
            return
        question = self._possible(state, number_in_path(load_id) or None)
        ask(self, req, resp, question, PLACE, name, version=_version(state))

    def on_post(
        self, req: ConsoleRequest, resp: falcon.Response, name: str, load_id: str = ""
    ) -> None:
        """Begin the task, and lead to its page."""
        require_state(self.engine, name)
        to = number_in_path(load_id) or None

        def require_current() -> None:
            state = require_state(self.engine, name)
            require_version(req, _version(state), (PLACE, name))
            self._possible(state, to)

        seen = read_fields(req).get(VERSION_FIELD, "")[:_VERSION_CHARACTERS]
        wanted = RegisterTaskRequest(name, self.action, to, seen, req.session.name)
        try:
            task = self.services.tasks.begin(wanted, require_current)
        except OSError as error:
            text = f"Nothing was changed: the state directory cannot be used ({error.strerror})."
            raise PageError(503, "This cannot be done now", text, (PLACE, name)) from error
        redirect(req, resp, "tasks", str(task.id))

    def _possible(self, state: RegisterState, to: int | None) -> ConfirmationText:
        """Return the question. Raises PageError if the action is not possible now."""
        question = self._question(state, to)
        if is_being_loaded(self.engine, state.name):
            raise _impossible(
                state,
                "This register is being loaded or changed",
                "Try again when that has ended. The page of the register leads to it.",
            )
        return question


def _impossible(state: RegisterState, heading: str, text: str) -> PageError:
    """Return the refusal of an action on a register."""
    return PageError(409, heading, f"Nothing was changed. {text}", back=(PLACE, state.name))


class RegisterRollback(_RegisterAction):
    """GET, POST /console/registers/{name}/rollback/{load_id}. Back to an earlier load."""

    action = ROLLBACK

    def _question(self, state: RegisterState, to: int | None) -> ConfirmationText:
        snapshot = None if to is None else state.snapshot(to)
        if snapshot is None or state.current is None:
            raise _impossible(
                state,
                "The register cannot go back to that load",
                "Its page shows to which loads it can go back.",
            )
        kinds = " and ".join(sorted(snapshot.undone))
        return ConfirmationText(
            f"Roll {state.name} back to load {to}?",
            f"It has {state.current.described()}. Then it has {snapshot.kept.described()} "
            f"again. This changes its {kinds}, from the next request on. What later loads brought "
            "is lost, unless it is loaded again.",
            "Roll the register back",
        )


class RegisterAcceptance(_RegisterAction):
    """GET, POST /console/registers/{name}/accept/{load_id}. A held load is loaded again (D158)."""

    action = ACCEPT

    def _question(self, state: RegisterState, to: int | None) -> ConfirmationText:
        held = _undecided(self.engine, state, to, require_acceptable)
        return ConfirmationText(
            f"Accept load {to} of {state.name}?",
            f"It breaks rules: {explained(held.broken)}. Its {held.kind} are loaded all the same, "
            f"as a {held.mode}, and answers use them from the next request on. A rule that is not "
            "named here is still checked.",
            "Accept and load it",
        )


class RegisterRejection(_RegisterAction):
    """GET, POST /console/registers/{name}/reject/{load_id}. The files of a held load are wrong."""

    action = REJECT

    def _question(self, state: RegisterState, to: int | None) -> ConfirmationText:
        held = _undecided(self.engine, state, to, require_rejectable)
        waiting = " Later files that wait for it are loaded from the next night on."
        return ConfirmationText(
            f"Reject load {to} of {state.name}?",
            "It changes nothing, and is not held any more. The same files are refused from now on. "
            f"These stay in {held.directory} for as long as those of other failed loads."
            f"{waiting if held.mode == MERGE else ''}",
            "Reject",
        )


def _undecided(
    engine: Engine,
    state: RegisterState,
    load_id: int | None,
    require: Callable[[Engine, int], HeldLoad],
) -> HeldLoad:
    """Return a held load of a register that can be decided about. Raises PageError.

    Args:
        require: raises OperatorError if it cannot be.
    """
    try:
        held = require(engine, load_id or 0)
    except (OperatorError, OSError) as error:
        text = str(error).removesuffix(".")
        heading = "Nothing can be decided about this load now"
        raise _impossible(state, heading, as_sentence(text)) from error
    if held.register != state.name:
        raise missing("load", "This register has no such load.", PLACE, state.name)
    return held


class RegisterDrop(_RegisterAction):
    """GET, POST /console/registers/{name}/drop. An undrop can take it back."""

    action = DROP

    def _question(self, state: RegisterState, to: int | None) -> ConfirmationText:
        if state.current is None:
            raise _impossible(
                state, "There is nothing to drop", "The register was dropped already."
            )
        return ConfirmationText(
            f"Drop {state.name}?",
            f"It has {state.current.described()}. From the next request on, answers do not use "
            "it. You can bring it back, until something is loaded into a register of this name.",
            "Drop the register",
        )


class RegisterUndrop(_RegisterAction):
    """GET, POST /console/registers/{name}/undrop. The return of a dropped register."""

    action = UNDROP

    def _question(self, state: RegisterState, to: int | None) -> ConfirmationText:
        if state.dropped is None:
            raise _impossible(
                state,
                "There is nothing to bring back",
                "The register was not dropped, or something was loaded into it since.",
            )
        return ConfirmationText(
            f"Bring {state.name} back?",
            f"It had {state.dropped.described()} when it was dropped. From the next request on, "
            "answers use it again.",
            "Bring the register back",
        )


class RegisterPurge(_RegisterAction):
    """GET, POST /console/registers/{name}/purge. The removal of a register for good."""

    action = PURGE

    def _question(self, state: RegisterState, to: int | None) -> ConfirmationText:
        if not state.can_be_purged:
            raise _impossible(state, "There is nothing to remove", "The register has no data.")
        if state.current is not None:
            text = "Until it is removed, a dropped register can be brought back."
            raise _impossible(state, "Drop the register first", text)
        if state.dropped is None:
            return ConfirmationText(
                f"End the warning about {state.name}?",
                "All loads of this name failed, so there is no data to remove. If the name was "
                "mistyped, this ends the warning about it.",
                "End the warning",
            )
        return ConfirmationText(
            f"Remove {state.name} for good?",
            f"Its data ({state.dropped.described()}) and its snapshots are removed, which frees "
            "their disk space. This cannot be undone: only its files can bring it back.",
            "Remove the register for good",
        )


def _version(state: RegisterState) -> str:
    """Return the version of a register. Each new line of its history changes the version."""
    return version_of(state.name, state.last_line, state.current, state.dropped)
