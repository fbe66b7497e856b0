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
from app.console.rendering import ConsoleRequest, PageError, session_of
from app.console.resources import Resource, Values, missing, number, view
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
    Results,
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


class AuditTaskPage(Resource):
    """One task, whether it runs or has ended, with its result."""

    @view("audit/task.html")
    def on_get(self, req: ConsoleRequest, resp: falcon.Response, audit_task: str) -> Values:
        """GET /console/audit/tasks/{audit_task}. Parameters: `page` of a search, `refresh`."""
        tasks = self.services.audit_tasks
        task = _require_task(tasks, req, audit_task)
        question = tasks.results.find_question(task)
        result = None
        if task.status == DONE:
            result = tasks.results.find(task, _RESULTS[task.kind])
        # Most end at once.
        is_new = clock.now() - task.asked_at < _SOON_SECONDS
        seconds = _QUICK_SECONDS if is_new else REFRESH_SECONDS
        return {
            "task": task,
            "question": question,
            "result": result,
            "is_here": task.host == tasks.host,
            "files": {} if result is None else _sizes(tasks.results, task, question),
            "most": FOUND_MAX,
            "faults_most": _FAULTS_MAX,
            "shown_most": _SHOWN_MAX,
            "listing": _pages_of(req, result),
            "days": _days_of(result),
            "refreshes": refresh(req, resp, is_running=task.is_running, seconds=seconds),
        }


class AuditFile(Resource):
    """A file of a task, as a download."""

    def on_get(
        self, req: ConsoleRequest, resp: falcon.Response, audit_task: str, file: str
    ) -> None:
        """GET /console/audit/tasks/{audit_task}/{file}. The file is `csv`, `html` and so on."""
        tasks = self.services.audit_tasks
        task = _require_task(tasks, req, audit_task)
        question = tasks.results.find_question(task)
        if task.status != DONE or file not in _forms(task, question):
            raise _missing(task)
        try:
            body = FileBody(tasks.results.path(task, file))
        except OSError as error:
            raise _missing(task) from error
        resp.content_type = _TYPES[file]
        resp.downloadable_as = f"audit-{task.kind}-{task.id}.{file}"
        resp.content_length = body.length
        resp.stream = body


def _require_task(tasks: AuditTasks, req: ConsoleRequest, text: str) -> Task:
    task = tasks.find_of(number(text), session_of(req).name)
    if task is None:
        text = "Results are kept for a day, and shown only to the person who asked. Ask again."
        raise missing("task", text, PLACE)
    return task


def _forms(task: Task, question: Question | None) -> tuple[str, ...]:
    if task.kind == EXPORT:
        return (question.form,) if question else ()
    return _FORMS[task.kind]


def _sizes(results: Results, task: Task, question: Question | None) -> Mapping[str, int]:
    """Return the sizes of the files of a task that is done."""
    sizes = {form: results.size(task, form) for form in _forms(task, question)}
    return {form: size for form, size in sizes.items() if size is not None}


def _missing(task: Task) -> PageError:
    hours = KEPT_SECONDS // 3600
    text = f"Files are kept for {hours} hours, on the host where they were asked for."
    return missing("file", text, PLACE, "tasks", str(task.id))


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
