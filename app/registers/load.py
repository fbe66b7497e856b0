"""One load: files read, rows written, all or nothing, whatever happens in between (D28).

All files are read and sorted first. A merge then changes the register in one transaction of its
own; only afterwards the main database is told, and a load killed between the two is settled by
the next one, from what the register itself knows. A replace writes the register's next
generation, which nobody reads until one commit in the main database points to it.
"""

import logging
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import peewee

from app import clock
from app.errors import OperatorError
from app.registers.applying.counts import Counts
from app.registers.applying.losses import exchange_notes, require_no_loss, uniform_notes
from app.registers.applying.parallel_build import fill_in_halves
from app.registers.applying.table import Applied, Table, note_applied
from app.registers.attempts import Attempt, noted, reason_of
from app.registers.baseline import find_baseline, prune
from app.registers.comparing import outcomes, require_few_lost
from app.registers.current import (
    count_known,
    is_applied,
    opened_current,
    opened_table,
    opened_unchanged,
    settle,
)
from app.registers.history import MERGE, REPLACE, History
from app.registers.lock import alone, still_alone
from app.registers.models import insert_line
from app.registers.next_generation import NextGeneration
from app.registers.reading.intake import Intake, opened_intake
from app.registers.reading.reader import Show
from app.registers.reading.rejects import keep_newest, rejects_path
from app.registers.request import LoadRequest, LoadResult
from app.registers.results import columns_of_failure, columns_of_success, result_of
from app.registers.space import Space
from app.storage import reserve
from app.storage.engine import Engine
from app.storage.sqlite import SqliteEngine

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
        opened_intake(request, _scratch_directory(engine), show) as intake,
    ):
        history = History(engine, request.register or intake.format.register)
        attempt.recognised(history.register, intake)
        if request.dry_run:
            return _tried(engine, history, intake)
        return _loaded(engine, history, intake, data_dir, attempt)


def _tried(engine: Engine, history: History, intake: Intake) -> LoadResult:
    """Find out how a load would end; nothing is written but the rejects, if told where to."""
    counts = Counts(intake.kind)
    history.generations.require_room()
    history.generations.require_there()
    intake.rejects.path = intake.request.rejects
    intake.rejects.is_named = intake.request.rejects is not None
    _read(engine, history, intake)
    with opened_unchanged(engine, history, intake.kind, counts) as current:
        if current is not None and history.has_running():
            # The load settles a killed merge first, and then knows what that one committed.
            counts.held_before = current.count()
        for _ in outcomes(intake, current, counts):
            pass
    if intake.request.mode == REPLACE:
        counts.end_replace()
    _judge(engine, history, intake, counts)
    return result_of(intake, None, history.register, counts)


def _loaded(
    engine: Engine, history: History, intake: Intake, data_dir: Path, attempt: Attempt
) -> LoadResult:
    """Do a load, and keep the history of it."""
    with alone(engine, history.register) as require_alone:
        started_ns = clock.monotonic_ns()
        begin = partial(insert_line, engine, status="running", **attempt.line)
        load_id = attempt.load_id = reserve.written(engine, begin)
        what = f"load {load_id}, {intake.request.mode} of {history.register} {intake.kind}"
        intake.rejects.is_named = intake.request.rejects is not None
        intake.rejects.path = intake.request.rejects or rejects_path(
            data_dir, history.register, load_id
        )
        forget_surplus = partial(history.generations.forget_kept, intake.request.keep_snapshots)
        try:
            history.generations.require_room()
            # Here as well: what is removed now makes room for this load.
            reserve.written(engine, forget_surplus)
            reserve.written(engine, partial(settle, engine, history, load_id))
            _read(engine, history, intake)
            do = _replace if intake.request.mode == REPLACE else _merge
            counts = do(engine, history, load_id, intake, require_alone)
        except BaseException as error:
            _note_failure(engine, history, load_id, intake, reason_of(error))
            _forget_old(engine, data_dir)
            # SEC: the reason, which can quote a record, is for the operator only.
            _log.warning("%s: failed, %s", what, type(error).__name__)
            raise
        if intake.request.mode == MERGE:
            # NOTE: not above: the rows are in, whatever hinders this; the next load settles it.
            if not counts.changed:  # A load that changes nothing makes no register either.
                reserve.written(engine, partial(history.generations.remove_made, load_id))
            columns = columns_of_success(intake, counts)
            finish = partial(history.finish, load_id, intake.kind, counts.held, columns)
            reserve.written(engine, partial(finish, is_fresh=intake.is_fresh))
        with suppress(OSError, peewee.PeeweeException):  # The next load does so as well.
            forget_surplus()
            history.generations.remove_unused()
            history.generations.truncate_log()
        _forget_old(engine, data_dir)
        reserve.fill(engine)
    result = result_of(intake, load_id, history.register, counts)
    _log.info(
        "%s: done in %.1f s, rows %d, loaded %d, changed %d, rejected %d, skipped %d, held %d",
        what,
        (clock.monotonic_ns() - started_ns) / 1e9,
        *(result.rows, result.loaded, result.changed, result.rejected, result.skipped),
        result.held,
    )
    return result


def _note_failure(
    engine: Engine, history: History, load_id: int, intake: Intake, reason: str
) -> None:
    """Remove what a failed load wrote, unless another has begun by now; then note that it failed.

    In this order: where the disk is full, the note finds room only afterwards.
    """
    ignored = (OSError, peewee.PeeweeException, OperatorError)
    generations = history.generations
    intake.runs.close()
    with suppress(*ignored), still_alone(engine, history.register):
        generations.remove_unused()
        generations.truncate_log()
    with suppress(*ignored):
        # NOTE: Ctrl-C can come just behind the commit; then the next load settles it.
        if is_applied(engine, history, load_id):
            return
        fail = partial(history.fail, load_id, reason, columns_of_failure(intake))
        reserve.written(engine, fail)
        with still_alone(engine, history.register):
            reserve.written(engine, partial(generations.remove_made, load_id))
    reserve.fill(engine)


def _merge(
    engine: Engine,
    history: History,
    load_id: int,
    intake: Intake,
    require_alone: Callable[[], None],
) -> Counts:
    """Change the rows of the register in its own transaction; the main database is told later."""
    counts = Counts(intake.kind)
    if intake.loaded:
        history.ensure_register(load_id)
    with opened_current(engine, history, intake.kind, counts) as table:
        if table is None:
            return counts
        history.announce(intake.kind)
        with table.register.atomic():
            compared = outcomes(intake, table, counts)
            if counts.held_before:
                for outcome in compared:
                    table.put(outcome.changed)
                    table.remove(outcome.removed)
            else:
                table.fill(outcome.rows for outcome in compared)
            _judge(engine, history, intake, counts)
            table.analyse()
            applied = Applied(intake.loaded - counts.skipped, counts.changed, counts.held)
            note_applied(table.register, table.schema, load_id, applied)
            require_alone()
    return counts


def _replace(
    engine: Engine,
    history: History,
    load_id: int,
    intake: Intake,
    require_alone: Callable[[], None],
) -> Counts:
    """Write the next generation, then let readers have it."""
    generations = history.generations
    generations.require_there()
    held = generations.find_current()
    counts = Counts(intake.kind)
    with generations.opened_next(load_id) as made:
        generations.carry_over(made, intake.kind)
        fill = partial(_fill, engine, held, intake)
        fill_in_halves(made, intake, fill, counts)
        counts.end_replace()
        _judge(engine, history, intake, counts)
    require_alone()
    columns = columns_of_success(intake, counts)
    history.switch(load_id, intake.kind, counts.held, columns, is_fresh=intake.is_fresh)
    return counts


def _judge(engine: Engine, history: History, intake: Intake, counts: Counts) -> None:
    """Refuse a load that loses rows, or what was known; note what looks wrong (D67)."""
    require_few_lost(intake, counts)
    if intake.request.mode == REPLACE:
        count_known(engine, history, counts)
    require_no_loss(engine, history.register, intake.request, counts)
    intake.rejects.notes += exchange_notes(intake.request, counts)
    intake.rejects.notes += uniform_notes(intake.request, counts)


def _fill(
    engine: Engine,
    held: Any,
    intake: Intake,
    made: NextGeneration,
    counts: Counts,
    **span: str | None,
) -> None:
    """Write what was read, compared with what is held, into a generation that is being made."""
    with opened_table(engine, held, intake.kind, counts) as current, made.engine.atomic():
        compared = outcomes(intake, current, counts, **span)
        Table(made.engine, made.schema, intake.kind).fill(each.rows for each in compared)


def _read(engine: Engine, history: History, intake: Intake) -> None:
    """Read all files, held against what earlier loads say."""
    format_name = intake.format.name
    baseline = find_baseline(engine, history.register, intake.kind, format_name)
    with intake.rejects:
        intake.read(_space(engine, history, intake), baseline)


def _forget_old(engine: Engine, data_dir: Path) -> None:
    """Remove old lines of the history, and the rejects of all but the last loads."""
    with suppress(OSError, peewee.PeeweeException):
        prune(engine)
    with suppress(OSError):
        keep_newest(data_dir)


def _space(engine: Engine, history: History, intake: Intake) -> Space:
    return Space(
        engine,
        _scratch_directory(engine),
        kind=intake.kind,
        mode=intake.request.mode,
        entry=history.generations.find_current(),
    )


def _scratch_directory(engine: Engine) -> Path:
    """Return where runs may wait: beside the data, since the state may be kept in memory."""
    return engine.path.parent if isinstance(engine, SqliteEngine) else Path(tempfile.gettempdir())
