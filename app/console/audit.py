"""The audit trail: its state, and what an auditor can ask of it (D138).

SEC: what is asked is sent with POST only. So plates are in no URL, log or history of a browser.
"""

import re
import secrets
from typing import NamedTuple

import falcon

from app import processes
from app.audit.chain import last_digest, parsed_digest
from app.audit.record import Criteria
from app.audit.report import first_reported_day
from app.audit.seal import Summary
from app.audit.search import first_moment, last_moment
from app.audit.state import audit_state, owner_fault
from app.console.forms import VERSION_FIELD, Field, Form, read_fields, version_of
from app.console.rendering import ConsoleRequest, PageError, Services, redirect, session_of
from app.jobs.audit_tasks import EXPORT, REPORT, SEARCH, VERIFY, AuditTasks, Question, Wanted
from app.vehicles.registration import recorded_registration

PLACE = "audit"
"""The first segment of the paths of these pages."""
_LATEST_MAX = 20
_TOKEN = re.compile(r"[0-9a-f]{16}", re.ASCII)
_PERIOD = (
    Field("from", "From", "The first day, in UTC.", 10, False, kind="date"),
    Field("to", "To", "The last day, in UTC, which is included.", 10, False, kind="date"),
)
_FIELDS: dict[str, tuple[Field, ...]] = {
    SEARCH: (
        Field("by", "Search by", "", 10, choices=("plate", "account", "user")),
        Field(
            "value",
            "Plate, account or user",
            "A user is who asked, as the client or the console says.",
            100,
        ),
        *_PERIOD,
    ),
    EXPORT: (
        Field("format", "Format", "In CSV, each plate has a line.", 10, choices=("csv", "ndjson")),
        *_PERIOD,
    ),
    REPORT: _PERIOD,
    VERIFY: (Field("digest", "Digest", "One that was kept elsewhere.", 100, is_required=False),),
}


class TrailState(NamedTuple):
    """What the page shows of the trail of this host."""

    word: str
    """`off`, `on` or `failing`."""
    fault: str
    directory: str
    summary: Summary | None
    """None if there is no trail, or it cannot be read."""
    digest: str
    """The latest one; empty if nothing was sealed."""


class _Asking:
    """A form that asks something of the trail.

    Args:
        kind: what the task does.
        template: shows the form.
    """

    def __init__(self, services: Services, kind: str, template: str) -> None:
        self._services = services
        self._kind = kind
        self._template = template
        self._tasks = AuditTasks(services.engine, services.config)

    def show(self, req: ConsoleRequest, resp: falcon.Response, form: Form | None = None) -> None:
        """Show the form."""
        name = session_of(req).name
        latest = self._tasks.latest(name, _LATEST_MAX) if self._kind == SEARCH else []
        given = {"from": first_reported_day()} if self._kind == REPORT else {}
        self._services.pages.send(
            req,
            resp,
            self._template,
            form=form or Form(_FIELDS[self._kind], given),
            version=secrets.token_hex(8),
            trail=state_of(self._services),
            tasks=[(each, self._tasks.results.find_question(each)) for each in latest],
        )

    def begin(self, req: ConsoleRequest, resp: falcon.Response) -> None:
        """Begin the task that the form asks for, and lead to its page."""
        token = read_fields(req).get(VERSION_FIELD, "")
        if not _TOKEN.fullmatch(token):
            text = "Nothing was asked. Open the page again, and send the form there."
            raise PageError(409, "This form is incomplete", text, (PLACE,))
        form = Form.received(req, _FIELDS[self._kind])
        if self._kind == REPORT and not form["from"]:
            form.values["from"] = first_reported_day()
        criteria = _criteria(form)
        digest = _digest(form)
        if not form.is_sound:
            resp.status = falcon.HTTP_422
            self.show(req, resp, form)
            return
        question = Question(criteria, form.values.get("format", ""), digest)
        wanted = Wanted(self._kind, version_of(token, question), session_of(req).name)
        known = Question(criteria, question.form, digest, req.context.request_id)
        try:
            task = self._tasks.begin(wanted, known, _start)
        except OSError as error:
            text = f"Nothing was asked: the state directory cannot be used ({error.strerror})."
            raise PageError(503, "This cannot be done now", text, (PLACE,)) from error
        if task.seen != wanted.seen:
            raise PageError(
                409,
                f"Your last {'verification' if self._kind == VERIFY else self._kind} still runs",
                "Only one runs at a time. Ask again when it has ended.",
                (PLACE, "tasks", str(task.id)),
            )
        redirect(req, resp, PLACE, "tasks", str(task.id))


class AuditPage:
    """The state of the trail, a search, and what the person asked for in the last day."""

    def __init__(self, services: Services) -> None:
        self._asking = _Asking(services, SEARCH, "audit/search.html")

    def on_get(self, req: ConsoleRequest, resp: falcon.Response) -> None:
        """GET /console/audit."""
        self._asking.show(req, resp)

    on_head = on_get

    def on_post(self, req: ConsoleRequest, resp: falcon.Response) -> None:
        """POST /console/audit. Begins a search."""
        self._asking.begin(req, resp)


class AuditExport:
    """An export of a period."""

    def __init__(self, services: Services) -> None:
        self._asking = _Asking(services, EXPORT, "audit/export.html")

    def on_get(self, req: ConsoleRequest, resp: falcon.Response) -> None:
        """GET /console/audit/export."""
        self._asking.show(req, resp)

    on_head = on_get

    def on_post(self, req: ConsoleRequest, resp: falcon.Response) -> None:
        """POST /console/audit/export. Begins an export."""
        self._asking.begin(req, resp)


class AuditReport:
    """A report of a period."""

    def __init__(self, services: Services) -> None:
        self._asking = _Asking(services, REPORT, "audit/report.html")

    def on_get(self, req: ConsoleRequest, resp: falcon.Response) -> None:
        """GET /console/audit/report."""
        self._asking.show(req, resp)

    on_head = on_get

    def on_post(self, req: ConsoleRequest, resp: falcon.Response) -> None:
        """POST /console/audit/report. Begins a report."""
        self._asking.begin(req, resp)


class AuditVerify:
    """A verification of the whole trail."""

    def __init__(self, services: Services) -> None:
        self._asking = _Asking(services, VERIFY, "audit/verify.html")

    def on_get(self, req: ConsoleRequest, resp: falcon.Response) -> None:
        """GET /console/audit/verify."""
        self._asking.show(req, resp)

    on_head = on_get

    def on_post(self, req: ConsoleRequest, resp: falcon.Response) -> None:
        """POST /console/audit/verify. Begins a verification."""
        self._asking.begin(req, resp)


def state_of(services: Services) -> TrailState:
    """Return the state of this host's trail."""
    engine, config = services.engine, services.config
    state = audit_state(engine, config)
    fault, digest = state.fault, ""
    if state.summary is not None:
        # A trail that was switched off is still searched.
        fault = fault or owner_fault(engine, config)
        try:
            digest = last_digest(config.audit_dir)
        except OSError as error:
            fault = fault or f"its chain cannot be read: {error.strerror}"
    return TrailState(state.word, fault, str(config.audit_dir), state.summary, digest)


def _criteria(form: Form) -> Criteria:
    """Return what a form asks for, and add to it what is wrong besides its fields."""
    values = form.values
    since, until = values.get("from"), values.get("to")
    if form.is_sound and since and until and since > until:
        form.faults["to"] = "To must not be before From."
    if not form.is_sound:
        return Criteria()
    wanted = {}
    if "by" in values:
        value = values["value"]
        if values["by"] == "plate":
            value = recorded_registration(value)
        wanted[values["by"]] = value
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


def _start(task_id: int, descriptor: int) -> None:
    processes.start("audit", "carry-out", str(task_id), kept=descriptor)
