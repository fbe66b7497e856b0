"""The operations on one vehicle (spec 4)."""

import falcon

from app import clock
from app.errors import Problem
from app.http.bodies import answer
from app.http.context import Request, caller_of
from app.http.parameters import date_parameter, flag_parameter, require_known_parameters
from app.vehicles.answers import (
    NOT_FOUND,
    compliance_answer,
    insurance_answer,
    invalid_registration,
)
from app.vehicles.compliance import judge
from app.vehicles.facts import Record
from app.vehicles.reader import VehicleReader


class Insurance:
    """Insurance of one vehicle."""

    def __init__(self, reader: VehicleReader) -> None:
        self._reader = reader

    def on_get(self, req: Request, resp: falcon.Response, registration: str) -> None:
        """GET /v1/vehicle/{registration}/insurance. The insurance record (spec 2)."""
        require_known_parameters(req, "asOf")
        as_of = date_parameter(req, "asOf")
        day = self._reader.day(as_of)
        record = _require_record(self._reader, req, registration, day, with_fines=False)
        answer(resp, insurance_answer(record, day, as_of))

    on_head = on_get


class Compliance:
    """Road-legality of one vehicle."""

    def __init__(self, reader: VehicleReader) -> None:
        self._reader = reader

    def on_get(self, req: Request, resp: falcon.Response, registration: str) -> None:
        """GET /v1/compliance/{registration}. The compliance record (spec 2, D22)."""
        require_known_parameters(req, "asOf", "explain")
        explain = flag_parameter(req, "explain")
        as_of = date_parameter(req, "asOf")
        day = self._reader.day(as_of)
        record = _require_record(self._reader, req, registration, day, with_fines=True)
        judgement = judge(record, day, self._reader.mot_first_years)
        compliance = compliance_answer(
            record.registration, judgement, explain=explain, checked_at=clock.now(), as_of=as_of
        )
        answer(resp, compliance)

    on_head = on_get


def _require_record(
    reader: VehicleReader, req: Request, registration: str, day: str, *, with_fines: bool
) -> Record:
    """Return what is known of a plate.

    Raises Problem invalid_registration (D19) or vehicle_not_found (D24).
    """
    registers = caller_of(req).registers
    (found,) = reader.look_up(registers, [registration], day, with_fines=with_fines)
    if found.registration is None:
        detail = f"{invalid_registration(registration)}."
        if "+" in registration:
            detail += " A space in a path is %20, not a plus sign."
        raise Problem("invalid_registration", detail)
    if found.record is None:
        raise Problem("vehicle_not_found", NOT_FOUND)
    return found.record
