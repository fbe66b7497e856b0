"""The audit trail: its state, and what an auditor can ask of it (D138).

SEC: what is asked is sent with POST only. So plates are in no URL, log or history of a browser.
"""

import re
import secrets
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import falcon

from app import processes
from app.audit.chain import last_digest, parsed_digest
from app.audit.record import Criteria
from app.audit.report import first_reported_day
from app.audit.seal import Summary
from app.audit.search import first_moment, last_moment
from app.audit.state import audit_state, owner_fault
from app.config import Config
from app.console.forms import VERSION_FIELD, Field, Form, read_fields, version_of
from app.console.rendering import ConsoleRequest, PageError, redirect, session_of
from app.console.resources import FormPage, Values
from app.jobs.audit_tasks import EXPORT, REPORT, SEARCH, VERIFY, Question, Wanted
from app.storage.engine import Engine
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


class _AuditForm(FormPage[None]):
    """A form that asks something of the trail: POST begins a task, and leads to its page."""

    kind: str
    """What the task does."""

    def _find(self) -> None:
        """The form says what it is about."""

    def _fields(self, row: None) -> Sequence[Field]:
        return _FIELDS[self.kind]

    def _values(self, req: ConsoleRequest, row: None) -> Values:
        return {"version": secrets.token_hex(8), "trail": _state(self.engine, self.config)}

    def _received(self, req: ConsoleRequest, row: None) -> Form:
        if not _TOKEN.fullmatch(read_fields(req).get(VERSION_FIELD, "")):
            text = "Nothing was asked. Open the page again, and send the form there."
            raise PageError(409, "This form is incomplete", text, (PLACE,))
        return super()._received(req, None)

    def _accept(self, req: ConsoleRequest, resp: falcon.Response, row: None, form: Form) -> None:
        asked = Question(_criteria(form), form.values.get("format", ""), _digest(form))
        if not form.is_sound:
            return
        seen = version_of(read_fields(req)[VERSION_FIELD], asked)
        wanted = Wanted(self.kind, seen, session_of(req).name)
        question = Question(asked.criteria, asked.form, asked.digest, req.context.request_id)
        try:
            task = self.services.audit_tasks.begin(wanted, question, _start)
        except OSError as error:
            text = f"Nothing was asked: the state directory cannot be used ({error.strerror})."
            raise PageError(503, "This cannot be done now", text, (PLACE,)) from error
        if task.seen != wanted.seen:
            raise PageError(
                409,
                f"Your last {'verification' if self.kind == VERIFY else self.kind} still runs",
                "Only one runs at a time. Ask again when it has ended.",
                (PLACE, "tasks", str(task.id)),
            )
        redirect(req, resp, PLACE, "tasks", str(task.id))


class AuditPage(_AuditForm):
    """GET, POST /console/audit. The state of the trail, a search, and what the person asked for."""

    kind, template = SEARCH, "audit/search.html"

    def _values(self, req: ConsoleRequest, row: None) -> Values:
        tasks = self.services.audit_tasks
        latest = tasks.latest(session_of(req).name, _LATEST_MAX)
        questions = [(task, tasks.results.find_question(task)) for task in latest]
        return {**super()._values(req, None), "tasks": questions}


class AuditExport(_AuditForm):
    """GET, POST /console/audit/export. An export of a period."""

    kind, template = EXPORT, "audit/export.html"


class AuditReport(_AuditForm):
    """GET, POST /console/audit/report. A report of a period."""

    kind, template = REPORT, "audit/report.html"

    def _initial(self, row: None) -> Mapping[str, str]:
        return {"from": first_reported_day()}

    def _received(self, req: ConsoleRequest, row: None) -> Form:
        form = super()._received(req, None)
        form.values["from"] = form["from"] or first_reported_day()
        return form


class AuditVerify(_AuditForm):
    """GET, POST /console/audit/verify. A verification of the whole trail."""

    kind, template = VERIFY, "audit/verify.html"


def _state(engine: Engine, config: Config) -> TrailState:
    """Return the state of this host's trail."""
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
