"""What the console asks of the trail, and a process of its own does (D138).

So are lists of the plates whose answers a load changed, and files of watches and events
(D188): the trail records them.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import islice
from typing import Any, Final, NamedTuple

import msgspec
import peewee

from app import clock
from app.accounts.administration import require_account, require_plan
from app.accounts.models import Account
from app.audit.comparison import comparison_of
from app.audit.export import csv_of, write_export
from app.audit.record import AuditError, Row, row_of
from app.audit.recording import Recording, owner_for_task, record_now, recording
from app.audit.report import refusals_in, report
from app.audit.search import Query, TimeSpan, estimate, search
from app.audit.trail import record_use
from app.audit.verify import verify
from app.audit.view import View, view_of
from app.config import Config
from app.jobs.plate_report import PlateReport, render_plate, report_plate
from app.jobs.results import (
    BYTE_ORDER_MARK,
    KEPT_SECONDS,
    RESULT,
    LimitedFile,
    Results,
    TrailQuestion,
)
from app.jobs.tasks import DONE, AnyTask, TaskModel, TaskTable
from app.registers.diff import CSV_HEADING, Turn, compare, require_comparable
from app.storage.engine import Engine
from app.text import csv_line
from app.watches.feed import Feed
from app.watches.repository import Watches
from app.watches.words import (
    EVENT_COLUMNS,
    WATCH_COLUMNS,
    event_cells,
    plates_of_events,
    plates_of_watches,
    watch_cells,
)

SEARCH: Final = "search"
EXPORT: Final = "export"
REPORT: Final = "report"
VERIFY: Final = "verify"
PLATE: Final = "plate"
"""A report about a plate."""
OF_TRAIL: Final = (SEARCH, EXPORT, REPORT, PLATE, VERIFY)
DIFF: Final = "diff"
"""The plates whose answers a load changed. This kind and the next ones do not read the trail."""
WATCHES: Final = "watches"
EVENTS: Final = "events"
"""The watches or the events of an account."""


class AuditTask(TaskModel):
    """A task. SEC: its question and its result are in files, so that no row has a plate."""

    kind = peewee.CharField(10)

    class Meta:
        table_name = "audit_task"


class AuditTaskRequest(NamedTuple):
    """A task that somebody asks for."""

    kind: str
    """Such as `search`: one of OF_TRAIL, DIFF, WATCHES or EVENTS."""
    seen: str
    """The same for each click on one form with the same fields."""
    asked_by: str
    """The name of the person in the console."""


class Task(AnyTask, frozen=True):
    """A task, with how it ended. It reads or writes the trail of its host."""

    kind: str


PLATES_SHOWN = 1_000
"""How many plates the page of a diff shows."""
NEWEST = 100
"""How many records a search finds, unless it finds all."""
FOUND_MAX = 5_000
"""How many records the page of a search shows; its file has all that were found."""


class SearchResult(NamedTuple):
    """The result of a search."""

    rows: list[Row]
    """The newest, at most FOUND_MAX, latest first."""
    are_all: bool
    """Whether all records that match were found."""
    total: int = 0
    """How many match; an estimate if not all were found."""
    seconds: float = 0
    """How long it takes to find all; an estimate if not all were found."""


class AuditTasks(TaskTable[Task]):
    """The tasks of an installation. Each reads the trail of the host where it was asked for."""

    _model, _task, _command = AuditTask, Task, "audit"

    def __init__(self, engine: Engine, config: Config) -> None:
        directory = config.state_dir / "audit-tasks"
        super().__init__(engine, directory, lambda: range(clock.now() - KEPT_SECONDS))
        self._config = config
        self.results = Results(config.data_dir)

    def find_of(self, task_id: int, asked_by: str, kinds: Sequence[str]) -> Task | None:
        """Return a task of the last day that this person asked for; None if there is none."""
        is_it = (AuditTask.id == task_id) & self._is_of(asked_by, kinds)
        return next(self._select(is_it), None)

    def latest(self, asked_by: str, kinds: Sequence[str], limit: int) -> list[Task]:
        """Return the tasks that a person asked for in the last day, latest first."""
        return list(self._select(self._is_of(asked_by, kinds), limit))

    def _is_of(self, asked_by: str, kinds: Sequence[str]) -> Any:
        is_theirs = (AuditTask.asked_by == asked_by) & AuditTask.kind.in_(list(kinds))
        return is_theirs & self._is_kept()

    def begin(self, wanted: AuditTaskRequest, question: TrailQuestion) -> Task:
        """Create a task and start its process, once, however often it is asked for.

        If the person has a task of this kind that runs, return that one: it may ask something else.
        If the same form was sent before and its task is done, return that one.

        Raises OSError if there can be no lock file.
        """
        is_theirs = (AuditTask.kind == wanted.kind) & (AuditTask.asked_by == wanted.asked_by)
        is_here = AuditTask.host == self.host
        is_done = (AuditTask.seen == wanted.seen) & (AuditTask.status == DONE) & self._is_kept()
        alone = is_theirs & is_here
        self.results.remove_old()
        return self._begin(
            wanted, alone, alone & is_done, prepare=lambda task: self.results.ask(task, question)
        )

    def _do(self, task: Task) -> None:
        question = self.results.find_question(task)
        self.results.remove_old()
        if question is None:
            raise AuditError("what was asked is not there any more; ask again")
        directory, criteria = self._config.audit_dir, question.criteria
        if task.kind in OF_TRAIL:
            owner = owner_for_task(self._engine, self._config)
        views = list[View]()
        if task.kind in OF_TRAIL and task.kind != VERIFY:
            # The trail as it is before the record of this use, so that no result has that record.
            views.append(view_of(directory))
            # SEC: the console wrote the name to the row, with the session of the request.
            use = record_now(
                request_id=question.request_id,
                operation=REPORT if task.kind == PLATE else task.kind,
                user=task.asked_by,
                criteria=criteria,
            )
            record_use(directory, owner, use)
        try:
            result = _WORK[task.kind](
                RunningTask(self._engine, self._config, self.results, task, question, views)
            )
            with self.results.opened(task, RESULT) as file:
                file.write(msgspec.json.encode(result))
            self._finish(task.id)
        except BaseException:
            self.results.discard(task)
            raise

    def _is_alive_elsewhere(self, task: Task) -> bool:
        return True  # Only that host knows, and the row is removed after a day.

    def _is_kept(self) -> object:
        return AuditTask.asked_at >= clock.now() - KEPT_SECONDS


class RunningTask(NamedTuple):
    """What the process of a task works with."""

    engine: Engine
    config: Config
    results: Results
    task: Task
    question: TrailQuestion
    views: list[View]
    """The trail of this host; empty if it is not needed."""

    @property
    def period(self) -> TimeSpan:
        return TimeSpan.of(self.question.criteria.since, self.question.criteria.until)


def _search(running: RunningTask) -> SearchResult:
    """Write the records that were found to a file, and return the newest of them."""
    (view,), query, rows, total = running.views, _query(running), list[Row](), 0
    began_ns = clock.monotonic_ns()
    found = search(view, query, newest_first=True)
    with running.results.opened(running.task, "csv") as file:
        limit: int | None = NEWEST
        write: Callable[[bytes], object] = file.write
        if running.question.finds_all:
            way_out = "choose a shorter period, or run “verifyd audit search --all” on the host"
            limit, write = None, LimitedFile(file, way_out).write
        write(BYTE_ORDER_MARK + csv_of([Row._fields]))
        for row in map(row_of, islice(found, limit)):
            write(csv_of([row]))
            total += 1
            if total <= FOUND_MAX:
                rows.append(row)
    if next(found, None) is not None:
        records, seconds = estimate(view, query, lambda record: csv_of([row_of(record)]))
        return SearchResult(rows, False, max(records, total + 1), seconds)
    return SearchResult(rows, True, total, (clock.monotonic_ns() - began_ns) / 10**9)


def _query(running: RunningTask) -> Query:
    for kind in ("plate", "account", "user"):
        value = getattr(running.question.criteria, kind)
        if value is not None:
            return Query(kind, value, running.period)
    raise AuditError("a search needs a plate, an account or a user")


def _export(running: RunningTask) -> object:
    form = running.question.form
    with running.results.opened(running.task, form) as file:
        limited = LimitedFile(
            file, "choose a shorter period, or run “verifyd audit export” on the host"
        )
        return write_export(limited.write, running.views, running.period, form)


def _report(running: RunningTask) -> object:
    # NOTE: imported here, because it is slow.
    from app.audit.report import render  # noqa: PLC0415

    zone = running.config.timezone
    refusals = refusals_in(running.engine, running.period, zone)
    comparison = comparison_of(running.engine, running.views, running.period, zone)
    done = report(running.views, running.period, refusals, comparison, running.config.audit_keep)
    with running.results.opened(running.task, "html") as file:
        file.write(render(done))
    return done


def _plate(running: RunningTask) -> PlateReport:
    done = report_plate(
        running.views, running.question.criteria.plate or "", running.period, running.engine
    )
    with running.results.opened(running.task, "html") as file:
        file.write(render_plate(done))
    return done


class DiffResult(NamedTuple):
    """The result of a diff."""

    load_id: int
    register: str
    total: int
    first: list[Turn]
    """At most PLATES_SHOWN; the file has all of them."""
    note: str


def _diff(running: RunningTask) -> DiffResult:
    """Write the plates whose answers a load changed; each is recorded before that."""
    asked, total, first = running.question, 0, list[Turn]()
    compared = require_comparable(running.engine, asked.load, running.config.timezone)
    way_out = f"run “verifyd imports diff {asked.load} --csv” on the host"
    with _recorded(running, way_out) as (write, note):
        write(CSV_HEADING)
        for turns in compare(running.engine, compared, running.config):
            for plates, registers in turns.recorded():
                note(plates, as_of=compared.day, registers=registers)
            write("".join(turn.csv_line for turn in turns.plates))
            total += len(turns.plates)
            first += turns.plates[: PLATES_SHOWN - len(first)]
    return DiffResult(compared.load_id, compared.register, total, first, compared.note)


_PIECE = 1_000
_PAGES = "use the pages of its API"


def _watches(running: RunningTask) -> int:
    """Write the watches of an account, and return how many; each is recorded before that."""
    account, total, last = _account_of(running), 0, ""
    watches = Watches(running.engine)
    with _recorded(running, _PAGES, account) as (write, note):
        write(csv_line(WATCH_COLUMNS))
        while piece := watches.list_watches(account.id, last, _PIECE):
            note(plates_of_watches(piece))
            write("".join(csv_line(watch_cells(each)) for each in piece))
            total, last = total + len(piece), piece[-1].terms.registration
    return total


def _events(running: RunningTask) -> int:
    """Write the events of an account, the oldest first, and return how many."""
    account, total, last = _account_of(running), 0, 0
    events = Feed(running.engine)
    feed = events.find_feed(account.id)
    with _recorded(running, _PAGES, account) as (write, note):
        write(csv_line(EVENT_COLUMNS))
        while piece := events.list_kept(account.id, last + 1, _PIECE):
            note(plates_of_events(piece))
            write("".join(csv_line(event_cells(feed, each)) for each in piece))
            total, last = total + len(piece), piece[-1].number
    return total


def _account_of(running: RunningTask) -> Account:
    return require_account(running.engine, running.question.criteria.account or "")


Write = Callable[[str], object]
Note = Callable[..., object]
"""Records plates; takes members of the record that differ from piece to piece."""


@contextmanager
def _recorded(
    running: RunningTask, way_out: str, account: Account | None = None
) -> Iterator[tuple[Write, Note]]:
    """Begin the CSV file of a task; the trail has its plates before anybody can read them (D125).

    Yields a function that writes text to the file, and one that records plates.

    Args:
        way_out: what the person can do if there is no room for the file.
        account: whose plates they are; those of a sandbox are not recorded (D182).

    Raises AuditError, also within the context, if the plates cannot be recorded.
    """
    asked, task = running.question, running.task
    opened: AbstractContextManager[Recording] = nullcontext(Recording(None, {}))
    if account is None or not require_plan(running.engine, account.plan_id).is_sandbox:
        said = {
            "request_id": asked.request_id,
            "operation": task.kind,
            "reason": asked.reason,
            "reference": asked.reference,
            "user": task.asked_by,
            "criteria": asked.criteria if asked.criteria.account else None,
        }
        opened = recording(running.engine, running.config, said, owner_for_task)
    with running.results.opened(task, "csv") as file, opened as recorded:
        limited = LimitedFile(file, way_out)
        limited.write(BYTE_ORDER_MARK)
        yield lambda text: limited.write(text.encode()), recorded.record


_WORK: Mapping[str, Callable[[RunningTask], object]] = {
    DIFF: _diff,
    SEARCH: _search,
    EXPORT: _export,
    REPORT: _report,
    PLATE: _plate,
    WATCHES: _watches,
    EVENTS: _events,
    VERIFY: lambda running: verify(
        running.config.audit_dir, running.question.digest, running.config.audit_keep
    ),
}
