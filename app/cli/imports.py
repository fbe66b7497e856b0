"""`verifyd import`, and the command group `verifyd imports` (D28)."""

import argparse
import logging
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path

from app import actor
from app.cli import load_options, loads, past_loads, registers
from app.cli.drop import load_drop
from app.cli.load_sentence import result_sentence
from app.cli.nightly import is_attended, reported
from app.cli.output import print_item
from app.cli.parser import Commands, add_command, add_group, add_scheduled, register_name
from app.cli.suggest_map import suggest_map
from app.cli.waiting import say_if_terminal_is_read, waiting_for
from app.errors import OperatorError
from app.registers.formats.columns import Presence
from app.registers.formats.native import LAYOUTS
from app.registers.reading.sources import STANDARD_INPUT
from app.storage.tables import Kind


def add_commands(commands: Commands) -> None:
    """Add the command and the command group."""
    command = add_command(
        commands,
        "import",
        lambda args: _import(command, args),
        "load register files, all or nothing",
        details=_native_columns(),
        examples=[
            "import vehicles.csv",
            "import rdw.csv.gz --mode replace",
            "import --suggest-map fleet.csv > fleet.toml",
            "import fleet.csv --map fleet.toml --register fleet --dry-run",
            "import --drop /var/lib/verifyd/drop",
        ],
    )
    command.add_argument(
        "files", metavar="FILE", nargs="*", help="register file: plain, .gz or .zip; - is stdin"
    )
    command.add_argument(
        "--suggest-map",
        action="store_true",
        help="print a first mapping file for a CSV file, and load nothing",
    )
    load_options.add_options(command)
    command.add_argument(
        "--register",
        type=register_name,
        metavar="NAME",
        help="register to load into [the one of the format]",
    )
    command.add_argument(
        "--dry-run", action="store_true", help="show what would change, and change nothing"
    )
    command.add_argument(
        "--drop",
        type=_directory,
        metavar="DIR",
        help="load the files in DIR, and move each to loaded/ or failed/ there",
    )
    command.add_argument(
        "--options",
        type=_directory,
        metavar="DIR",
        help="with --drop: directory with a file of options for each register, named like it",
    )
    add_scheduled(command)
    group = add_group(commands, "imports", "list past loads; roll back, drop and undrop registers")
    past_loads.add_commands(group)
    registers.add_commands(group)


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
        raise argparse.ArgumentTypeError("must name a directory")
    return Path(text)


def _import(command: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    if args.drop is not None:
        _require_no_options_of_one_load(command, args)
        args.is_job = True
        load_drop(args, args.drop.absolute(), args.options)
        return
    if not args.files:
        command.error("the following arguments are required: FILE")
    if args.options is not None:
        command.error("argument --options: only allowed with argument --drop")
    if args.scheduled:
        command.error("argument --scheduled: only allowed with argument --drop")
    if args.suggest_map:
        _require_only_a_file(command, args)
        suggest_map(args)
        return
    say_if_terminal_is_read(STANDARD_INPUT in args.files)
    with _failure_kept_from_log(), nullcontext() if args.dry_run else reported():
        try:
            request = load_options.request_of(args, args.files, args.register)
        except OperatorError as error:
            if args.dry_run:
                error.details = {"load": None, "reasons": []}
            else:
                loads.note_refused(
                    args.files, args.register, error, args.mode, is_attended=is_attended()
                )
            raise
        request = request._replace(
            dry_run=args.dry_run, is_attended=is_attended(), actor=actor.of_command()
        )
        result = loads.run(request, waiting=partial(waiting_for, args))
    print_item(args, result._asdict(), result_sentence(result))


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


def _require_only_a_file(command: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    """Refuse what has no meaning for a suggestion, which loads nothing."""
    if len(args.files) > 1:
        command.error("argument --suggest-map: only allowed with one FILE")
    used = {"suggest_map", "files", "kind", "register", "encoding", "json", "run", "is_job"}
    for name, value in vars(args).items():
        if name not in used and value and value != command.get_default(name):
            command.error(f"argument --suggest-map: not allowed with {name.replace('_', '-')}")


def _require_no_options_of_one_load(
    command: argparse.ArgumentParser, args: argparse.Namespace
) -> None:
    """Refuse options of single loads: with `--drop` they belong in the option files."""
    used = {"drop", "options", "scheduled", "json", "run", "is_job"}
    for name, value in vars(args).items():
        if name not in used and value and value != command.get_default(name):
            command.error(f"argument --drop: not allowed with {name.replace('_', '-')}")
