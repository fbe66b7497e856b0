"""`verifyd copy`: from a SQLite installation to Postgres (D46)."""

import argparse
import sys

from tqdm import tqdm

from app.cli.output import print_items
from app.cli.parser import Commands, add_command
from app.cli.session import opened_database
from app.config import SETTINGS, Config
from app.database import SqliteEngine
from app.errors import OperatorError
from app.operations.copy import Copied, copy_database
from app.postgres import PostgresEngine


def add_commands(commands: Commands) -> None:
    """Add the command."""
    command = add_command(commands, "copy", _copy, "carry everything from SQLite to Postgres")
    for name, example in (("from", "sqlite:///PATH"), ("to", "postgresql://...")):
        command.add_argument(
            f"--{name}", dest=f"{name}_url", required=True, type=_database_url, metavar=example
        )


def _copy(args: argparse.Namespace) -> None:
    with (
        opened_database(Config(database_url=args.from_url)) as source,
        opened_database(Config(database_url=args.to_url), check_schema=False) as target,
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
