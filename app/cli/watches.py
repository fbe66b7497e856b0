"""`verifyd sweep` and `verifyd watchlist`: the watches of accounts."""

import argparse
from functools import partial

from app.arguments import Argument, flag
from app.cli.output import Table, opened_input, print_item, waiting_for
from app.cli.parser import PARENT, Group
from app.config import Config
from app.errors import OperatorError
from app.jobs.job import run
from app.jobs.sweeping import SweepWatches, accept
from app.jobs.watchlist import import_watchlist
from app.processes import end_with_parent
from app.storage.session import opened_database
from app.text import counted
from app.watches.sweep import Swept

commands = Group()
watchlist = Group("watchlist", "import the watches of an account")
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
    swept = run(SweepWatches(is_scheduled=args.scheduled, is_automatic=args.scheduled))
    if args.scheduled:
        return
    # The last sweep of an account counts: a load that ends meanwhile has it swept again.
    if {each.account: each.held for each in swept}.get(args.accept):
        raise OperatorError(
            f"the day or a register has changed since the last sweep, so this one has judged "
            f"account {args.accept} again, and holds changes back; look at them, and repeat the "
            "command to report them"
        )
    events = counted(sum(each.events for each in swept), "event")
    SWEPT.print_list(args, swept, f"{counted(len(swept), 'account')} swept, {events} reported")


@watchlist.command(
    "import",
    "create and replace the watches that a CSV file lists",
    Argument("FILE", "file in CSV, in UTF-8, with a header; - is stdin"),
    Argument("--account NAME", "account that watches the plates", required=True),
    Argument("--reason CODE", "reason of rows that have none, for the audit trail"),
    details="columns: registration*, lead_days (numbers separated by spaces), reference, until\n"
    "(YYYY-MM-DD), reason. Watches that the file does not list stay. If a row has a fault,\n"
    "nothing changes. Otherwise they are stored some thousands at a time; after an interruption,\n"
    "import the same file again.",
    examples=[
        "watchlist import fleet.csv --account acme",
        "watchlist import fleet.csv --account acme --reason FLEET",
        "watchlist import - --account acme < fleet.csv",
    ],
)
def _import(args: argparse.Namespace) -> None:
    config = Config.from_env()
    way_out = f"send it through standard input: watchlist import - < {args.file}"
    with (
        opened_database(config, waiting=partial(waiting_for, args)) as engine,
        opened_input(args.file, way_out) as (file, name),
    ):
        done = import_watchlist(engine, config, args.account, file, name, args.reason)
    print_item(
        args,
        done._asdict(),
        f"{counted(done.created, 'watch', 'watches')} of account {done.account} created, "
        f"{done.replaced:,} replaced",
    )


commands.include(watchlist)
