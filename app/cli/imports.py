"""`verifyd import` and `verifyd imports` (D28)."""

import argparse
from contextlib import nullcontext
from pathlib import Path

from app import clock
from app.catalogue import KINDS
from app.cli import loads
from app.cli.drop import load_drop
from app.cli.nightly import reported
from app.cli.output import print_item, print_items
from app.cli.parser import Commands, add_command, add_group, add_scheduled, register_name
from app.cli.session import opened_database
from app.logs import logged_to_stderr
from app.registers.formats import Kind
from app.registers.history import INTERRUPTED, find_interrupted, list_loads
from app.registers.models import RegisterLoad
from app.registers.undo import drop_register, roll_back

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
    "started_at",
    "seconds",
    "loaded_by",
    "checksum",
    "reason",
)
_MEMBERS = ("format",)
_CHECKSUM_DIGITS_SHOWN = 12


def add_commands(commands: Commands) -> None:
    """Add the command and the command group."""
    summary = "load register files, all or nothing"
    command = add_command(commands, "import", lambda args: _import(command, args), summary)
    command.add_argument("files", metavar="FILE", nargs="*", help="plain, .gz or .zip; - is stdin")
    loads.add_options(command)
    command.add_argument("--register", type=register_name, metavar="NAME")
    command.add_argument("--dry-run", action="store_true", help="only tell what would happen")
    command.add_argument(
        "--drop",
        type=_directory,
        metavar="DIR",
        help="load what lies in DIR, and remove what was loaded",
    )
    command.add_argument(
        "--options",
        type=_directory,
        metavar="DIR",
        help="with --drop: where the file NAME holds the options of the register NAME",
    )
    add_scheduled(command)
    group = add_group(commands, "imports", "list past loads, roll one back, drop registers")
    listed = add_command(group, "list", _list, "list loads, the latest first")
    listed.add_argument("--register", type=register_name, metavar="NAME")
    rolled_back = add_command(group, "rollback", _roll_back, "take the last replace back")
    rolled_back.add_argument("--register", type=register_name, metavar="NAME")
    rolled_back.add_argument("--kind", choices=KINDS, help="what it must have been of")
    dropped = add_command(group, "drop", _drop, "remove a register and all it holds")
    dropped.add_argument("register", type=register_name, metavar="REGISTER")


def _directory(text: str) -> Path:
    if not text:
        # NOTE: an empty path is the current directory, whose files would be moved or removed.
        raise argparse.ArgumentTypeError("must be a directory, and is empty")
    return Path(text)


def _import(command: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    if args.drop is not None:
        _require_no_options_of_one_load(command, args)
        load_drop(args, args.drop.absolute(), args.options)
        return
    if not args.files:
        command.error("the following arguments are required: FILE")
    if args.options is not None:
        command.error("argument --options: only allowed with argument --drop")
    if args.scheduled:
        command.error("argument --scheduled: only allowed with argument --drop")
    request = loads.request_of(args, args.files, args.register)
    with logged_to_stderr(), nullcontext() if args.dry_run else reported():
        result = loads.run(request._replace(dry_run=args.dry_run))
    print_item(args, result._asdict())


def _require_no_options_of_one_load(
    command: argparse.ArgumentParser, args: argparse.Namespace
) -> None:
    """Refuse what `--drop` would not heed: options of its loads are in option files."""
    heeded = {"drop", "options", "scheduled", "json", "run"}
    for name, value in vars(args).items():
        if name not in heeded and value and value != command.get_default(name):
            command.error(f"argument --drop: not allowed with {name.replace('_', '-')}")


def _list(args: argparse.Namespace) -> None:
    with opened_database() as engine:
        interrupted = find_interrupted(engine)
        loads = [_members(each, interrupted) for each in list_loads(engine, args.register)]
    if not args.json:
        # The first digits tell files apart, and leave room for the rest.
        loads = [each | {"checksum": _shortened(each["checksum"])} for each in loads]
    print_items(args, loads, _COLUMNS)


def _roll_back(args: argparse.Namespace) -> None:
    with opened_database() as engine, logged_to_stderr():
        done = roll_back(engine, args.register, Kind(args.kind) if args.kind else None)
    print_item(args, done)


def _drop(args: argparse.Namespace) -> None:
    with opened_database() as engine:
        drop_register(engine, args.register)
    print_item(args, {"dropped": args.register})


def _members(each: RegisterLoad, interrupted: set[int]) -> dict[str, object]:
    """Return what is told of a load; the table shows `_COLUMNS`, JSON everything.

    One that was killed is `interrupted` until the next load of its register finds out whether
    its rows are in.
    """
    finished_at = None if each.finished_at is None else clock.iso_utc(each.finished_at)
    seconds = None if each.finished_at is None else each.finished_at - each.started_at
    others = {
        "status": INTERRUPTED if each.id in interrupted else each.status,
        "files": each.files.split("\n") if each.files else [],
        "started_at": clock.iso_utc(each.started_at),
        "finished_at": finished_at,
        "seconds": seconds,
    }
    plain = {name: getattr(each, name) for name in (*_COLUMNS, *_MEMBERS) if name not in others}
    return {name: (plain | others)[name] for name in dict.fromkeys((*_COLUMNS, *_MEMBERS, *others))}


def _shortened(checksum: object) -> str | None:
    return str(checksum)[:_CHECKSUM_DIGITS_SHOWN] if checksum else None
