"""Is the vehicle road-legal on a day: four checks and their reasons (D22)."""

from typing import NamedTuple

from app import clock
from app.vehicles.insurance import Members, insurance_reason
from app.vehicles.records import Record

TAX_STATUSES = ("taxed", "exempt", "sorn", "untaxed")


class Judgement(NamedTuple):
    """One reason for each check; a check holds if its reason is a good one."""

    insurance: str
    mot: str
    tax: str
    fines: str


def judge(record: Record, day: str, mot_first_years: int) -> Judgement:
    """Judge a vehicle by what the registers hold now, as of `day` (ISO date).

    Args:
        mot_first_years: years after first registration before an MOT is due; 0 for never.
    """
    return Judgement(
        insurance_reason(record, day),
        _mot_reason(record, day, mot_first_years),
        _tax_reason(record, day),
        "outstanding" if record.has_outstanding_fines else "none",
    )


def checks_of(judgement: Judgement) -> dict[str, bool]:
    """Return the four checks of spec 2, true where the vehicle is in order."""
    return {
        "insuranceValid": judgement.insurance in ("valid", "flag"),
        "motValid": judgement.mot in ("valid", "exempt", "not_due"),
        "roadTaxPaid": judgement.tax in ("valid", "exempt"),
        "noOutstandingFines": judgement.fines == "none",
    }


def compliance_members(
    record: Record, day: str, mot_first_years: int, *, explain: bool, checked_at: int
) -> Members:
    """Return the compliance record of spec 2.

    Args:
        explain: add `reasons` (D22).
        checked_at: Unix seconds of the request.
    """
    judgement = judge(record, day, mot_first_years)
    checks = checks_of(judgement)
    members: Members = {
        "registration": record.registration,
        "compliant": all(checks.values()),
        "checks": checks,
        "lastChecked": clock.iso_utc(checked_at),
    }
    if explain:
        members["reasons"] = dict(zip(checks, judgement, strict=True))
    return members


def _mot_reason(record: Record, day: str, mot_first_years: int) -> str:
    if record.mot_exempt:
        return "exempt"
    if record.mot_expiry is not None and record.mot_expiry >= day:
        return "valid"
    if _is_before_first_mot(record.first_registered, day, mot_first_years):
        return "not_due"
    return "unknown" if record.mot_expiry is None else "expired"


def _is_before_first_mot(first_registered: str | None, day: str, years: int) -> bool:
    if not years or first_registered is None:
        return False
    # NOTE: compared as texts, so that 29 February needs no anniversary: 2021-02-29 is as good
    # a bound as any. A vehicle not yet registered on that day has no MOT due either.
    return first_registered > f"{int(day[:4]) - years:04}{day[4:]}"


def _tax_reason(record: Record, day: str) -> str:
    status = record.tax_status
    if status not in TAX_STATUSES:
        return "unknown"
    if status in ("sorn", "untaxed"):
        return status
    if record.tax_due is not None and record.tax_due < day:
        return "expired"
    return "exempt" if status == "exempt" else "valid"
