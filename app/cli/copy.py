"""`verifyd copy`: from a SQLite installation to Postgres (D46)."""

import argparse
import sys

from tqdm import tqdm

from app.cli.output import print_items
from app.cli.parser import Commands, add_command
from app.cli.session import opened_database
from app.config import SETTINGS, Config
from app.errors import OperatorError
from app.operations.copy import Copied, copy_database
from app.storage.postgres import PostgresEngine
from app.storage.sqlite import SqliteEngine


def add_commands(commands: Commands) -> None:
    """Add the command."""
    command = add_command(commands, "copy", _copy, "carry everything from SQLite to Postgres")
    command.add_argument(
        "--from", dest="source", required=True, type=_database_url, metavar="sqlite:///PATH"
    )
    # SEC: arguments are everybody's to read; settings and credentials are not.
    command.add_argument(
        "--to",
        dest="target",
        type=_database_url,
        metavar="postgresql://...",
        help="the database of the settings, unless told: a password is safe there",
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
                "only from SQLite to Postgres; between two of a kind, back up and restore"
            )

        def show(table: str, rows: int) -> None:
            bar.set_description(table, refresh=False)
            bar.update(rows)

        copied = copy_database(source, target, show)
    print_items(args, [each._asdict() for each in copied], Copied._fields)


def _database_url(text: str) -> str:
    try:
        url: str = SETTINGS["database_url"].parse(text)
    except ValueError as error:
        # NOTE: argparse shows the message of this exception only, and not what was given.
        raise argparse.ArgumentTypeError(str(error)) from None
    return url
