"""`verifyd accounts` (D12, D81)."""

import argparse
from functools import partial
from typing import TypedDict

from app import clock
from app.accounts import administration, lifecycle
from app.accounts.models import Account, split_reasons
from app.cli.keys import KeyItem, key_item
from app.cli.output import (
    add_yes,
    confirm,
    counted,
    print_item,
    print_items,
    print_sentence,
    print_table,
)
from app.cli.parser import Commands, add_command, add_group
from app.domains.repository import Domains
from app.storage import reserve
from app.storage.session import opened_database

_COLUMNS = ("name", "plan", "status", "tag", "created_at")
_KEY_COLUMNS = ("id", "label", "status", "created_at", "expires_at", "revoked_at")


class AccountItem(TypedDict):
    """An account as commands print it."""

    name: str
    plan: str
    status: str
    """`active`, `suspended` or `deleted`."""
    tag: str
    created_at: str
    suspended_at: str | None


class AccountDetails(AccountItem):
    """What `accounts show` prints."""

    requests: int
    """Per window, as the plan has it."""
    window_seconds: int
    bulk_max: int
    domains_max: int
    enquiry: str
    enquiry_reasons: list[str]
    active_keys: int
    domains: int
    keys: list[KeyItem]


def add_commands(commands: Commands) -> None:
    """Add the command group."""
    accounts = add_group(commands, "accounts", "create, list, suspend and delete accounts")
    _add_plan_commands(accounts)
    _add_lists(accounts)
    _add_status_commands(accounts)


def _add_plan_commands(accounts: Commands) -> None:
    """Add the commands that set the plan of an account."""
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
        "move an account to another plan from its next request on",
        examples=["accounts set-plan acme enterprise"],
    )
    _add_name(change)
    change.add_argument("plan", metavar="PLAN", help="name of the plan")


def _add_lists(accounts: Commands) -> None:
    """Add the commands that change nothing."""
    add_command(
        accounts,
        "list",
        _list,
        "list accounts",
        examples=["accounts list", "accounts list --json"],
    )
    show = add_command(
        accounts,
        "show",
        _show,
        "show an account with its plan, domains and keys",
        examples=["accounts show acme", "accounts show acme --json"],
    )
    _add_name(show)


def _add_status_commands(accounts: Commands) -> None:
    """Add the commands that suspend, resume and delete an account."""
    suspend = add_command(
        accounts,
        "suspend",
        _suspend,
        "refuse an account's keys from the next request on",
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
        item = _item(administration.create_account(engine, args.name, args.plan))
    print_item(args, item, f"account {item['name']} created on plan {item['plan']}")


def _set_plan(args: argparse.Namespace) -> None:
    with opened_database() as engine:
        item = _item(administration.set_account_plan(engine, args.name, args.plan))
    print_item(args, item, f"account {item['name']} is on plan {item['plan']}")


def _list(args: argparse.Namespace) -> None:
    with opened_database() as engine:
        accounts = [_item(account) for account in administration.list_accounts(engine)]
    print_items(args, accounts, _COLUMNS, counted(len(accounts), "account"))


def _show(args: argparse.Namespace) -> None:
    with opened_database() as engine:
        account = administration.require_account(engine, args.name)
        plan = administration.require_plan(engine, account.plan_id)
        keys = [key_item(key) for key in administration.list_keys(engine, args.name)]
        domains = Domains(engine).count_domains(account.id)
    details: AccountDetails = {
        **_item(account),
        "requests": plan.requests,
        "window_seconds": plan.window_seconds,
        "bulk_max": plan.bulk_max,
        "domains_max": plan.domains_max,
        "enquiry": plan.enquiry,
        "enquiry_reasons": split_reasons(plan.enquiry_reasons),
        "active_keys": sum(key["status"] == "active" for key in keys),
        "domains": domains,
        "keys": keys,
    }
    if args.json:
        print_item(args, details)
    else:
        _print_details(details)


def _print_details(details: AccountDetails) -> None:
    """Print an account for a person: its keys are a table of their own."""
    members = {name: value for name, value in details.items() if name != "keys"}
    print_item(argparse.Namespace(json=False), members)
    if details["keys"]:
        print()
        print_table(details["keys"], _KEY_COLUMNS)
    active = counted(details["active_keys"], "active key")
    domains = f"{details['domains']:,} of {counted(details['domains_max'], 'domain')}"
    print_sentence(f"account {details['name']} is {details['status']}, with {active} and {domains}")


def _suspend(args: argparse.Namespace) -> None:
    with opened_database() as engine:
        suspend = partial(lifecycle.suspend_account, engine, args.name)
        item = _item(reserve.with_reserve(engine, suspend))
    print_item(args, item, f"account {item['name']} is suspended")


def _resume(args: argparse.Namespace) -> None:
    with opened_database() as engine:
        item = _item(lifecycle.resume_account(engine, args.name))
    print_item(args, item, f"account {item['name']} is active")


def _delete(args: argparse.Namespace) -> None:
    with opened_database() as engine:
        count = Domains(engine).count_domains
        lifecycle.require_without_domains(administration.require_account(engine, args.name), count)
        keys = len(administration.list_keys(engine, args.name))
        confirm(args, f"Delete account {args.name} and its {counted(keys, 'key')} for good?")
        deleted = _item(lifecycle.delete_account(engine, args.name, count))
    deleted["status"] = "deleted"
    print_item(args, deleted, f"account {args.name} and its {counted(keys, 'key')} deleted")


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
