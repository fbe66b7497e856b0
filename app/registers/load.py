"""One load: files read, rows written, all or nothing, whatever happens in between (D28).

All files are read and sorted first. A merge then changes the register in one transaction of its
own; only afterwards the main database is told, and a load killed between the two is settled by
the next one, from what the register itself knows. A replace writes the register's next
generation, which nobody reads until one commit in the main database points to it.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import peewee

from app import clock
from app.registers.applying.comparison import Counts
from app.registers.applying.losses import exchange_notes, require_no_loss, uniform_notes
from app.registers.applying.parallel_build import build
from app.registers.applying.table import Applied, Table, note_applied
from app.registers.attempts import Attempt, noted, reason_of
from app.registers.baseline import find_baseline
from app.registers.cleanup import forget_old, note_failure, remove_unused
from app.registers.current import (
    count_held,
    finish_merge,
    opened_current,
    opened_unchanged,
    settle,
)
from app.registers.generations import Generations
from app.registers.history import MERGE, REPLACE, History
from app.registers.lock import alone
from app.registers.models import insert_line
from app.registers.reading.intake import Intake, opened_intake
from app.registers.reading.reader import Show
from app.registers.reading.rejects import rejects_path
from app.registers.request import LoadRequest, LoadResult
from app.registers.space import Space
from app.storage import reserve
from app.storage.engine import Engine
from app.storage.register_store import OpenRegister
from app.storage.registers import Entry
from app.storage.tables import Kind

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
        steps = _Load(engine, request.register or intake.layout.format.register, intake)
        attempt.recognised(steps.register, intake)
        return steps.try_out() if request.dry_run else steps.run(data_dir, attempt)


class _Load:
    """The steps of one load, in their order, and what they hand on to the next ones."""

    def __init__(self, engine: Engine, register: str, intake: Intake) -> None:
        self._engine = engine
        self.register = register
        self._intake = intake
        self._request = intake.request
        self._generations = Generations(engine, register)
        self._history = History(engine, register)
        self._load_id = 0
        self._entry: Entry | None = None
        """What the register index says; nobody else changes it while the lock is held."""
        self._counts = Counts(intake.kind, 0)

    def try_out(self) -> LoadResult:
        """Find out how the load would end; nothing is written but the rejects, if told where to."""
        self._intake.rejects.path = self._request.rejects
        self._entry = self._generations.find_current()
        self._generations.require_room(self._entry)
        self._generations.require_there(self._entry)
        self._read()
        self._compare()
        self._judge()
        return self._intake.result(None, self.register, self._counts)

    def run(self, data_dir: Path, attempt: Attempt) -> LoadResult:
        """Do the load, and keep the history of it."""
        with alone(self._engine, self.register) as require_alone:
            started_ns = clock.monotonic_ns()
            self._begin(data_dir, attempt)
            with self._failure_noted(data_dir):
                self._settle()
                self._read()
                if self._request.mode == REPLACE:
                    self._build()
                    require_alone()
                    self._publish()
                else:
                    self._merge(require_alone)
            if self._request.mode == MERGE:
                # NOTE: not above: the rows are in, whatever hinders this; the next load settles it.
                self._finish_merge()
            self._tidy(data_dir)
        result = self._intake.result(self._load_id, self.register, self._counts)
        _log.info(
            "%s: done in %.1f s, rows %d, loaded %d, changed %d, rejected %d, skipped %d, held %d",
            self._title,
            (clock.monotonic_ns() - started_ns) / 1e9,
            *(result.rows, result.loaded, result.changed, result.rejected, result.skipped),
            result.held,
        )
        return result

    @property
    def _title(self) -> str:
        return f"load {self._load_id}, {self._request.mode} of {self.register} {self._intake.kind}"

    def _begin(self, data_dir: Path, attempt: Attempt) -> None:
        """Write the line of the history; from here on rejects are kept under its number."""
        insert = partial(insert_line, self._engine, status="running", **attempt.line)
        self._load_id = attempt.load_id = reserve.written(self._engine, insert)
        rejects = self._intake.rejects
        rejects.is_named = self._request.rejects is not None
        rejects.path = self._request.rejects or rejects_path(data_dir, self.register, self._load_id)

    @contextmanager
    def _failure_noted(self, data_dir: Path) -> Iterator[None]:
        """Remove what a load that fails wrote, and note why it failed."""
        try:
            yield
        except BaseException as error:
            self._intake.runs.close()
            columns = {"reason": reason_of(error)} | self._intake.read_so_far()
            note_failure(self._engine, self._generations, self._load_id, columns)
            forget_old(self._engine, data_dir)
            # SEC: the reason, which can quote a record, is for the operator only.
            _log.warning("%s: failed, %s", self._title, type(error).__name__)
            raise

    def _settle(self) -> None:
        """Find out what became of killed loads, and remove what nobody needs; read the entry."""
        # Here as well as in the end: what is removed now makes room for this load.
        reserve.written(self._engine, self._forget_surplus)
        settled = partial(settle, self._engine, self._generations, self._load_id)
        self._entry = reserve.written(self._engine, settled)
        self._generations.require_room(self._entry)

    def _read(self) -> None:
        """Read all files, held against what earlier loads say."""
        kind, mode = self._intake.kind, self._request.mode
        baseline = find_baseline(
            self._engine, self._entry, self.register, kind, self._intake.layout.format.name
        )
        space = Space(self._engine, kind=kind, mode=mode, entry=self._entry)
        with self._intake.rejects:
            self._intake.read(space, baseline)

    def _compare(self) -> None:
        """Count what the load would change."""
        kind = self._intake.kind
        with opened_unchanged(self._generations, self._entry) as opened:
            self._counts = Counts(kind, count_held(opened, self._entry, kind))
            table = Table(*opened, kind) if opened else None
            for _ in self._intake.outcomes(table, self._counts):
                pass

    def _merge(self, require_alone: Callable[[], None]) -> None:
        """Change the rows of the register in its own transaction."""
        kind = self._intake.kind
        if self._entry is None and self._intake.loaded:
            self._entry = self._generations.add(self._load_id)
        self._generations.require_there(self._entry)
        with opened_current(self._generations, self._entry) as opened:
            if opened is None or self._entry is None:
                return  # Nothing was read, and there is no register.
            self._counts = Counts(kind, count_held(opened, self._entry, kind))
            self._entry = self._generations.announce(self._entry, kind)
            with opened.engine.atomic():
                table = Table(*opened, kind)
                self._write_merged(table)
                self._judge()
                table.analyse()
                self._note_applied(opened)
                require_alone()

    def _write_merged(self, table: Table) -> None:
        outcomes = self._intake.outcomes(table, self._counts)
        if self._counts.held_before:
            for outcome in outcomes:
                table.put(outcome.changed)
                table.remove(outcome.removed)
        else:
            table.fill(outcome.rows for outcome in outcomes)

    def _note_applied(self, opened: OpenRegister) -> None:
        """Let the register itself know of the load, for the next one if this one is killed."""
        counts = self._counts
        loaded = self._intake.loaded - counts.skipped
        note_applied(*opened, self._load_id, Applied(loaded, counts.changed, counts.held))

    def _build(self) -> None:
        """Write the register's next generation."""
        kind, entry = self._intake.kind, self._entry
        self._generations.require_there(entry)
        with opened_current(self._generations, entry) as opened:
            self._counts = Counts(kind, count_held(opened, entry, kind))
        with self._generations.store.opened_next(self._load_id) as made:
            if entry is not None:
                others = [each for each in Kind if each != kind and entry.holds(each)]
                made.copy_current(entry.generation, others)
            build(made, self._intake, self._fill, self._counts)
            self._judge()

    def _fill(self, opened: OpenRegister, counts: Counts, **span: str | None) -> None:
        """Write what was read, compared with what is held, into a generation that is being made."""
        kind = self._intake.kind
        with opened_current(self._generations, self._entry) as held, opened.engine.atomic():
            current = Table(*held, kind) if held else None
            outcomes = self._intake.outcomes(current, counts, **span)
            Table(*opened, kind).fill(each.rows for each in outcomes)

    def _judge(self) -> None:
        """Refuse a load that loses what was known; note what was exchanged or is uniform (D67)."""
        request, counts = self._request, self._counts
        if request.mode == REPLACE:
            counts.end_replace()
            self._intake.require_no_shrink(counts)
        require_no_loss(self._engine, self.register, request, counts)
        self._intake.rejects.notes += exchange_notes(request, counts)
        self._intake.rejects.notes += uniform_notes(request, counts)

    def _publish(self) -> None:
        """Let readers have the next generation, and note that the load is done: one commit."""
        now = clock.now()
        former = self._entry or Entry(self.register, self._load_id, "")
        published = former.with_rows(self._intake.kind, self._counts.held)._replace(
            generation=self._load_id,
            loaded_at=now if self._intake.is_fresh else former.loaded_at,
        )
        columns = self._intake.columns_of_done(self._counts)
        with self._engine.atomic():
            self._generations.publish(self._entry, published)
            self._history.done(self._load_id, now, columns)
        self._entry = published

    def _finish_merge(self) -> None:
        """Tell the main database that the rows are in the register."""
        finish = partial(
            finish_merge,
            self._engine,
            self._generations,
            self._load_id,
            self._intake.kind,
            self._intake.columns_of_done(self._counts),
            is_fresh=self._intake.is_fresh,
        )
        reserve.written(self._engine, finish)

    def _tidy(self, data_dir: Path) -> None:
        """Remove what nobody needs any more."""
        with suppress(OSError, peewee.PeeweeException):  # The next load does so as well.
            self._forget_surplus()
            remove_unused(self._generations, self._entry)
        forget_old(self._engine, data_dir)
        reserve.fill(self._engine)

    def _forget_surplus(self) -> None:
        self._generations.forget_kept(self._request.keep_snapshots)
