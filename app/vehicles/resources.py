"""The operations on one vehicle and on many, with one statement each (spec 4)."""

from collections.abc import Sequence
from typing import TypeVar

import falcon

from app import clock
from app.errors import Problem
from app.serve.http.bodies import RequestBody, answer, read_json
from app.serve.http.context import Request, caller_of
from app.serve.http.parameters import date_parameter, flag_parameter, require_known_parameters
from app.vehicles.answers import (
    NOT_FOUND,
    Items,
    add_details,
    bulk_answer,
    compliance_answer,
    compliance_item,
    insurance_answer,
    insurance_item,
    invalid_registration,
)
from app.vehicles.audited import LookUp, LookUps, Operation
from app.vehicles.compliance import judge
from app.vehicles.facts import Record
from app.vehicles.reader import Found


class _Operation:
    """What the operations share: the look-ups of clients."""

    def __init__(self, look_ups: LookUps) -> None:
        self._look_ups = look_ups

    def _require_record(self, req: Request, look_up: LookUp) -> Record:
        """Return the record of a plate.

        Raises Problem: invalid_registration; vehicle_not_found, which is recorded as an answer;
        or service_unavailable.
        """
        (found,) = look_up.found
        if found.registration is None:
            detail = f"{invalid_registration(found.asked)}."
            if "+" in found.asked:
                detail += " A space in a path is %20, not a plus sign."
            raise Problem("invalid_registration", detail)
        if found.record is None:
            self._look_ups.record(req, look_up, [False])
            raise Problem("vehicle_not_found", NOT_FOUND)
        return found.record


class Insurance(_Operation):
    """Insurance of one vehicle."""

    def on_get(self, req: Request, resp: falcon.Response, registration: str) -> None:
        """GET /v1/vehicle/{registration}/insurance. The insurance record (spec 2)."""
        require_known_parameters(req, "asOf")
        as_of = date_parameter(req, "asOf")
        look_up = self._look_ups.look_up(req, "insurance", [registration], as_of, describes=True)
        record = self._require_record(req, look_up)
        insurance = insurance_answer(record, look_up.day, as_of)
        self._look_ups.record(req, look_up, [insurance.insured])
        answer(resp, insurance)

    on_head = on_get


class Compliance(_Operation):
    """Road-legality of one vehicle."""

    def on_get(self, req: Request, resp: falcon.Response, registration: str) -> None:
        """GET /v1/compliance/{registration}. The compliance record (spec 2)."""
        require_known_parameters(req, "asOf", "explain")
        explain = flag_parameter(req, "explain")
        as_of = date_parameter(req, "asOf")
        look_up = self._look_ups.look_up(req, "compliance", [registration], as_of, describes=False)
        record = self._require_record(req, look_up)
        judgement = judge(record, look_up.day)
        compliance = compliance_answer(
            record.registration, judgement, explain=explain, checked_at=clock.now(), as_of=as_of
        )
        self._look_ups.record(req, look_up, [compliance.compliant])
        answer(resp, compliance)

    on_head = on_get


class BulkRequest(RequestBody):
    """What a client sends; a misspelt member would change the answer."""

    registrations: list[str]
    asOf: str | None = None  # noqa: N815 - the wire's spelling
    details: bool | None = None
    """Add `vehicle` and `lastUpdated` to the items."""


class BulkComplianceRequest(BulkRequest):
    """What a client sends to check compliance."""

    explain: bool | None = None
    """Add `reasons` to the items."""


_Sent = TypeVar("_Sent", bound=BulkRequest)


class BulkInsurance(_Operation):
    """Insurance of many vehicles."""

    def on_post(self, req: Request, resp: falcon.Response) -> None:
        """POST /v1/vehicle/bulk-insurance. One item per element, in the order sent."""
        sent = _read(req, BulkRequest)
        look_up = _look_up(self._look_ups, req, "bulk_insurance", sent)
        items = [insurance_item(each, look_up.day) for each in look_up.found]
        insured = (item.insured for item in items)
        self._look_ups.record(req, look_up, insured)
        _answer(resp, sent, look_up.found, items)


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
            raise Problem(problem.code, detail) from None

    on_head = on_get

    def on_post(self, req: Request, resp: falcon.Response) -> None:
        """POST /v1/compliance/bulk. One item per element, in the order sent."""
        sent = _read(req, BulkComplianceRequest)
        look_up = _look_up(self._look_ups, req, "bulk_compliance", sent)
        day, explain = look_up.day, bool(sent.explain)
        items = [
            compliance_item(
                each,
                None if each.record is None else judge(each.record, day),
                explain=explain,
            )
            for each in look_up.found
        ]
        compliant = (item.compliant for item in items)
        self._look_ups.record(req, look_up, compliant)
        _answer(resp, sent, look_up.found, items)


def _read(req: Request, shape: type[_Sent]) -> _Sent:
    """Return the body of a request.

    Raises Problem: unknown_parameter, those of read_json, invalid_body or too_many_registrations.
    """
    require_known_parameters(req, members=shape.__struct_fields__)
    sent = read_json(req, shape)
    count, bulk_max = len(sent.registrations), caller_of(req).bulk_max
    if not count:
        detail = "The member registrations must have at least one registration."
        raise Problem.at("/registrations", "invalid_body", detail)
    if count > bulk_max:
        detail = (
            f"The account's plan allows {bulk_max:,} registrations in one request; got {count:,}."
        )
        raise Problem.at("/registrations", "too_many_registrations", detail)
    if sent.asOf is not None and clock.parse_iso_date(sent.asOf) is None:
        raise Problem.at("/asOf", "invalid_body", f"The member asOf {clock.day_fault(sent.asOf)}.")
    return sent


def _look_up(look_ups: LookUps, req: Request, operation: Operation, sent: BulkRequest) -> LookUp:
    describes = bool(sent.details)
    return look_ups.look_up(req, operation, sent.registrations, sent.asOf, describes=describes)


def _answer(resp: falcon.Response, sent: BulkRequest, found: Sequence[Found], items: Items) -> None:
    """Answer with an item for each plate, with details if they were asked for."""
    if sent.details:
        for place, each in enumerate(found):
            if each.record is not None:
                add_details(items[place], each.record)
    answer(resp, bulk_answer(items, sent.asOf))
