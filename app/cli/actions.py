"""`verifyd actions`: the record of what operators changed (D130)."""

import argparse
from datetime import date
from typing import Any, TypedDict

from app import clock
from app.accounts.administration import end_of_day
from app.actions import ACTIONS, Criteria, Recorded, in_group, list_actions
from app.cli.output import Item, counted, print_items, shown
from app.cli.parser import Commands, add_command, add_group, add_limit
from app.cli.session import opened_database
from app.cli.usage import Parser

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
        "--from", dest="since", type=_day, metavar="DATE", help="first day in UTC, YYYY-MM-DD"
    )
    listed.add_argument(
        "--to", dest="until", type=_day, metavar="DATE", help="last day in UTC, YYYY-MM-DD"
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
    items = [_item(action) for action in actions]
    printed: list[Item] = [*items]
    if not args.json:
        printed = [{**item, "change": _change(item)} for item in items]
    print_items(args, printed, _COLUMNS, counted(len(items), "action"))


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


def _change(item: ActionItem) -> str:
    """Return what an action changed as one line, such as `plan: standard -> free`.

    A member that was not there before, or is not there any more, has one value.
    """
    states: list[dict[str, Any]] = [item["before"] or {}, item["after"] or {}]
    changes = []
    for name in states[0] | states[1]:
        values = [state[name] for state in states if name in state]
        if values != [None]:
            changes.append(f"{name}: {' -> '.join(map(shown, values))}")
    return "; ".join(changes) or "-"


def _action(text: str) -> str:
    if text not in ACTIONS and not in_group(text):
        groups = sorted({name.partition(".")[0] for name in ACTIONS})
        raise argparse.ArgumentTypeError(
            f"must be one of {', '.join(groups)}, or a single action such as keys.revoke"
        )
    return text


def _day(text: str) -> date:
    day = clock.parse_iso_date(text)
    if day is None:
        raise argparse.ArgumentTypeError("must be a date, YYYY-MM-DD")
    return day
