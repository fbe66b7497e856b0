"""`verifyd limits`: show and reset an account's bucket (D8, D11)."""

import argparse
from functools import partial
from typing import TypedDict

from app import clock
from app.accounts.administration import require_account, require_plan
from app.accounts.models import Account
from app.cli.output import counted, print_item
from app.cli.parser import Commands, add_command, add_group
from app.config import Config
from app.serve.limits.bucket import SECOND_NS, Outcome, Rate, rate
from app.serve.limits.file import FILE_NAME, Identity
from app.serve.limits.store import LimitStore, account_slot, reset_limit
from app.storage import reserve
from app.storage.engine import Engine
from app.storage.session import opened_database
from app.storage.versions import database_id


class LimitItem(TypedDict):
    """The rate limit of an account, as both commands print it."""

    account: str
    plan: str
    limit: int
    """Requests per window."""
    window_seconds: int
    remaining: int
    """Requests that the account could send now."""
    reset: str
    """When the account has all its requests again."""


def add_commands(commands: Commands) -> None:
    """Add the command group."""
    limits = add_group(commands, "limits", "show and reset accounts' rate limits")
    shown = add_command(
        limits,
        "show",
        _show,
        "show how many requests an account has left",
        examples=["limits show acme"],
    )
    reset = add_command(
        limits,
        "reset",
        _reset,
        "give an account all its requests back",
        examples=["limits reset acme"],
    )
    for command in (shown, reset):
        command.add_argument("account", metavar="ACCOUNT", help="name of the account")


def _show(args: argparse.Namespace) -> None:
    with opened_database() as engine:
        account, plan_rate, store = _bucket(engine, args.account)
        outcome = store.peek(account_slot(account.id), plan_rate)
    _print(args, account, plan_rate, outcome)


def _reset(args: argparse.Namespace) -> None:
    with opened_database() as engine:
        account, plan_rate, store = _bucket(engine, args.account)
        reset = partial(reset_limit, engine, store, account.id, account.name, plan_rate)
        outcome = reserve.with_reserve(engine, reset)
    _print(args, account, plan_rate, outcome)


def _bucket(engine: Engine, name: str) -> tuple[Account, Rate, LimitStore]:
    """Return an account, its rate, and the store of its bucket."""
    account = require_account(engine, name)
    plan = require_plan(engine, account.plan_id)
    # NOTE: only the start of the service creates the file (D11).
    identity = Identity.now(database_id(engine))
    store = LimitStore(Config.from_env().state_dir / FILE_NAME, lambda: identity)
    return account, rate(plan.requests, plan.window_seconds), store


def _print(args: argparse.Namespace, account: Account, plan_rate: Rate, outcome: Outcome) -> None:
    """Print what is left in the bucket of an account."""
    item = _item(account, plan_rate, outcome)
    print_item(
        args,
        item,
        f"account {account.name} has {item['remaining']:,} of "
        f"{counted(item['limit'], 'request')} left",
    )


def _item(account: Account, plan: Rate, outcome: Outcome) -> LimitItem:
    full_at = -(-(clock.now_ns() + outcome.full_in_ns) // SECOND_NS)
    return {
        "account": account.name,
        "plan": account.plan_id,
        "limit": plan.limit,
        "window_seconds": plan.window_seconds,
        "remaining": outcome.remaining,
        "reset": clock.iso_utc(full_at),
    }
