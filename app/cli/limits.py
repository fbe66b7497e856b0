"""`verifyd limits`: see and reset an account's bucket (D8, D11)."""

import argparse
from collections.abc import Callable

from app import clock
from app.accounts.administration import require_account, require_plan
from app.accounts.models import Account
from app.cli.output import print_item
from app.cli.parser import Commands, add_command, add_group
from app.cli.session import opened_database
from app.config import Config
from app.limits.bucket import SECOND_NS, Outcome, Rate, rate
from app.limits.file import FILE_NAME, Identity
from app.limits.store import LimitStore, account_slot
from app.storage.versions import database_id

_Ask = Callable[[LimitStore, int, Rate], Outcome]


def add_commands(commands: Commands) -> None:
    """Add the command group."""
    limits = add_group(commands, "limits", "show and reset accounts' rate limits")
    shown = add_command(limits, "show", _show, "show what an account has left")
    reset = add_command(limits, "reset", _reset, "give an account all its requests back")
    for command in (shown, reset):
        command.add_argument("account", metavar="ACCOUNT")


def _show(args: argparse.Namespace) -> None:
    _settle(args, LimitStore.peek)


def _reset(args: argparse.Namespace) -> None:
    _settle(args, LimitStore.fill)


def _settle(args: argparse.Namespace, ask: _Ask) -> None:
    config = Config.from_env()
    with opened_database() as engine:
        account = require_account(engine, args.account)
        plan = require_plan(engine, account.plan_id)
        # NOTE: a command never makes the file: that is the start of the service (D11).
        identity = Identity.now(database_id(engine))
    plan_rate = rate(plan.requests, plan.window_seconds)
    store = LimitStore(config.state_dir / FILE_NAME, lambda: identity)
    outcome = ask(store, account_slot(account.id), plan_rate)
    print_item(args, _members(account, plan_rate, outcome))


def _members(account: Account, plan: Rate, outcome: Outcome) -> dict[str, object]:
    full_at = -(-(clock.now_ns() + outcome.full_in_ns) // SECOND_NS)
    return {
        "account": account.name,
        "plan": account.plan_id,
        "limit": plan.limit,
        "window_seconds": plan.window_seconds,
        "remaining": outcome.remaining,
        "reset": clock.iso_utc(full_at),
    }
