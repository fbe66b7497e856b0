"""`verifyd usage`: how much accounts have used."""

import argparse
import sys

from app import clock
from app.accounts.administration import require_account
from app.accounts.usage.report import (
    By,
    Period,
    Whose,
    columns_of,
    csv_lines,
    is_known,
    line_of,
    month_of,
    parse_month,
    usage_of_days,
    usage_of_hours,
)
from app.arguments import Argument, flag
from app.cli.output import print_items
from app.cli.parser import Group
from app.config import Config
from app.storage.engine import Engine
from app.storage.session import opened_database
from app.text import counted

commands = Group()
_BY = (By.KEY, By.DAY, By.HOUR, By.OPERATION)


def _month(text: str) -> Period:
    """Return the days of a month."""
    month = parse_month(text)
    if month is None:
        raise ValueError(clock.month_fault(text))
    return month


@commands.command(
    "usage",
    "show how many answers and vehicles accounts have used, and events of their watches",
    Argument("--account NAME", "show only this account [all accounts]"),
    Argument(
        "--month MONTH",
        "month, YYYY-MM in the time zone of the service [the current month]",
        type=_month,
    ),
    Argument(
        "--by",
        "show a line for each key, day, hour or operation of an account, hours in UTC [a line "
        "for each account]",
        choices=list(map(str, _BY)),
    ),
    flag("--csv", "print CSV"),
    details="Usage of the last ten seconds may be missing. Days are kept for 400 days, hours for "
    "48 hours.",
    examples=[
        "usage",
        "usage --month 2026-11 --csv > usage.csv",
        "usage --account acme --by day",
        "usage --by hour --json",
    ],
    option_of_words="--account",
)
def _usage(args: argparse.Namespace) -> None:
    if args.csv and args.json:
        args.command.error("argument --csv: not allowed with argument --json")
    if args.by == By.HOUR and args.month:
        args.command.error("argument --month: not allowed with --by hour, the last 48 hours")
    month = args.month or month_of(clock.today(Config.from_env().timezone))
    by = [By.ACCOUNT, *([By(args.by)] if args.by else [])]
    with opened_database() as engine:
        whose = _whose(engine, args.account)
        if args.by == By.HOUR:
            used, when = usage_of_hours(engine, by, whose), "the last 48 hours"
        else:
            used = usage_of_days(engine, month.first, month.last, by, whose)
            when = str(month)
    if args.csv:
        sys.stdout.writelines(csv_lines(used, by))
        return
    answers = counted(sum(each.answers for each in used), "answer")
    vehicles = counted(sum(each.vehicles for each in used), "vehicle")
    events = counted(sum(each.events for each in used), "event")
    items = [line_of(each, by) for each in used]
    print_items(args, items, columns_of(by), f"{answers}, {vehicles} and {events} in {when}")


def _whose(engine: Engine, account: str | None) -> Whose:
    """Return whose usage is wanted. Raises OperatorError if there never was such an account."""
    if account is not None and not is_known(engine, account):
        require_account(engine, account)
    return Whose(account=account)
