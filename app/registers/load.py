"""Runs one load: reads files and changes a register, all or nothing (D28).

All files are read and sorted first; only then does the merge or the replace begin. A load holds its
register's lock, reads the register's entry in the register index once, and passes it on.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import peewee

from app import clock
from app.errors import OperatorError
from app.registers.applying.counts import Counts
from app.registers.applying.table import Table
from app.registers.attempts import Attempt, is_applied, reason_of, recover, refusal_noted
from app.registers.current import count_held, opened_unchanged
from app.registers.generations import Generations, locked, still_locked
from app.registers.history import History, insert_line, list_running, prune_history
from app.registers.intake import opened_intake
from app.registers.losses import baseline_of
from app.registers.modes import build, merge, publish, record
from app.registers.reading.reader import Show
from app.registers.reading.rejects import keep_newest, rejects_path
from app.registers.request import LoadRequest, LoadResult
from app.registers.space import Space
from app.registers.work import Work, columns_of_reading, outcomes, result_of
from app.storage import reserve
from app.storage.engine import Engine
from app.storage.registers import Entry

# Cleans up after a load: notes why it failed, removes what nobody needs (D57, D69).


def note_failure(
    engine: Engine, generations: Generations, load_id: int, columns: dict[str, object]
) -> None:
    """Remove what a failed load wrote, then note in the history that it failed.

    Nothing is removed if another load of the register has begun, and nothing is noted if the rows
    were committed after all: the next load records that.

    Args:
        columns: the columns of the history line, `reason` among them.
    """
    ignored = (OSError, peewee.PeeweeException, OperatorError)
    # Peewee leaves a transaction open if Ctrl-C interrupts its commit. Its changes to the register
    # index are visible here, but end with the process, so nothing may be removed because of them.
    with suppress(*ignored):
        engine.rollback()
    # The removal comes first: on a full disk it makes room for the note. The entry is read again,
    # because Ctrl-C can arrive just after the commit.
    with suppress(*ignored), still_locked(engine, generations.name):
        remove_unused(generations, generations.find_current())
    with suppress(*ignored):
        if is_applied(engine, generations, load_id):
            return
        fail = partial(History(engine, generations.name).fail, load_id, columns)
        reserve.with_reserve(engine, fail)
        with still_locked(engine, generations.name):
            reserve.with_reserve(engine, partial(generations.remove_made_by, load_id))
    reserve.fill(engine)


def remove_unused(generations: Generations, current: Entry | None) -> None:
    """Remove all generations that nobody needs, and empty the log of the current one."""
    generations.remove_unused()
    if current is not None:
        generations.store.truncate_log(current.generation)


def prune_records(engine: Engine, data_dir: Path) -> None:
    """Remove old history lines and old rejects files."""
    with suppress(OSError, peewee.PeeweeException):
        prune_history(engine)
    with suppress(OSError):
        keep_newest(data_dir)


_log = logging.getLogger("app.registers.load")


def load(
    engine: Engine,
    data_dir: Path,
    request: LoadRequest,
    show: Show,
    attempt: Attempt | None = None,
) -> LoadResult:
    """Load all files of a request into one register, as one transaction.

    Args:
        show: is called now and then with the progress.
        attempt: receives the load's number and its first rejects, for whoever reports a failure.

    Raises OperatorError, peewee.PeeweeException or OSError if the load fails. The register is then
    as it was before, and the history says why the load failed (D69).
    """
    attempt = attempt or Attempt(request)
    with (
        refusal_noted(engine, attempt, dry_run=request.dry_run),
        opened_intake(request, engine.scratch_directory, show) as intake,
    ):
        work = Work(engine, request.register or intake.format.register, intake)
        attempt.recognised(work.register, intake)
        return _dry_run(work) if request.dry_run else _run(work, data_dir, attempt)


def _dry_run(work: Work) -> LoadResult:
    """Find out how a load would end; write nothing but the rejects, if `--rejects` is given."""
    _name_rejects(work, None)
    _find_entry(work)
    _read(work)
    _compare(work)
    work.check_losses()
    return result_of(work.intake, None, work.register, work.counts)


def _run(work: Work, data_dir: Path, attempt: Attempt) -> LoadResult:
    """Run a load, and record it in the history."""
    started_ns = clock.monotonic_ns()
    with locked(work.engine, work.register) as require_lock:
        _begin(work, data_dir, attempt)
        with _failure_noted(work, data_dir):
            _recover(work)
            _read(work)
            if work.is_replace:
                build(work)
                require_lock()
                publish(work)
            else:
                merge(work, require_lock)
        if not work.is_replace:
            # NOTE: a failure here is not noted as one: the rows are committed, and the next load
            # of the register records that.
            record(work)
        _clean_up(work, data_dir)
    result = result_of(work.intake, work.load_id, work.register, work.counts)
    _log_done(work, result, started_ns)
    return result


def _name_rejects(work: Work, default: Path | None) -> None:
    """Set the path of the rejects file: the operator's, else the default, else no file."""
    named = work.request.rejects
    work.intake.rejects.write_to(named or default, is_named=named is not None)


def _find_entry(work: Work) -> None:
    """Read the register's entry for a dry run, which recovers nothing."""
    work.entry = work.generations.find_current()
    work.generations.require_room(work.entry)
    work.generations.require_data(work.entry)


def _begin(work: Work, data_dir: Path, attempt: Attempt) -> None:
    """Add the history line, whose number is in the name of the rejects file."""
    insert = partial(insert_line, work.engine, status="running", **attempt.columns)
    work.load_id = attempt.load_id = reserve.with_reserve(work.engine, insert)
    _name_rejects(work, rejects_path(data_dir, work.register, work.load_id))


@contextmanager
def _failure_noted(work: Work, data_dir: Path) -> Iterator[None]:
    """If the load fails, remove what it wrote and note why it failed."""
    try:
        yield
    except BaseException as error:
        work.intake.runs.close()
        columns = {"reason": reason_of(error)} | columns_of_reading(work.intake)
        note_failure(work.engine, work.generations, work.load_id, columns)
        prune_records(work.engine, data_dir)
        # SEC: the reason can quote a record, so the log does not show it.
        _log.warning('%s: failed; "verifyd imports show %d" shows why', work, work.load_id)
        raise


def _recover(work: Work) -> None:
    """Remove surplus snapshots, record how killed loads ended, and read the register's entry."""
    # Surplus snapshots are removed before the load as well, because it may need their space.
    reserve.with_reserve(work.engine, partial(_forget_surplus, work))
    recovered = partial(recover, work.engine, work.generations, work.load_id)
    work.entry = reserve.with_reserve(work.engine, recovered)
    work.generations.require_room(work.entry)


def _read(work: Work) -> None:
    """Read and sort all files, and check them and the disk space."""
    format_name = work.intake.format.name
    baseline = baseline_of(work.engine, work.entry, work.register, work.kind, format_name)
    space = Space(work.engine, kind=work.kind, mode=work.request.mode, entry=work.entry)
    with work.intake.rejects:
        work.intake.read(space, baseline)


def _compare(work: Work) -> None:
    """Count what a dry run would change."""
    with opened_unchanged(work.generations, work.entry) as opened:
        table = Table(opened, work.kind) if opened else None
        # A load recovers killed loads first; a dry run does not.
        is_recovered = not list_running(work.engine, work.register)
        held = count_held(opened, work.entry, work.kind, is_recovered=is_recovered)
        work.counts = Counts(work.kind, held)
        for _ in outcomes(work.intake, table, work.counts):
            pass
    work.complete_counts()


def _clean_up(work: Work, data_dir: Path) -> None:
    """Remove what nobody needs any more; what cannot be removed now, the next load removes."""
    with suppress(OSError, peewee.PeeweeException):
        _forget_surplus(work)
        remove_unused(work.generations, work.entry)
    prune_records(work.engine, data_dir)
    reserve.fill(work.engine)


def _forget_surplus(work: Work) -> None:
    work.generations.forget_snapshots(work.request.keep_snapshots)


def _log_done(work: Work, result: LoadResult, started_ns: int) -> None:
    _log.info(
        "%s: done in %.1f s, rows %d, loaded %d, changed %d, rejected %d, skipped %d, held %d",
        work,
        (clock.monotonic_ns() - started_ns) / 1e9,
        *(result.rows, result.loaded, result.changed, result.rejected, result.skipped),
        result.held,
    )
