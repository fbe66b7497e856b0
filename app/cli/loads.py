"""Starts loads for `verifyd import`, and prints how they ended (D28)."""

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from tqdm import tqdm

from app import actions, clock
from app.cli import load_options
from app.cli.output import counted, print_item, print_items, print_sentence, waiting_for
from app.jobs.drop_directory import DropDirectory
from app.jobs.job import is_attended, run
from app.jobs.loads import Load
from app.registers.reading.reader import Progress, Show
from app.registers.request import LoadRequest, LoadResult
from app.storage.tables import Kind

_ONE = {Kind.VEHICLES.value: "vehicle", Kind.POLICIES.value: "policy", Kind.FINES.value: "fine"}


def load_files(args: argparse.Namespace) -> None:
    """Load the files that the arguments name. Raises OperatorError if that fails."""

    def make_request() -> LoadRequest:
        return load_options.request_of(args, args.files, args.register)._replace(
            dry_run=args.dry_run, is_attended=is_attended(), actor=actions.of_command()
        )

    job = Load(
        args.files,
        args.register,
        args.mode,
        make_request,
        dry_run=args.dry_run,
        waiting=partial(waiting_for, args),
        shown=_progress_bar,
    )
    result = run(job)
    print_item(args, result._asdict(), result_sentence(result))


def load_drop(args: argparse.Namespace, directory: Path, options: Path | None) -> None:
    """Load all files in a drop directory, and print each load as it ends.

    Args:
        options: the directory of the option files; None if there is none.

    Raises OperatorError if a load failed or was skipped, or if the job could not begin.
    """

    def make_request(files: list[str], register: str | None) -> LoadRequest:
        request = load_options.request_of(
            load_options.options_of(register, options), files, register
        )
        load_options.require_same_register(request)
        return request

    def print_loaded(item: dict[str, Any]) -> None:
        if not args.json and item["status"] == "loaded":
            print_item(args, item)
            print()
            sys.stdout.flush()

    job = DropDirectory(
        directory,
        options,
        make_request,
        is_scheduled=args.scheduled,
        waiting=partial(waiting_for, args),
        shown=_progress_bar,
        loaded=print_loaded,
    )
    try:
        run(job)
    finally:
        if args.json and job.is_complete:
            print_items(args, job.items, ())
    if not args.json:
        print_sentence(f"{counted(len(job.items), 'load')} done from {directory}")


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
def _progress_bar() -> Iterator[Show]:
    """Show progress, rows per second and the time left, if stderr is a terminal."""
    tqdm.monitor_interval = 0  # No thread, because the load forks.
    # NOTE: without miniters, tqdm would wait for as many rows as a part of a file had bytes.
    with tqdm(unit_scale=True, disable=not sys.stderr.isatty(), miniters=1) as bar:
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
