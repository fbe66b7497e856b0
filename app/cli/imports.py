"""`verifyd import` and `verifyd imports` (D28)."""

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tqdm import tqdm

from app import clock
from app.catalogue import KINDS
from app.cli.output import print_item, print_items
from app.cli.parser import Commands, add_command, add_group
from app.cli.session import opened_database
from app.config import Config, is_register_name
from app.errors import OperatorError
from app.registers.drop import drop_register
from app.registers.formats import DEFAULT_STATE, FORMATS, Format, Kind, formats_of
from app.registers.formats.mapped import MappedCsv
from app.registers.formats.mapping import read_mapping
from app.registers.history import list_loads
from app.registers.load import DEFAULT_MAX_REJECTS, LoadRequest, Progress, load
from app.registers.models import RegisterLoad
from app.registers.rejects import RejectLimit
from app.registers.sources import Member

_COLUMNS = (
    "id",
    "register",
    "kind",
    "status",
    "rows",
    "loaded",
    "changed",
    "rejected",
    "skipped",
    "started_at",
    "loaded_by",
    "reason",
)


def add_commands(commands: Commands) -> None:
    """Add the command and the command group."""
    command = add_command(commands, "import", _import, "load register files, all or nothing")
    command.add_argument("files", metavar="FILE", nargs="+", help="plain, .gz or .zip; - is stdin")
    what = command.add_mutually_exclusive_group()
    what.add_argument(
        "--format",
        choices=sorted(FORMATS),
        help="default: found by looking; mid is experimental",
    )
    what.add_argument(
        "--map", type=Path, metavar="FILE", help="read any other CSV as this mapping file says"
    )
    command.add_argument(
        "--state",
        type=_state,
        default=DEFAULT_STATE,
        metavar="NY",
        help=f"whose plates are read from fines of NYC; default {DEFAULT_STATE}",
    )
    command.add_argument("--kind", choices=KINDS, help="default: found by looking")
    command.add_argument("--register", type=_register_name, metavar="NAME")
    command.add_argument("--mode", choices=["merge"], default="merge", help="default: merge")
    command.add_argument("--rejects", type=Path, metavar="FILE", help="where rejected rows go")
    command.add_argument(
        "--max-rejects",
        type=_reject_limit,
        default=RejectLimit.parse(DEFAULT_MAX_REJECTS),
        metavar="N|N%",
        help=f"more rejected rows abort the load; default {DEFAULT_MAX_REJECTS}%",
    )
    group = add_group(commands, "imports", "list past loads, drop registers")
    listed = add_command(group, "list", _list, "list loads, the latest first")
    listed.add_argument("--register", type=_register_name, metavar="NAME")
    dropped = add_command(group, "drop", _drop, "remove a register and all it holds")
    dropped.add_argument("register", type=_register_name, metavar="REGISTER")


def _import(args: argparse.Namespace) -> None:
    formats: dict[str, Format] = formats_of(args.state)
    register = args.register
    if args.map:
        mapped = MappedCsv(read_mapping(args.map))
        formats = {mapped.name: mapped}
        register = register or mapped.register
        if not register:
            raise OperatorError(f"{args.map}: register: missing; name it there or by --register")
    request = LoadRequest(
        files=args.files,
        formats=formats,
        format=args.format or (MappedCsv.name if args.map else None),
        kind=Kind(args.kind) if args.kind else None,
        register=register,
        mode=args.mode,
        max_rejects=args.max_rejects,
        rejects=args.rejects,
    )
    with opened_database() as engine, _progress_bar() as progress:
        result = load(engine, Config.from_env().state_dir, request, progress)
    print_item(args, result._asdict())


def _list(args: argparse.Namespace) -> None:
    with opened_database() as engine:
        loads = [_members(each) for each in list_loads(engine, args.register)]
    print_items(args, loads, _COLUMNS)


def _drop(args: argparse.Namespace) -> None:
    with opened_database() as engine:
        drop_register(engine, args.register)
    print_item(args, {"dropped": args.register})


@contextmanager
def _progress_bar() -> Iterator[Progress]:
    """Show how much of a file was read, if somebody is looking."""
    with tqdm(unit="B", unit_scale=True, disable=not sys.stderr.isatty()) as bar:
        shown = ""

        def show(member: Member) -> None:
            nonlocal shown
            if bar.disable:
                return
            if member.name != shown:
                shown = member.name
                bar.reset(member.bytes_total)
                bar.set_description(Path(shown).name, refresh=False)
            bar.update(member.bytes_read() - bar.n)

        yield show


def _members(each: RegisterLoad) -> dict[str, object]:
    members = {column: getattr(each, column) for column in _COLUMNS}
    finished_at = None if each.finished_at is None else clock.iso_utc(each.finished_at)
    return members | {
        "mode": each.mode,
        "format": each.format,
        "files": each.files.split("\n"),
        "started_at": clock.iso_utc(each.started_at),
        "finished_at": finished_at,
    }


def _register_name(text: str) -> str:
    if not is_register_name(text):
        raise argparse.ArgumentTypeError("1 to 30 of a-z, 0-9 and _, a letter first")
    return text


def _state(text: str) -> str:
    if not text.strip():
        raise argparse.ArgumentTypeError("must be a state, such as NY")
    return text.strip().upper()


def _reject_limit(text: str) -> RejectLimit:
    try:
        return RejectLimit.parse(text)
    except ValueError:
        # NOTE: argparse shows the message of this exception only.
        raise argparse.ArgumentTypeError("must be N or N%, from 0 to 100%") from None
