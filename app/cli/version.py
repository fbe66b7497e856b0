"""`verifyd version`."""

import argparse
import platform
from typing import TypedDict

import apsw

from app import clock
from app.cli.output import print_item
from app.cli.parser import Commands, add_command
from app.storage.versions import program_schema
from app.version import VERSION, revision
from app.version import line as version_line


class VersionItem(TypedDict):
    """The versions that the command prints."""

    version: str
    commit: str | None
    """None in a working copy of the repository."""
    committed_at: str | None
    schema: int
    sqlite: str
    libpq: str | None
    """None if the Postgres driver is not installed."""
    python: str


def add_commands(commands: Commands) -> None:
    """Add the command."""
    add_command(
        commands,
        "version",
        _version,
        "show the versions of the program and of what it uses",
        examples=["version", "version --json"],
    )


def _version(args: argparse.Namespace) -> None:
    made_from = revision()
    item: VersionItem = {
        "version": VERSION,
        "commit": made_from and made_from.commit,
        "committed_at": made_from and clock.iso_utc(made_from.committed_at_epoch_seconds),
        "schema": program_schema(),
        "sqlite": apsw.sqlite_lib_version(),
        "libpq": _libpq_version(),
        "python": platform.python_version(),
    }
    print_item(args, item, f"{version_line()} runs on Python {item['python']}")


def _libpq_version() -> str | None:
    try:
        from psycopg import pq  # noqa: PLC0415 - an extra, and slow to import
    except ImportError:
        return None
    major, minor = divmod(pq.version(), 10_000)
    return f"{major}.{minor}"
