"""The vehicle operations (spec 4)."""

from collections.abc import Sequence

import falcon
import msgspec

from app import clock
from app.config import Config
from app.errors import Problem
from app.http.bodies import answer, read_json
from app.http.context import caller_of
from app.http.parameters import date_parameter, flag_parameter, is_iso_date
from app.vehicles.compliance import compliance_members
from app.vehicles.insurance import Members, insurance_members, is_insured, policy_members
from app.vehicles.records import Record, Records
from app.vehicles.registration import canonical_registration

NOT_FOUND = "Vehicle not found"
INVALID = "Invalid registration number"


class BulkRequest(msgspec.Struct):
    """What a client sends for a bulk look-up."""

    registrations: list[str]
    asOf: str | None = None  # noqa: N815 - the wire's spelling


class VehicleReader:
    """What the three operations share: which day it is, and a plate or a refusal."""

    def __init__(self, records: Records, config: Config) -> None:
        self.records = records
        self.mot_first_years = config.mot_first_years
        self._timezone = config.timezone

    def day(self, as_of: str | None) -> str:
        """Return the ISO date to judge by: the one asked for, or today (D20)."""
        return as_of or clock.today(self._timezone).isoformat()

    def require_record(self, req: falcon.Request, registration: str, day: str) -> Record:
        """Return what is known of a plate.

        Raises Problem invalid_registration (D19) or vehicle_not_found (D24).
        """
        canonical = canonical_registration(registration)
        if canonical is None:
            raise Problem("invalid_registration", f"{INVALID}.")
        record = self.records.find_record(caller_of(req).registers, canonical, day)
        if record is None:
            raise Problem("vehicle_not_found", NOT_FOUND)
        return record


class Insurance:
    """Insurance of one vehicle."""

    def __init__(self, reader: VehicleReader) -> None:
        self._reader = reader

    def on_get(self, req: falcon.Request, resp: falcon.Response, registration: str) -> None:
        """GET /v1/vehicle/{registration}/insurance. The insurance record (spec 2)."""
        day = self._reader.day(date_parameter(req, "asOf"))
        record = self._reader.require_record(req, registration, day)
        answer(resp, insurance_members(record, day))

    on_head = on_get


class BulkInsurance:
    """Insurance of many vehicles."""

    def __init__(self, reader: VehicleReader) -> None:
        self._reader = reader

    def on_post(self, req: falcon.Request, resp: falcon.Response) -> None:
        """POST /v1/vehicle/bulk-insurance. One item per element, in the order sent (D23)."""
        caller = caller_of(req)
        sent = read_json(req, BulkRequest)
        _require_bulk(sent, caller.bulk_max)
        day = self._reader.day(sent.asOf)
        plates = [canonical_registration(text) for text in sent.registrations]
        known = [plate for plate in plates if plate is not None]
        records = self._reader.records.find_records(caller.registers, known, day)
        results = [
            _bulk_item(text, plate, records.get(plate) if plate else None, day)
            for text, plate in zip(sent.registrations, plates, strict=True)
        ]
        answer(resp, _envelope(results))


class Compliance:
    """Road-legality of one vehicle."""

    def __init__(self, reader: VehicleReader) -> None:
        self._reader = reader

    def on_get(self, req: falcon.Request, resp: falcon.Response, registration: str) -> None:
        """GET /v1/compliance/{registration}. The compliance record (spec 2, D22)."""
        explain = flag_parameter(req, "explain")
        day = self._reader.day(date_parameter(req, "asOf"))
        record = self._reader.require_record(req, registration, day)
        members = compliance_members(
            record, day, self._reader.mot_first_years, explain=explain, checked_at=clock.now()
        )
        answer(resp, members)

    on_head = on_get


def _require_bulk(sent: BulkRequest, bulk_max: int) -> None:
    if not sent.registrations:
        raise Problem.at("/registrations", "invalid_body", "At least one registration is needed.")
    if len(sent.registrations) > bulk_max:
        raise Problem.at(
            "/registrations",
            "too_many_registrations",
            f"The account's plan allows {bulk_max:,} registrations in one request.",
        )
    if sent.asOf is not None and not is_iso_date(sent.asOf):
        raise Problem.at("/asOf", "invalid_body", "This is not a date, YYYY-MM-DD.")


def _bulk_item(text: str, plate: str | None, record: Record | None, day: str) -> Members:
    if plate is None:
        return _failed(text, INVALID, "invalid_registration")
    if record is None:
        return _failed(plate, NOT_FOUND, "vehicle_not_found")
    return {
        "registration": plate,
        "insured": is_insured(record, day),
        "policy": policy_members(record.policy),
    }


def _failed(registration: str, error: str, code: str) -> Members:
    return {"registration": registration, "insured": False, "error": error, "code": code}


def _envelope(results: Sequence[Members]) -> Members:
    failed = sum("error" in item for item in results)
    return {
        "results": results,
        "processed": len(results),
        "successful": len(results) - failed,
        "failed": failed,
    }
