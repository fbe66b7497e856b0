"""`verifyd limits`: show and reset an account's bucket."""

import argparse

from app import clock
from app.accounts.administration import require_account, require_plan
from app.accounts.models import Account
from app.cli.output import counted, print_item
from app.cli.parser import ACCOUNT, Group
from app.config import Config
from app.serve.limits.bucket import SECOND_NS, Outcome, Rate, rate
from app.serve.limits.file import FILE_NAME, Identity
from app.serve.limits.store import LimitStore, account_slot, reset_limit
from app.storage import reserve
from app.storage.engine import Engine
from app.storage.session import opened_database
from app.storage.versions import database_id

commands = Group("limits", "show and reset accounts' rate limits")


@commands.command(
    "show",
    "show how many requests an account has left",
    ACCOUNT,
    examples=["limits show acme"],
)
def _show(args: argparse.Namespace) -> None:
    with opened_database() as engine:
        account, plan_rate, store = _bucket(engine, args.account)
        outcome = store.peek(account_slot(account.id), plan_rate)
    _print(args, account, plan_rate, outcome)


@commands.command(
    "reset",
    "give an account all its requests back",
    ACCOUNT,
    examples=["limits reset acme"],
)
def _reset(args: argparse.Namespace) -> None:
    with opened_database() as engine:
        account, plan_rate, store = _bucket(engine, args.account)
        owner = account.id, account.name
        outcome = reserve.with_reserve(engine, reset_limit, engine, store, *owner, plan_rate)
    _print(args, account, plan_rate, outcome)


def _bucket(engine: Engine, name: str) -> tuple[Account, Rate, LimitStore]:
    """Return an account, its rate, and the store of its bucket."""
    account = require_account(engine, name)
    plan = require_plan(engine, account.plan_id)
    # NOTE: only the start of the service creates the file (D11).
    identity = Identity.now(database_id(engine))
    store = LimitStore(Config.from_env().state_dir / FILE_NAME, lambda: identity)
    return account, rate(plan.requests, plan.window_seconds), store


def _print(args: argparse.Namespace, account: Account, plan: Rate, outcome: Outcome) -> None:
    """Print the requests left in the bucket of an account, and when the bucket is full again."""
    full_at = -(-(clock.now_ns() + outcome.full_in_ns) // SECOND_NS)
    members = {
        "account": account.name,
        "plan": account.plan_id,
        "limit": plan.limit,
        "window_seconds": plan.window_seconds,
        "remaining": outcome.remaining,
        "reset": clock.iso_utc(full_at),
    }
    allowed = f"{outcome.remaining:,} of {counted(plan.limit, 'request')}"
    print_item(args, members, f"account {account.name} has {allowed} left")
