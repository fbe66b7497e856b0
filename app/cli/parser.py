"""How commands and their arguments are declared, and how the parser answers mistakes.

The texts of the parser are the same on all versions of Python. No colour is used.
"""

import argparse
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from functools import partial
from types import MappingProxyType
from typing import Any, NoReturn, TypeAlias

from app import clock, setting_values
from app.config import SETTINGS
from app.errors import closest, without_keys
from app.printable import printable_lines

_OPTION = re.compile(r"--?[A-Za-z]\S*")
_SYNONYMS = (
    ("create", "set", "add", "new", "make"),
    ("delete", "drop", "revoke", "remove", "rm", "del", "destroy"),
    ("list", "ls"),
    ("show", "list", "get", "info", "view", "describe", "status"),
    ("search", "lookup", "find", "query"),
    ("rollback", "undo", "revert"),
    ("set-plan", "set", "change", "edit", "modify", "update"),
    ("rotate", "renew", "replace"),
    ("suspend", "disable", "block", "deactivate"),
    ("resume", "activate", "enable", "unblock"),
    ("import", "load"),
    ("serve", "start", "run"),
    ("migrate", "init", "upgrade"),
    ("accounts", "users", "user", "customers", "customer"),
)
"""Names of commands in other programs. The first word of a line that is a command here is meant."""


class Parser(argparse.ArgumentParser):
    """A parser whose errors are short: a line of usage, the mistake, and where the help is.

    It suggests the command, option or value that was probably meant.
    """

    settings_by_option: Mapping[str, str] = MappingProxyType({})
    option_of_words: str = ""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        # From Python 3.14 on, argparse would colour the help at a terminal.
        self.color = False

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse as argparse does, but refuse unknown words here, where suggestions are known."""
        words = sys.argv[1:] if args is None else list(args)
        self._require_known_options(words)
        parsed, rest = super().parse_known_args(words, namespace)
        if rest:
            mistake = f"unrecognized arguments: {' '.join(rest)}"
            if self.option_of_words and len(rest) == 1:
                mistake += f"; did you mean {self.option_of_words} {rest[0]}?"
            self.error(mistake)
        return parsed, rest

    def error(self, message: str) -> NoReturn:
        """Print the mistake and exit with 2."""
        # SEC: a mistyped command can hold a key.
        shown = printable_lines(without_keys(message))
        usage = " ".join(["usage:", self.prog, *self._usage_words()])
        self.exit(2, f'{usage}\nerror: {shown}\nsee "{self.prog} --help"\n')

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        # NOTE: argparse calls this for each value of an argument with choices, and for commands.
        if action.choices is None or value in action.choices:
            return
        known = list(map(str, action.choices))
        if isinstance(action, argparse._SubParsersAction):
            mistake = f"there is no command {value!r}"
            raise argparse.ArgumentError(None, mistake + _command_suggestion(str(value), known))
        mistake = f"must be {_listed(known)}, not {value!r}"
        raise argparse.ArgumentError(action, mistake + _suggestion(str(value), known))

    def _require_known_options(self, words: Sequence[str]) -> None:
        """Refuse the first unknown option, also where argparse would first miss an argument."""
        for word in words:
            # The words after the name of a command are for its own parser.
            if word == "--" or (self._subparsers is not None and not word.startswith("-")):
                return
            # SEC: only the name is repeated; the value after it can be a secret.
            option = word.partition("=")[0]
            if _OPTION.fullmatch(option) and not self._is_known(option):
                self.error(f"there is no option {option}{self._remedy(option)}")

    def _is_known(self, option: str) -> bool:
        if not option.startswith("--"):
            # Short options can be joined, as in -hv.
            return option[:2] in self._option_string_actions
        return any(each.startswith(option) for each in self._option_string_actions)

    def _remedy(self, option: str) -> str:
        """Return a suggestion for an unknown option; empty if there is none."""
        name = option.lstrip("-").lower().replace("-", "_").removeprefix("verifyd_")
        name = self.settings_by_option.get(name, name)
        if name in SETTINGS:
            return f"; set {SETTINGS[name].variable} instead"
        return _suggestion(option, self._option_string_actions)

    def _usage_words(self) -> Iterator[str]:
        """Yield the arguments, and the options that are required."""
        is_optional = False
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                yield "COMMAND ..."
            elif not action.option_strings:
                yield self._argument(action)
            elif action.required:
                yield f"{action.option_strings[0]} {self._argument(action)}"
            elif not isinstance(action, argparse._HelpAction):
                is_optional = True
        if is_optional and self._subparsers is None:
            yield "[OPTION ...]"

    @staticmethod
    def _argument(action: argparse.Action) -> str:
        metavar = str(action.metavar or "|".join(action.choices or [action.dest]))
        return {"?": f"[{metavar}]", "*": f"[{metavar} ...]"}.get(str(action.nargs), metavar)


def _command_suggestion(word: str, known: Sequence[str]) -> str:
    for words in _SYNONYMS:
        meant = next((each for each in words if each in known), None)
        if word in words and meant:
            return f"; did you mean {meant}?"
    return _suggestion(word, known)


def _suggestion(text: str, known: Iterable[str]) -> str:
    meant = closest(text, known)
    return f"; did you mean {meant}?" if meant else ""


def _listed(words: Sequence[str]) -> str:
    *others, last = words
    return f"{', '.join(others)} or {last}" if others else last


Commands: TypeAlias = "argparse._SubParsersAction[Parser]"
Run = Callable[[argparse.Namespace], None]


class Argument:
    """An argument or an option, which several commands can have.

    Args:
        usage: `NAME`, `--label TEXT`, or an option alone, as a person types it.
        meaning: the help.
        options: further ones of `ArgumentParser.add_argument`. If `type` raises ValueError, the
            message is shown. The value of `NAME` is `args.name`, unless `dest` is another name.
    """

    def __init__(self, usage: str, meaning: str, **options: Any) -> None:
        self._name, _, metavar = usage.partition(" ")
        if not self._name.startswith("-"):
            self._name, metavar = options.pop("dest", usage.lower()), usage
        if metavar:
            options["metavar"] = metavar
        if "type" in options:
            options["type"] = partial(_parsed, options["type"])
        self._options = options | {"help": meaning}

    def add_to(self, parser: argparse._ActionsContainer) -> None:
        """Add the argument to a command, or to options that exclude each other."""
        parser.add_argument(self._name, **self._options)


def _parsed(parse: Callable[[str], object], text: str) -> object:
    try:
        return parse(text)
    except ValueError as error:
        # SEC: argparse shows only the message of this exception, and not the text.
        raise argparse.ArgumentTypeError(str(error)) from None


class OneOf:
    """Options of which a command takes one at most, or exactly one."""

    def __init__(self, *arguments: Argument, required: bool = False) -> None:
        self._arguments, self._required = arguments, required

    def add_to(self, parser: argparse.ArgumentParser) -> None:
        """Add the options to a command."""
        group = parser.add_mutually_exclusive_group(required=self._required)
        for argument in self._arguments:
            argument.add_to(group)


def flag(name: str, meaning: str) -> Argument:
    """Return an option without a value; True if given."""
    return Argument(name, meaning, action="store_true")


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
                command takes `--scheduled` and does not get it (D75).
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
                command.set_defaults(run=run, is_job=is_job, command=command, **values)
                printed = [flag("--json", "print one JSON document")] if prints_data else []
                for argument in (*printed, *arguments):
                    argument.add_to(command)

            self._commands.append(add)
            return run

        return declare

    def carry_out(self, do: Callable[[int], None]) -> None:
        """Declare the command that the console runs to do a task. `do` takes the task's number."""
        self.command(
            "carry-out",
            "do what somebody asked for in the console, which runs this by itself",
            Argument("ID", "number of the task", type=number_of("a task")),
            examples=[f"{self._name} carry-out 7"],
            prints_data=False,
            is_job=True,
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
    """Return an argument that is a day."""
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
# The service starts such a command, and no process may outlive the service (D62).
PARENT = Argument(
    "--parent PID",
    "end when this process, which started the command, ends [never]",
    type=whole_number,
)
