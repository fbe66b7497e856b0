"""`verifyd actions`: the record of what operators changed (D130)."""

import argparse
from typing import Any, TypedDict

from app import clock
from app.accounts.administration import end_of_day
from app.actions import (
    ACTIONS,
    GROUPS,
    Criteria,
    Recorded,
    list_actions,
    members_of,
)
from app.cli.output import Item, counted, print_items, shown
from app.cli.parser import Commands, Parser, add_command, add_group, add_limit, day_argument
from app.storage.session import opened_database

_COLUMNS = ("id", "at", "actor", "sudo_user", "via", "action", "account", "subject", "change")
_DAY_SECONDS = 86_400


class ActionItem(TypedDict):
    """An action as `actions list --json` prints it."""

    id: int
    at: str
    actor: str
    """The login of a command, or the name in the console."""
    sudo_user: str | None
    via: str
    """`command` or `console`."""
    action: str
    subject_kind: str
    """`account`, `plan`, `key`, `domain`, `register`, `backup` or `person`."""
    subject: str
    account: str | None
    """The account that the subject belongs to."""
    before: dict[str, Any] | None
    """The members that the action changed or removed; None if there was nothing before."""
    after: dict[str, Any] | None
    """The members that the action changed or added; None if it left nothing."""


def add_commands(commands: Commands) -> None:
    """Add the command group."""
    actions = add_group(commands, "actions", "list what operators changed")
    listed = add_command(
        actions,
        "list",
        _list,
        "list what operators changed, latest first",
        examples=[
            "actions list",
            "actions list --by ann --action keys --from 2026-11-01",
            "actions list --account acme --json",
        ],
    )
    listed.option_of_words = "--account"
    _add_criteria(listed)
    add_limit(listed, "actions")


def _add_criteria(listed: Parser) -> None:
    """Add the options that choose actions."""
    listed.add_argument(
        "--by", metavar="NAME", help="list only what this login, sudo user or console user did"
    )
    listed.add_argument(
        "--action",
        type=_action,
        metavar="ACTION",
        help="list only one action such as keys.revoke, or all of a group such as keys",
    )
    listed.add_argument(
        "--subject",
        metavar="NAME",
        help="list only actions on this account, plan, key, domain, register or backup",
    )
    listed.add_argument(
        "--account", metavar="NAME", help="list only actions on this account and what it has"
    )
    listed.add_argument(
        "--from",
        dest="since",
        type=day_argument,
        metavar="DATE",
        help="first day in UTC, YYYY-MM-DD",
    )
    listed.add_argument(
        "--to",
        dest="until",
        type=day_argument,
        metavar="DATE",
        help="last day in UTC, YYYY-MM-DD",
    )


def _list(args: argparse.Namespace) -> None:
    criteria = Criteria(
        by=args.by,
        action=args.action,
        subject=args.subject,
        account=args.account,
        since=args.since and end_of_day(args.since) - _DAY_SECONDS,
        until=args.until and end_of_day(args.until),
    )
    with opened_database() as engine:
        actions = list_actions(engine, criteria, args.limit)
    printed: list[Item] = [_item(action) for action in actions]
    if not args.json:
        printed = [{**_item(action), "change": _change(action)} for action in actions]
    print_items(args, printed, _COLUMNS, counted(len(actions), "action"))


def _item(action: Recorded) -> ActionItem:
    return {
        "id": action.id,
        "at": clock.iso_utc(action.at),
        "actor": action.actor,
        "sudo_user": action.sudo_user,
        "via": action.via,
        "action": action.action,
        "subject_kind": action.subject_kind,
        "subject": action.subject,
        "account": action.account,
        "before": action.before,
        "after": action.after,
    }


def _change(action: Recorded) -> str:
    """Return what an action changed as one line, such as `plan: standard -> free`."""
    members = members_of(action)
    return (
        "; ".join(f"{each.name}: {' -> '.join(map(shown, each.values))}" for each in members) or "-"
    )


def _action(text: str) -> str:
    if text not in ACTIONS and text not in GROUPS:
        raise argparse.ArgumentTypeError(
            f"must be one of {', '.join(sorted(GROUPS))}, or a single action such as keys.revoke"
        )
    return text
