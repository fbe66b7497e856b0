"""Suspends, resumes and deletes accounts, and deletes plans (D81).

Every function is one transaction. Those that refuse raise OperatorError, which says what to do.
"""

from collections.abc import Callable

from app import clock
from app.accounts.administration import DEFAULT_PLAN, require_account, require_plan
from app.accounts.models import Account, Plan
from app.errors import OperatorError
from app.storage.engine import Engine

_NAMED_MAX = 5


def suspend_account(engine: Engine, name: str) -> Account:
    """Refuse an account's keys from the next request on.

    An account that is suspended already keeps the time of its suspension.
    """
    with engine.atomic():
        account = require_account(engine, name)
        if account.suspended_at is None:
            _set_suspended(engine, account, clock.now())
        return require_account(engine, name)


def resume_account(engine: Engine, name: str) -> Account:
    """Accept the keys of a suspended account again. Any other account stays unchanged."""
    with engine.atomic():
        _set_suspended(engine, require_account(engine, name), None)
        return require_account(engine, name)


def delete_account(engine: Engine, name: str, count_domains: Callable[[int], int]) -> Account:
    """Delete an account and its keys, and return it as it was.

    Args:
        count_domains: returns how many domains the account with this number has.

    Raises OperatorError if it has any, so that no domain is lost by mistake. No other account ever
    gets its number, because that is a place in the limiter's file (D11).
    """
    with engine.atomic():
        account = require_account(engine, name)
        # On Postgres, a domain that is created at the same time is counted, or waits and fails.
        engine.lock_rows(Account.select().where(Account.id == account.id))
        require_without_domains(account, count_domains)
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


def delete_plan(engine: Engine, name: str) -> Plan:
    """Delete a plan that no account is on, and return it as it was.

    Raises OperatorError if an account is on it, or if it is the default of new accounts.
    """
    with engine.atomic():
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
        return plan


def _set_suspended(engine: Engine, account: Account, at: int | None) -> None:
    Account.update(suspended_at=at).where(Account.id == account.id).execute(engine)
