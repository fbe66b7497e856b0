"""Judges whether a vehicle is insured and road-legal on a day (D20, D22).

A vehicle is road-legal if it passes four checks, each with its reason. Every operation and every
command judges with these functions.
"""

from calendar import isleap
from datetime import MAXYEAR
from functools import cache
from typing import NamedTuple, get_args

from app.vehicles.facts import Record
from app.vehicles.policies import PolicyState, policy_state

TAX_STATUSES = ("taxed", "exempt", "sorn", "untaxed")
"""The words of the native format, which a mapping translates others to."""


class Verdict(NamedTuple):
    """The outcome of a check."""

    is_good: bool
    """Whether the vehicle passes the check."""
    reason: str
    """The reason as the API gives it."""


# PERF: there are a dozen of them, and a bulk of 1,000 needs 3,000.
_verdict = cache(Verdict)
_BY_STATE = {state: Verdict(state == "valid", state) for state in get_args(PolicyState)}
_BY_FLAG = {
    True: Verdict(True, "flag"),
    False: Verdict(False, "none"),
    None: Verdict(False, "unknown"),
}


def judge_insurance(record: Record, day: str) -> Verdict:
    """Decide whether a vehicle is insured on the day (ISO date), and why.

    The policy decides if one is known, else a register's plain yes or no (D20).
    """
    policy = record.policy
    if policy is None:
        return _BY_FLAG[record.insured]
    return _BY_STATE[policy_state(policy, day)]


class Judgement(NamedTuple):
    """The verdicts of the four checks."""

    insurance: Verdict
    mot: Verdict
    tax: Verdict
    fines: Verdict

    @property
    def is_compliant(self) -> bool:
        """Whether the vehicle passes all four checks."""
        # PERF: all() takes four times as long.
        insurance, mot, tax, fines = self
        return insurance.is_good and mot.is_good and tax.is_good and fines.is_good

    @property
    def is_good(self) -> bool:
        """The same, by the name that a single verdict has for it."""
        return self.is_compliant


def judge(record: Record, day: str) -> Judgement:
    """Judge a vehicle by the rows that the registers hold now, as of `day` (ISO date).

    Raises ValueError if the look-up did not ask for fines.
    """
    return Judgement(
        judge_insurance(record, day),
        judge_mot(record, day),
        judge_tax(record, day),
        _judge_fines(record),
    )


def _judge_fines(record: Record) -> Verdict:
    if record.has_outstanding_fines is None:
        raise ValueError("fines were not looked up")
    return (
        _verdict(False, "outstanding") if record.has_outstanding_fines else _verdict(True, "none")
    )


def judge_mot(record: Record, day: str) -> Verdict:
    """Decide whether a vehicle needs no MOT on the day, or has one, and why."""
    if record.mot_exempt:
        return _verdict(True, "exempt")
    if record.mot_expiry is None:
        is_not_due = _is_before_first_mot(record, day)
        return _verdict(is_not_due, "not_due" if is_not_due else "unknown")
    is_valid = record.mot_expiry >= day
    return _verdict(is_valid, "valid" if is_valid else "expired")


def _is_before_first_mot(record: Record, day: str) -> bool:
    first_registered, years = record.first_registered, record.mot_first_years
    if not years or first_registered is None:
        return False
    # NOTE: compared as texts, so that 29 February needs no anniversary: 2021-02-29 is as good
    # a bound as any. A vehicle not yet registered on that day has no MOT due either.
    return first_registered > f"{int(day[:4]) - years:04}{day[4:]}"


def first_mot_day(record: Record) -> str | None:
    """Return the first day on which the first MOT is due by the years of the setting (D154).

    None if there is no such day, or if an expiry is known: then the years do not count.
    """
    first_registered, years = record.first_registered, record.mot_first_years
    if not years or first_registered is None or record.mot_expiry is not None:
        return None
    year, rest = int(first_registered[:4]) + years, first_registered[4:]
    if rest == "-02-29" and not isleap(year):
        rest = "-03-01"
    return f"{year:04}{rest}" if year <= MAXYEAR else None


def judge_tax(record: Record, day: str) -> Verdict:
    """Decide whether the road tax of a vehicle is paid on the day, and why."""
    status = record.tax_status
    if status not in TAX_STATUSES:
        return _verdict(False, "unknown")
    if status in ("sorn", "untaxed"):
        return _verdict(False, status)
    if record.tax_due is not None and record.tax_due < day:
        return _verdict(False, "expired")
    return _verdict(True, "exempt" if status == "exempt" else "valid")
