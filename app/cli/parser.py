"""How commands are declared, and the arguments that several of them have."""

import argparse
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from types import MappingProxyType
from typing import TypeAlias

from app import clock
from app.arguments import Argument, OneOf, Parser, flag
from app.settings import values as setting_values

Commands: TypeAlias = "argparse._SubParsersAction[Parser]"
Run = Callable[[argparse.Namespace], None]


class Group:
    """Commands that are declared where their functions are, in the order of the help.

    Args:
        name: the command that they are subcommands of; empty if they stand alone.
    """

    def __init__(self, name: str = "", summary: str = "") -> None:
        self._name, self._summary = name, summary
        self._commands: list[Callable[[Commands], object]] = []

    def command(  # noqa: PLR0913 - all that declares a command
        self,
        name: str,
        summary: str,
        *arguments: Argument | OneOf,
        examples: Sequence[str],
        details: str = "",
        prints_data: bool = True,
        is_job: bool = False,
        sweeps: bool = False,
        option_of_words: str = "",
        settings_by_option: Mapping[str, str] = MappingProxyType({}),
        **values: object,
    ) -> Callable[[Run], Run]:
        """Return a decorator for the function of a command.

        The function gets the arguments, and as `args.command` the parser, for mistakes that only
        the function sees.

        Args:
            summary: a short imperative in lower case without a full stop.
            examples: command lines for its `--help`, without the leading `verifyd`.
            details: more lines for its `--help`, after the summary.
            prints_data: give the command `--json`, for one JSON document on stdout.
            is_job: write log lines for programs, and the reason of a failure, too, unless the
                command takes `--scheduled` and does not get it.
            sweeps: sweep the watches after the command, because it changes registers (D185). It can
                set `args.sweeps` to False if it has changed nothing.
            option_of_words: the option that words without one are probably meant for.
            settings_by_option: options that people look for here, and the settings to use instead.
            values: further members of `args`.
        """

        def declare(run: Run) -> Run:
            def add(commands: Commands) -> None:
                command = commands.add_parser(
                    name,
                    help=summary,
                    description=f"{summary}\n\n{details}" if details else summary,
                    epilog="\n  ".join(["examples:", *(f"verifyd {each}" for each in examples)]),
                    # The details and the epilog keep their lines.
                    formatter_class=argparse.RawDescriptionHelpFormatter,
                )
                command.option_of_words = option_of_words
                command.settings_by_option = settings_by_option
                command.set_defaults(
                    run=run, is_job=is_job, sweeps=sweeps, command=command, **values
                )
                printed = [flag("--json", "print one JSON document")] if prints_data else []
                for argument in (*printed, *arguments):
                    argument.add_to(command)

            self._commands.append(add)
            return run

        return declare

    def carry_out(self, do: Callable[[int], None], *, sweeps: bool = False) -> None:
        """Declare the command that the console runs to do a task. `do` takes the task's number."""
        self.command(
            "carry-out",
            "do what somebody asked for in the console, which runs this by itself",
            Argument("ID", "number of the task", type=number_of("a task")),
            examples=[f"{self._name} carry-out 7"],
            prints_data=False,
            is_job=True,
            sweeps=sweeps,
        )(lambda args: do(args.id))

    def include(self, group: "Group") -> None:
        """Put another group here in the order of the help."""
        self._commands.append(group.add_to)

    def add_to(self, commands: Commands) -> None:
        """Add the commands to a parser."""
        if self._name:
            group = commands.add_parser(self._name, help=self._summary, description=self._summary)
            commands = group.add_subparsers(required=True, metavar="COMMAND", title="commands")
        for add in self._commands:
            add(commands)


# Arguments that several commands have, and functions that parse one. They raise ValueError.

_NUMBER_DIGITS_MAX = 18
# SEC: reading a very long number is slow.
_WHOLE_NUMBER_DIGITS_MAX = 30
_WHOLE_NUMBER = re.compile(rf"-?[0-9]{{1,{_WHOLE_NUMBER_DIGITS_MAX}}}")
_LIMIT = 50
_LIMIT_MAX = 100_000


def whole_number(text: str) -> int:
    """Return an argument that is a whole number."""
    if not _WHOLE_NUMBER.fullmatch(text):
        raise ValueError(
            f"must be a whole number of at most {_WHOLE_NUMBER_DIGITS_MAX} digits, not {text!r}"
        )
    return int(text)


def day_argument(text: str) -> date:
    day = clock.parse_iso_date(text)
    if day is None:
        raise ValueError(clock.day_fault(text))
    return day


def register_name(text: str) -> str:
    """Return an argument that names a register."""
    if not setting_values.is_register_name(text):
        raise ValueError(f"a register's name has {setting_values.REGISTER_NAME_RULE}: {text!r}")
    return text


def number_of(what: str) -> Callable[[str], int]:
    """Return a function that parses the number of something, such as `a load`."""

    def checked(text: str) -> int:
        if not text.isascii() or not text.isdigit() or len(text) > _NUMBER_DIGITS_MAX:
            raise ValueError(f"must be the number of {what}")
        return int(text)

    return checked


def limit(items: str) -> Argument:
    """Return `--limit`, for lists that grow without end. `items` is a plural, such as `loads`."""
    meaning = f"list at most N {items} [%(default)s]"
    return Argument(
        "--limit N", meaning, type=setting_values.whole_number(1, _LIMIT_MAX), default=_LIMIT
    )


ACCOUNT = Argument("ACCOUNT", "name of the account")
SCHEDULED = flag(
    "--scheduled", "mark this run as a timer's, so that a missing next run is reported"
)
YES = flag("--yes", "do not ask for confirmation")
"""The answer to the question of `confirm`."""
# The service starts such a command, and no process may outlive the service.
PARENT = Argument(
    "--parent PID",
    "end when this process, which started the command, ends [never]",
    type=whole_number,
)
