"""The JSON that the bulk operations answer with (spec 2, D23, D92)."""

from collections.abc import Sequence
from typing import NotRequired, TypedDict, TypeVar

from app import clock
from app.vehicles.answers import (
    ChecksAnswer,
    PolicyAnswer,
    ReasonsAnswer,
    VehicleAnswer,
    checks_answer,
    failure_answer,
    policy_answer,
    reasons_answer,
    vehicle_answer,
)
from app.vehicles.compliance import Judgement
from app.vehicles.facts import Record
from app.vehicles.insurance import judge_insurance
from app.vehicles.reader import Found


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
    """The answer of a bulk operation."""

    results: Sequence[Item]
    processed: int
    successful: int
    failed: int
    asOf: NotRequired[str]


def bulk_answer(items: Sequence[Item], as_of: str | None) -> BulkAnswer:
    """Return the answer of a bulk operation: one item per plate, in their order (D23)."""
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
        explain: add `reasons` (D22).
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
    """Add the vehicle object, and when the record changed last (D21)."""
    item["vehicle"] = vehicle_answer(record)
    item["lastUpdated"] = clock.iso_utc(record.updated)


def _failed(item: _Item, found: Found) -> _Item:
    """Add to an item why its plate has no answer."""
    failure = failure_answer(found)
    item["error"], item["code"] = failure["error"], failure["code"]
    return item


def _named(found: Found) -> str:
    """Return the canonical registration; the text as it was sent if it is none."""
    return found.asked if found.registration is None else found.registration
