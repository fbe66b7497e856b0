"""`verifyd accounts`, `verifyd plans`, `verifyd keys` (D3, D12)."""

import argparse
from datetime import date
from functools import partial
from typing import Any

from app import clock
from app.accounts import administration, lifecycle
from app.accounts.models import Account, ApiKey, Plan
from app.accounts.tokens import Token
from app.cli.confirmation import add_yes, confirm
from app.cli.output import print_item, print_items
from app.cli.parser import Commands, add_command, add_group
from app.cli.session import opened_database
from app.domains.repository import Domains
from app.storage import reserve

_PLAN_COLUMNS = ("name", "requests", "window_seconds", "bulk_max", "domains_max")
_ACCOUNT_COLUMNS = ("name", "plan", "status", "tag", "created_at")
_KEY_COLUMNS = ("id", "account", "label", "status", "created_at", "expires_at", "revoked_at")


def add_commands(commands: Commands) -> None:
    """Add the three command groups."""
    accounts = add_group(commands, "accounts", "make, list, suspend and delete accounts")
    create = add_command(accounts, "create", _create_account, "make an account")
    create.add_argument("name", metavar="NAME")
    create.add_argument("--plan", metavar="PLAN", default=administration.DEFAULT_PLAN)
    change = add_command(accounts, "set-plan", _set_account_plan, "move an account to a plan")
    change.add_argument("name", metavar="NAME")
    change.add_argument("plan", metavar="PLAN")
    add_command(accounts, "list", _list_accounts, "list accounts")
    show = add_command(accounts, "show", _show_account, "show an account")
    show.add_argument("name", metavar="NAME")
    suspend = add_command(
        accounts, "suspend", _suspend_account, "refuse an account's keys from the next request"
    )
    suspend.add_argument("name", metavar="NAME")
    resume = add_command(
        accounts, "resume", _resume_account, "accept a suspended account's keys again"
    )
    resume.add_argument("name", metavar="NAME")
    delete = add_command(
        accounts, "delete", _delete_account, "delete an account without domains, and its keys"
    )
    delete.add_argument("name", metavar="NAME")
    add_yes(delete)

    plans = add_group(commands, "plans", "change, list and delete plans")
    plan = add_command(plans, "set", _set_plan, "add a plan, or change one from the next request")
    plan.add_argument("name", metavar="NAME")
    plan.add_argument("--requests", type=int, required=True, metavar="N", help="per window")
    plan.add_argument("--window", type=int, required=True, metavar="SECONDS")
    plan.add_argument("--bulk-max", type=int, required=True, metavar="N", help="at most 10,000")
    plan.add_argument("--domains-max", type=int, required=True, metavar="N")
    add_command(plans, "list", _list_plans, "list plans")
    unused = add_command(plans, "delete", _delete_plan, "delete a plan that no account is on")
    unused.add_argument("name", metavar="NAME")

    keys = add_group(commands, "keys", "make, list, revoke and rotate API keys")
    key = add_command(keys, "create", _create_key, "make a key; it is shown once")
    key.add_argument("account", metavar="ACCOUNT")
    key.add_argument("--label", metavar="TEXT", default="")
    key.add_argument(
        "--expires", type=_iso_date, metavar="DATE", help="last day it works, YYYY-MM-DD (UTC)"
    )
    listed = add_command(keys, "list", _list_keys, "list keys, without their secrets")
    listed.add_argument("account", metavar="ACCOUNT", nargs="?")
    revoked = add_command(keys, "revoke", _revoke_key, "end a key from the next request")
    revoked.add_argument("id", metavar="ID")
    rotated = add_command(keys, "rotate", _rotate_key, "make a key in place of another")
    rotated.add_argument("id", metavar="ID")
    rotated.add_argument(
        "--grace",
        type=int,
        metavar="SECONDS",
        default=administration.ROTATION_GRACE_SECONDS,
        help="how long the old key lives on; default one day",
    )


def _create_account(args: argparse.Namespace) -> None:
    with opened_database() as engine:
        print_item(args, _account(administration.create_account(engine, args.name, args.plan)))


def _set_account_plan(args: argparse.Namespace) -> None:
    with opened_database() as engine:
        print_item(args, _account(administration.set_account_plan(engine, args.name, args.plan)))


def _list_accounts(args: argparse.Namespace) -> None:
    with opened_database() as engine:
        accounts = [_account(account) for account in administration.list_accounts(engine)]
    print_items(args, accounts, _ACCOUNT_COLUMNS)


def _show_account(args: argparse.Namespace) -> None:
    with opened_database() as engine:
        account = administration.require_account(engine, args.name)
        keys = administration.list_keys(engine, args.name)
        domains = Domains(engine).count_domains(account.id)
    works = sum(_key_status(key) == "active" for key in keys)
    print_item(args, _account(account) | {"active_keys": works, "domains": domains})


def _suspend_account(args: argparse.Namespace) -> None:
    with opened_database() as engine:
        suspend = partial(lifecycle.suspend_account, engine, args.name)
        print_item(args, _account(reserve.written(engine, suspend)))


def _resume_account(args: argparse.Namespace) -> None:
    with opened_database() as engine:
        print_item(args, _account(lifecycle.resume_account(engine, args.name)))


def _delete_account(args: argparse.Namespace) -> None:
    with opened_database() as engine:
        count = Domains(engine).count_domains
        lifecycle.require_without_domains(administration.require_account(engine, args.name), count)
        keys = len(administration.list_keys(engine, args.name))
        confirm(args, f"Delete account {args.name} and its {keys:,} keys for good?")
        deleted = lifecycle.delete_account(engine, args.name, count)
        print_item(args, _account(deleted) | {"status": "deleted"})


def _set_plan(args: argparse.Namespace) -> None:
    with opened_database() as engine:
        plan = administration.set_plan(
            engine,
            args.name,
            requests=args.requests,
            window_seconds=args.window,
            bulk_max=args.bulk_max,
            domains_max=args.domains_max,
        )
        print_item(args, _plan(plan))


def _list_plans(args: argparse.Namespace) -> None:
    with opened_database() as engine:
        print_items(args, list(map(_plan, administration.list_plans(engine))), _PLAN_COLUMNS)


def _delete_plan(args: argparse.Namespace) -> None:
    with opened_database() as engine:
        print_item(args, _plan(lifecycle.delete_plan(engine, args.name)))


def _create_key(args: argparse.Namespace) -> None:
    expires_at = administration.end_of_day(args.expires) if args.expires else None
    with opened_database() as engine:
        made = administration.create_key(engine, args.account, args.label, expires_at)
        print_item(args, _new_key(*made))


def _list_keys(args: argparse.Namespace) -> None:
    with opened_database() as engine:
        keys = [_key(key) for key in administration.list_keys(engine, args.account)]
    print_items(args, keys, _KEY_COLUMNS)


def _revoke_key(args: argparse.Namespace) -> None:
    with opened_database() as engine:
        revoke = partial(administration.revoke_key, engine, args.id)
        print_item(args, _key(reserve.written(engine, revoke)))


def _rotate_key(args: argparse.Namespace) -> None:
    with opened_database() as engine:
        key, token = administration.rotate_key(engine, args.id, args.grace)
        old = administration.require_key(engine, args.id)
        replaced = {"replaces": old.id, "replaced_until": _time(old.expires_at)}
        print_item(args, _new_key(key, token) | replaced)


def _account(account: Account) -> dict[str, Any]:
    return {
        "name": account.name,
        "plan": account.plan_id,
        "status": "active" if account.suspended_at is None else "suspended",
        "tag": account.tag,
        "created_at": _time(account.created_at),
        "suspended_at": _time(account.suspended_at),
    }


def _plan(plan: Plan) -> dict[str, Any]:
    return {column: getattr(plan, column) for column in _PLAN_COLUMNS}


def _key(key: ApiKey) -> dict[str, Any]:
    return {
        "id": key.id,
        "account": key.account.name,
        "label": key.label,
        "status": _key_status(key),
        "created_at": _time(key.created_at),
        "expires_at": _time(key.expires_at),
        "revoked_at": _time(key.revoked_at),
        "replaced_by": key.replaced_by,
    }


def _new_key(key: ApiKey, token: Token) -> dict[str, Any]:
    members = _key(key)
    return {"id": members.pop("id"), "key": token.text, **members}


def _key_status(key: ApiKey) -> str:
    if key.revoked_at is not None:
        return "revoked"
    if key.expires_at is not None and key.expires_at <= clock.now():
        return "expired"
    return "active" if key.account.suspended_at is None else "suspended"


def _time(epoch_seconds: int | None) -> str | None:
    return None if epoch_seconds is None else clock.iso_utc(epoch_seconds)


def _iso_date(text: str) -> date:
    day = clock.parse_iso_date(text)
    if day is not None and day < date.max:
        return day
    raise argparse.ArgumentTypeError("must be a date, YYYY-MM-DD")
