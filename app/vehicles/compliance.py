"""Judges whether a vehicle is insured and road-legal on a day (D20, D22).

A vehicle is road-legal if it passes four checks, each with its reason. Every operation and every
command judges with these functions. What no register knows is a failure, unless the record has a
basis (D198): then the verdict is neither good nor known.
"""

from calendar import isleap
from collections.abc import Iterator
from datetime import MAXYEAR
from functools import cache
from typing import NamedTuple, get_args

from app.vehicles.facts import Basis, Record, VehicleFacts
from app.vehicles.policies import PolicyState, policy_state

TAX_STATUSES = ("taxed", "exempt", "sorn", "untaxed")
"""The words of the native format, which a mapping translates others to."""


class Verdict(NamedTuple):
    """The outcome of a check."""

    is_good: bool
    """Whether the vehicle passes the check."""
    reason: str
    """The reason as the API gives it."""
    is_known: bool = True
    """Whether the registers know the outcome. If not, it is good only for fines."""

    @property
    def fails(self) -> bool:
        """Whether the vehicle fails the check for certain."""
        return self.is_known and not self.is_good


# PERF: there are a dozen of them, and a bulk of 1,000 needs 3,000.
_verdict = cache(Verdict)
_BY_STATE = {state: Verdict(state == "valid", state) for state in get_args(PolicyState)}
_BY_FLAG = {
    True: Verdict(True, "flag"),
    False: Verdict(False, "none"),
    None: Verdict(False, "unknown"),
}
_NO_POLICY = Verdict(False, "no_policy")
_NOT_KNOWN = Verdict(False, "unknown", is_known=False)
_NOT_KNOWN_THEN = Verdict(False, "not_known_then", is_known=False)


def judge_insurance(record: Record, day: str) -> Verdict:
    """Decide whether a vehicle is insured on the day (ISO date), and why.

    The policy decides if one is known, else a register's plain yes or no (D20). With a basis, only
    a policy in force decides alone (D198).
    """
    policy, verdict = record.policy, None
    if policy is not None:
        verdict = _BY_STATE[policy_state(policy, day)]
        if verdict.is_good:
            return verdict
    if record.basis is None:
        return verdict or _BY_FLAG[record.insured]
    return _judge_without_cover(record, day, record.basis, verdict)


def _judge_without_cover(
    record: Record, day: str, basis: Basis, of_policy: Verdict | None
) -> Verdict:
    """Judge a vehicle that no policy covers on the day.

    Args:
        of_policy: why its policy does not; None if none is known.
    """
    # PERF: a bulk of plates of which nothing is known calls this for each.
    is_today = day == basis.today
    insured = record.insured if is_today else insured_on(record, day)
    if insured is not None:
        if of_policy is None:
            return _BY_FLAG[insured]
        fails = not insured
    elif record.insured:
        # A yes of today contradicts that the complete registers have every policy.
        fails = False
    elif day >= basis.today:
        fails = bool(basis.complete)
    else:
        fails = any(begun_in(record, day, basis))
    if of_policy is not None:
        return _verdict(False, of_policy.reason, fails)
    if fails:
        return _NO_POLICY
    if is_today or (record.insured is None and not basis.complete):
        return _NOT_KNOWN
    return _NOT_KNOWN_THEN


def insured_on(record: Record, day: str) -> bool | None:
    """Return the yes or no of the first register that has one, if it was known for the day."""
    basis = record.basis
    if basis is None or day == basis.today:
        return record.insured
    for vehicle in _vehicles(record):
        if vehicle.insured is not None:
            return vehicle.insured if basis.was_known(vehicle.updated, day) else None
    return None


def begun_in(record: Record, day: str, basis: Basis) -> Iterator[str]:
    """Yield the complete register of each policy that began by the day."""
    for name, policy in record.rows.policies:
        if name in basis.complete and policy.valid_from <= day:
            yield name


def _vehicles(record: Record) -> Iterator[VehicleFacts]:
    """Yield the rows of a vehicle, in the order of their registers' precedence."""
    return (vehicle for _, vehicle in record.rows.vehicles)


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

    @property
    def fails(self) -> bool:
        """Whether the vehicle fails a check for certain."""
        return any(verdict.fails for verdict in self)

    @property
    def is_known(self) -> bool:
        """Whether the outcome is known. It is if only that of the fines is not."""
        return self.is_compliant or self.fails


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
    if record.has_outstanding_fines:
        return _verdict(False, "outstanding")
    if record.basis is None or record.basis.has_fines:
        return _verdict(True, "none")
    return _verdict(True, "unknown", False)


def judge_mot(record: Record, day: str) -> Verdict:
    """Decide whether a vehicle needs no MOT on the day, or has one, and why."""
    basis = record.basis
    if basis is not None and day != basis.today:
        return _judge_mot_then(record, day, basis)
    if record.mot_exempt:
        return _verdict(True, "exempt")
    if record.mot_expiry is None:
        return _judge_first_mot(record, day)
    is_valid = record.mot_expiry >= day
    return _verdict(is_valid, "valid" if is_valid else "expired")


def _judge_mot_then(record: Record, day: str, basis: Basis) -> Verdict:
    """Judge by what was known for the day, of any register."""
    if any(each.mot_exempt and basis.was_known(each.updated, day) for each in _vehicles(record)):
        return _verdict(True, "exempt")
    if record.mot_expiry is None:
        of_first = _judge_first_mot(record, day)
        return _NOT_KNOWN_THEN if record.mot_exempt and not of_first.is_good else of_first
    expiries = ((each.mot_expiry, each.updated) for each in _vehicles(record) if each.mot_expiry)
    if any(basis.first_day(updated) <= day <= expiry for expiry, updated in expiries):
        return _verdict(True, "valid")
    # An exemption of today may have held on that day, too.
    fails = record.mot_expiry < day and not record.mot_exempt
    return _verdict(False, "expired") if fails else _NOT_KNOWN_THEN


def _judge_first_mot(record: Record, day: str) -> Verdict:
    """Judge a vehicle of which no expiry is known."""
    if _is_before_first_mot(record, day):
        return _verdict(True, "not_due")
    return _verdict(False, "unknown", record.basis is None)


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
    status, basis = record.tax_status, record.basis
    if status not in TAX_STATUSES:
        return _verdict(False, "unknown", basis is None)
    is_paid = status in ("taxed", "exempt")
    if is_paid and record.tax_due is not None and record.tax_due < day:
        return _verdict(False, "expired")
    if basis is not None and day != basis.today:
        updated = next(each.updated for each in _vehicles(record) if each.tax_status is not None)
        last_day = (is_paid and record.tax_due) or basis.today
        if not basis.first_day(updated) <= day <= last_day:
            return _NOT_KNOWN_THEN
    if not is_paid:
        return _verdict(False, status)
    return _verdict(True, "exempt" if status == "exempt" else "valid")
