"""`verifyd import` and `verifyd imports` (D28)."""

import argparse
import gc
import os
import signal
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
from app.logs import logged_to_stderr
from app.registers.formats import DEFAULT_STATE, FORMATS, Format, Kind, formats_of
from app.registers.formats.mapped import MappedCsv
from app.registers.formats.mapping import read_mapping
from app.registers.history import INTERRUPTED, MERGE, REPLACE, find_interrupted, list_loads
from app.registers.intake import SHRINK_MAX_PERCENT
from app.registers.load import load
from app.registers.models import RegisterLoad
from app.registers.reading import Progress, Show
from app.registers.rejects import RejectLimit
from app.registers.request import DEFAULT_MAX_REJECTS, LoadRequest
from app.registers.undo import drop_register, roll_back

NICENESS = 10
"""Of a load, so that the service goes first."""
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
    command.add_argument(
        "--mode",
        choices=[MERGE, REPLACE],
        default=MERGE,
        help="add and change rows, or be all there is; default: merge",
    )
    command.add_argument(
        "--allow-shrink",
        action="store_true",
        help=f"let replace take more than {SHRINK_MAX_PERCENT} %% of the rows away",
    )
    command.add_argument(
        "--dry-run",
        action="store_true",
        help="only tell what would happen",
    )
    command.add_argument("--rejects", type=Path, metavar="FILE", help="where rejected rows go")
    command.add_argument(
        "--max-rejects",
        type=_reject_limit,
        default=RejectLimit.parse(DEFAULT_MAX_REJECTS),
        metavar="N|N%",
        help=f"more rejected rows abort the load; default {DEFAULT_MAX_REJECTS}%",
    )
    group = add_group(commands, "imports", "list past loads, roll one back, drop registers")
    listed = add_command(group, "list", _list, "list loads, the latest first")
    listed.add_argument("--register", type=_register_name, metavar="NAME")
    rolled_back = add_command(group, "rollback", _roll_back, "take the last replace back")
    rolled_back.add_argument("--register", type=_register_name, metavar="NAME")
    rolled_back.add_argument("--kind", choices=KINDS, help="what it must have been of")
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
        allow_shrink=args.allow_shrink,
        dry_run=args.dry_run,
    )
    with (
        _giving_way(),
        _ended_like_ctrl_c(),
        opened_database() as engine,
        logged_to_stderr(),
        _progress_bar() as progress,
    ):
        result = load(engine, Config.from_env().state_dir, request, progress)
    print_item(args, result._asdict())


@contextmanager
def _giving_way() -> Iterator[None]:
    """Let the service go first, and spare ourselves what only a long life needs."""
    os.nice(NICENESS)
    # PERF: rows are no garbage; looking for cycles among them takes a third of the reading.
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@contextmanager
def _ended_like_ctrl_c() -> Iterator[None]:
    """Let TERM abandon a load in good order, with nothing left behind."""
    former = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, former)


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


@contextmanager
def _progress_bar() -> Iterator[Show]:
    """Show how much was read, or written, how fast, and the time left, if somebody looks."""
    tqdm.monitor_interval = 0  # No thread of its own: the load forks.
    with tqdm(unit_scale=True, disable=not sys.stderr.isatty()) as bar:
        stage: str | None = ""
        started_ns = shown_ns = clock.monotonic_ns()

        def show(progress: Progress) -> None:
            nonlocal stage, started_ns, shown_ns
            if bar.disable:
                return
            if progress.file != stage:
                stage = progress.file
                bar.reset(progress.total)
                bar.unit = "B" if stage else " rows"
                bar.set_description(Path(stage).name if stage else "writing", refresh=False)
                # Rows are counted over all files; then anew, from where reading ended.
                started_ns = started_ns if stage else shown_ns
            shown_ns = clock.monotonic_ns()
            rows_a_second = progress.rows / max(shown_ns - started_ns, 1) * 1e9
            bar.set_postfix_str(f"{rows_a_second:,.0f} rows/s", refresh=False)
            bar.update(progress.done - bar.n)

        yield show


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
