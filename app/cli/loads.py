"""`verifyd import`: loads files, or the files of the drop directory."""

import argparse
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from app import clock
from app.arguments import Argument, flag
from app.cli.output import (
    Item,
    item_lines,
    print_document,
    print_item,
    print_sentence,
    say_if_terminal_is_read,
    waiting_for,
)
from app.cli.parser import SCHEDULED, Group, register_name
from app.cli.progress import progress
from app.cli.suggest_map import suggest_map
from app.errors import OperatorError
from app.jobs.drop_directory import DropDirectory
from app.jobs.job import run
from app.jobs.loads import Load
from app.registers import change_words
from app.registers.change import LoadChange
from app.registers.formats.columns import Presence
from app.registers.formats.native import LAYOUTS
from app.registers.options import OPTIONS
from app.registers.reading.lost_values import MostUnreadable
from app.registers.reading.reader import Progress, Show
from app.registers.reading.sources import STANDARD_INPUT
from app.registers.request import LoadResult
from app.storage.tables import Kind
from app.text import counted, printable

commands = Group()
_ONE = {Kind.VEHICLES.value: "vehicle", Kind.POLICIES.value: "policy", Kind.FINES.value: "fine"}


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


@commands.command(
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
    sweeps=True,
)
def _import(args: argparse.Namespace) -> None:
    if args.drop is not None:
        # In the drop directory, the option files have the options of loads.
        _refuse_others(args, "--drop", {"drop", "options", "scheduled"})
        args.is_job = True
        _load_drop(args)
        return
    if not args.files:
        args.command.error("the following arguments are required: FILE")
    for name in ("options", "scheduled"):
        if getattr(args, name):
            args.command.error(f"argument --{name}: only allowed with argument --drop")
    if args.suggest_map:
        if len(args.files) > 1:
            args.command.error("argument --suggest-map: only allowed with one FILE")
        used = {"suggest_map", "files", "kind", "register", "encoding"}
        _refuse_others(args, "--suggest-map", used)
        args.sweeps = False
        suggest_map(args)
        return
    args.sweeps = not args.dry_run
    say_if_terminal_is_read(STANDARD_INPUT in args.files)
    _load_files(args)


def _refuse_others(args: argparse.Namespace, option: str, used: set[str]) -> None:
    """Refuse all arguments that have no meaning with an option."""
    for name, value in vars(args).items():
        is_used = name in used or name in ("json", "run", "is_job")
        if not is_used and value and value != args.command.get_default(name):
            args.command.error(f"argument {option}: not allowed with {name.replace('_', '-')}")


def _load_files(args: argparse.Namespace) -> None:
    """Load the files that the arguments name. Raises OperatorError if that fails."""
    job = Load(
        files=args.files,
        register=args.register,
        options=vars(args),
        dry_run=args.dry_run,
        waiting=partial(waiting_for, args),
        shown=progress_bar,
    )
    try:
        result = run(job)
    except OperatorError as error:
        error.details = error.details or {"load": None, "reasons": []}  # None is in the history.
        if not args.json:
            _print_failure(error, args.mode)
        raise
    item = result._asdict()
    print_item(args, item, result_sentence(result), item_lines(in_words(item)))


def _print_failure(error: OperatorError, mode: str) -> None:
    """Print on stderr what a refused load would have changed, and the notes on its files."""
    change, notes = error.details.get("change"), error.details.get("notes")
    if isinstance(change, LoadChange):
        print("\n".join(change_words.lines(change, mode)), file=sys.stderr)
    for note in notes if isinstance(notes, list) else ():
        if not (isinstance(error, MostUnreadable) and error.is_repeated_by(note)):
            print(f"note: {printable(note)}", file=sys.stderr)


def _load_drop(args: argparse.Namespace) -> None:
    """Load all files in the drop directory, and print each load as it ends.

    Raises OperatorError if a load failed or was skipped, or if the job could not begin.
    """
    directory = args.drop.absolute()

    def print_loaded(item: Item) -> None:
        if not args.json and item["status"] == "loaded":
            print_item(args, item, text=item_lines(in_words(item)))
            print()
            sys.stdout.flush()

    job = DropDirectory(
        directory,
        args.options,
        is_scheduled=args.scheduled,
        waiting=partial(waiting_for, args),
        shown=progress_bar,
        loaded=print_loaded,
    )
    try:
        run(job)
    finally:
        if args.json and job.is_complete:
            print_document(args, job.items)
    if not args.json:
        loaded = sum(item["status"] == "loaded" for item in job.items)
        waiting = len(job.items) - loaded  # Only of scheduled runs.
        more = f"; waiting for a decision: {waiting:,}" if waiting else ""
        print_sentence(f"{counted(loaded, 'load')} done from {directory}{more}")


def in_words(item: Item) -> Item:
    """Return the members of a load for a person: at last, in words, what it changed."""
    members = dict(item)
    change = members.pop("change", None)
    if isinstance(change, LoadChange):
        change = change_words.lines(change, members["mode"])
    return members | {"change": change}


def result_sentence(result: LoadResult) -> str:
    """Return such as `20,000 policies loaded into register native, 2 rejected`."""
    loaded = rows_of(result.loaded, result.kind)
    rejected = f"{result.rejected:,} rejected"
    if result.notes:
        rejected += f", {counted(len(result.notes), 'note')} to read"
    if result.dry_run:
        return (
            f"{loaded} would be loaded into register {result.register}, {rejected}; "
            "nothing was changed"
        )
    return f"{loaded} loaded into register {result.register}, {rejected}"


def rows_of(number: int, kind: str) -> str:
    """Return a number of rows of a kind, such as `1 policy` or `2,000 fines`."""
    return counted(number, _ONE[kind], kind)


@contextmanager
def progress_bar() -> Iterator[Show]:
    """Show progress, rows per second and the time left, if stderr is a terminal."""
    # NOTE: without miniters, tqdm would wait for as many rows as a part of a file had bytes.
    with progress(miniters=1) as bar:
        stage: str | None = ""
        started_ns = shown_ns = clock.monotonic_ns()

        def show(progress: Progress) -> None:
            nonlocal stage, started_ns, shown_ns
            if bar.disable:
                return
            is_new = progress.file != stage
            if is_new:
                stage = progress.file
                # Rows are counted over all files, and again while they are written.
                started_ns = started_ns if stage else shown_ns
            shown_ns = clock.monotonic_ns()
            rows_a_second = progress.rows / max(shown_ns - started_ns, 1) * 1e9
            bar.set_postfix_str(f"{rows_a_second:,.0f} rows/s", refresh=False)
            if is_new:
                bar.unit = "B" if stage else " rows"
                bar.set_description(Path(stage).name if stage else "writing", refresh=False)
                bar.reset(progress.total)
            bar.update(progress.done - bar.n)
            if is_new:
                bar.refresh()

        yield show
