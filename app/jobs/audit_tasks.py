"""What the console asks of the trail, and a process of its own does (D138)."""

import os
from collections.abc import Callable, Mapping
from typing import BinaryIO, NamedTuple

import msgspec

from app import clock
from app.audit.export import csv_of, write_export
from app.audit.owner import require_own
from app.audit.period import Period, until_now
from app.audit.record import AuditError, Criteria, Record, time_of
from app.audit.refusals import refusals_in
from app.audit.report import report
from app.audit.rows import Row
from app.audit.search import Query, newest
from app.audit.uses import record_use
from app.audit.verify import verify
from app.config import Config
from app.jobs.audit_results import KEPT_SECONDS, RESULT, Results
from app.jobs.audit_task_rows import (
    EXPORT,
    REPORT,
    SEARCH,
    VERIFY,
    AuditTask,
    Question,
    Task,
    Wanted,
)
from app.jobs.tasks import DONE, Start, TaskTable
from app.storage.engine import Engine
from app.storage.versions import database_id

FOUND_MAX = 5_000
"""How many records a search shows."""
_EXPORT_BYTES_MAX = 10**9
_FREE_BYTES_MIN = 512 * 10**6
_LOOK_EVERY_BYTES = 1 << 20


class Found(NamedTuple):
    """The result of a search."""

    rows: list[Row]
    """Latest first."""
    are_all: bool


class AuditTasks(TaskTable[Task]):
    """The tasks of an installation. Each reads the trail of the host where it was asked for."""

    def __init__(self, engine: Engine, config: Config) -> None:
        directory = config.state_dir / "audit-tasks"
        super().__init__(engine, AuditTask, Task, directory, KEPT_SECONDS)
        self._config = config
        self.results = Results(config.data_dir)

    def find_of(self, task_id: int, asked_by: str) -> Task | None:
        """Return a task of the last day that this person asked for; None if there is none."""
        is_theirs = (AuditTask.asked_by == asked_by) & self._is_kept()
        return next(self._select((AuditTask.id == task_id) & is_theirs), None)

    def latest(self, asked_by: str, limit: int) -> list[Task]:
        """Return what a person asked for in the last day, latest first."""
        return list(self._select((AuditTask.asked_by == asked_by) & self._is_kept(), limit))

    def begin(self, wanted: Wanted, question: Question, start: Start) -> Task:
        """Create a task and start its process, once, however often it is asked for.

        If the person has a task of this kind that runs, return that one: it may ask something else.
        If the same form was sent before and its task is done, return that one.

        Raises OSError if there can be no lock file.
        """
        is_theirs = (AuditTask.kind == wanted.kind) & (AuditTask.asked_by == wanted.asked_by)
        is_here = AuditTask.host == self.host
        is_done = (AuditTask.seen == wanted.seen) & (AuditTask.status == DONE) & self._is_kept()

        def asked(task_id: int, descriptor: int) -> None:
            task = self.find(task_id)
            assert task is not None  # noqa: S101 - it was just created
            self.results.ask(task, question)
            start(task_id, descriptor)

        self.results.remove_old()
        return self._begin(
            wanted._asdict(),
            is_theirs & is_here,
            lambda: next(self._select(is_theirs & is_here & is_done, 1), None),
            lambda: None,
            asked,
        )

    def _do(self, task: Task) -> None:
        question = self.results.find_question(task)
        if question is None:
            raise AuditError("what was asked is not there any more; ask again")
        directory, criteria = self._config.audit_dir, question.criteria
        # Before the record of this use, which is not part of what is found.
        period = until_now(criteria.since, criteria.until)
        owner = require_own(directory, database_id(self._engine))
        if task.kind != VERIFY:
            record_use(directory, owner, _record(task, question))
        try:
            result = _WORK[task.kind](
                Work(self._engine, self._config, self.results, task, question, period)
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


def _record(task: Task, question: Question) -> Record:
    """Return the record of a use.

    SEC: the name comes from the row that the console wrote, with the session of the request.
    """
    return Record(
        time=time_of(clock.now_ns()),
        request_id=question.request_id,
        operation=task.kind,
        user=task.asked_by,
        criteria=question.criteria,
    )


class Work(NamedTuple):
    """What the process of a task works with."""

    engine: Engine
    config: Config
    results: Results
    task: Task
    question: Question
    period: Period


def _search(work: Work) -> Found:
    query = _query(work.question.criteria, work.period)
    found = Found(*newest(work.config.audit_dir, query, FOUND_MAX))
    with work.results.opened(work.task, "csv") as file:
        # Without a byte order mark Excel misreads letters outside of ASCII.
        file.write(b"\xef\xbb\xbf" + csv_of([Row._fields, *found.rows]))
    return found


def _query(criteria: Criteria, period: Period) -> Query:
    for kind in ("plate", "account", "user"):
        value = getattr(criteria, kind)
        if value is not None:
            return Query(kind, value, period)
    raise AuditError("a search needs a plate, an account or a user")


def _export(work: Work) -> object:
    directory, form = work.config.audit_dir, work.question.form
    with work.results.opened(work.task, form) as file:
        return write_export(_Limited(file).write, [directory], work.period, form)


def _report(work: Work) -> object:
    # NOTE: imported here, because it is slow.
    from app.audit.report_page import render  # noqa: PLC0415

    refusals = refusals_in(work.engine, work.period, work.config.timezone)
    done = report([work.config.audit_dir], work.period, refusals)
    with work.results.opened(work.task, "html") as file:
        file.write(render(done))
    return done


def _verify(work: Work) -> object:
    return verify(work.config.audit_dir, work.question.digest)


_WORK: Mapping[str, Callable[[Work], object]] = {
    SEARCH: _search,
    EXPORT: _export,
    REPORT: _report,
    VERIFY: _verify,
}


class _Limited:
    """Writes an export as long as it leaves room on the disk for the service."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._bytes = self._looked_at = 0

    def write(self, piece: bytes) -> None:
        """Write some bytes. Raises AuditError if there is no room for them, and OSError."""
        self._file.write(piece)
        self._bytes += len(piece)
        if self._bytes < self._looked_at:
            return
        self._looked_at = self._bytes + _LOOK_EVERY_BYTES
        disk = os.fstatvfs(self._file.fileno())
        way_out = "choose a shorter period, or run “verifyd audit export” on the host"
        if self._bytes > _EXPORT_BYTES_MAX:
            raise AuditError(f"the export is larger than 1 GB; {way_out}")
        if disk.f_bavail * disk.f_frsize < _FREE_BYTES_MIN:
            raise AuditError(f"the disk has less than 512 MB left; {way_out}")
