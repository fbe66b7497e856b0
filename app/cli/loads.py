"""Runs one load for a command: priority, progress bar, history of refused loads (D28)."""

import gc
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path

import peewee
from tqdm import tqdm

from app import clock
from app.config import Config
from app.errors import Hindered, OperatorError
from app.processes import ended_like_ctrl_c
from app.registers import history
from app.registers.attempts import Attempt, NotedProgress, file_columns, note_attempt, reason_of
from app.registers.load import load
from app.registers.reading.reader import Progress, Show
from app.registers.request import LoadRequest, LoadResult
from app.storage import reserve
from app.storage.errors import message_of
from app.storage.interface import Waiting
from app.storage.session import opened_database

NICENESS = 10
"""The niceness of a load, so that the service comes first."""


def note_refused(
    files: Sequence[str],
    register: str | None,
    error: OperatorError,
    mode: str = "",
    *,
    is_attended: bool = False,
) -> int | None:
    """Add a line to the history for a load that a mistake in its options prevents (D69).

    Returns its number, or None if the database cannot be used. The details of the error get it too.

    Args:
        mode: empty if the mistake hides it.
        is_attended: whether somebody sees at a terminal that it failed.
    """
    load_id = None
    notes = history.unopened_notes(is_attended=is_attended)
    line = file_columns(files) | {"register": register or "", "mode": mode, "notes": notes}
    with suppress(OperatorError), opened_database() as engine:
        load_id = note_attempt(engine, reason_of(error), line)
    error.details = {"load": load_id, "reasons": []}
    return load_id


def note_moved(load_id: int, directory: Path) -> None:
    """Add to the history where the files of a failed load are now, if the database can be used."""
    with suppress(OperatorError, peewee.PeeweeException), opened_database() as engine:
        reserve.with_reserve(engine, partial(history.note_moved, engine, load_id, directory))


def run(
    request: LoadRequest, attempt: Attempt | None = None, waiting: Waiting = nullcontext
) -> LoadResult:
    """Run a load with a lower priority than the service.

    TERM and Ctrl-C end it and leave the register as it was.

    Args:
        attempt: receives the number of the load, for the report of a failure.
        waiting: tells the user what the load waits for.

    Raises OperatorError with the number of the load and its first rejects as details; Hindered if
    the fault is not in the files.
    """
    attempt = attempt or Attempt(request)
    try:
        with (
            _low_priority(),
            ended_like_ctrl_c(),
            opened_database(waiting=waiting) as engine,
            _progress_bar() as show,
        ):
            config = Config.from_env()
            limited = request._replace(
                loss_max=config.loss_max, keep_snapshots=config.keep_snapshots
            )
            progress = NotedProgress(engine, attempt, show)
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
def _low_priority() -> Iterator[None]:
    """Lower the priority, and switch off garbage collection."""
    os.nice(NICENESS)
    # PERF: garbage collection would take a third of the time to read rows.
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


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
