"""`verifyd imports list` and `show`: the history of attempts to load (D69)."""

import argparse
from collections.abc import Mapping
from typing import TypedDict

from app import clock
from app.cli.load_sentence import rows_of
from app.cli.output import Item, counted, print_item, print_items
from app.cli.parser import Commands, add_command, add_limit, number_of, register_name
from app.cli.session import opened_database
from app.config import Config
from app.errors import OperatorError
from app.registers.history import (
    INTERRUPTED,
    MERGE,
    REPLACE,
    find_load,
    interrupted_loads,
    list_loads,
)
from app.registers.past_load import PastLoad, find_rejects, past_load
from app.registers.reading.reject_limit import Reason
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


def add_commands(imports: Commands) -> None:
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
