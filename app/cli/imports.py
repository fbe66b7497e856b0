"""`verifyd import`, and the command group `verifyd imports` (D28)."""

import argparse
import logging
import textwrap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TypedDict

from app import clock
from app.cli import load_options, registers
from app.cli.loads import load_drop, load_files, rows_of
from app.cli.output import (
    Item,
    counted,
    print_item,
    print_items,
    say_if_terminal_is_read,
)
from app.cli.parser import (
    Commands,
    add_command,
    add_group,
    add_limit,
    add_scheduled,
    number_of,
    register_name,
)
from app.cli.suggest_map import suggest_map
from app.config import Config
from app.errors import OperatorError
from app.registers.formats.columns import Presence
from app.registers.formats.native import LAYOUTS
from app.registers.history import (
    INTERRUPTED,
    MERGE,
    REPLACE,
    find_load,
    interrupted_loads,
    list_loads,
)
from app.registers.past_load import PastLoad, find_rejects, past_load
from app.registers.reading.sources import STANDARD_INPUT
from app.registers.reading.streams import printable
from app.registers.reject_limit import Reason
from app.storage.session import opened_database
from app.storage.tables import Kind

# `verifyd imports list` and `show`: the history of attempts to load (D69).

_COLUMNS = (
    "id",
    "register",
    "kind",
    "mode",
    "status",
    "rows",
    "loaded",
    "changed",
    "rejected",
    "skipped",
    "held",
    "started_at",
    "seconds",
    "loaded_by",
    "checksum",
    "reason",
)
_CHECKSUM_DIGITS_SHOWN = 12


class LoadItem(TypedDict):
    """An attempt as `imports list --json` prints it; unknown members are None.

    A file that was not recognised has no register, kind, mode and format.
    """

    id: int
    register: str | None
    kind: str | None
    mode: str | None
    status: str
    rows: int
    loaded: int
    changed: int
    rejected: int
    skipped: int
    held: int | None
    started_at: str
    seconds: int | None
    loaded_by: str
    checksum: str | None
    reason: str | None
    format: str | None
    is_terminated: bool | None
    files: list[str]
    sizes: list[int | None]
    """Bytes of each file; None for a pipe."""
    reasons: list[Reason]
    notes: list[str]
    accepted: list[str]
    known: Mapping[str, int] | None
    """How many rows have each member."""
    finished_at: str | None


class LoadDetails(LoadItem):
    """What `imports show --json` prints."""

    rejects: str | None
    """The path of the rejects file; None if there is none."""


def add_history_commands(imports: Commands) -> None:
    """Add the commands to the group `imports`."""
    listed = add_command(
        imports,
        "list",
        _list,
        "list attempts to load, latest first",
        examples=["imports list", "imports list --register rdw --failed --limit 10"],
    )
    listed.option_of_words = "--register"
    listed.add_argument(
        "--register",
        type=register_name,
        metavar="NAME",
        help="list only attempts to load this register",
    )
    listed.add_argument("--failed", action="store_true", help="list only attempts that failed")
    add_limit(listed, "attempts")
    shown = add_command(
        imports,
        "show",
        _show,
        "show everything that is known about one attempt to load",
        examples=["imports show 42", "imports show 42 --json"],
    )
    shown.add_argument(
        "id", type=number_of("a load"), metavar="ID", help="number of the attempt in the list"
    )


def _list(args: argparse.Namespace) -> None:
    with opened_database() as engine:
        interrupted = interrupted_loads(engine)
        failed_or = interrupted if args.failed else None
        found = list_loads(engine, args.register, failed_or=failed_or, limit=args.limit)
    loads = [_item(past_load(each, interrupted)) for each in found]
    print_items(
        args,
        loads if args.json else list(map(_row, loads)),
        _COLUMNS,
        counted(len(loads), "attempt")
        + ("; --limit shows more" if len(loads) == args.limit else ""),
    )


def _show(args: argparse.Namespace) -> None:
    data_dir = Config.from_env().data_dir
    with opened_database() as engine:
        found = find_load(engine, args.id)
        if found is None:
            raise OperatorError(f'there is no load {args.id}; see "verifyd imports list"')
        past = past_load(found, interrupted_loads(engine))
    load, rejects = _item(past), find_rejects(data_dir, past)
    details: LoadDetails = {**load, "rejects": str(rejects) if rejects else None}
    print_item(args, details if args.json else _text(details), _sentence(load))


def _sentence(load: LoadItem) -> str:
    """Return how an attempt ended."""
    number, register = f"load {load['id']}", f"register {load['register']}"
    verbs = {"running": "is running", "failed": "failed", INTERRUPTED: "was interrupted"}
    if load["status"] in verbs:
        return f"{number} {verbs[load['status']]}"
    if load["kind"] and load["mode"] in (MERGE, REPLACE):
        rows = rows_of(load["loaded"], load["kind"])
        return f"{number}: {rows} loaded into {register}, {load['rejected']:,} rejected"
    return f"{number}: {load['mode']} of {register} done"


def _item(load: PastLoad) -> LoadItem:
    """Return the members of an attempt."""
    finished_at = load.finished_at
    return {
        "id": load.id,
        "register": load.register,
        "kind": load.kind,
        "mode": load.mode,
        "status": load.status,
        "rows": load.rows,
        "loaded": load.loaded,
        "changed": load.changed,
        "rejected": load.rejected,
        "skipped": load.skipped,
        "held": load.held,
        "started_at": clock.iso_utc(load.started_at),
        "seconds": load.seconds,
        "loaded_by": load.loaded_by,
        "checksum": load.checksum,
        "reason": load.reason,
        "format": load.format,
        "is_terminated": load.is_terminated,
        "files": load.files,
        "sizes": load.sizes,
        "reasons": load.reasons,
        "notes": load.notes,
        "accepted": load.accepted,
        "known": load.known,
        "finished_at": None if finished_at is None else clock.iso_utc(finished_at),
    }


def _row(load: LoadItem) -> Item:
    """Return an attempt as the table shows it."""
    # The first digits are enough to tell files apart.
    checksum = load["checksum"] and load["checksum"][:_CHECKSUM_DIGITS_SHOWN]
    return {**load, "checksum": checksum, "reason": load["reason"] and printable(load["reason"])}


def _text(load: LoadDetails) -> Item:
    """Return an attempt as `show` prints it without `--json`: sizes are beside the files."""
    shown = {name: value for name, value in load.items() if name != "sizes"}
    shown["files"] = list(map(_sized, load["files"], load["sizes"]))
    shown["known"] = [f"{member} {rows:,}" for member, rows in (load["known"] or {}).items()]
    return shown


def _sized(file: str, size_bytes: int | None) -> str:
    return file if size_bytes is None else f"{file} ({size_bytes:,} bytes)"


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
    add_history_commands(group)
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
    with _failure_kept_from_log():
        load_files(args)


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
