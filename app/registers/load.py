"""One load: files read, rows written, all or nothing, whatever happens in between (D28).

All files are read and sorted first, before a merge or a replace changes anything. A load holds
the lock of its register, reads the register's entry in the index once, and hands it on.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import peewee

from app import clock
from app.registers.applying.counts import Counts
from app.registers.applying.table import Table
from app.registers.attempts import Attempt, noted, reason_of
from app.registers.baseline import find_baseline
from app.registers.cleanup import forget_old, note_failure, remove_unused
from app.registers.comparing import outcomes
from app.registers.current import count_held, opened_unchanged, settle
from app.registers.history import REPLACE
from app.registers.lock import alone
from app.registers.merge import finish, merge
from app.registers.models import insert_line
from app.registers.reading.intake import opened_intake
from app.registers.reading.reader import Show
from app.registers.reading.rejects import rejects_path
from app.registers.replace import build, publish
from app.registers.request import LoadRequest, LoadResult
from app.registers.results import columns_of_failure, result_of
from app.registers.space import Space
from app.registers.work import Work
from app.storage import reserve
from app.storage.engine import Engine

_log = logging.getLogger(__name__)


def load(
    engine: Engine,
    data_dir: Path,
    request: LoadRequest,
    show: Show,
    attempt: Attempt | None = None,
) -> LoadResult:
    """Load all files of a request into one register, as one transaction.

    Args:
        attempt: learns the load's number and its first rejects, for whoever reports a failure.

    Raises OperatorError, peewee.PeeweeException or OSError if anything stands in the way; then
    the register holds what it held before, and the history says why (D69).
    """
    attempt = attempt or Attempt(request)
    with (
        noted(engine, attempt, dry_run=request.dry_run),
        opened_intake(request, engine.scratch_directory, show) as intake,
    ):
        work = Work(engine, request.register or intake.format.register, intake)
        attempt.recognised(work.register, intake)
        return _tried(work) if request.dry_run else _loaded(work, data_dir, attempt)


def _tried(work: Work) -> LoadResult:
    """Find out how a load would end; nothing is written but the rejects, if told where to."""
    _look(work)
    _read(work)
    _compare(work)
    work.judge()
    return result_of(work.intake, None, work.register, work.counts)


def _loaded(work: Work, data_dir: Path, attempt: Attempt) -> LoadResult:
    """Do a load, and keep the history of it."""
    started_ns = clock.monotonic_ns()
    with alone(work.engine, work.register) as require_alone:
        _begin(work, data_dir, attempt)
        with _failure_noted(work, data_dir):
            _settle(work)
            _read(work)
            if work.request.mode == REPLACE:
                build(work)
                require_alone()
                publish(work)
            else:
                merge(work, require_alone)
        if work.request.mode != REPLACE:
            # NOTE: not above: the rows are in, whatever hinders this; the next load settles it.
            finish(work)
        _tidy(work, data_dir)
    result = result_of(work.intake, work.load_id, work.register, work.counts)
    _log.info(
        "%s: done in %.1f s, rows %d, loaded %d, changed %d, rejected %d, skipped %d, held %d",
        work,
        (clock.monotonic_ns() - started_ns) / 1e9,
        *(result.rows, result.loaded, result.changed, result.rejected, result.skipped),
        result.held,
    )
    return result


def _begin(work: Work, data_dir: Path, attempt: Attempt) -> None:
    """Write the line of the history; from here on rejects are kept under its number."""
    insert = partial(insert_line, work.engine, status="running", **attempt.line)
    work.load_id = attempt.load_id = reserve.written(work.engine, insert)
    rejects = work.intake.rejects
    rejects.is_named = work.request.rejects is not None
    rejects.path = work.request.rejects or rejects_path(data_dir, work.register, work.load_id)


@contextmanager
def _failure_noted(work: Work, data_dir: Path) -> Iterator[None]:
    """Remove what a load that fails wrote, and note why it failed."""
    try:
        yield
    except BaseException as error:
        work.intake.runs.close()
        columns = {"reason": reason_of(error)} | columns_of_failure(work.intake)
        note_failure(work.engine, work.generations, work.load_id, columns)
        forget_old(work.engine, data_dir)
        # SEC: the reason, which can quote a record, is for the operator only.
        _log.warning("%s: failed, %s", work, type(error).__name__)
        raise


def _look(work: Work) -> None:
    """Read the register's entry, as it is before anything is settled."""
    work.intake.rejects.path = work.request.rejects
    work.intake.rejects.is_named = work.request.rejects is not None
    work.entry = work.generations.find_current()
    work.generations.require_room(work.entry)
    work.generations.require_there(work.entry)


def _settle(work: Work) -> None:
    """Find out what became of killed loads, and remove what nobody needs; read the entry."""
    # Here as well as in the end: what is removed now makes room for this load.
    reserve.written(work.engine, partial(_forget_surplus, work))
    settled = partial(settle, work.engine, work.generations, work.load_id)
    work.entry = reserve.written(work.engine, settled)
    work.generations.require_room(work.entry)


def _read(work: Work) -> None:
    """Read all files, held against what earlier loads say."""
    format_name = work.intake.format.name
    baseline = find_baseline(work.engine, work.entry, work.register, work.kind, format_name)
    space = Space(work.engine, kind=work.kind, mode=work.request.mode, entry=work.entry)
    with work.intake.rejects:
        work.intake.read(space, baseline)


def _compare(work: Work) -> None:
    """Count what the load would change."""
    with opened_unchanged(work.generations, work.entry) as opened:
        table = Table(*opened, work.kind) if opened else None
        held = count_held(opened, work.entry, work.kind)
        if table is not None and work.history.list_running():
            # The load settles a killed merge first, and then knows what that one committed.
            held = table.count()
        work.counts = Counts(work.kind, held)
        for _ in outcomes(work.intake, table, work.counts):
            pass


def _tidy(work: Work, data_dir: Path) -> None:
    """Remove what nobody needs any more."""
    with suppress(OSError, peewee.PeeweeException):  # The next load does so as well.
        _forget_surplus(work)
        remove_unused(work.generations, work.entry)
    forget_old(work.engine, data_dir)
    reserve.fill(work.engine)


def _forget_surplus(work: Work) -> None:
    work.generations.forget_kept(work.request.keep_snapshots)
