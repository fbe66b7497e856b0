"""`verifyd import` (D28)."""

import argparse
import logging
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from app.cli.load_options import OPTIONS
from app.cli.loads import load_drop, load_files
from app.cli.output import say_if_terminal_is_read
from app.cli.parser import SCHEDULED, Argument, Group, flag, register_name
from app.cli.suggest_map import suggest_map
from app.registers.formats.columns import Presence
from app.registers.formats.native import LAYOUTS
from app.registers.reading.sources import STANDARD_INPUT
from app.storage.tables import Kind

_commands = Group()
add_commands = _commands.add_to


def _native_columns() -> str:
    """Return the columns of native files, wrapped for a terminal."""
    kinds = []
    for kind in Kind:
        columns = LAYOUTS[kind]().columns
        names = ", ".join(
            each.label + "*" * (each.presence == Presence.REQUIRED) for each in columns
        )
        kinds.append(
            textwrap.fill(f"{kind:9} {names}", 76, subsequent_indent=" " * 12, initial_indent="  ")
        )
    return "\n".join(
        [
            "columns of a CSV file (those with * must be there; a fine also needs amount or",
            "settledOn; dates are YYYY-MM-DD):",
            *kinds,
            "If your columns have other names, --suggest-map writes a mapping file for --map.",
        ]
    )


def _directory(text: str) -> Path:
    if not text:
        # NOTE: an empty path means the current directory; its files would be moved or removed.
        raise ValueError("must name a directory")
    return Path(text)


@_commands.command(
    "import",
    "load register files, all or nothing",
    Argument("FILE", "register file: plain, .gz or .zip; - is stdin", dest="files", nargs="*"),
    flag("--suggest-map", "print a first mapping file for a CSV file, and load nothing"),
    *OPTIONS,
    Argument(
        "--register NAME", "register to load into [the one of the format]", type=register_name
    ),
    flag("--dry-run", "show what would change, and change nothing"),
    Argument(
        "--drop DIR",
        "load the files in DIR, and move each to loaded/ or failed/ there",
        type=_directory,
    ),
    Argument(
        "--options DIR",
        "with --drop: directory with a file of options for each register, named like it",
        type=_directory,
    ),
    SCHEDULED,
    details=_native_columns(),
    examples=[
        "import vehicles.csv",
        "import rdw.csv.gz --mode replace",
        "import --suggest-map fleet.csv > fleet.toml",
        "import fleet.csv --map fleet.toml --register fleet --dry-run",
        "import --drop /var/lib/verifyd/drop",
    ],
)
def _import(args: argparse.Namespace) -> None:
    if args.drop is not None:
        # In the drop directory, the option files have the options of loads.
        _refuse_others(args, "--drop", {"drop", "options", "scheduled"})
        args.is_job = True
        load_drop(args, args.drop.absolute(), args.options)
        return
    if not args.files:
        args.command.error("the following arguments are required: FILE")
    if args.options is not None:
        args.command.error("argument --options: only allowed with argument --drop")
    if args.scheduled:
        args.command.error("argument --scheduled: only allowed with argument --drop")
    if args.suggest_map:
        if len(args.files) > 1:
            args.command.error("argument --suggest-map: only allowed with one FILE")
        used = {"suggest_map", "files", "kind", "register", "encoding"}
        _refuse_others(args, "--suggest-map", used)
        suggest_map(args)
        return
    say_if_terminal_is_read(STANDARD_INPUT in args.files)
    with _failure_kept_from_log():
        load_files(args)


def _refuse_others(args: argparse.Namespace, option: str, used: set[str]) -> None:
    """Refuse all arguments but those that have a meaning with an option."""
    for name, value in vars(args).items():
        is_used = name in used or name in ("json", "run", "is_job")
        if not is_used and value and value != args.command.get_default(name):
            args.command.error(f"argument {option}: not allowed with {name.replace('_', '-')}")


@contextmanager
def _failure_kept_from_log() -> Iterator[None]:
    """Keep the failure of a load out of the log of a command that prints it anyway (D75)."""
    loggers = [logging.getLogger(f"app.registers.{name}") for name in ("attempts", "load")]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        for logger in loggers:
            logger.setLevel(logging.NOTSET)
