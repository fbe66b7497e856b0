"""`verifyd audit report` (D118)."""

import argparse
import sys

import peewee

from app.audit.record import Criteria
from app.audit.report import REPORTED_DAYS, Refusal, first_reported_day, refusals_in, report
from app.audit.search import Period, first_moment
from app.cli.audit_options import (
    add_directories,
    add_period,
    directories_of,
    period_of,
    record_use,
)
from app.cli.output import counted, print_document, waiting_for
from app.cli.parser import Commands, add_command
from app.config import Config
from app.errors import OperatorError
from app.storage.session import opened_database


def add_commands(audit: Commands) -> None:
    """Add the command."""
    command = add_command(
        audit,
        "report",
        _report,
        "summarise and verify the trail, as one HTML page on standard output",
        examples=[
            "audit report > report.html",
            "audit report --from 2026-11-01 --to 2026-11-30 --json",
        ],
    )
    add_period(command, default=f"the last {REPORTED_DAYS} days")
    add_directories(command)


def _report(args: argparse.Namespace) -> None:
    directories = directories_of(args)
    if args.since is None:
        args.since = first_moment(first_reported_day())
    period = period_of(args)
    record_use("report", Criteria(since=args.since, until=args.until))
    with waiting_for(args, "the trail to be read and verified"):
        done = report(directories, period, _refusals(period))
    if args.json:
        print_document(args, done)
        return
    # NOTE: imported here, because it is slow.
    from app.audit.report import render  # noqa: PLC0415

    sys.stdout.buffer.write(render(done))
    sys.stdout.buffer.flush()
    faults = sum(len(trail.faults) for trail in done.trails)
    verified = f"{counted(faults, 'fault')} found" if faults else "the trail verifies"
    print(f"{counted(done.look_ups, 'look-up')} reported; {verified}", file=sys.stderr)


def _refusals(period: Period) -> list[Refusal] | None:
    """Return the look-ups that were not answered; None if the database cannot be read.

    A copy of a trail can be reported where the database is not.
    """
    try:
        with opened_database() as engine:
            return refusals_in(engine, period, Config.from_env().timezone)
    except (OperatorError, peewee.PeeweeException):
        return None
