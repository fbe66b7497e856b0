"""`verifyd completion` and `version`, and how to run this program again."""

import argparse
import platform
import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import apsw

from app import time_zones
from app.arguments import Argument, Parser
from app.cli.output import print_item, utc
from app.cli.parser import Group
from app.config import SETTINGS, Config
from app.setting_values import EVERY_REGISTER, sqlite_path
from app.storage.file_lock import user_name
from app.storage.versions import program_schema
from app.version import VERSION, revision
from app.version import line as version_line

_FILES = {"FILE", "SRC"}
_DIRECTORIES = {"DEST", "DIR"}
_WRAPPER, _USER = "verifyd.sh", "verifyd"
"""The script beside an installed program that runs it with its settings, as this user."""
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


def run_again(config: Config) -> tuple[list[str], str]:
    """Return lines that prepare a shell, and how to run this program there.

    It then uses the database of the settings, and judges as the service does.
    """
    found = _found()
    if _is_installed(found):
        return [], "sudo verifyd"
    exports = [f"export {each}" for each in _settings(config)]
    if found.name == "__main__.py":
        return exports, shlex.join([sys.executable, "-m", "app"])
    if found != Path(shutil.which(found.name) or "").absolute():
        exports.append(f'export PATH={shlex.quote(str(found.parent))}:"$PATH"')
    return exports, found.name


def run_anywhere(config: Config) -> str:
    """Return how to run this program in any shell and directory, without preparing anything."""
    found = _found()
    if _is_installed(found):
        return "sudo verifyd"
    command = [sys.executable, "-m", "app"] if found.name == "__main__.py" else [str(found)]
    return " ".join([*_settings(config), shlex.join(command)])


def _found() -> Path:
    name = sys.argv[0]
    return Path(shutil.which(name) or name).absolute()


def _is_installed(found: Path) -> bool:
    return found.resolve().with_name(_WRAPPER).exists() and user_name() == _USER


def _settings(config: Config) -> list[str]:
    """Return the variables of the database and of how vehicles are judged, with their values."""
    settings = []
    database = sqlite_path(config.database_url)
    if database is not None:  # SEC: another URL may hold a password; it is in the environment.
        settings.append(_variable("database_url", f"sqlite:///{database.absolute()}"))
    if any(config.mot_first_years.values()):
        years = [
            str(years) if name == EVERY_REGISTER else f"{name}={years}"
            for name, years in config.mot_first_years.items()
        ]
        settings.append(_variable("mot_first_years", ",".join(years)))
    return settings


def _variable(setting: str, value: str) -> str:
    return f"{SETTINGS[setting].variable}={shlex.quote(value)}"
