"""The vehicle operations (spec 4)."""

import falcon
import msgspec

from app import clock
from app.errors import Problem
from app.http.bodies import answer, read_json
from app.http.context import caller_of
from app.http.parameters import date_parameter, flag_parameter, require_known_parameters
from app.vehicles.answers import (
    NOT_FOUND,
    bulk_answer,
    compliance_answer,
    insurance_answer,
    invalid_registration,
)
from app.vehicles.compliance import judge
from app.vehicles.facts import Record
from app.vehicles.reader import VehicleReader


class BulkRequest(msgspec.Struct, forbid_unknown_fields=True):
    """What a client sends for a bulk look-up; a misspelt member would change the answer (D90)."""

    registrations: list[str]
    asOf: str | None = None  # noqa: N815 - the wire's spelling


class Insurance:
    """Insurance of one vehicle."""

    def __init__(self, reader: VehicleReader) -> None:
        self._reader = reader

    def on_get(self, req: falcon.Request, resp: falcon.Response, registration: str) -> None:
        """GET /v1/vehicle/{registration}/insurance. The insurance record (spec 2)."""
        require_known_parameters(req, "asOf")
        day = self._reader.day(date_parameter(req, "asOf"))
        record = _require_record(self._reader, req, registration, day)
        answer(resp, insurance_answer(record, day))

    on_head = on_get


class BulkInsurance:
    """Insurance of many vehicles."""

    def __init__(self, reader: VehicleReader) -> None:
        self._reader = reader

    def on_post(self, req: falcon.Request, resp: falcon.Response) -> None:
        """POST /v1/vehicle/bulk-insurance. One item per element, in the order sent (D23)."""
        require_known_parameters(req)
        caller = caller_of(req)
        sent = read_json(req, BulkRequest)
        _require_bulk(sent, caller.bulk_max)
        day = self._reader.day(sent.asOf)
        found = self._reader.look_up(caller.registers, sent.registrations, day)
        answer(resp, bulk_answer(found, day))


class Compliance:
    """Road-legality of one vehicle."""

    def __init__(self, reader: VehicleReader) -> None:
        self._reader = reader

    def on_get(self, req: falcon.Request, resp: falcon.Response, registration: str) -> None:
        """GET /v1/compliance/{registration}. The compliance record (spec 2, D22)."""
        require_known_parameters(req, "asOf", "explain")
        explain = flag_parameter(req, "explain")
        day = self._reader.day(date_parameter(req, "asOf"))
        record = _require_record(self._reader, req, registration, day)
        judgement = judge(record, day, self._reader.mot_first_years)
        compliance = compliance_answer(
            record.registration, judgement, explain=explain, checked_at=clock.now()
        )
        answer(resp, compliance)

    on_head = on_get


def _require_record(
    reader: VehicleReader, req: falcon.Request, registration: str, day: str
) -> Record:
    """Return what is known of a plate.

    Raises Problem invalid_registration (D19) or vehicle_not_found (D24).
    """
    (found,) = reader.look_up(caller_of(req).registers, [registration], day)
    if found.registration is None:
        raise Problem("invalid_registration", f"{invalid_registration(registration)}.")
    if found.record is None:
        raise Problem("vehicle_not_found", NOT_FOUND)
    return found.record


def _require_bulk(sent: BulkRequest, bulk_max: int) -> None:
    if not sent.registrations:
        raise Problem.at("/registrations", "invalid_body", "At least one registration is needed.")
    if len(sent.registrations) > bulk_max:
        raise Problem.at(
            "/registrations",
            "too_many_registrations",
            f"The account's plan allows {bulk_max:,} registrations in one request; "
            f"got {len(sent.registrations):,}.",
        )
    if sent.asOf is not None and clock.parse_iso_date(sent.asOf) is None:
        raise Problem.at("/asOf", "invalid_body", "This must be a date that exists, YYYY-MM-DD.")
