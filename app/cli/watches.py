"""`verifyd sweep` and `verifyd watchlist`: the watches of accounts."""

import argparse

from app.cli.output import Table, counted
from app.cli.parser import PARENT, Argument, Group, flag
from app.jobs.job import run
from app.jobs.sweeping import SweepWatches, accept
from app.processes import end_with_parent
from app.storage.session import opened_database
from app.watches.sweep import Swept

commands = Group()
SWEPT = Table[Swept]("account watches events held")


@commands.command(
    "sweep",
    "report what has changed for watched plates to the accounts that watch them",
    Argument(
        "--accept ACCOUNT",
        "report also what is held back for this account, because a load changed too much",
    ),
    flag("--scheduled", "do nothing if another sweep is running, as the service's runs do"),
    PARENT,
    details="Only accounts are swept for whom the day or a register has changed since the last "
    "sweep.",
    examples=["sweep", "sweep --accept acme"],
)
def _sweep(args: argparse.Namespace) -> None:
    args.is_job = args.scheduled
    if args.parent is not None:
        end_with_parent(args.parent)
    if args.accept is not None:
        with opened_database() as engine:
            accept(engine, args.accept)
    job = SweepWatches(
        is_scheduled=args.scheduled, is_automatic=args.scheduled or args.accept is not None
    )
    swept = run(job)
    if args.scheduled:
        return
    events = counted(sum(each.events for each in swept), "event")
    SWEPT.print_list(args, swept, f"{counted(len(swept), 'account')} swept, {events} reported")
