"""The help of commands: modules, examples, and style."""

import argparse
import re
import shlex
import subprocess
import sys
from itertools import chain

import pytest

from app.cli import COMMANDS, build_parser
from tests.rows import each_row


def commands(parser, *words):
    """Return every command of a parser: its words, its own parser, its summary."""
    for group in parser._actions:
        if isinstance(group, argparse._SubParsersAction):
            summaries = {action.dest: action.help for action in group._choices_actions}
            for name, command in group.choices.items():
                yield (*words, name), command, summaries[name]
                yield from commands(command, *words, name)


EVERY = list(commands(build_parser()))
LEAVES = {words: command for words, command, _ in EVERY if command.get_default("run")}


def arguments(command: argparse.ArgumentParser) -> list[argparse.Action]:
    """Return the arguments and options of a command, except `--help`."""
    return [a for a in command._actions if not isinstance(a, argparse._HelpAction)]


@each_row("module", COMMANDS)
def test_a_module_adds_the_commands_that_it_is_imported_for(module):
    """The first word of a command line decides which module is imported."""
    for name in COMMANDS[module]:
        found = [words for words, _, _ in commands(build_parser([name, "x"])) if len(words) == 1]
        assert found == [(name,) for name in COMMANDS[module]]


@pytest.mark.parametrize("argv", [(), ("--help",), ("nonsense",)])
def test_other_words_need_every_command(argv):
    """For any other word all commands are imported, so that help and errors list them in order."""
    found = [words[0] for words, _, _ in commands(build_parser(argv)) if len(words) == 1]
    assert found == list(chain.from_iterable(COMMANDS.values()))


def test_a_small_command_imports_little():
    """A small command imports neither the service's framework nor the register formats."""
    program = (
        "import sys, app.cli; app.cli.build_parser(['limits', 'show']); "
        "print(*sorted({'falcon', 'gunicorn', 'app.registers.load', 'tqdm'} & set(sys.modules)))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert (ended.stdout, ended.stderr) == ("\n", "")


@each_row("words", LEAVES, ids=" ".join)
def test_examples_are_understood(words):
    """Every command has examples that can be typed as they are."""
    title, *examples = LEAVES[words].epilog.splitlines()
    assert title == "examples:"
    assert examples
    for example in examples:
        assert example.startswith("  verifyd ")
        # Without redirections, which belong to the shell.
        argv = shlex.split(re.split(" [<>] ", example)[0])[1:]
        assert tuple(argv[: len(words)]) == words
        assert build_parser(argv).parse_args(argv).run


@each_row("words", LEAVES, ids=" ".join)
def test_every_argument_has_help(words):
    """Help is lower case without a full stop, and an option's default is in brackets."""
    for action in arguments(LEAVES[words]):
        assert action.help, action.dest
        assert re.match(r"[a-z0-9]", action.help), action.help
        assert not action.help.endswith("."), action.help
        if action.option_strings and action.default not in (None, False, "", []):
            assert re.search(r"\[.+\]", action.help), action.help


@each_row("summary", [summary for _, _, summary in EVERY])
def test_summaries_are_short_imperatives(summary):
    """A summary is one line in lower case, without a full stop."""
    assert re.match(r"[a-z]", summary)
    assert not summary.endswith(".")
    assert len(summary) <= 90
