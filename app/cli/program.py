"""`verifyd completion` and `version`."""

import argparse
import platform
from collections.abc import Iterator

import apsw

from app.arguments import Argument, Parser
from app.cli.output import print_item, utc
from app.cli.parser import Group
from app.settings import time_zones
from app.storage.versions import program_schema
from app.version import VERSION, revision
from app.version import line as version_line

_FILES = {"FILE", "SRC"}
_DIRECTORIES = {"DEST", "DIR"}
commands = Group()


@commands.command(
    "completion",
    "print a script that completes commands and options in a shell",
    Argument("SHELL", "bash or zsh", choices=("bash", "zsh")),
    examples=[
        "completion bash > /usr/share/bash-completion/completions/verifyd",
        "completion zsh > /usr/local/share/zsh/site-functions/_verifyd",
    ],
    prints_data=False,
)
def _completion(args: argparse.Namespace) -> None:
    # NOTE: imported here, because shtab is slow, and because app.cli imports this module.
    import shtab  # noqa: PLC0415

    from app.cli import build_parser  # noqa: PLC0415

    parser = build_parser()
    for action in _arguments(parser):
        if action.metavar in _FILES | _DIRECTORIES:
            kind = shtab.DIRECTORY if action.metavar in _DIRECTORIES else shtab.FILE
            action.complete = kind  # type: ignore[attr-defined]
    # A script that asks the program would take a third of a second for each Tab.
    print(shtab.complete(parser, args.shell))


def _arguments(parser: Parser) -> Iterator[argparse.Action]:
    """Yield the arguments and options of a parser and of its commands."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from _arguments(command)
        else:
            yield action


@commands.command(
    "version",
    "show the versions of the program and of what it uses",
    examples=["version", "version --json"],
)
def _version(args: argparse.Namespace) -> None:
    made_from = revision()
    members = {
        "version": VERSION,
        "commit": made_from and made_from.commit,
        "committed_at": made_from and utc(made_from.committed_at_epoch_seconds),
        "schema": program_schema(),
        "sqlite": apsw.sqlite_lib_version(),
        "libpq": _libpq_version(),
        "tzdata": time_zones.USED.version or None,
        "python": platform.python_version(),
        "python_build": f"{', '.join(platform.python_build())}, {platform.python_compiler()}",
    }
    print_item(args, members, f"{version_line()} runs on Python {members['python']}")


def _libpq_version() -> str | None:
    try:
        from psycopg import pq  # noqa: PLC0415 - an extra, and slow to import
    except ImportError:
        return None
    major, minor = divmod(pq.version(), 10_000)
    return f"{major}.{minor}"
