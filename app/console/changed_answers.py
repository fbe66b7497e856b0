"""The plates whose answers a load changed: the form that asks for them, and the list."""

from collections.abc import Sequence

import falcon

from app.console.audit import AuditFile, AuditTaskPage, begin_task, new_version
from app.console.form_pages import FormPage
from app.console.forms import Field, Form
from app.console.look_up_page import enquiry_fields, note_enquiry_faults
from app.console.rendering import ConsoleRequest, Values
from app.console.resources import PageError, missing, number_in_path
from app.errors import OperatorError
from app.jobs.audit_tasks import DIFF
from app.jobs.results import TrailQuestion
from app.registers.diff import ComparableReplace, require_comparable
from app.registers.history import find_load
from app.text import as_sentence

_PLACE = ("loads", "changed")


class ChangedAnswers(FormPage[ComparableReplace]):
    """GET, POST /console/loads/{load_id}/changed. Begins a task that lists the plates.

    SEC: it shows plates that nobody has asked about, so it is for operators.
    """

    template = "loads/diff.html"

    def _find(self, **segments: str) -> ComparableReplace:
        number = number_in_path(segments["load_id"])
        try:
            return require_comparable(self.engine, number, self.config.timezone)
        except OperatorError as error:
            if find_load(self.engine, number) is None:
                raise missing("load", "Loads are kept for 400 days.", "loads") from error
            raise PageError(
                409,
                "The answers cannot be compared",
                as_sentence(str(error)),
                ("loads", str(number)),
            ) from error

    def _fields(self, row: ComparableReplace) -> Sequence[Field]:
        return enquiry_fields(self.config)

    def _values(self, req: ConsoleRequest, row: ComparableReplace) -> Values:
        is_recorded = self.services.trail is not None
        return {"compared": row, "version": new_version(), "is_recorded": is_recorded}

    def _received(self, req: ConsoleRequest, row: ComparableReplace) -> Form:
        form = super()._received(req, row)
        note_enquiry_faults(form)
        return form

    def _accept(
        self, req: ConsoleRequest, resp: falcon.Response, row: ComparableReplace, form: Form
    ) -> None:
        reason, reference = form["reason"] or None, form["reference"] or None
        asked = TrailQuestion(load=row.load_id, reason=reason, reference=reference)
        begin_task(self, req, resp, DIFF, asked, _PLACE)


class ChangedAnswersList(AuditTaskPage):
    """GET /console/loads/changed/{audit_task}. The list, once its task is done."""

    place, kinds, template = _PLACE, (DIFF,), "loads/changed.html"


class ChangedAnswersFile(AuditFile):
    """GET /console/loads/changed/{audit_task}/{file}. All plates, as a CSV file."""

    place, kinds = _PLACE, (DIFF,)
