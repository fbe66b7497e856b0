"""How commands are declared: groups of subcommands, each with `--help` and `--json`."""

import argparse
import re
from collections.abc import Callable, Sequence
from datetime import date
from typing import TYPE_CHECKING

from app import clock
from app.cli.usage import Parser
from app.setting_values import REGISTER_NAME_RULE, is_register_name

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[Parser]
else:
    Commands = object

Run = Callable[[argparse.Namespace], None]
_NUMBER_DIGITS_MAX = 18
# SEC: reading a very long number is slow.
_WHOLE_NUMBER_DIGITS_MAX = 30
_WHOLE_NUMBER = re.compile(rf"-?[0-9]{{1,{_WHOLE_NUMBER_DIGITS_MAX}}}")
_LIMIT = 50
_LIMIT_MAX = 100_000


def add_group(commands: Commands, name: str, summary: str) -> Commands:
    """Add a command that has subcommands; return the object to add them to."""
    group = commands.add_parser(name, help=summary, description=summary)
    return group.add_subparsers(required=True, metavar="COMMAND", title="commands")


def add_command(  # noqa: PLR0913 - all that declares a command
    commands: Commands,
    name: str,
    run: Run,
    summary: str,
    *,
    details: str = "",
    examples: Sequence[str] = (),
    prints_data: bool = True,
    is_job: bool = False,
) -> Parser:
    """Add a command and return its parser, for its arguments.

    Args:
        summary: what it does, as a short imperative in lower case without a full stop.
        details: more lines for its `--help`, after the summary.
        examples: command lines for its `--help`, without the leading `verifyd`.
        prints_data: give it `--json`, for one JSON document on stdout.
        is_job: write log lines for programs, and the reason of a failure, too, unless the command
            takes `--scheduled` and does not get it (D75).
    """
    command = commands.add_parser(
        name,
        help=summary,
        description=f"{summary}\n\n{details}" if details else summary,
        epilog=_epilog(examples),
        # The details and the epilog keep their lines.
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.set_defaults(run=run, is_job=is_job)
    if prints_data:
        command.add_argument("--json", action="store_true", help="print one JSON document")
    return command


def _epilog(examples: Sequence[str]) -> str | None:
    if not examples:
        return None
    return "\n  ".join(["examples:", *(f"verifyd {example}" for example in examples)])


def add_scheduled(command: Parser) -> None:
    """Add `--scheduled`, which timers give (D76)."""
    command.add_argument(
        "--scheduled",
        action="store_true",
        help="mark this run as a timer's, so that a missing next run is reported",
    )


def add_limit(command: Parser, items: str) -> None:
    """Add `--limit`, for lists that grow without end.

    Args:
        items: what is listed, as a plural.
    """
    command.add_argument(
        "--limit",
        type=_limit,
        default=_LIMIT,
        metavar="N",
        help=f"list at most N {items} [%(default)s]",
    )


def _limit(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= _LIMIT_MAX:
        raise argparse.ArgumentTypeError(f"must be a whole number from 1 to {_LIMIT_MAX:,}")
    return int(text)


def whole_number(text: str) -> int:
    """Return an argument that is a whole number. Raises ArgumentTypeError, which argparse shows."""
    if not _WHOLE_NUMBER.fullmatch(text):
        raise argparse.ArgumentTypeError(
            f"must be a whole number of at most {_WHOLE_NUMBER_DIGITS_MAX} digits, not {text!r}"
        )
    return int(text)


def day_argument(text: str) -> date:
    """Return an argument that is a day. Raises ArgumentTypeError, which argparse shows."""
    day = clock.parse_iso_date(text)
    if day is None:
        raise argparse.ArgumentTypeError(clock.day_fault(text))
    return day


def register_name(text: str) -> str:
    """Return an argument that names a register. Raises ArgumentTypeError, which argparse shows."""
    if not is_register_name(text):
        raise argparse.ArgumentTypeError(f"a register's name has {REGISTER_NAME_RULE}: {text!r}")
    return text


def number_of(what: str) -> Callable[[str], int]:
    """Return what checks an argument that is the number of something, such as `a load`."""

    def checked(text: str) -> int:
        if not text.isascii() or not text.isdigit() or len(text) > _NUMBER_DIGITS_MAX:
            raise argparse.ArgumentTypeError(f"must be the number of {what}")
        return int(text)

    return checked
