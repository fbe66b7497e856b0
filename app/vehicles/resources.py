"""The operations on one vehicle and on many, with one statement each."""

from collections.abc import Iterable, Sequence

import falcon

from app import clock
from app.errors import Problem
from app.serve.http.bodies import answer
from app.serve.http.context import Request
from app.vehicles.answer_shapes import ComplianceAnswer, InsuranceAnswer, Items, ToldVerdict
from app.vehicles.answers import (
    NOT_FOUND,
    add_asked,
    bulk_answer,
    compliance_answer,
    compliance_item,
    insurance_answer,
    insurance_item,
    period_verdicts,
    suggestion_answers,
)
from app.vehicles.audited import LookUp, LookUps
from app.vehicles.compliance import judge
from app.vehicles.facts import Record
from app.vehicles.periods import Question
from app.vehicles.questions import (
    COMPLIANCE_PARAMETERS,
    INSURANCE_PARAMETERS,
    BulkComplianceRequest,
    BulkRequest,
    question_of,
    read_bulk,
    refused_registration,
)

_Answers = Items | Sequence[InsuranceAnswer] | Sequence[ComplianceAnswer]


class _Operation:
    """What the operations share: the look-ups of clients."""

    def __init__(self, look_ups: LookUps) -> None:
        self._look_ups = look_ups

    def _record(
        self, req: Request, look_up: LookUp, answers: _Answers, told: Iterable[ToldVerdict]
    ) -> None:
        """Record what the answer tells: of the day, or of the period."""
        is_of_day = look_up.question.period is None
        self._look_ups.record(req, look_up, told if is_of_day else period_verdicts(answers))

    def _require_record(self, req: Request, look_up: LookUp) -> Record:
        """Return the record of a plate.

        Raises Problem: invalid_registration; vehicle_not_found, which is recorded as an answer;
        or service_unavailable.
        """
        (found,) = look_up.found
        if found.registration is None:
            raise refused_registration(found.asked)
        if found.record is None:
            look_up = self._look_ups.with_suggestions(req, look_up, found.registration)
            self._look_ups.record(req, look_up, [(False, ())])
            members = {}
            if look_up.suggested is not None:
                members["suggestions"] = suggestion_answers(look_up.suggested)
            # Not `unknown`, which is about vehicles: a plate that nobody mentions may be misread.
            raise Problem("vehicle_not_found", NOT_FOUND, members=members)
        return found.record


class Insurance(_Operation):
    """Insurance of one vehicle."""

    def on_get(self, req: Request, resp: falcon.Response, registration: str) -> None:
        """GET /v1/vehicle/{registration}/insurance. The insurance record."""
        question = question_of(req, INSURANCE_PARAMETERS)
        look_up = self._look_ups.look_up(req, "insurance", [registration], question)
        record = self._require_record(req, look_up)
        insurance = insurance_answer(record, look_up.day, question.as_of)
        if question.asks_more:
            add_asked(insurance, record, look_up.day, question, look_up.times)
        self._record(req, look_up, [insurance], [(insurance.insured, insurance.unknown)])
        answer(resp, insurance)

    on_head = on_get


class Compliance(_Operation):
    """Road-legality of one vehicle."""

    def on_get(self, req: Request, resp: falcon.Response, registration: str) -> None:
        """GET /v1/compliance/{registration}. The compliance record."""
        question = question_of(req, COMPLIANCE_PARAMETERS)
        look_up = self._look_ups.look_up(req, "compliance", [registration], question)
        record = self._require_record(req, look_up)
        compliance = compliance_answer(
            record.registration,
            judge(record, look_up.day),
            explain=question.explain,
            checked_at=clock.now(),
            as_of=question.as_of,
        )
        if question.asks_more:
            add_asked(compliance, record, look_up.day, question, look_up.times)
        self._record(req, look_up, [compliance], [(compliance.compliant, compliance.unknown)])
        answer(resp, compliance)

    on_head = on_get


class BulkInsurance(_Operation):
    """Insurance of many vehicles."""

    def on_post(self, req: Request, resp: falcon.Response) -> None:
        """POST /v1/vehicle/bulk-insurance. One item per element, in the order sent."""
        sent = read_bulk(req, BulkRequest)
        question = sent.question
        look_up = self._look_ups.look_up(req, "bulk_insurance", sent.registrations, question)
        items = [insurance_item(each, look_up.day) for each in look_up.found]
        _add_asked_to_all(items, look_up, question)
        told = ((item.insured, item.unknown) for item in items)
        self._record(req, look_up, items, told)
        answer(resp, bulk_answer(items, question.as_of))


class BulkCompliance(_Operation):
    """Road-legality of many vehicles."""

    def on_get(self, req: Request, resp: falcon.Response) -> None:
        """GET /v1/compliance/bulk. The compliance record of the plate BULK (D92)."""
        try:
            Compliance(self._look_ups).on_get(req, resp, "bulk")
        except Problem as problem:
            if problem.code != "vehicle_not_found":
                raise
            detail = f"{problem.detail}. To check many vehicles, send a POST to this path."
            raise Problem(problem.code, detail, members=problem.members) from None

    on_head = on_get

    def on_post(self, req: Request, resp: falcon.Response) -> None:
        """POST /v1/compliance/bulk. One item per element, in the order sent."""
        sent = read_bulk(req, BulkComplianceRequest)
        question = sent.question
        look_up = self._look_ups.look_up(req, "bulk_compliance", sent.registrations, question)
        day, explain = look_up.day, bool(sent.explain)
        items = [
            compliance_item(
                each,
                None if each.record is None else judge(each.record, day),
                explain=explain,
            )
            for each in look_up.found
        ]
        _add_asked_to_all(items, look_up, question)
        told = ((item.compliant, item.unknown) for item in items)
        self._record(req, look_up, items, told)
        answer(resp, bulk_answer(items, question.as_of))


def _add_asked_to_all(items: Items, look_up: LookUp, question: Question) -> None:
    """Add to the items of known plates what the request asks besides."""
    if question.asks_more:
        for item, each in zip(items, look_up.found, strict=True):
            if each.record is not None:
                add_asked(item, each.record, look_up.day, question, look_up.times)
