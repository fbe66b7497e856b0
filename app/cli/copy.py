"""`verifyd copy`: copies a SQLite installation to Postgres (D46)."""

import argparse
import sys

from tqdm import tqdm

from app.cli.output import counted, print_items
from app.cli.parser import Commands, add_command
from app.cli.session import opened_database
from app.cli.waiting import waiting_for
from app.config import SETTINGS, Config
from app.errors import OperatorError
from app.operations.copy import Copied, copy_database
from app.storage.postgres import PostgresEngine
from app.storage.sqlite import SqliteEngine


def add_commands(commands: Commands) -> None:
    """Add the command."""
    command = add_command(
        commands,
        "copy",
        _copy,
        "copy everything from SQLite into an empty Postgres database, and compare",
        examples=[
            "copy --from sqlite:////var/lib/verifyd/verifyd.db",
            "copy --from sqlite:///verifyd.db --to postgresql:///verifyd",
        ],
    )
    command.add_argument(
        "--from",
        dest="source",
        required=True,
        type=_database_url,
        metavar="sqlite:///PATH",
        help="database to copy; four slashes begin an absolute path",
    )
    # SEC: everybody on the host can read arguments, but not settings and credentials.
    command.add_argument(
        "--to",
        dest="target",
        type=_database_url,
        metavar="postgresql://...",
        help="empty database to copy into; put a URL with a password into the settings "
        "[VERIFYD_DATABASE_URL]",
    )


def _copy(args: argparse.Namespace) -> None:
    target_config = Config(database_url=args.target) if args.target else Config.from_env()
    with (
        opened_database(Config(database_url=args.source)) as source,
        opened_database(target_config, check_schema=False) as target,
        tqdm(unit=" rows", unit_scale=True, disable=not sys.stderr.isatty()) as bar,
    ):
        if not isinstance(source, SqliteEngine) or not isinstance(target, PostgresEngine):
            raise OperatorError(
                "copy goes from SQLite to Postgres only; between two databases of one kind, use "
                '"verifyd backup" and "verifyd restore"'
            )

        def show(table: str, rows: int) -> None:
            bar.set_description(table, refresh=False)
            bar.update(rows)

        waiting = waiting_for(args, "the service or another copy that uses the target")
        copied = copy_database(source, target, show, waiting)
    rows = counted(sum(each.rows for each in copied), "row")
    print_items(
        args,
        [each._asdict() for each in copied],
        Copied._fields,
        f"{rows} of {counted(len(copied), 'table')} are the same in both databases",
    )


def _database_url(text: str) -> str:
    try:
        url: str = SETTINGS["database_url"].parse(text)
    except ValueError as error:
        # SEC: argparse shows only the message of this exception, not the URL.
        raise argparse.ArgumentTypeError(str(error)) from None
    return url
