"""`verifyd import` and `verifyd imports` (D28)."""

import argparse
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import msgspec

from app import clock
from app.cli import load_options, loads, registers
from app.cli.drop import load_drop
from app.cli.nightly import reported
from app.cli.output import print_item, print_items
from app.cli.parser import Commands, add_command, add_group, add_scheduled, register_name
from app.cli.session import opened_database
from app.config import Config
from app.errors import OperatorError
from app.logs import logged_to_stderr
from app.registers.history import INTERRUPTED, find_interrupted, find_load, list_loads
from app.registers.models import RegisterLoad, list_of
from app.registers.reading.rejects import Reason, rejects_path
from app.registers.reading.streams import printable

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
_ID_DIGITS_MAX = 18
_LIMIT = 50
_LIMIT_MAX = 100_000


def add_commands(commands: Commands) -> None:
    """Add the command and the command group."""
    summary = "load register files, all or nothing"
    command = add_command(commands, "import", lambda args: _import(command, args), summary)
    command.add_argument("files", metavar="FILE", nargs="*", help="plain, .gz or .zip; - is stdin")
    load_options.add_options(command)
    command.add_argument("--register", type=register_name, metavar="NAME")
    command.add_argument("--dry-run", action="store_true", help="only tell what would happen")
    command.add_argument(
        "--drop",
        type=_directory,
        metavar="DIR",
        help="load what lies in DIR, and move what was loaded to loaded/ there",
    )
    command.add_argument(
        "--options",
        type=_directory,
        metavar="DIR",
        help="with --drop: where the file NAME holds the options of the register NAME",
    )
    add_scheduled(command)
    group = add_group(commands, "imports", "list past loads; roll back, drop and undrop registers")
    listed = add_command(group, "list", _list, "list attempts to load, the latest first")
    listed.add_argument("--register", type=register_name, metavar="NAME")
    listed.add_argument("--failed", action="store_true", help="list only those that failed")
    listed.add_argument(
        "--limit", type=_limit, default=_LIMIT, metavar="N", help=f"list at most N [{_LIMIT}]"
    )
    shown = add_command(group, "show", _show, "show all that is known of one attempt to load")
    shown.add_argument("id", type=_load_id, metavar="ID", help="its number in the list")
    registers.add_commands(group)


def _directory(text: str) -> Path:
    if not text:
        # NOTE: an empty path is the current directory, whose files would be moved or removed.
        raise argparse.ArgumentTypeError("must be a directory, and is empty")
    return Path(text)


def _limit(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= _LIMIT_MAX:
        raise argparse.ArgumentTypeError(f"must be a whole number from 1 to {_LIMIT_MAX:,}")
    return int(text)


def _load_id(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > _ID_DIGITS_MAX:
        raise argparse.ArgumentTypeError("must be the number of a load")
    return int(text)


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
    with logged_to_stderr(), nullcontext() if args.dry_run else reported():
        try:
            request = load_options.request_of(args, args.files, args.register)
        except OperatorError as error:
            if args.dry_run:
                error.details = {"load": None, "reasons": []}
            else:
                loads.note_refused(args.files, args.register, error, args.mode)
            raise
        result = loads.run(request._replace(dry_run=args.dry_run))
    print_item(args, result._asdict())


def _require_no_options_of_one_load(
    command: argparse.ArgumentParser, args: argparse.Namespace
) -> None:
    """Refuse what `--drop` would not heed: options of its loads are in option files."""
    heeded = {"drop", "options", "scheduled", "json", "run", "is_job"}
    for name, value in vars(args).items():
        if name not in heeded and value and value != command.get_default(name):
            command.error(f"argument --drop: not allowed with {name.replace('_', '-')}")


def _list(args: argparse.Namespace) -> None:
    with opened_database() as engine:
        interrupted = find_interrupted(engine)
        failed_or = interrupted if args.failed else None
        found = list_loads(engine, args.register, failed_or=failed_or, limit=args.limit)
    loads = [_members(each, interrupted) for each in found]
    if not args.json:
        loads = [each | _short(each) for each in loads]
    print_items(args, loads, _COLUMNS)


def _show(args: argparse.Namespace) -> None:
    data_dir = Config.from_env().data_dir
    with opened_database() as engine:
        found = find_load(engine, args.id)
        if found is None:
            raise OperatorError(f"there is no load {args.id}; see `verifyd imports list`")
        load = _members(found, find_interrupted(engine))
    rejects = rejects_path(data_dir, found.register, found.id)
    load["rejects"] = str(rejects) if rejects.is_file() else None
    if not args.json:
        load["files"] = list(map(_sized, load["files"], load.pop("sizes")))
        load["known"] = [f"{member} {rows:,}" for member, rows in (load["known"] or {}).items()]
    print_item(args, load)


def _members(each: RegisterLoad, interrupted: set[int]) -> dict[str, Any]:
    """Return the members of a load; the table shows `_COLUMNS`, JSON and `show` everything.

    One that was killed is `interrupted` until the next load of its register finds out whether
    its rows are in.
    """
    files = each.files.split("\n") if each.files else []
    finished_at = None if each.finished_at is None else clock.iso_utc(each.finished_at)
    seconds = None if each.finished_at is None else each.finished_at - each.started_at
    plain = {name: getattr(each, name, None) for name in (*_COLUMNS, "format", "is_terminated")}
    # What nobody knows of a file that was not recognised is empty.
    named = {name: plain[name] or None for name in ("register", "kind", "mode", "format")}
    others = {
        "status": INTERRUPTED if each.id in interrupted else each.status,
        "files": files,
        "sizes": list_of(each.sizes, int | None) or [None] * len(files),
        "reasons": list_of(each.reasons, Reason),
        "notes": list_of(each.notes, str),
        "accepted": list_of(each.accepted, str),
        "known": msgspec.json.decode(each.known) if each.known else None,
        "started_at": clock.iso_utc(each.started_at),
        "finished_at": finished_at,
        "seconds": seconds,
    }
    return plain | named | others


def _short(load: dict[str, Any]) -> dict[str, object]:
    """Return what the table shows otherwise than JSON does."""
    # The first digits tell files apart, and leave room for the rest.
    checksum = load["checksum"] and load["checksum"][:_CHECKSUM_DIGITS_SHOWN]
    return {"checksum": checksum, "reason": load["reason"] and printable(load["reason"])}


def _sized(file: str, size: int | None) -> str:
    return file if size is None else f"{file} ({size:,} bytes)"
