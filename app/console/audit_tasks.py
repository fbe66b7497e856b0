"""What an auditor asked of the trail: how far it is, its result, and its files (D138).

SEC: the trail has recorded it for the person who asked. So nobody else is shown the result.
"""

from collections.abc import Mapping
from typing import Any

import falcon

from app import clock
from app.audit.export import Exported
from app.audit.report import Report
from app.audit.verify import Verdict
from app.console.audit import PLACE
from app.console.charts import Series
from app.console.forms import REFRESH_SECONDS, refresh
from app.console.listing import Listing
from app.console.register_actions import number
from app.console.rendering import ConsoleRequest, PageError, Services, session_of
from app.jobs.audit_tasks import (
    EXPORT,
    FOUND_MAX,
    KEPT_SECONDS,
    REPORT,
    SEARCH,
    VERIFY,
    AuditTasks,
    Found,
    Question,
    Task,
)
from app.jobs.tasks import DONE
from app.serve.http.bodies import FileBody

_RESULTS: Mapping[str, type[Any]] = {
    SEARCH: Found,
    EXPORT: Exported,
    REPORT: Report,
    VERIFY: Verdict,
}
_TYPES: Mapping[str, str] = {
    "csv": "text/csv; charset=utf-8",
    "ndjson": "application/x-ndjson",
    "json": "application/json",
    "html": "text/html; charset=utf-8",
}
_FORMS: Mapping[str, tuple[str, ...]] = {SEARCH: ("csv",), REPORT: ("html", "json"), VERIFY: ()}
"""The files that can be downloaded; those of an export are in its question."""
_SOON_SECONDS = 10
_QUICK_SECONDS = 1
_SHOWN_MAX = 20
_FAULTS_MAX = 100


class AuditTaskPage:
    """One task, whether it runs or has ended, with its result."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._tasks = AuditTasks(services.engine, services.config)

    def on_get(self, req: ConsoleRequest, resp: falcon.Response, audit_task: str) -> None:
        """GET /console/audit/tasks/{audit_task}. Parameters: `page` of a search, `refresh`."""
        task = _require_task(self._tasks, req, audit_task)
        question = self._tasks.results.find_question(task)
        result = None
        if task.status == DONE:
            result = self._tasks.results.find(task, _RESULTS[task.kind])
        # Most end at once.
        is_new = clock.now() - task.asked_at < _SOON_SECONDS
        seconds = _QUICK_SECONDS if is_new else REFRESH_SECONDS
        self._services.pages.send(
            req,
            resp,
            "audit/task.html",
            task=task,
            question=question,
            result=result,
            is_here=task.host == self._tasks.host,
            files=self._files(task, question) if result is not None else {},
            most=FOUND_MAX,
            faults_most=_FAULTS_MAX,
            shown_most=_SHOWN_MAX,
            listing=_pages_of(req, result),
            days=_days_of(result),
            refreshes=refresh(req, resp, is_running=task.is_running, seconds=seconds),
        )

    on_head = on_get

    def _files(self, task: Task, question: Question | None) -> Mapping[str, int]:
        """Return the sizes of the files of a task that is done."""
        sizes = {form: self._tasks.results.size(task, form) for form in _forms(task, question)}
        return {form: size for form, size in sizes.items() if size is not None}


class AuditFile:
    """A file of a task, as a download."""

    def __init__(self, services: Services) -> None:
        self._tasks = AuditTasks(services.engine, services.config)

    def on_get(
        self, req: ConsoleRequest, resp: falcon.Response, audit_task: str, file: str
    ) -> None:
        """GET /console/audit/tasks/{audit_task}/{file}. The file is `csv`, `html` and so on."""
        task = _require_task(self._tasks, req, audit_task)
        question = self._tasks.results.find_question(task)
        if task.status != DONE or file not in _forms(task, question):
            raise _missing(task)
        try:
            body = FileBody(self._tasks.results.path(task, file))
        except OSError as error:
            raise _missing(task) from error
        resp.content_type = _TYPES[file]
        resp.downloadable_as = f"audit-{task.kind}-{task.id}.{file}"
        resp.content_length = body.length
        resp.stream = body

    on_head = on_get


def _require_task(tasks: AuditTasks, req: ConsoleRequest, text: str) -> Task:
    task = tasks.find_of(number(text), session_of(req).name)
    if task is None:
        raise PageError(
            404,
            "There is no such task",
            "Results are kept for a day, and shown only to the person who asked. Ask again.",
            (PLACE,),
        )
    return task


def _forms(task: Task, question: Question | None) -> tuple[str, ...]:
    if task.kind == EXPORT:
        return (question.form,) if question else ()
    return _FORMS[task.kind]


def _missing(task: Task) -> PageError:
    hours = KEPT_SECONDS // 3600
    text = f"Files are kept for {hours} hours, on the host where they were asked for."
    return PageError(404, "There is no such file", text, (PLACE, "tasks", str(task.id)))


def _pages_of(req: ConsoleRequest, result: object) -> Listing | None:
    """Return the pages of the rows of a search."""
    if not isinstance(result, Found):
        return None
    listing = Listing(req, {"time": None}, None)
    listing.total = len(result.rows)
    listing.page = min(listing.page, listing.pages)
    return listing


def _days_of(result: object) -> tuple[list[str], list[Series]] | None:
    """Return the labels and the columns of the chart of a report."""
    if not isinstance(result, Report) or not result.by_day:
        return None
    labels = [day.name[len("YYYY-") :] for day in result.by_day]
    return labels, [Series("look-ups", "good", [day.look_ups for day in result.by_day])]
