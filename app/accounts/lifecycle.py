"""Suspends, resumes and deletes accounts, and deletes plans.

Every function that changes something is one transaction, which also records who did it:
`actor`, by default the user of this process. A refusal raises OperatorError, which says what to
do.
"""

from collections.abc import Callable

from app import clock
from app.accounts.administration import (
    DEFAULT_PLAN,
    account_state,
    change_account,
    plan_state,
    require_account,
    require_plan,
    subject_of,
)
from app.accounts.models import Account, ApiKey, Plan
from app.actions import Actor, Subject, changing, record
from app.errors import OperatorError
from app.storage.engine import Engine

_NAMED_MAX = 5


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
    *,
    actor: Actor | None = None,
) -> Account:
    """Delete an account and its keys, and return it as it was.

    Args:
        count_domains: returns how many domains the account with this number has.

    Raises OperatorError if it has any, so that no domain is lost by mistake. No other account ever
    gets its number, because that is a place in the limiter's file (D11).
    """
    with changing(engine):
        account = require_account(engine, name)
        # On Postgres, a domain that is created at the same time is counted, or waits and fails.
        engine.lock_rows(Account.select().where(Account.id == account.id))
        require_without_domains(account, count_domains)
        keys = ApiKey.select().where(ApiKey.account == account).count(engine)
        deleted = {**account_state(account), "keys": keys}
        record(engine, actor, "accounts.delete", subject_of(account), deleted, None)
        Account.delete().where(Account.id == account.id).execute(engine)
        return account


def require_without_domains(account: Account, count_domains: Callable[[int], int]) -> None:
    """Raise OperatorError if the account has domains."""
    domains = count_domains(account.id)
    if domains:
        raise OperatorError(
            f"account {account.name} has {domains:,} {'domain' if domains == 1 else 'domains'}, so "
            f'it was not deleted; "verifyd accounts suspend {account.name}" ends its access and '
            "keeps them"
        )


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
