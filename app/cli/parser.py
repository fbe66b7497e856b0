"""How commands are declared: groups of subcommands, each with `--help` and `--json`."""

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING

from app.config import is_register_name

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]
else:
    Commands = object

Run = Callable[[argparse.Namespace], None]


def add_group(commands: Commands, name: str, summary: str) -> Commands:
    """Add a command that has subcommands, and return the place for them."""
    group = commands.add_parser(name, help=summary, description=summary)
    return group.add_subparsers(required=True, metavar="COMMAND", title="commands")


def add_command(
    commands: Commands,
    name: str,
    run: Run,
    summary: str,
    *,
    prints_data: bool = True,
    is_job: bool = False,
) -> argparse.ArgumentParser:
    """Add a command and return its parser, for its arguments.

    Args:
        prints_data: give it `--json`, for one JSON document on stdout (DESIGN 4).
        is_job: log why it fails, because nobody watches it (D75).
    """
    command = commands.add_parser(name, help=summary, description=summary)
    command.set_defaults(run=run, is_job=is_job)
    if prints_data:
        command.add_argument("--json", action="store_true", help="print one JSON document")
    return command


def add_scheduled(command: argparse.ArgumentParser) -> None:
    """Add the option of a timer's runs (D76)."""
    command.add_argument(
        "--scheduled",
        action="store_true",
        help="for timers: report it if no further run comes in time",
    )


def register_name(text: str) -> str:
    """Return an argument that names a register; argparse tells what is wrong with any other."""
    if not is_register_name(text):
        raise argparse.ArgumentTypeError("1 to 30 of a-z, 0-9 and _, a letter first")
    return text
