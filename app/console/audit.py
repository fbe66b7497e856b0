"""The audit trail: its state, the questions of auditors, and the results.

SEC: questions are sent with POST only, so plates are in no URL, log or history of a browser. The
trail records who asked, so a result is shown only to that person.
"""

import re
import secrets
from collections.abc import Mapping, Sequence

import falcon
import msgspec

from app import clock
from app.audit.chain import last_digest, parsed_digest
from app.audit.export import Exported
from app.audit.record import Criteria
from app.audit.report import Report, first_reported_day
from app.audit.search import first_moment, last_moment
from app.audit.state import audit_state, owner_fault
from app.audit.verify import Verdict
from app.config import Config
from app.console.charts import Series
from app.console.form_pages import RowlessForm
from app.console.forms import (
    REFRESH_SECONDS,
    VERSION_FIELD,
    Field,
    Form,
    read_fields,
    refresh,
    version_of,
)
from app.console.listing import Listing
from app.console.rendering import ConsoleRequest, Values
from app.console.resources import PageError, Resource, missing, number_in_path, redirect
from app.jobs.audit_tasks import (
    DIFF,
    EVENTS,
    EXPORT,
    OF_TRAIL,
    PLATE,
    REPORT,
    SEARCH,
    VERIFY,
    WATCHES,
    AuditTaskRequest,
    DiffResult,
    SearchResult,
    Task,
)
from app.jobs.plate_report import PlateReport
from app.jobs.results import KEPT_SECONDS, Results, TrailQuestion
from app.jobs.tasks import DONE
from app.serve.http.bodies import FileBody
from app.storage.engine import Engine
from app.vehicles.registration import recorded_registration, typed_registration

PLACE = "audit"
"""The first segment of the paths of these pages."""
_LATEST_MAX = 20
_TOKEN = re.compile(r"[0-9a-f]{16}", re.ASCII)
"""The version of a form that begins a task: sent twice, the form begins only one."""
_PERIOD = (
    Field("from", "From", "The first day, in UTC.", 10, False, kind="date"),
    Field("to", "To", "The last day, in UTC, which is included.", 10, False, kind="date"),
)


def new_version() -> str:
    """Return the version of another form for `begin_task`."""
    return secrets.token_hex(8)


def begin_task(
    page: Resource,
    req: ConsoleRequest,
    resp: falcon.Response,
    kind: str,
    asked: TrailQuestion,
    place: tuple[str, ...],
) -> None:
    """Begin a task, and lead to its page. Raises PageError if that is not possible now.

    Args:
        place: the segments of the path of its page, before its number.
    """
    token = read_fields(req).get(VERSION_FIELD, "")
    if not _TOKEN.fullmatch(token):
        text = "Nothing was asked. Open the page again, and send the form there."
        raise PageError(409, "This form is incomplete", text, place[:1])
    wanted = AuditTaskRequest(kind, version_of(token, asked), req.session.name)
    question = msgspec.structs.replace(asked, request_id=req.context.request_id)
    try:
        task = page.services.audit_tasks.begin(wanted, question)
    except OSError as error:
        text = f"Nothing was asked: the state directory cannot be used ({error.strerror})."
        raise PageError(503, "This cannot be done now", text, place[:1]) from error
    if task.seen != wanted.seen:
        raise PageError(
            409,
            f"Your last {_NOUNS.get(kind, kind)} still runs",
            "Only one runs at a time. Ask again when it has ended.",
            (*place, str(task.id)),
        )
    redirect(req, resp, *place, str(task.id))


_NOUNS = {
    VERIFY: "verification",
    DIFF: "list of changed answers",
    PLATE: "report about a plate",
    WATCHES: "file of watches",
    EVENTS: "file of events",
}


class _AuditForm(RowlessForm):
    """A form that asks something of the trail: POST begins a task, and leads to its page."""

    kind: str
    """The kind of the task."""

    def _values(self, req: ConsoleRequest, row: None) -> Values:
        return {"version": new_version(), "trail": _trail(self.engine, self.config)}

    def _accept(self, req: ConsoleRequest, resp: falcon.Response, row: None, form: Form) -> None:
        asked = TrailQuestion(
            criteria=_criteria(form),
            form=form.values.get("format", ""),
            finds_all="all" in read_fields(req),
            digest=_digest(form),
        )
        if not form.is_sound:
            return
        begin_task(self, req, resp, self.kind, asked, (PLACE, "tasks"))


class AuditPage(_AuditForm):
    """GET, POST /console/audit. The state of the trail, a search, and the tasks of the person."""

    kind, template = SEARCH, "audit/search.html"
    fields = (
        Field("by", "Search by", "", 10, choices=("plate", "account", "user")),
        Field(
            "value",
            "Plate, account or user",
            "A user is who asked, as the client or the console says.",
            100,
        ),
        *_PERIOD,
    )

    def _values(self, req: ConsoleRequest, row: None) -> Values:
        tasks = self.services.audit_tasks
        latest = tasks.latest(req.session.name, OF_TRAIL, _LATEST_MAX)
        questions = [(task, tasks.results.find_question(task)) for task in latest]
        return {**super()._values(req, None), "tasks": questions}


class AuditExport(_AuditForm):
    """GET, POST /console/audit/export. An export of a period."""

    kind, template = EXPORT, "audit/export.html"
    fields = (
        Field("format", "Format", "In CSV, each plate has a line.", 10, choices=("csv", "ndjson")),
        *_PERIOD,
    )


class AuditReport(_AuditForm):
    """GET, POST /console/audit/report. A report of a period."""

    kind, template = REPORT, "audit/report.html"
    fields = _PERIOD

    def _initial(self, row: None) -> Mapping[str, str]:
        return {"from": first_reported_day()}

    def _received(self, req: ConsoleRequest, row: None) -> Form:
        form = super()._received(req, None)
        form.values["from"] = form["from"] or first_reported_day()
        return form


class AuditPlate(_AuditForm):
    """GET, POST /console/audit/plate. A report about a plate."""

    kind, template = PLATE, "audit/plate.html"
    fields = (Field("plate", "Plate", "", 100), *_PERIOD)


class AuditVerify(_AuditForm):
    """GET, POST /console/audit/verify. A verification of the whole trail."""

    kind, template = VERIFY, "audit/verify.html"
    fields = (Field("digest", "Digest", "One that was kept elsewhere.", 100, is_required=False),)


def _trail(engine: Engine, config: Config) -> Values:
    """Return the state of this host's trail, and its latest digest, for the templates."""
    state = audit_state(engine, config)
    fault, digest = state.fault, ""
    if state.summary is not None:
        # A trail that was switched off is still searched.
        fault = fault or owner_fault(engine, config)
        try:
            digest = last_digest(config.audit_dir)
        except OSError as error:
            fault = fault or f"its chain cannot be read: {error.strerror}"
    return {
        "word": state.word,
        "fault": fault,
        "directory": config.audit_dir,
        "summary": state.summary,
        "digest": digest,
    }


def _criteria(form: Form) -> Criteria:
    """Return the criteria of a form, and note faults of the form besides those of its fields."""
    values = form.values
    since, until = values.get("from"), values.get("to")
    if form.is_sound and since and until and since > until:
        form.faults["to"] = "To must not be before From."
    if not form.is_sound:
        return Criteria()
    wanted = {}
    if "by" in values:
        wanted[values["by"]] = values["value"]
    plate = wanted.get("plate") or values.get("plate")
    if plate:
        wanted["plate"] = recorded_registration(typed_registration(plate))
    return Criteria(
        **wanted,
        since=first_moment(since) if since else None,
        until=last_moment(until) if until else None,
    )


def _digest(form: Form) -> str | None:
    text = form.values.get("digest")
    if not text or not form.is_sound:
        return None
    try:
        return parsed_digest(text)
    except ValueError as error:
        form.faults["digest"] = f"Digest {error}."
        return None


_RESULTS: Mapping[str, type[object]] = {
    SEARCH: SearchResult,
    EXPORT: Exported,
    REPORT: Report,
    PLATE: PlateReport,
    VERIFY: Verdict,
    DIFF: DiffResult,
    WATCHES: int,
    EVENTS: int,
}
_TYPES: Mapping[str, str] = {
    "csv": falcon.MEDIA_CSV,
    "ndjson": "application/x-ndjson",
    "json": falcon.MEDIA_JSON,
    "html": falcon.MEDIA_HTML,
}
_FORMS: Mapping[str, tuple[str, ...]] = {
    SEARCH: ("csv",),
    REPORT: ("html", "json"),
    PLATE: ("html", "json"),
    VERIFY: (),
    DIFF: ("csv",),
    WATCHES: ("csv",),
    EVENTS: ("csv",),
}
"""The files that can be downloaded; an export has the format of its question."""
_SOON_SECONDS = 10
_QUICK_SECONDS = 1
_SHOWN_MAX = 20
_ROWS_SHOWN = 200
_FAULTS_MAX = 100


class AuditTaskPage(Resource):
    """One task, whether it runs or has ended, with its result."""

    place: tuple[str, ...] = (PLACE, "tasks")
    kinds: Sequence[str] = OF_TRAIL
    template = "audit/task.html"

    def on_get(self, req: ConsoleRequest, resp: falcon.Response, audit_task: str) -> None:
        """GET /console/audit/tasks/{audit_task}. Parameters: `page` of a search, `refresh`."""
        tasks = self.services.audit_tasks
        task = _require_task(self, req, audit_task)
        question = tasks.results.find_question(task)
        result = None
        if task.status == DONE:
            result = tasks.results.find(task, _RESULTS[task.kind])
        # Most end at once.
        is_new = clock.now() - task.asked_at < _SOON_SECONDS
        seconds = _QUICK_SECONDS if is_new else REFRESH_SECONDS
        values = {
            "task": task,
            "path": [*self.place, str(task.id)],
            "question": question,
            "result": result,
            "is_here": task.host == tasks.host,
            "files": {} if result is None else _sizes(tasks.results, task, question),
            "version": new_version(),
            "faults_most": _FAULTS_MAX,
            "shown_most": _SHOWN_MAX,
            "rows_most": _ROWS_SHOWN,
            "listing": _pages_of(req, result),
            "days": _days_of(result),
            "refreshes": refresh(req, resp, is_running=task.is_running, seconds=seconds),
        }
        self.show(req, resp, self.template, values)


class AuditFile(Resource):
    """A file of a task, as a download."""

    place: tuple[str, ...] = (PLACE, "tasks")
    kinds: Sequence[str] = OF_TRAIL

    def on_get(
        self, req: ConsoleRequest, resp: falcon.Response, audit_task: str, file: str
    ) -> None:
        """GET /console/audit/tasks/{audit_task}/{file}. The file is `csv`, `html` and so on."""
        tasks = self.services.audit_tasks
        task = _require_task(self, req, audit_task)
        question = tasks.results.find_question(task)
        if task.status != DONE or file not in _forms(task, question):
            raise _missing(task, self.place)
        try:
            body = FileBody(tasks.results.path(task, file))
        except OSError as error:
            raise _missing(task, self.place) from error
        resp.content_type = _TYPES[file]
        resp.downloadable_as = f"audit-{task.kind}-{task.id}.{file}"
        resp.content_length = body.length
        resp.stream = body


def _require_task(page: AuditTaskPage | AuditFile, req: ConsoleRequest, text: str) -> Task:
    number = number_in_path(text)
    task = page.services.audit_tasks.find_of(number, req.session.name, page.kinds)
    if task is None:
        text = "Results are kept for a day, and shown only to the person who asked. Ask again."
        raise missing("task", text, page.place[0])
    return task


def _forms(task: Task, question: TrailQuestion | None) -> tuple[str, ...]:
    if task.kind == EXPORT:
        return (question.form,) if question else ()
    return _FORMS[task.kind]


def _sizes(results: Results, task: Task, question: TrailQuestion | None) -> Mapping[str, int]:
    """Return the sizes of the files of a task that is done."""
    sizes = {form: results.size(task, form) for form in _forms(task, question)}
    return {form: size for form, size in sizes.items() if size is not None}


def _missing(task: Task, place: tuple[str, ...]) -> PageError:
    hours = KEPT_SECONDS // 3600
    text = f"Files are kept for {hours} hours, on the host where they were asked for."
    return missing("file", text, *place, str(task.id))


def _pages_of(req: ConsoleRequest, result: object) -> Listing | None:
    """Return the pages of the rows of a search."""
    if not isinstance(result, SearchResult):
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
