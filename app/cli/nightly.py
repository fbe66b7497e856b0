"""Nightly jobs: each run is recorded when it ends, and reported if it failed (D76, D77)."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from typing import NamedTuple

import peewee

from app import clock
from app.alerts.conditions import Gathered, gathered
from app.alerts.loads import shown_files
from app.alerts.nightly import Run, record, running, shortened
from app.alerts.report import report
from app.config import Config
from app.errors import OperatorError
from app.processes import ended_like_ctrl_c
from app.setting_values import sqlite_path
from app.storage.errors import is_out_of_space
from app.storage.session import opened_database, require_owner

_UNUSABLE = (OperatorError, OSError, peewee.PeeweeException)


class NotAllLoaded(OperatorError):
    """Some files were not loaded; the job knows which."""


class NotLoaded(NamedTuple):
    """The files of a load that failed or was skipped."""

    names: list[str]
    outcome: str
    """What happened, and where the files are now."""
    load_id: int | None
    """The number of the load; None if it is not in the history."""


class Job:
    """What a nightly job notes about its run. SEC: alerts send it."""

    def __init__(self) -> None:
        self.failed: list[NotLoaded] = []
        self.left: set[str] = set()
        """A sentence for each file that was left alone."""
        self.in_history: set[int] = set()
        """Numbers of failed loads that alerts read from the history."""
        self.size_bytes: int | None = None
        """The size of a backup."""

    def faults(self, error: BaseException | None) -> list[str]:
        """Return a sentence for each failure that alerts do not read from the history."""
        faults = [
            f"{shown_files(each.names)}: {each.outcome}."
            for each in self.failed
            if each.load_id not in self.in_history
        ]
        if self.left:
            faults.append(f"Left alone: {len(self.left)}; the log of the job names them.")
        is_explained = isinstance(error, NotAllLoaded) and (faults or self.in_history)
        if error is not None and not is_explained:
            faults.append(_reason(error))
        return faults


@contextmanager
def nightly(name: str, *, is_scheduled: bool) -> Iterator[Job]:
    """Record how a run of a job ends, then queue an alert about everything that is wrong.

    A failure at a terminal is not sent at once, because somebody sees it. `verifyd watch` reports
    it the next morning if it is still wrong. An error here never hides why the job failed.
    """
    config, wrong = Config.read()  # Wrong settings fail the job, but its alert needs only a few.
    database = sqlite_path(config.database_url)
    if database:
        require_owner(database)  # The service could not use files of another user.
    job, started_at = Job(), clock.now()
    failure: BaseException | None = None
    try:
        # A mistyped URL must not create a state directory.
        is_there = database is None or database.exists()
        with ended_like_ctrl_c(), running(config.state_dir, name) if is_there else nullcontext():
            yield job
    except BaseException as error:
        failure = error
        raise
    finally:
        faults = shortened(job.faults(failure))
        run = Run(name, is_scheduled, started_at, faults, job.size_bytes)
        _record(config, run)
        if failure is None or not is_attended():
            report_all(config, wrong, run)


@contextmanager
def reported() -> Iterator[None]:
    """Queue an alert at the end of a single load, as `nightly` does for jobs."""
    is_well = False
    try:
        yield
        is_well = True
    finally:
        if is_well or not is_attended():
            report_all(*Config.read())


def report_all(config: Config, wrong: Sequence[str], run: Run | None = None) -> None:
    """Queue an alert about everything that is wrong now, if anything is new.

    Args:
        wrong: the faults of the settings.
    """
    if config.notify:
        report(config, lambda: gathered_now(config, wrong, run))


def gathered_now(config: Config, wrong: Sequence[str] = (), run: Run | None = None) -> Gathered:
    """Return everything that is wrong now, also if the database cannot be opened."""
    with (
        suppress(OperatorError, OSError, peewee.PeeweeException),
        opened_database(config) as engine,
    ):
        return gathered(engine, config, run, wrong)
    return gathered(None, config, run, wrong)


def is_attended() -> bool:
    """Tell whether somebody sees at a terminal what a command reports."""
    return sys.stderr is not None and sys.stderr.isatty()


def _record(config: Config, run: Run) -> None:
    with suppress(*_UNUSABLE), opened_database(config) as engine:
        record(engine, run)


def _reason(error: BaseException) -> str:
    """Return why a run failed, without messages that can quote a record: an alert sends it."""
    cause = error.__cause__ or error
    if isinstance(cause, KeyboardInterrupt):
        return "It was stopped before its end."
    if isinstance(cause, OSError) and cause.strerror:
        return f"It failed: {cause.strerror}."
    if isinstance(cause, peewee.OperationalError) and is_out_of_space(cause):
        return "It failed: the disk is full."
    if isinstance(cause, peewee.DatabaseError | peewee.InterfaceError):
        return "It failed: the database cannot be used."
    return "Its log has the reason."
