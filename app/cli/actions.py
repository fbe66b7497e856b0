"""`verifyd actions`: the record of what operators changed."""

import argparse
from datetime import UTC

from app import clock
from app.accounts.administration import end_of_day
from app.actions import ACTIONS, GROUPS, Criteria, Recorded, list_actions, members_of
from app.arguments import Argument
from app.cli.output import Table, shown
from app.cli.parser import Group, day_argument, limit
from app.storage.session import opened_database
from app.text import counted

commands = Group("actions", "list what operators changed")


def _change(action: Recorded) -> str:
    """Return what an action changed as one line, such as `plan: standard -> free`."""
    members = members_of(action)
    return (
        "; ".join(f"{each.name}: {' -> '.join(map(shown, each.values))}" for each in members) or "-"
    )


RECORDED = Table[Recorded](
    "id at actor sudo_user via action subject_kind subject account before after",
    columns="id at actor sudo_user via action account subject change",
    shown={"change": _change},
)


def _action(text: str) -> str:
    if text not in ACTIONS and text not in GROUPS:
        raise ValueError(
            f"must be one of {', '.join(sorted(GROUPS))}, or a single action such as keys.revoke"
        )
    return text


@commands.command(
    "list",
    "list what operators changed, latest first",
    Argument("--by NAME", "list only what this login, sudo user or console user did"),
    Argument(
        "--action ACTION",
        "list only one action such as keys.revoke, or all of a group such as keys",
        type=_action,
    ),
    Argument(
        "--subject NAME",
        "list only actions on this account, plan, key, domain, register or backup",
    ),
    Argument("--account NAME", "list only actions on this account and what it has"),
    Argument("--from DATE", "first day in UTC, YYYY-MM-DD", dest="since", type=day_argument),
    Argument("--to DATE", "last day in UTC, YYYY-MM-DD", dest="until", type=day_argument),
    limit("actions"),
    examples=[
        "actions list",
        "actions list --by ann --action keys --from 2026-11-01",
        "actions list --account acme --json",
    ],
    option_of_words="--account",
)
def _list(args: argparse.Namespace) -> None:
    criteria = Criteria(
        by=args.by,
        action=args.action,
        subject=args.subject,
        account=args.account,
        since=args.since and clock.start_of(args.since, UTC),
        until=args.until and end_of_day(args.until),
    )
    with opened_database() as engine:
        found = list_actions(engine, criteria, args.limit)
    RECORDED.print_list(args, found, counted(len(found), "action"))
