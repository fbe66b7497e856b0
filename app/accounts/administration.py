"""Lets an operator manage accounts, plans and keys.

Every function that changes something is one transaction, which also records who did it:
`actor`, by default the user of this process. A refusal raises OperatorError, which says what to
do.
"""

from collections.abc import Callable, Mapping
from datetime import date

from app import clock
from app.accounts.models import (
    ACCOUNTS_MAX,
    BULK_MAX,
    Account,
    ApiKey,
    Enquiry,
    OnOff,
    Plan,
    account_state,
    key_state,
    plan_state,
    require_text,
    subject_of,
)
from app.accounts.restrictions import UNRESTRICTED, Restrictions, hash_columns
from app.accounts.tokens import TAG_CHARACTERS, Token, is_key_id, new_token, random_base62
from app.accounts.usage.counts import CONSOLE
from app.actions import Actor, Name, Subject, changing, record
from app.errors import OperatorError
from app.settings.enquiries import parse_reasons
from app.storage.engine import Engine
from app.storage.stores import migrate
from app.storage.versions import database_id, set_tells_unknown, tells_unknown, versions
from app.text import counted

DEFAULT_PLAN = "standard"
_WATCHES_MAX = 1_000
"""How many watches an account on the default plan may have, in an installation that is new."""
ROTATION_GRACE_SECONDS = 24 * 3600
GRACE_SECONDS_MAX = 366 * 24 * 3600
PLAN_NAME_CHARACTERS_MAX = 30
_NAMED_MAX = 5
"""How many accounts on a plan a refusal names."""
PLAN_LIMITS: Mapping[str, tuple[int, int]] = {
    "requests": (1, 1_000_000_000),
    "window_seconds": (1, 366 * 24 * 3600),
    "bulk_max": (1, BULK_MAX),
    "domains_max": (0, 1_000_000),
    "watches_max": (0, 1_000_000),
}
"""The least and the greatest value of each limit of a plan."""


def migrate_installation(engine: Engine) -> list[str]:
    """Migrate a database as `migrate` does.

    In a new one the default plan allows watches (D12), and answers tell what is not known (D198).

    Returns the names of the scripts that ran. Raises what `migrate` raises.
    """
    if versions(engine).database:
        return migrate(engine)
    with engine.migration():
        is_new = versions(engine).database == 0  # Another process may have created it meanwhile.
        applied = migrate(engine)
        if is_new:
            is_default = Plan.name == DEFAULT_PLAN
            Plan.update(watches_max=_WATCHES_MAX).where(is_default).execute(engine)
            set_tells_unknown(engine, True)
        return applied


def change_unknown(engine: Engine, tells: bool) -> None:
    """Change whether answers tell what is not known (D198), on all hosts from the next one on."""
    with changing(engine):
        before, after = (
            {"unknown": "on" if each else "off"} for each in (tells_unknown(engine), tells)
        )
        set_tells_unknown(engine, tells)
        subject = Subject("database", database_id(engine))
        record(engine, None, "answers.unknown", subject, before, after)


def create_account(
    engine: Engine, name: str, plan: str = DEFAULT_PLAN, *, actor: Actor | None = None
) -> Account:
    """Create an account on a plan. No other account may have its name, nor may it be `console`."""
    name = require_text("an account's name", name)
    if name == CONSOLE:
        raise OperatorError(
            f"the name {CONSOLE} is reserved for people's look-ups in usage; choose another name"
        )
    with changing(engine):
        require_plan(engine, plan)
        if Account.select().where(Account.name == name).exists(engine):
            raise OperatorError(f"there is already an account named {name}; choose another name")
        tag = _unused_tag(engine)
        Account.insert(tag=tag, name=name, plan=plan, created_at=clock.now()).execute(engine)
        account = require_account(engine, name)
        if account.id > ACCOUNTS_MAX:
            raise OperatorError(
                f"all {ACCOUNTS_MAX:,} account numbers are used; numbers of deleted accounts are "
                "not used again"
            )
        created = account_state(account)
        record(engine, actor, "accounts.create", subject_of(account), None, created)
        return account


def set_account_plan(
    engine: Engine, name: str, plan: str, *, actor: Actor | None = None
) -> Account:
    """Move an account to another plan. It takes effect with the next request.

    Raises OperatorError if only one of both plans is a sandbox (D180).
    """
    with changing(engine):
        is_sandbox = require_plan(engine, plan).is_sandbox
        former = require_account(engine, name)
        if require_plan(engine, former.plan_id).is_sandbox != is_sandbox:
            which = plan if is_sandbox else former.plan_id
            raise OperatorError(
                f"account {name} cannot move from plan {former.plan_id} to {plan}, because only "
                f'{which} is a sandbox; create another account with "verifyd accounts create '
                f'NAME --plan {plan}"'
            )
        return change_account(engine, actor, "accounts.set-plan", former, plan=plan)


def change_account(
    engine: Engine, actor: Actor | None, action: Name, former: Account, **columns: object
) -> Account:
    """Change columns of an account, record the action, and return the changed account.

    Call it within `changing`, in which the account was read.
    """
    Account.update(**columns).where(Account.id == former.id).execute(engine)
    account = require_account(engine, former.name)
    states = account_state(former), account_state(account)
    record(engine, actor, action, subject_of(account), *states)
    return account


def suspend_account(engine: Engine, name: str, *, actor: Actor | None = None) -> Account:
    """Refuse an account's keys from the next request on.

    An account that is suspended already keeps the time of its suspension.
    """
    with changing(engine):
        former = require_account(engine, name)
        at = clock.now() if former.suspended_at is None else former.suspended_at
        return change_account(engine, actor, "accounts.suspend", former, suspended_at=at)


def resume_account(engine: Engine, name: str, *, actor: Actor | None = None) -> Account:
    """Accept the keys of a suspended account again. Any other account stays unchanged."""
    with changing(engine):
        former = require_account(engine, name)
        return change_account(engine, actor, "accounts.resume", former, suspended_at=None)


def delete_account(
    engine: Engine,
    name: str,
    count_domains: Callable[[int], int],
    count_others: Callable[[int], Mapping[str, int]] = lambda _: {},
    *,
    actor: Actor | None = None,
) -> Account:
    """Delete an account with its keys, watches and events, and return it as it was.

    Args:
        count_domains: returns how many domains the account with this number has.
        count_others: the same of what is deleted besides keys, by name, for the record.

    Raises OperatorError if it has domains, so that none is lost by mistake. No other account ever
    gets its number, because that is a place in the limiter's file (D11).
    """
    with changing(engine):
        account = require_account(engine, name)
        # On Postgres, a domain that is created at the same time is counted, or waits and fails.
        engine.lock_rows(Account.select().where(Account.id == account.id))
        require_without_domains(account, count_domains)
        keys = ApiKey.select().where(ApiKey.account == account).count(engine)
        deleted = {**account_state(account), "keys": keys, **count_others(account.id)}
        record(engine, actor, "accounts.delete", subject_of(account), deleted, None)
        Account.delete().where(Account.id == account.id).execute(engine)
        return account


def require_without_domains(account: Account, count_domains: Callable[[int], int]) -> None:
    """Raise OperatorError if the account has domains."""
    domains = count_domains(account.id)
    if domains:
        raise OperatorError(
            f"account {account.name} has {counted(domains, 'domain')}, so "
            f'it was not deleted; "verifyd accounts suspend {account.name}" ends its access and '
            "keeps them"
        )


def require_account(engine: Engine, name: str) -> Account:
    """Return the account of this name. Raises OperatorError if there is none."""
    account: Account | None = Account.select().where(Account.name == name).first(engine)
    if account is None:
        raise OperatorError(f'there is no account named {name}; see "verifyd accounts list"')
    return account


def list_accounts(engine: Engine) -> list[Account]:
    """Return all accounts, ordered by name."""
    return list(Account.select().order_by(Account.name).execute(engine))


def set_plan(
    engine: Engine,
    name: str,
    limits: Mapping[str, int],
    *,
    enquiry: Enquiry | None = None,
    reasons: str | None = None,
    suggest: OnOff | None = None,
    sandbox: OnOff | None = None,
    actor: Actor | None = None,
) -> Plan:
    """Create or change a plan, from the next request of its accounts on.

    None keeps what the plan has. A new plan asks for no reasons, has no suggestions, and is no
    sandbox.

    Args:
        limits: a value for each of PLAN_LIMITS. Without `watches_max` the plan keeps what it has,
            0 for a new one.
        reasons: those that are accepted, separated by commas; the empty text accepts all. They
            need an enquiry that is not off.
        sandbox: only a new plan can become one.
    """
    name = require_text("a plan's name", name, PLAN_NAME_CHARACTERS_MAX)
    for limit, value in limits.items():
        least, most = PLAN_LIMITS[limit]
        if not least <= value <= most:
            option = limit.removesuffix("_seconds").replace("_", "-")
            raise OperatorError(f"--{option} must be from {least:,} to {most:,}")
    with changing(engine):
        former = Plan.select().where(Plan.name == name).first(engine)
        # What is not given stays: a changed rate limit must not switch the duty of a reason off.
        columns = {
            "enquiry": enquiry,
            "enquiry_reasons": None if reasons is None else _stored_reasons(reasons),
            "suggest": suggest,
        }
        given = {column: value for column, value in columns.items() if value is not None}
        values: dict[str, object] = {**limits, **given}
        if reasons and (enquiry or (former.enquiry if former else "off")) == "off":
            raise OperatorError("accepted reasons need an enquiry that is optional or required")
        if former and sandbox not in (None, former.sandbox):
            raise OperatorError(
                f"plan {name} is {'no' if sandbox == 'on' else 'a'} sandbox, and that never "
                "changes; create a plan of another name"
            )
        Plan.insert(name=name, sandbox=sandbox or "off", **values).on_conflict(
            conflict_target=[Plan.name], update=values
        ).execute(engine)
        plan = require_plan(engine, name)
        before = former and plan_state(former)
        record(engine, actor, "plans.set", Subject("plan", name), before, plan_state(plan))
        return plan


def _stored_reasons(text: str) -> str:
    """Return reasons as a plan stores them: separated by commas, each once."""
    try:
        return ",".join(parse_reasons(text.strip()))
    except ValueError as error:
        raise OperatorError(str(error)) from None


def delete_plan(engine: Engine, name: str, *, actor: Actor | None = None) -> Plan:
    """Delete a plan that no account is on, and return it as it was.

    Raises OperatorError if an account is on it, or if it is the default of new accounts.
    """
    with changing(engine):
        plan = require_plan(engine, name)
        if name == DEFAULT_PLAN:
            raise OperatorError(
                f"plan {name} cannot be deleted: new accounts get it by default; "
                'change it with "verifyd plans set"'
            )
        engine.lock_rows(Plan.select().where(Plan.name == name))
        users = Account.select().where(Account.plan == name).order_by(Account.name)
        names = [account.name for account in users.limit(_NAMED_MAX + 1).execute(engine)]
        if names:
            shown = ", ".join(names[:_NAMED_MAX]) + (", ..." if len(names) > _NAMED_MAX else "")
            raise OperatorError(
                f"plan {name} is in use ({shown}); move its accounts with "
                '"verifyd accounts set-plan" first'
            )
        Plan.delete().where(Plan.name == name).execute(engine)
        record(engine, actor, "plans.delete", Subject("plan", name), plan_state(plan), None)
        return plan


def require_plan(engine: Engine, name: str) -> Plan:
    """Return the plan of this name. Raises OperatorError if there is none."""
    plan: Plan | None = Plan.select().where(Plan.name == name).first(engine)
    if plan is None:
        known = ", ".join(p.name for p in list_plans(engine))
        raise OperatorError(f"there is no plan named {name}; the plans are {known}")
    return plan


def list_plans(engine: Engine) -> list[Plan]:
    """Return all plans, those with the fewest requests first."""
    return list(Plan.select().order_by(Plan.requests, Plan.name).execute(engine))


def create_key(
    engine: Engine,
    account_name: str,
    label: str = "",
    expires_at: int | None = None,
    restrictions: Restrictions = UNRESTRICTED,
    *,
    actor: Actor | None = None,
) -> tuple[ApiKey, Token]:
    """Create a key for an account. Only the returned Token contains its text.

    Args:
        expires_at: Unix seconds; None for a key that does not expire.
    """
    label = require_text("a label", label) if label else ""
    if expires_at is not None and expires_at <= clock.now():
        raise OperatorError("a key must expire in the future")
    with changing(engine):
        account = require_account(engine, account_name)
        columns = restrictions.columns() | {"label": label, "expires_at": expires_at}
        key, token = _insert_key(engine, account, columns)
        record(engine, actor, "keys.create", subject_of(key), None, key_state(key))
        return key, token


def list_keys(engine: Engine, account_name: str | None = None) -> list[ApiKey]:
    """Return the keys of an account, or all keys, the oldest first, each with its account."""
    query = ApiKey.select(ApiKey, Account).join(Account).order_by(ApiKey.created_at, ApiKey.id)
    if account_name is not None:
        query = query.where(ApiKey.account == require_account(engine, account_name))
    return list(query.execute(engine))


def revoke_key(engine: Engine, key_id: str, *, actor: Actor | None = None) -> ApiKey:
    """Revoke a key at once and for good. A key that was revoked before stays unchanged."""
    with changing(engine):
        former = require_key(engine, key_id)
        if former.revoked_at is None:
            ApiKey.update(revoked_at=clock.now()).where(ApiKey.id == key_id).execute(engine)
        key = require_key(engine, key_id)
        record(engine, actor, "keys.revoke", subject_of(key), key_state(former), key_state(key))
        return key


def rotate_key(
    engine: Engine,
    key_id: str,
    grace_seconds: int = ROTATION_GRACE_SECONDS,
    *,
    actor: Actor | None = None,
) -> tuple[ApiKey, Token]:
    """Create the successor of a key. The old key still works for the grace period.

    The new key has the account, label, expiry and restrictions of the old one. Raises OperatorError
    for a key that was rotated before. It does so for a key that no longer works, too, so that
    rotating never restores access that was revoked.
    """
    if not 0 <= grace_seconds <= GRACE_SECONDS_MAX:
        raise OperatorError(f"--grace must be from 0 to {GRACE_SECONDS_MAX:,} seconds")
    with changing(engine):
        old = require_key(engine, key_id)
        if old.status in ("revoked", "expired"):
            raise OperatorError(
                f'key {key_id} no longer works; create a new one with "verifyd keys create"'
            )
        if old.replaced_by is not None:
            raise OperatorError(
                f"key {key_id} was rotated before; rotate {old.replaced_by} instead"
            )
        ends_at = clock.now() + grace_seconds
        if old.expires_at is not None:
            ends_at = min(ends_at, old.expires_at)
        kept = ("label", "expires_at", "only", "networks")
        key, token = _insert_key(engine, old.account, {name: getattr(old, name) for name in kept})
        update = ApiKey.update(expires_at=ends_at, replaced_by=key.id)
        update.where(ApiKey.id == key_id).execute(engine)
        rotated = key_state(require_key(engine, key_id))
        record(engine, actor, "keys.rotate", subject_of(old), key_state(old), rotated)
        return key, token


def find_key(engine: Engine, key_id: str) -> ApiKey | None:
    """Return the key of this id, with its account; None if there is none."""
    query = ApiKey.select(ApiKey, Account).join(Account).where(ApiKey.id == key_id)
    # NOTE: Postgres ignores spaces at the end of a CHAR.
    key: ApiKey | None = query.first(engine) if is_key_id(key_id) else None
    return key


def require_key(engine: Engine, key_id: str) -> ApiKey:
    """Return the key of this id, with its account. Raises OperatorError if there is none."""
    key = find_key(engine, key_id)
    if key is None:
        raise OperatorError(f'there is no key {key_id}; see "verifyd keys list"')
    return key


def end_of_day(day: date) -> int:
    """Return the end of a day in UTC, in Unix seconds. `--expires DATE` includes the day."""
    return (day - date(1970, 1, 1)).days * 86_400 + 86_400


def _insert_key(
    engine: Engine, account: Account, columns: Mapping[str, object]
) -> tuple[ApiKey, Token]:
    plan = require_plan(engine, account.plan_id)
    token = new_token(account.tag, is_sandbox=plan.is_sandbox)
    made = {"id": token.key_id, "account": account.id, "created_at": clock.now(), **columns}
    ApiKey.insert(**made, **hash_columns(token.secret_hash, columns)).execute(engine)
    return require_key(engine, token.key_id), token


def _unused_tag(engine: Engine) -> str:
    while True:
        tag = random_base62(TAG_CHARACTERS)
        if not Account.select().where(Account.tag == tag).exists(engine):
            return tag
