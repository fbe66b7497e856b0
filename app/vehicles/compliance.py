"""Judges whether a vehicle is insured and road-legal on a day (D20, D22).

A vehicle is road-legal if it passes four checks, each with its reason. Every operation and every
command judges with these functions.
"""

from calendar import isleap
from collections.abc import Sequence
from datetime import MAXYEAR
from functools import cache
from typing import Literal, NamedTuple, get_args

from app.vehicles.facts import Holding, PolicyFacts, Record

TAX_STATUSES = ("taxed", "exempt", "sorn", "untaxed")
"""The words of the native format, which a mapping translates others to."""
PolicyState = Literal["valid", "expired", "cancelled", "future"]


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


def policy_state(policy: PolicyFacts, day: str) -> PolicyState:
    """Return `valid` for a policy that is in force on the day, else why it is not."""
    if policy.is_in_force(day):
        return "valid"
    if policy.valid_to < day:
        return "expired"
    if policy.cancelled_on is not None and policy.cancelled_on <= max(day, policy.valid_from):
        return "cancelled"
    return "future"


class Choice(NamedTuple):
    """The policy to answer with."""

    register: str
    policy: PolicyFacts
    rule: str
    """The rule that put it before the next best policy, such as `ends_last`."""
    why: str
    """The rule as a sentence for a person."""


class _Candidate(NamedTuple):
    place: int
    """Of its register, in the order of precedence."""
    register: str
    policy: PolicyFacts

    @property
    def name(self) -> str:
        return f"policy {self.policy.number} of {self.register}"


def choose_policy(held: Sequence[Holding], day: str) -> Choice | None:
    """Return the policy to answer with, and why; None if no register knows one (D20).

    Policies in force come first, then those that end later, begin later, and have the greater
    number; a cancellation is an end. Among equals the first register decides, within a register
    the insurer's name.

    Args:
        held: the rows of the plate in each register, in the order of precedence.
    """
    candidates = [
        _Candidate(place, each.register, policy)
        for place, each in enumerate(held)
        for policy in each.policies
    ]
    if not candidates:
        return None
    candidates.sort(key=lambda each: (each.place, each.policy.insurer))
    candidates.sort(key=lambda each: each.policy.rank(day), reverse=True)
    chosen, *others = candidates
    is_in_force = chosen.policy.is_in_force(day)
    if not others:
        how = "in force" if is_in_force else "not in force"
        why = f"{how} on {day}; no other policy is known"
        return Choice(chosen.register, chosen.policy, "only", why)
    rule, reason = _difference(chosen, others, day)
    how = "in force" if is_in_force else "no policy is in force"
    return Choice(chosen.register, chosen.policy, rule, f"{how} on {day}; {reason}")


def _difference(chosen: _Candidate, others: Sequence[_Candidate], day: str) -> tuple[str, str]:
    """Return the rule that puts the chosen policy before the next best, and a sentence."""
    other = others[0]
    best, next_best = chosen.policy, other.policy
    if best.is_in_force(day) != next_best.is_in_force(day):
        # The same policy can be in force in one register, and not in another.
        ended = [
            f"{each.register} has the same policy, which {_ended(each.policy, day)}"
            for each in others
            if each.policy.identity == best.identity
        ]
        return "in_force", "; ".join(ended) or "no other policy is"
    if best.ending != next_best.ending:
        its, that = (
            end if covers_end else f"cancelled on {end}"
            for end, covers_end in (best.ending, next_best.ending)
        )
        return "ends_last", f"ends later ({its}) than {other.name} ({that})"
    if best.valid_from != next_best.valid_from:
        begins = f"begins later ({best.valid_from}, not {next_best.valid_from})"
        return "begins_last", f"ends on the same day as {other.name}, and {begins}"
    if best.number != next_best.number:
        return "greatest_number", f"has the same dates as {other.name}, and the greater number"
    same = f"has the same dates and number as {other.name}"
    if chosen.register == other.register:
        return "first_insurer", f"{same}, and its insurer sorts first"
    return "register_order", f"{same}, and {chosen.register} comes first in the order of registers"


def _ended(policy: PolicyFacts, day: str) -> str:
    if policy_state(policy, day) == "expired":
        return f"ended on {policy.valid_to}"
    return f"was cancelled on {policy.cancelled_on}"


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
