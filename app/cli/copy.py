"""`verifyd copy`: copies an installation into an empty database."""

import argparse

from app.arguments import Argument, flag
from app.backup.copy import Copied, copy_database
from app.cli.output import print_items, waiting_for
from app.cli.parser import Group
from app.cli.progress import progress
from app.config import SETTINGS, Config, is_set
from app.storage.session import opened_database
from app.text import counted

commands = Group()


def _database(option: str, dest: str, meaning: str) -> Argument:
    # SEC: everybody on the host can read arguments, but not settings and credentials.
    return Argument(
        f"{option} URL",
        f"{meaning}: sqlite:///PATH or postgresql://...; put a URL with a password into "
        "the settings [VERIFYD_DATABASE_URL]",
        dest=dest,
        type=SETTINGS["database_url"].parse,
    )


@commands.command(
    "copy",
    "copy everything into an empty database, and compare: from SQLite to Postgres, or back",
    _database("--from", "source", "database to copy"),
    _database("--to", "target", "empty database to copy into"),
    flag("--rehearsal", "copy while the source is in use, to try the copy and then discard it"),
    details="Give --from, --to, or both; the other one is the database of the settings. A\n"
    "SQLite file is created if it does not exist. Four slashes begin an absolute path. Stop the\n"
    "service on all hosts first: what it writes later is not in the copy.",
    examples=[
        "copy --from sqlite:////var/lib/verifyd/verifyd.db",
        "copy --to sqlite:////var/lib/verifyd/verifyd.db",
        "copy --from sqlite:///verifyd.db --to postgresql:///verifyd",
        "copy --to sqlite:////tmp/try.db --rehearsal",
    ],
)
def _copy(args: argparse.Namespace) -> None:
    if not (args.source or args.target):
        args.command.error("the following arguments are required: --from or --to")
    if not ((args.source and args.target) or is_set("database_url")):
        # The default of the setting would be a file in the current directory.
        args.command.error("VERIFYD_DATABASE_URL is not set; give both --from and --to")
    with (
        opened_database(_config(args.source), check_schema=False, option="--from") as source,
        opened_database(
            _config(args.target), check_schema=False, create=True, option="--to"
        ) as target,
        progress(unit=" rows") as bar,
    ):

        def show(table: str, rows: int) -> None:
            bar.set_description(table, refresh=False)
            bar.update(rows)

        waiting = waiting_for(args, "the service or another copy that uses the target")
        copied = copy_database(source, target, show, waiting, is_rehearsal=args.rehearsal)
    rows = counted(sum(each.rows for each in copied), "row")
    text = f"{rows} of {counted(len(copied), 'table')} are the same in both databases"
    if args.rehearsal:
        text += "; this was a rehearsal, so the copy refuses cursors of events: discard it"
    print_items(args, [each._asdict() for each in copied], Copied._fields, text)


def _config(database_url: str | None) -> Config | None:
    """Return the settings of a database that an option names; None if no option does."""
    return Config(database_url=database_url) if database_url else None
