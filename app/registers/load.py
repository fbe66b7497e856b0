"""Runs one load: reads files and changes a register, all or nothing (D28).

All files are read and sorted first; only then does the merge or the replace begin. A load holds its
register's lock, reads the register's entry in the register index once, and passes it on.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import peewee

from app import clock
from app.processes import STOPS, signals_blocked
from app.registers.applying.table import RegisterTable
from app.registers.attempts import Attempt, loads_log, reason_of, refusal_noted
from app.registers.baseline import baseline_of
from app.registers.change_words import brief
from app.registers.generations import locked
from app.registers.history import insert_line, json_text, list_running, prune_history
from app.registers.holds import require_acceptable, require_not_held_back, require_not_rejected
from app.registers.intake import opened_intake
from app.registers.modes import build, merge, publish, record
from app.registers.reading.reader import Show
from app.registers.reading.rejects import keep_newest, rejects_path
from app.registers.recovery import note_failure, recover
from app.registers.request import LoadRequest, LoadResult
from app.registers.rules import RulesBroken
from app.registers.space import Space
from app.registers.work import Work
from app.storage import reserve
from app.storage.engine import Engine


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
    as it was before, and the history says why the load failed.
    """
    attempt = attempt or Attempt(request)
    with (
        refusal_noted(engine, data_dir, request, attempt),
        opened_intake(request, engine.scratch_directory, show) as intake,
    ):
        work = Work(engine, request.register or intake.format.register, intake)
        attempt.recognised(work.register, intake)
        if request.waits_for_holds:
            files = [Path(file).name for file in request.files]
            require_not_held_back(engine, work.register, work.kind, request.mode, files)
        try:
            return _dry_run(work) if request.dry_run else _run(work, data_dir, attempt)
        finally:
            attempt.change = work.change


def _dry_run(work: Work) -> LoadResult:
    """Find out how a load would end; write nothing but the rejects, if `--rejects` is given."""
    work.entry = work.generations.find_current()
    work.generations.require_room(work.entry)
    work.generations.require_data(work.entry)
    _read(work)
    with work.generations.opened_unchanged(work.entry) as opened:
        # A load recovers killed loads first; a dry run does not.
        work.begin_counts(opened, is_recovered=not list_running(work.engine, work.register))
        table = RegisterTable(opened, work.kind) if opened else None
        for _ in work.effects(table, work.counts):
            pass
    work.require_rules()
    return work.result()


def _run(work: Work, data_dir: Path, attempt: Attempt) -> LoadResult:
    """Run a load, and record it in the history."""
    started_ns = clock.monotonic_ns()
    with locked(work.engine, work.register) as require_lock:
        with _failure_noted(work, data_dir):
            # A stop must not come between the history line and its number.
            with signals_blocked(STOPS):
                _begin(work, data_dir, attempt)
            _recover(work)
            held = work.request.repeats and require_acceptable(work.engine, work.request.repeats)
            _read(work)
            if held:
                held.require_same(work.intake.checksum)
            if work.request.waits_for_holds:
                checksum = work.intake.checksum
                require_not_rejected(work.engine, work.register, work.kind, checksum)
            if work.is_replace:
                build(work)
                require_lock(work.engine)  # This connects again, to say what happened.
                publish(work, require_lock)
            else:
                merge(work, require_lock)
        if not work.is_replace:
            # NOTE: a failure here is not noted as one: the rows are committed, and the next load
            # of the register records that.
            record(work)
        _clean_up(work, data_dir)
    result = work.result()
    loads_log.info(
        "%s: done in %.1f s, rows %d, loaded %d, changed %d, rejected %d, skipped %d, held %d; %s",
        work,
        (clock.monotonic_ns() - started_ns) / 1e9,
        *(result.rows, result.loaded, result.changed, result.rejected, result.skipped),
        result.held,
        brief(work.change) if work.change else "nothing was read",
    )
    return result


def _begin(work: Work, data_dir: Path, attempt: Attempt) -> None:
    """Add the history line, whose number is in the default name of the rejects file."""
    columns = {"status": "running"} | attempt.columns
    load_id = reserve.with_reserve(work.engine, insert_line, work.engine, **columns)
    work.load_id = attempt.load_id = load_id
    rejects = work.intake.rejects
    if rejects.path is None:
        rejects.path = rejects_path(data_dir, work.register, load_id)
        # After a restore, an earlier load can have had this number.
        with suppress(OSError):
            rejects.path.unlink()


@contextmanager
def _failure_noted(work: Work, data_dir: Path) -> Iterator[None]:
    """If the load fails, remove the data that it wrote and note the reason."""
    try:
        yield
    except BaseException as error:
        if not work.load_id:  # It has no line yet; `refusal_noted` adds one.
            raise
        work.intake.runs.close()
        columns = {"reason": reason_of(error)} | work.columns_of_reading()
        if isinstance(error, RulesBroken):
            columns |= {"broken": json_text(error.broken), "checksum": work.intake.checksum}
        note_failure(work.generations, work.load_id, columns)
        _prune_records(work.engine, data_dir)
        # SEC: the reason can quote a record, so the log does not show it.
        loads_log.warning('%s: failed; "verifyd imports show %d" shows why', work, work.load_id)
        raise


def _recover(work: Work) -> None:
    """Remove surplus snapshots, record how killed loads ended, and read the register's entry."""
    # Surplus snapshots are removed before the load as well, because it may need their space.
    keep = work.request.keep_snapshots
    reserve.with_reserve(work.engine, work.generations.forget_snapshots, keep)
    work.entry = reserve.with_reserve(work.engine, recover, work.generations, work.load_id)
    work.generations.require_room(work.entry)


def _read(work: Work) -> None:
    """Read and sort all files, and check them and the disk space."""
    intake, kind, mode = work.intake, work.kind, work.request.mode
    baseline = baseline_of(work.engine, work.entry, work.register, kind, intake.format.name, mode)
    space = Space(work.engine, intake.runs, kind=kind, mode=mode, entry=work.entry)
    intake.rejects.notes += work.request.option_notes
    with intake.rejects:
        intake.read(space, baseline)


def _clean_up(work: Work, data_dir: Path) -> None:
    """Remove data that nobody needs any more; the next load removes the rest."""
    with suppress(OSError, peewee.PeeweeException):
        work.generations.forget_snapshots(work.request.keep_snapshots)
        work.generations.free_space(work.entry)
    _prune_records(work.engine, data_dir)
    reserve.fill(work.engine)


def _prune_records(engine: Engine, data_dir: Path) -> None:
    """Remove old history lines and old rejects files."""
    with suppress(OSError, peewee.PeeweeException):
        prune_history(engine, data_dir)
    with suppress(OSError):
        keep_newest(data_dir)
