"""Arguments and options of commands and of option files, and how a parser answers mistakes.

The texts of the parser are the same on all versions of Python, unlike those of argparse. No colour
is used.
"""

import argparse
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, NoReturn

from app.config import SETTINGS
from app.errors import closest, listed, without_keys
from app.text import printable_lines

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

    def usage_line(self) -> str:
        """Return the command with its arguments, and the options that are required."""
        return " ".join([self.prog, *self._usage_words()])

    @staticmethod
    def value_of(action: argparse.Action) -> str:
        """Return how usage and pages show an argument, or the value of an option."""
        metavar = str(action.metavar or "|".join(action.choices or [action.dest]))
        return {"?": f"[{metavar}]", "*": f"[{metavar} ...]"}.get(str(action.nargs), metavar)

    def error(self, message: str) -> NoReturn:
        """Print the mistake and exit with 2."""
        # SEC: a mistyped command can hold a key.
        shown = printable_lines(without_keys(message))
        self.exit(2, f'usage: {self.usage_line()}\nerror: {shown}\nsee "{self.prog} --help"\n')

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        # NOTE: argparse calls this for each value of an argument with choices, and for commands.
        if action.choices is None or value in action.choices:
            return
        known = list(map(str, action.choices))
        if isinstance(action, argparse._SubParsersAction):
            mistake = f"there is no command {value!r}"
            raise argparse.ArgumentError(None, mistake + _command_suggestion(str(value), known))
        mistake = f"must be {listed(known, 'or')}, not {value!r}"
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
                yield self.value_of(action)
            elif action.required:
                yield f"{action.option_strings[0]} {self.value_of(action)}"
            elif not isinstance(action, argparse._HelpAction):
                is_optional = True
        if is_optional and self._subparsers is None:
            yield "[OPTION ...]"


def _command_suggestion(word: str, known: Sequence[str]) -> str:
    for words in _SYNONYMS:
        meant = next((each for each in words if each in known), None)
        if word in words and meant:
            return f"; did you mean {meant}?"
    return _suggestion(word, known)


def _suggestion(text: str, known: Iterable[str]) -> str:
    meant = closest(text, known)
    return f"; did you mean {meant}?" if meant else ""


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
