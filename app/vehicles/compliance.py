"""Judges whether a vehicle is road-legal on a day: four checks, each with its reason (D22)."""

from typing import NamedTuple

from app.vehicles.facts import Record
from app.vehicles.insurance import Verdict, judge_insurance

TAX_STATUSES = ("taxed", "exempt", "sorn", "untaxed")
"""The words of the native format, which a mapping translates others to."""


class Judgement(NamedTuple):
    """The verdicts of the four checks."""

    insurance: Verdict
    mot: Verdict
    tax: Verdict
    fines: Verdict

    @property
    def is_compliant(self) -> bool:
        """Whether the vehicle passes all four checks."""
        return all(verdict.is_good for verdict in self)


def judge(record: Record, day: str, mot_first_years: int) -> Judgement:
    """Judge a vehicle by what the registers hold now, as of `day` (ISO date).

    Args:
        mot_first_years: years after first registration before an MOT is due; 0 for never.

    Raises ValueError if the look-up did not ask for fines.
    """
    return Judgement(
        judge_insurance(record, day),
        _judge_mot(record, day, mot_first_years),
        _judge_tax(record, day),
        _judge_fines(record),
    )


def _judge_fines(record: Record) -> Verdict:
    if record.has_outstanding_fines is None:
        raise ValueError("fines were not looked up")
    return Verdict(False, "outstanding") if record.has_outstanding_fines else Verdict(True, "none")


def _judge_mot(record: Record, day: str, mot_first_years: int) -> Verdict:
    if record.mot_exempt:
        return Verdict(True, "exempt")
    if record.mot_expiry is not None and record.mot_expiry >= day:
        return Verdict(True, "valid")
    if _is_before_first_mot(record.first_registered, day, mot_first_years):
        return Verdict(True, "not_due")
    return Verdict(False, "unknown" if record.mot_expiry is None else "expired")


def _is_before_first_mot(first_registered: str | None, day: str, years: int) -> bool:
    if not years or first_registered is None:
        return False
    # NOTE: compared as texts, so that 29 February needs no anniversary: 2021-02-29 is as good
    # a bound as any. A vehicle not yet registered on that day has no MOT due either.
    return first_registered > f"{int(day[:4]) - years:04}{day[4:]}"


def _judge_tax(record: Record, day: str) -> Verdict:
    status = record.tax_status
    if status not in TAX_STATUSES:
        return Verdict(False, "unknown")
    if status in ("sorn", "untaxed"):
        return Verdict(False, status)
    if record.tax_due is not None and record.tax_due < day:
        return Verdict(False, "expired")
    return Verdict(True, "exempt" if status == "exempt" else "valid")
