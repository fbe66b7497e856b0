"""The tables of accounts, plans and keys, and what the record of actions has of them (D130)."""

from typing import Final, Literal

import peewee

from app import clock
from app.accounts.restrictions import Restrictions
from app.actions import State, Subject
from app.errors import OperatorError
from app.settings.enquiries import split_reasons, text_fault

BULK_MAX = 10_000
"""The most registrations in one bulk request that any plan may allow (D12)."""
ACCOUNTS_MAX = 1_048_576
"""The most accounts ever: a number is a slot in the limiter's file, and never reused (D81)."""
NAME_CHARACTERS_MAX = 100
OnOff = Literal["off", "on"]
ON_OFF: Final[tuple[OnOff, ...]] = ("off", "on")
Enquiry = Literal["off", "optional", "required"]
"""Whether the headers are ignored, or checked and recorded, or a reason is needed, too."""
ENQUIRIES: Final[tuple[Enquiry, ...]] = ("off", "optional", "required")


class Plan(peewee.Model):
    """The limits of its accounts, their rules for enquiries, and whether it has suggestions."""

    name = peewee.CharField(30, primary_key=True)
    requests = peewee.IntegerField()
    window_seconds = peewee.IntegerField()
    bulk_max = peewee.IntegerField()
    domains_max = peewee.IntegerField()
    watches_max = peewee.IntegerField(default=0)
    enquiry = peewee.CharField(8, default="off")
    """`off`, `optional` or `required`."""
    enquiry_reasons = peewee.TextField(default="")
    """The accepted reasons, separated by commas; empty if every reason is accepted."""
    suggest = peewee.CharField(3, default="off")
    """Whether the 404 of a look-up shows known plates that look alike (D175): `off` or `on`."""
    sandbox = peewee.CharField(3, default="off")
    """Whether its accounts get invented answers: `off` or `on`. It never changes (D180)."""

    class Meta:
        table_name = "plan"

    @property
    def is_sandbox(self) -> bool:
        """Whether its accounts get invented answers."""
        return str(self.sandbox) == "on"


class Account(peewee.Model):
    """A customer of the installation. `tag` is the public part of its keys."""

    id = peewee.AutoField()
    tag = peewee.FixedCharField(6)
    name = peewee.CharField(NAME_CHARACTERS_MAX)
    plan = peewee.ForeignKeyField(Plan)
    plan_id: str
    created_at = peewee.BigIntegerField()
    suspended_at = peewee.BigIntegerField(null=True)
    """When its keys stopped working, in Unix seconds; None for an active account."""

    class Meta:
        table_name = "account"

    @property
    def status(self) -> str:
        """`active` or `suspended`."""
        return "active" if self.suspended_at is None else "suspended"


class ApiKey(peewee.Model):
    """A key, with the hash of its secret, but never the secret. Times are in Unix seconds."""

    id = peewee.FixedCharField(8, primary_key=True)
    account = peewee.ForeignKeyField(Account)
    secret_hash = peewee.FixedCharField(64)
    """No hash if the key is restricted (D178)."""
    restricted_hash = peewee.FixedCharField(64, null=True)
    label = peewee.CharField(NAME_CHARACTERS_MAX)
    created_at = peewee.BigIntegerField()
    expires_at = peewee.BigIntegerField(null=True)
    revoked_at = peewee.BigIntegerField(null=True)
    replaced_by = peewee.FixedCharField(8, null=True)
    """The id of its successor, after a rotation."""
    only = peewee.CharField(10, default="")
    """The area of operations that it may use; empty for all."""
    networks = peewee.TextField(default="")
    """The networks that it may be used from, separated by commas; empty for all."""

    class Meta:
        table_name = "api_key"

    @property
    def status(self) -> str:
        """`active`, `revoked`, `expired`, or `suspended` with its account.

        The key must have been read with its account.
        """
        if self.revoked_at is not None:
            return "revoked"
        if self.expires_at is not None and self.expires_at <= clock.now():
            return "expired"
        return str(self.account.status)

    @property
    def restrictions(self) -> Restrictions:
        """What it is restricted to."""
        return Restrictions.of(self.only, self.networks)


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


def require_text(what: str, text: str, characters_max: int = NAME_CHARACTERS_MAX) -> str:
    """Return a text without spaces around it. Raises OperatorError if anything is wrong with it."""
    text = text.strip()
    fault = text_fault(text, characters_max)
    if fault:
        raise OperatorError(f"{what} {fault}")
    return text
