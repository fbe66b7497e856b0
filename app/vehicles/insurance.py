"""Is the vehicle insured on a day, and how that is answered (D20, spec 2)."""

from app import clock
from app.vehicles.records import PolicyFacts, Record

Members = dict[str, object]


def is_insured(record: Record, day: str) -> bool:
    """Tell whether a policy is in force; the register's flag counts if no policy is known."""
    if record.policy is None:
        return bool(record.insured_flag)
    return record.policy.is_in_force(day)


def insurance_reason(record: Record, day: str) -> str:
    """Return why `is_insured` says what it says (D22)."""
    policy = record.policy
    if policy is None:
        return {None: "unknown", False: "none", True: "flag"}[record.insured_flag]
    return policy_reason(policy, day)


def policy_reason(policy: PolicyFacts, day: str) -> str:
    """Return `valid` for a policy that is in force on the day, else why it is not."""
    if policy.is_in_force(day):
        return "valid"
    if policy.valid_to < day:
        return "expired"
    if policy.cancelled_on is not None and policy.cancelled_on <= max(day, policy.valid_from):
        return "cancelled"
    return "future"


def insurance_members(record: Record, day: str) -> Members:
    """Return the insurance record of spec 2."""
    return {
        "registration": record.registration,
        "insured": is_insured(record, day),
        "policy": policy_members(record.policy),
        "vehicle": {
            "make": record.make,
            "model": record.model,
            "year": record.year,
            "color": record.color,
        },
        "lastUpdated": clock.iso_utc(record.updated),
    }


def policy_members(policy: PolicyFacts | None) -> Members | None:
    """Return the policy object of spec 2; null if none is known."""
    if policy is None:
        return None
    return {
        "number": policy.number,
        "insurer": policy.insurer or None,
        "validFrom": policy.valid_from,
        "validTo": policy.valid_to,
        "type": policy.type,
    }
