"""`verifyd accounts` (D12, D81)."""

import argparse
from functools import partial
from typing import TypedDict

from app import clock
from app.accounts import administration, lifecycle
from app.accounts.models import Account
from app.cli.confirmation import add_yes, confirm
from app.cli.keys import key_status
from app.cli.output import print_item, print_items
from app.cli.parser import Commands, add_command, add_group
from app.cli.session import opened_database
from app.domains.repository import Domains
from app.storage import reserve

_COLUMNS = ("name", "plan", "status", "tag", "created_at")


class AccountItem(TypedDict):
    """What commands print of an account."""

    name: str
    plan: str
    status: str
    """`active`, `suspended` or `deleted`."""
    tag: str
    created_at: str
    suspended_at: str | None


class AccountDetails(AccountItem):
    """What `accounts show` prints."""

    active_keys: int
    domains: int


def add_commands(commands: Commands) -> None:
    """Add the command group."""
    accounts = add_group(commands, "accounts", "create, list, suspend and delete accounts")
    create = add_command(
        accounts,
        "create",
        _create,
        "create an account",
        examples=["accounts create acme", "accounts create acme --plan enterprise"],
    )
    create.add_argument("name", metavar="NAME", help="name of the new account")
    create.add_argument(
        "--plan",
        metavar="PLAN",
        default=administration.DEFAULT_PLAN,
        help="plan of the account [%(default)s]",
    )
    change = add_command(
        accounts,
        "set-plan",
        _set_plan,
        "move an account to another plan, from its next request",
        examples=["accounts set-plan acme enterprise"],
    )
    _add_name(change)
    change.add_argument("plan", metavar="PLAN", help="name of the plan")
    add_command(
        accounts,
        "list",
        _list,
        "list accounts",
        examples=["accounts list", "accounts list --json"],
    )
    show = add_command(accounts, "show", _show, "show an account", examples=["accounts show acme"])
    _add_name(show)
    suspend = add_command(
        accounts,
        "suspend",
        _suspend,
        "refuse an account's keys from the next request",
        examples=["accounts suspend acme"],
    )
    _add_name(suspend)
    resume = add_command(
        accounts,
        "resume",
        _resume,
        "accept a suspended account's keys again",
        examples=["accounts resume acme"],
    )
    _add_name(resume)
    delete = add_command(
        accounts,
        "delete",
        _delete,
        "delete an account without domains, and its keys",
        examples=["accounts delete acme", "accounts delete acme --yes"],
    )
    _add_name(delete)
    add_yes(delete)


def _add_name(command: argparse.ArgumentParser) -> None:
    command.add_argument("name", metavar="NAME", help="name of the account")


def _create(args: argparse.Namespace) -> None:
    with opened_database() as engine:
        print_item(args, _item(administration.create_account(engine, args.name, args.plan)))


def _set_plan(args: argparse.Namespace) -> None:
    with opened_database() as engine:
        print_item(args, _item(administration.set_account_plan(engine, args.name, args.plan)))


def _list(args: argparse.Namespace) -> None:
    with opened_database() as engine:
        accounts = [_item(account) for account in administration.list_accounts(engine)]
    print_items(args, accounts, _COLUMNS)


def _show(args: argparse.Namespace) -> None:
    with opened_database() as engine:
        account = administration.require_account(engine, args.name)
        keys = administration.list_keys(engine, args.name)
        domains = Domains(engine).count_domains(account.id)
    active_keys = sum(key_status(key) == "active" for key in keys)
    details: AccountDetails = {**_item(account), "active_keys": active_keys, "domains": domains}
    print_item(args, details)


def _suspend(args: argparse.Namespace) -> None:
    with opened_database() as engine:
        suspend = partial(lifecycle.suspend_account, engine, args.name)
        print_item(args, _item(reserve.written(engine, suspend)))


def _resume(args: argparse.Namespace) -> None:
    with opened_database() as engine:
        print_item(args, _item(lifecycle.resume_account(engine, args.name)))


def _delete(args: argparse.Namespace) -> None:
    with opened_database() as engine:
        count = Domains(engine).count_domains
        lifecycle.require_without_domains(administration.require_account(engine, args.name), count)
        keys = len(administration.list_keys(engine, args.name))
        confirm(args, f"Delete account {args.name} and its {keys:,} keys for good?")
        deleted = _item(lifecycle.delete_account(engine, args.name, count))
    deleted["status"] = "deleted"
    print_item(args, deleted)


def _item(account: Account) -> AccountItem:
    suspended_at = account.suspended_at
    return {
        "name": account.name,
        "plan": account.plan_id,
        "status": "active" if suspended_at is None else "suspended",
        "tag": account.tag,
        "created_at": clock.iso_utc(account.created_at),
        "suspended_at": None if suspended_at is None else clock.iso_utc(suspended_at),
    }
