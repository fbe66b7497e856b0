"""The states of accounts, plans and keys, as the record of actions has them (D130).

The members are those that commands print. SEC: a key's secret and its hash are not among them.
"""

from app import clock
from app.accounts.enquiry import split_reasons
from app.accounts.models import Account, ApiKey, Plan
from app.actions import State, Subject


def account_state(account: Account) -> State:
    """Return the members of an account that an action can change."""
    suspended_at = account.suspended_at
    return {
        "plan": account.plan_id,
        "status": "active" if suspended_at is None else "suspended",
        "suspended_at": _time(suspended_at),
    }


def plan_state(plan: Plan) -> State:
    """Return the limits of a plan, and what its accounts must say about look-ups."""
    return {
        "requests": plan.requests,
        "window_seconds": plan.window_seconds,
        "bulk_max": plan.bulk_max,
        "domains_max": plan.domains_max,
        "enquiry": plan.enquiry,
        "enquiry_reasons": split_reasons(plan.enquiry_reasons),
    }


def key_state(key: ApiKey) -> State:
    """Return the members of a key that an action can change, and its label."""
    return {
        "label": key.label,
        "expires_at": _time(key.expires_at),
        "revoked_at": _time(key.revoked_at),
        "replaced_by": key.replaced_by,
    }


def status_of_key(key: ApiKey) -> str:
    """Return `active`, `revoked`, `expired`, or `suspended` with its account.

    The key must have been read with its account.
    """
    if key.revoked_at is not None:
        return "revoked"
    if key.expires_at is not None and key.expires_at <= clock.now():
        return "expired"
    return "active" if key.account.suspended_at is None else "suspended"


def subject_of(changed: Account | ApiKey) -> Subject:
    """Return an account, or a key that was read with its account, as the subject of an action."""
    if isinstance(changed, ApiKey):
        return Subject("key", changed.id, changed.account.name)
    return Subject("account", changed.name, changed.name)


def _time(epoch_seconds: int | None) -> str | None:
    return None if epoch_seconds is None else clock.iso_utc(epoch_seconds)
