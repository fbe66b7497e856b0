"""Judges whether a vehicle is insured on a day, for every operation and command (D20, D22)."""

from typing import Literal, NamedTuple

from app.vehicles.facts import PolicyFacts, Record

PolicyState = Literal["valid", "expired", "cancelled", "future"]


class Verdict(NamedTuple):
    """The outcome of a check."""

    is_good: bool
    """Whether the vehicle passes the check."""
    reason: str
    """The reason as the API gives it (D22)."""


_BY_STATE: dict[PolicyState, Verdict] = {
    "valid": Verdict(True, "valid"),
    "expired": Verdict(False, "expired"),
    "cancelled": Verdict(False, "cancelled"),
    "future": Verdict(False, "future"),
}
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
