"""`verifyd completion`: scripts that let a shell complete commands and options (D89)."""

import argparse
from collections.abc import Iterator

import shtab

from app.cli import parser as usage
from app.cli.parser import Commands, add_command

_FILES = {"FILE", "SRC"}
_DIRECTORIES = {"DEST", "DIR"}


def add_commands(commands: Commands) -> None:
    """Add the command."""
    command = add_command(
        commands,
        "completion",
        _completion,
        "print a script that completes commands and options in a shell",
        examples=[
            "completion bash > /usr/share/bash-completion/completions/verifyd",
            "completion zsh > /usr/local/share/zsh/site-functions/_verifyd",
        ],
        prints_data=False,
    )
    command.add_argument("shell", choices=("bash", "zsh"), metavar="SHELL", help="bash or zsh")


def _completion(args: argparse.Namespace) -> None:
    # NOTE: imported here, because app.cli imports this module.
    from app.cli import build_parser  # noqa: PLC0415

    parser = build_parser()
    for action in _arguments(parser):
        if action.metavar in _FILES | _DIRECTORIES:
            kind = shtab.DIRECTORY if action.metavar in _DIRECTORIES else shtab.FILE
            action.complete = kind  # type: ignore[attr-defined]
    print(shtab.complete(parser, args.shell))


def _arguments(parser: usage.Parser) -> Iterator[argparse.Action]:
    """Yield the arguments and options of a parser and of its commands."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from _arguments(command)
        else:
            yield action
