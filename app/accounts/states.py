"""What the record of actions has of accounts, plans and keys (D130)."""

from app import clock
from app.accounts.models import Account, ApiKey, Plan
from app.actions import State, Subject
from app.settings.enquiries import split_reasons


def account_state(account: Account) -> State:
    """Return the members of an account that an action can change, as commands print them."""
    return {
        "plan": account.plan_id,
        "status": account.status,
        "suspended_at": _time(account.suspended_at),
    }


def plan_state(plan: Plan) -> State:
    """Return everything of a plan but its name."""
    return {
        "requests": plan.requests,
        "window_seconds": plan.window_seconds,
        "bulk_max": plan.bulk_max,
        "domains_max": plan.domains_max,
        "watches_max": plan.watches_max,
        "enquiry": plan.enquiry,
        "enquiry_reasons": split_reasons(plan.enquiry_reasons),
        "suggest": plan.suggest,
        "sandbox": plan.sandbox,
    }


def key_state(key: ApiKey) -> State:
    """Return the members of a key that an action can change, its label and its restrictions.

    SEC: the secret and its hash are not among them.
    """
    return {
        "label": key.label,
        **key.restrictions._asdict(),
        "expires_at": _time(key.expires_at),
        "revoked_at": _time(key.revoked_at),
        "replaced_by": key.replaced_by,
    }


def subject_of(changed: Account | ApiKey) -> Subject:
    """Return an account, or a key that was read with its account, as the subject of an action."""
    if isinstance(changed, ApiKey):
        return Subject("key", changed.id, changed.account.name)
    return Subject("account", changed.name, changed.name)


def _time(epoch_seconds: int | None) -> str | None:
    return None if epoch_seconds is None else clock.iso_utc(epoch_seconds)
