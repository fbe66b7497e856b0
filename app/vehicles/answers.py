"""The JSON that the vehicle operations answer with (spec 2)."""

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
    asOf: NotRequired[str]


class ChecksAnswer(TypedDict):
    """The four checks; true for those that the vehicle passes."""

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
    asOf: NotRequired[str]


class FailureAnswer(TypedDict):
    """Why there is no answer for a plate, in a bulk look-up."""

    error: str
    code: str


def insurance_answer(record: Record, day: str, as_of: str | None = None) -> InsuranceAnswer:
    """Return the insurance record on the day (ISO date).

    Args:
        as_of: the day that the request named (D92).
    """
    answer: InsuranceAnswer = {
        "registration": record.registration,
        "insured": judge_insurance(record, day).is_good,
        "policy": policy_answer(record.policy),
        "vehicle": vehicle_answer(record),
        "lastUpdated": clock.iso_utc(record.updated),
    }
    if as_of is not None:
        answer["asOf"] = as_of
    return answer


def vehicle_answer(record: Record) -> VehicleAnswer:
    """Return the vehicle object."""
    return {
        "make": record.make,
        "model": record.model,
        "year": record.year,
        "color": record.color,
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
    registration: str,
    judgement: Judgement,
    *,
    explain: bool,
    checked_at: int,
    as_of: str | None = None,
) -> ComplianceAnswer:
    """Return the compliance record.

    Args:
        explain: add `reasons` (D22).
        checked_at: Unix seconds of the request.
        as_of: the day that the request named (D92).
    """
    answer: ComplianceAnswer = {
        "registration": registration,
        "compliant": judgement.is_compliant,
        "checks": checks_answer(judgement),
        "lastChecked": clock.iso_utc(checked_at),
    }
    if explain:
        answer["reasons"] = reasons_answer(judgement)
    if as_of is not None:
        answer["asOf"] = as_of
    return answer


def checks_answer(judgement: Judgement) -> ChecksAnswer:
    """Return the four checks."""
    return {
        "insuranceValid": judgement.insurance.is_good,
        "motValid": judgement.mot.is_good,
        "roadTaxPaid": judgement.tax.is_good,
        "noOutstandingFines": judgement.fines.is_good,
    }


def reasons_answer(judgement: Judgement) -> ReasonsAnswer:
    """Return the reasons of the four checks."""
    return {
        "insuranceValid": judgement.insurance.reason,
        "motValid": judgement.mot.reason,
        "roadTaxPaid": judgement.tax.reason,
        "noOutstandingFines": judgement.fines.reason,
    }


def invalid_registration(text: str) -> str:
    """Return what a text that is no registration is answered with, without a full stop."""
    return f"Invalid registration number: {registration_fault(text)}"


def failure_answer(found: Found) -> FailureAnswer:
    """Return why a plate has no record: it is no registration, or no register mentions it."""
    if found.registration is None:
        return {"error": invalid_registration(found.asked), "code": "invalid_registration"}
    return {"error": NOT_FOUND, "code": "vehicle_not_found"}
