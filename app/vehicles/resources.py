"""The operations on one vehicle (spec 4)."""

import falcon

from app import clock
from app.errors import Problem
from app.serve.http.bodies import answer
from app.serve.http.context import Request
from app.serve.http.parameters import date_parameter, flag_parameter, require_known_parameters
from app.vehicles.answers import (
    NOT_FOUND,
    compliance_answer,
    insurance_answer,
    invalid_registration,
)
from app.vehicles.compliance import judge
from app.vehicles.facts import Record
from app.vehicles.look_ups import LookUp, LookUps


class Insurance:
    """Insurance of one vehicle."""

    def __init__(self, look_ups: LookUps) -> None:
        self._look_ups = look_ups

    def on_get(self, req: Request, resp: falcon.Response, registration: str) -> None:
        """GET /v1/vehicle/{registration}/insurance. The insurance record (spec 2)."""
        require_known_parameters(req, "asOf")
        as_of = date_parameter(req, "asOf")
        look_up = self._look_ups.look_up(req, "insurance", [registration], as_of)
        record = _require_record(self._look_ups, req, look_up)
        insurance = insurance_answer(record, look_up.day, as_of)
        self._look_ups.record(req, look_up, [insurance["insured"]])
        answer(resp, insurance)

    on_head = on_get


class Compliance:
    """Road-legality of one vehicle."""

    def __init__(self, look_ups: LookUps) -> None:
        self._look_ups = look_ups

    def on_get(self, req: Request, resp: falcon.Response, registration: str) -> None:
        """GET /v1/compliance/{registration}. The compliance record (spec 2, D22)."""
        require_known_parameters(req, "asOf", "explain")
        explain = flag_parameter(req, "explain")
        as_of = date_parameter(req, "asOf")
        look_up = self._look_ups.look_up(req, "compliance", [registration], as_of)
        record = _require_record(self._look_ups, req, look_up)
        judgement = judge(record, look_up.day, self._look_ups.mot_first_years)
        compliance = compliance_answer(
            record.registration, judgement, explain=explain, checked_at=clock.now(), as_of=as_of
        )
        self._look_ups.record(req, look_up, [compliance["compliant"]])
        answer(resp, compliance)

    on_head = on_get


def _require_record(look_ups: LookUps, req: Request, look_up: LookUp) -> Record:
    """Return what is known of a plate.

    Raises Problem invalid_registration (D19) or vehicle_not_found (D24), which is an answer and
    recorded; and service_unavailable.
    """
    (found,) = look_up.found
    if found.registration is None:
        detail = f"{invalid_registration(found.asked)}."
        if "+" in found.asked:
            detail += " A space in a path is %20, not a plus sign."
        raise Problem("invalid_registration", detail)
    if found.record is None:
        look_ups.record(req, look_up, [False])
        raise Problem("vehicle_not_found", NOT_FOUND)
    return found.record
