"""`verifyd limits`: show and reset an account's bucket."""

import argparse

from app import clock
from app.accounts.administration import require_account, require_plan
from app.cli.output import print_item
from app.cli.parser import ACCOUNT, Group
from app.config import Config
from app.serve.limits.bucket import SECOND_NS, rate
from app.serve.limits.file import FILE_NAME, Identity
from app.serve.limits.store import LimitStore, account_slot, reset_limit
from app.storage import reserve
from app.storage.session import opened_database
from app.storage.versions import database_id
from app.text import counted

commands = Group("limits", "show and reset accounts' rate limits")


# The lower one comes first in the help.
@commands.command(
    "reset",
    "give an account all its requests back",
    ACCOUNT,
    examples=["limits reset acme"],
    is_reset=True,
)
@commands.command(
    "show",
    "show how many requests an account has left",
    ACCOUNT,
    examples=["limits show acme"],
    is_reset=False,
)
def _show_or_reset(args: argparse.Namespace) -> None:
    with opened_database() as engine:
        account = require_account(engine, args.account)
        plan = require_plan(engine, account.plan_id)
        plan_rate = rate(plan.requests, plan.window_seconds)
        # NOTE: only the start of the service creates the file (D11).
        identity = Identity.now(database_id(engine))
        store = LimitStore(Config.from_env().state_dir / FILE_NAME, lambda: identity)
        if args.is_reset:
            owner = account.id, account.name
            outcome = reserve.with_reserve(engine, reset_limit, engine, store, *owner, plan_rate)
        else:
            outcome = store.peek(account_slot(account.id), plan_rate)
    full_at = -(-(clock.now_ns() + outcome.full_in_ns) // SECOND_NS)
    members = {
        "account": account.name,
        "plan": account.plan_id,
        "limit": plan.requests,
        "window_seconds": plan.window_seconds,
        "remaining": outcome.remaining,
        "reset": clock.iso_utc(full_at),
    }
    allowed = f"{outcome.remaining:,} of {counted(plan.requests, 'request')}"
    print_item(args, members, f"account {account.name} has {allowed} left")
