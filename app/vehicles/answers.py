"""The JSON that the vehicle operations answer with (spec 2)."""

from collections.abc import Sequence
from typing import Generic, NotRequired, TypedDict, TypeVar

from app import clock
from app.vehicles.compliance import Judgement, judge_insurance
from app.vehicles.facts import PolicyFacts, Record
from app.vehicles.reader import Found
from app.vehicles.registration import registration_fault

NOT_FOUND = "Vehicle not found"
_T = TypeVar("_T", bool, str)


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


class FourChecks(TypedDict, Generic[_T]):
    """Something about each of the four checks."""

    insuranceValid: _T
    motValid: _T
    roadTaxPaid: _T
    noOutstandingFines: _T


ChecksAnswer = FourChecks[bool]
"""Whether the vehicle passes each check."""
ReasonsAnswer = FourChecks[str]
"""The reason of each check."""


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
        as_of: the day that the request named.
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
        explain: add `reasons`.
        checked_at: Unix seconds of the request.
        as_of: the day that the request named.
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
    """Return the error for a text that is no registration, without a full stop."""
    return f"Invalid registration number: {registration_fault(text)}"


def failure_answer(found: Found) -> FailureAnswer:
    """Return why a plate has no record: it is no registration, or no register mentions it."""
    if found.registration is None:
        return {"error": invalid_registration(found.asked), "code": "invalid_registration"}
    return {"error": NOT_FOUND, "code": "vehicle_not_found"}


class Item(TypedDict):
    """What items of both operations have: `error` and `code`, or with details the other two."""

    registration: str
    error: NotRequired[str]
    code: NotRequired[str]
    vehicle: NotRequired[VehicleAnswer]
    lastUpdated: NotRequired[str]


class InsuranceItem(Item):
    """Whether one plate of a list is insured."""

    insured: bool
    policy: NotRequired[PolicyAnswer | None]


class ComplianceItem(Item):
    """Whether one plate of a list is road-legal."""

    compliant: bool
    checks: NotRequired[ChecksAnswer]
    reasons: NotRequired[ReasonsAnswer]


_Item = TypeVar("_Item", InsuranceItem, ComplianceItem)


class BulkAnswer(TypedDict):
    """The answer of a bulk operation (spec 2)."""

    results: Sequence[Item]
    processed: int
    successful: int
    failed: int
    asOf: NotRequired[str]


def bulk_answer(items: Sequence[Item], as_of: str | None) -> BulkAnswer:
    """Return the answer of a bulk operation: one item per plate, in their order."""
    failed = sum("error" in item for item in items)
    answer: BulkAnswer = {
        "results": items,
        "processed": len(items),
        "successful": len(items) - failed,
        "failed": failed,
    }
    if as_of is not None:
        answer["asOf"] = as_of
    return answer


def insurance_item(found: Found, day: str) -> InsuranceItem:
    """Return whether a plate is insured on the day (ISO date), or why it has no answer."""
    record = found.record
    if record is None:
        return _failed(InsuranceItem(registration=_named(found), insured=False), found)
    return {
        "registration": record.registration,
        "insured": judge_insurance(record, day).is_good,
        "policy": policy_answer(record.policy),
    }


def compliance_item(found: Found, judgement: Judgement | None, *, explain: bool) -> ComplianceItem:
    """Return whether a plate is road-legal, or why it has no answer.

    Args:
        judgement: None if the plate has no record.
        explain: add `reasons`.
    """
    if judgement is None:
        return _failed(ComplianceItem(registration=_named(found), compliant=False), found)
    item: ComplianceItem = {
        "registration": _named(found),
        "compliant": judgement.is_compliant,
        "checks": checks_answer(judgement),
    }
    if explain:
        item["reasons"] = reasons_answer(judgement)
    return item


def add_details(item: Item, record: Record) -> None:
    """Add the vehicle object, and when the record changed last."""
    item["vehicle"] = vehicle_answer(record)
    item["lastUpdated"] = clock.iso_utc(record.updated)


def _failed(item: _Item, found: Found) -> _Item:
    """Add to an item why its plate has no answer."""
    failure = failure_answer(found)
    item["error"], item["code"] = failure["error"], failure["code"]
    return item


def _named(found: Found) -> str:
    """Return the canonical registration, or the text as it was sent if it is invalid."""
    return found.asked if found.registration is None else found.registration
