"""`verifyd limits`: show and reset an account's bucket (D8, D11)."""

import argparse
from collections.abc import Callable
from typing import TypedDict

from app import clock
from app.accounts.administration import require_account, require_plan
from app.accounts.models import Account
from app.cli.output import counted, print_item
from app.cli.parser import Commands, add_command, add_group
from app.cli.session import opened_database
from app.config import Config
from app.limits.bucket import SECOND_NS, Outcome, Rate, rate
from app.limits.file import FILE_NAME, Identity
from app.limits.store import LimitStore, account_slot
from app.storage.versions import database_id

_Operation = Callable[[LimitStore, int, Rate], Outcome]


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
    _apply(args, LimitStore.peek)


def _reset(args: argparse.Namespace) -> None:
    _apply(args, LimitStore.fill)


def _apply(args: argparse.Namespace, operation: _Operation) -> None:
    """Apply an operation to the bucket of an account, and print what is left in it."""
    config = Config.from_env()
    with opened_database() as engine:
        account = require_account(engine, args.account)
        plan = require_plan(engine, account.plan_id)
        # NOTE: only the start of the service creates the file (D11).
        identity = Identity.now(database_id(engine))
    plan_rate = rate(plan.requests, plan.window_seconds)
    store = LimitStore(config.state_dir / FILE_NAME, lambda: identity)
    outcome = operation(store, account_slot(account.id), plan_rate)
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
