"""The JSON that the vehicle operations answer with (spec 2)."""

from collections.abc import Sequence
from typing import NotRequired, TypedDict

from app import clock
from app.vehicles.compliance import Judgement
from app.vehicles.facts import PolicyFacts, Record
from app.vehicles.insurance import judge_insurance
from app.vehicles.reader import Found
from app.vehicles.registration import registration_fault

NOT_FOUND = "Vehicle not found"


class PolicyAnswer(TypedDict):
    """The policy object."""

    number: str
    insurer: str | None
    validFrom: str
    validTo: str
    type: str | None


class VehicleAnswer(TypedDict):
    """The vehicle object."""

    make: str | None
    model: str | None
    year: int | None
    color: str | None


class InsuranceAnswer(TypedDict):
    """The insurance record."""

    registration: str
    insured: bool
    policy: PolicyAnswer | None
    vehicle: VehicleAnswer
    lastUpdated: str


class ChecksAnswer(TypedDict):
    """The four checks, true where the vehicle is in order."""

    insuranceValid: bool
    motValid: bool
    roadTaxPaid: bool
    noOutstandingFines: bool


class ReasonsAnswer(TypedDict):
    """The reasons of the four checks (D22)."""

    insuranceValid: str
    motValid: str
    roadTaxPaid: str
    noOutstandingFines: str


class ComplianceAnswer(TypedDict):
    """The compliance record."""

    registration: str
    compliant: bool
    checks: ChecksAnswer
    lastChecked: str
    reasons: NotRequired[ReasonsAnswer]


class FailureAnswer(TypedDict):
    """Why there is no answer for a plate, in a bulk look-up."""

    error: str
    code: str


class BulkItem(TypedDict):
    """The answer for one plate of a bulk look-up: `policy`, or `error` and `code`."""

    registration: str
    insured: bool
    policy: NotRequired[PolicyAnswer | None]
    error: NotRequired[str]
    code: NotRequired[str]


class BulkAnswer(TypedDict):
    """The answer of a bulk look-up."""

    results: Sequence[BulkItem]
    processed: int
    successful: int
    failed: int


def insurance_answer(record: Record, day: str) -> InsuranceAnswer:
    """Return the insurance record as of the day (ISO date)."""
    return {
        "registration": record.registration,
        "insured": judge_insurance(record, day).is_good,
        "policy": policy_answer(record.policy),
        "vehicle": {
            "make": record.make,
            "model": record.model,
            "year": record.year,
            "color": record.color,
        },
        "lastUpdated": clock.iso_utc(record.updated),
    }


def policy_answer(policy: PolicyFacts | None) -> PolicyAnswer | None:
    """Return the policy object; None if no policy is known."""
    if policy is None:
        return None
    return {
        "number": policy.number,
        "insurer": policy.insurer or None,
        "validFrom": policy.valid_from,
        "validTo": policy.valid_to,
        "type": policy.type,
    }


def compliance_answer(
    registration: str, judgement: Judgement, *, explain: bool, checked_at: int
) -> ComplianceAnswer:
    """Return the compliance record.

    Args:
        explain: add `reasons` (D22).
        checked_at: Unix seconds of the request.
    """
    answer: ComplianceAnswer = {
        "registration": registration,
        "compliant": judgement.is_compliant,
        "checks": {
            "insuranceValid": judgement.insurance.is_good,
            "motValid": judgement.mot.is_good,
            "roadTaxPaid": judgement.tax.is_good,
            "noOutstandingFines": judgement.fines.is_good,
        },
        "lastChecked": clock.iso_utc(checked_at),
    }
    if explain:
        answer["reasons"] = {
            "insuranceValid": judgement.insurance.reason,
            "motValid": judgement.mot.reason,
            "roadTaxPaid": judgement.tax.reason,
            "noOutstandingFines": judgement.fines.reason,
        }
    return answer


def bulk_answer(found: Sequence[Found], day: str) -> BulkAnswer:
    """Return the answer of a bulk look-up: one item per plate, in their order (D23)."""
    items = [_bulk_item(each, day) for each in found]
    failed = sum("error" in item for item in items)
    return {
        "results": items,
        "processed": len(items),
        "successful": len(items) - failed,
        "failed": failed,
    }


def _bulk_item(found: Found, day: str) -> BulkItem:
    if found.record is None:
        failure = failure_answer(found)
        return {
            "registration": found.asked if found.registration is None else found.registration,
            "insured": False,
            "error": failure["error"],
            "code": failure["code"],
        }
    return {
        "registration": found.record.registration,
        "insured": judge_insurance(found.record, day).is_good,
        "policy": policy_answer(found.record.policy),
    }


def invalid_registration(text: str) -> str:
    """Return what a text that is no registration is answered with, without a full stop."""
    return f"Invalid registration number: {registration_fault(text)}"


def failure_answer(found: Found) -> FailureAnswer:
    """Return why a plate has no record: it is no registration, or no register mentions it."""
    if found.registration is None:
        return {"error": invalid_registration(found.asked), "code": "invalid_registration"}
    return {"error": NOT_FOUND, "code": "vehicle_not_found"}
