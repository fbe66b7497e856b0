"""One load by a command: its options, the priority it has, the progress it shows (D28)."""

import argparse
import gc
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import peewee
from tqdm import tqdm

from app import clock
from app.cli.session import opened_database
from app.cli.stopping import ended_like_ctrl_c
from app.config import Config
from app.errors import Hindered, OperatorError
from app.registers.applying.tally import NAMES
from app.registers.attempts import Attempt, files_line, note_attempt, reason_of
from app.registers.baseline import SHRINK_MAX_PERCENT
from app.registers.formats import DEFAULT_STATE, FORMATS, Format, Kind, formats_of
from app.registers.formats.mapped import MappedCsv
from app.registers.formats.mapping import read_mapping
from app.registers.history import MERGE, REPLACE
from app.registers.load import load
from app.registers.reading.reader import Progress, Show
from app.registers.reading.rejects import RejectLimit
from app.registers.request import DEFAULT_MAX_REJECTS, LoadRequest, LoadResult
from app.storage.engine import message_of
from app.storage.registers import KINDS

NICENESS = 10
"""Of a load, so that the service goes first."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say how files are loaded, whichever files they are."""
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--format",
        choices=sorted(FORMATS),
        help="default: found by looking; mid is experimental",
    )
    what.add_argument(
        "--map", type=Path, metavar="FILE", help="read any other CSV as this mapping file says"
    )
    parser.add_argument(
        "--state",
        type=_state,
        default=DEFAULT_STATE,
        metavar="NY",
        help=f"whose plates are read from fines of NYC; default {DEFAULT_STATE}",
    )
    parser.add_argument("--kind", choices=KINDS, help="default: found by looking")
    parser.add_argument(
        "--mode",
        choices=[MERGE, REPLACE],
        default=MERGE,
        help="merge adds and changes rows, replace removes all others, too [merge]",
    )
    parser.add_argument(
        "--allow-shrink",
        action="store_true",
        help=f"let a load remove more than {SHRINK_MAX_PERCENT} %% of the rows",
    )
    parser.add_argument(
        "--allow-missing",
        action="append",
        default=[],
        metavar="COLUMN",
        help="load files without this column, though their format expects it; can be repeated",
    )
    parser.add_argument(
        "--allow-loss",
        action="append",
        default=[],
        choices=NAMES,
        metavar="MEMBER",
        help="let far fewer rows than before know this member, such as insured; can be repeated",
    )
    parser.add_argument(
        "--blank-missing",
        action="store_true",
        help="merge native and mapped files as if members without a column were empty "
        "[keep their values]",
    )
    parser.add_argument(
        "--allow-unterminated",
        action="store_true",
        help="let a file end without a line end, though the previous one had it",
    )
    parser.add_argument(
        "--empty-ok",
        action="store_true",
        help="count files without rows as news: the register becomes as young as this load",
    )
    parser.add_argument("--rejects", type=Path, metavar="FILE", help="where rejected rows go")
    parser.add_argument(
        "--max-rejects",
        type=_reject_limit,
        default=RejectLimit.parse(DEFAULT_MAX_REJECTS),
        metavar="N|N%",
        help=f"more rejected rows abort the load; default {DEFAULT_MAX_REJECTS}%",
    )


def request_of(
    options: argparse.Namespace, files: Sequence[str], register: str | None
) -> LoadRequest:
    """Return the load of some files by the options of `add_options`.

    Raises OperatorError if the mapping file is wrong, nothing names the register, or the rejects
    cannot be written where they should be.
    """
    if options.rejects:
        _require_place(options.rejects)
    formats: dict[str, Format] = formats_of(options.state)
    if options.map:
        mapped = MappedCsv(read_mapping(options.map))
        formats = {mapped.name: mapped}
        register = register or mapped.register
        if not register:
            raise OperatorError(f"{options.map}: register: missing; name it there or by --register")
    return LoadRequest(
        files=files,
        formats=formats,
        format=options.format or (MappedCsv.name if options.map else None),
        kind=Kind(options.kind) if options.kind else None,
        register=register,
        mode=options.mode,
        max_rejects=options.max_rejects,
        rejects=options.rejects,
        allow_shrink=options.allow_shrink,
        allow_missing=options.allow_missing,
        allow_loss=options.allow_loss,
        blank_missing=options.blank_missing,
        allow_unterminated=options.allow_unterminated,
        empty_ok=options.empty_ok,
    )


def note_refused(
    files: Sequence[str], register: str | None, error: OperatorError, mode: str = ""
) -> int | None:
    """Leave a line in the history of a load that a mistake in its options prevents (D69).

    Returns its number, None if the database is lost; the details of the error get it, too.

    Args:
        mode: as far as it is known: the mistake can hide it.
    """
    load_id = None
    line = files_line(files) | {"register": register or "", "mode": mode}
    with suppress(OperatorError), opened_database() as engine:
        load_id = note_attempt(engine, reason_of(error), line)
    error.details = {"load": load_id, "reasons": []}
    return load_id


def _require_place(rejects: Path) -> None:
    """Refuse a rejects file in a directory that is not there: its name may be mistyped."""
    directory = rejects.absolute().parent
    if not directory.is_dir():
        raise OperatorError(f"--rejects: the directory {directory} does not exist")
    if rejects.is_dir():
        raise OperatorError(f"--rejects: {rejects} is a directory; name a file")


def run(request: LoadRequest, attempt: Attempt | None = None) -> LoadResult:
    """Do a load with less priority than the service.

    TERM and Ctrl-C abandon it in good order.

    Args:
        attempt: learns the load's number, for whoever reports a failure.

    Raises OperatorError with the load's number and its
    first rejects as details; Hindered if the files are not to blame.
    """
    attempt = attempt or Attempt(request)
    try:
        with (
            _giving_way(),
            ended_like_ctrl_c(),
            opened_database() as engine,
            _progress_bar() as progress,
        ):
            config = Config.from_env()
            limited = request._replace(
                loss_max=config.loss_max, keep_snapshots=config.keep_snapshots
            )
            return load(engine, config.data_dir, limited, progress, attempt)
    except (peewee.DatabaseError, peewee.InterfaceError) as error:
        reason = f"the database cannot be used: {message_of(error)}"
        raise Hindered(reason, attempt.details()) from error
    except OSError as error:
        raise Hindered(str(error), attempt.details()) from error
    except OperatorError as error:
        error.details = attempt.details()
        raise


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
def _progress_bar() -> Iterator[Show]:
    """Show how much was read, or written, how fast, and the time left, if somebody looks."""
    tqdm.monitor_interval = 0  # No thread of its own: the load forks.
    # NOTE: left to itself, tqdm waits for as many rows as a piece of a file had bytes.
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
                # Rows are counted over all files, then again from where reading ended.
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
