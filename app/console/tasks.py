"""What the console does to registers in processes of their own (D135)."""

from collections.abc import Mapping

import falcon

from app.console.context import ConsoleRequest, PageError, Services
from app.console.refreshing import refresh
from app.jobs.register_task_rows import Task
from app.jobs.register_tasks import Tasks
from app.registers.history import DROP, PURGE, ROLLBACK, UNDROP

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
