"""A run of a nightly job: recorded when it ends, and reported if it failed (D76, D77)."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress

import peewee

from app import clock
from app.cli.session import opened_database, require_owner
from app.cli.stopping import ended_like_ctrl_c
from app.config import Config
from app.errors import OperatorError
from app.operations.conditions.gathered import Gathered, gathered
from app.operations.conditions.jobs import Run, record, running, shortened
from app.operations.conditions.loads import shown_files
from app.operations.notices.report import report
from app.setting_values import sqlite_path
from app.storage.errors import is_out_of_space

_UNUSABLE = (OperatorError, OSError, peewee.PeeweeException)


class NotAllLoaded(OperatorError):
    """Some files were not loaded: the job knows each of them."""


class Job:
    """What a run of a nightly job finds out about itself. SEC: alerts send it."""

    def __init__(self) -> None:
        self.failed: list[tuple[list[str], str, int | None]] = []
        """Names of files that were not loaded, what became of them, and the number of the load."""
        self.left: set[str] = set()
        """What was left alone, each with its own words."""
        self.told: set[int] = set()
        """Numbers of the failed loads that alerts take from the history."""
        self.size_bytes: int | None = None
        """Of a backup."""

    def faults(self, error: BaseException | None) -> list[str]:
        """Return a sentence for each failure that alerts do not take from the history."""
        faults = [
            f"{shown_files(names)}: {outcome}."
            for names, outcome, load_id in self.failed
            if load_id not in self.told
        ]
        if self.left:
            faults.append(f"Left alone: {len(self.left)}; the log of the job names them.")
        is_explained = isinstance(error, NotAllLoaded) and (faults or self.told)
        if error is not None and not is_explained:
            faults.append(_reason(error))
        return faults


@contextmanager
def nightly(name: str, *, is_scheduled: bool) -> Iterator[Job]:
    """Record how a run of a job ends, then queue an alert about all that is wrong.

    A failure that somebody watches at a terminal is not sent at once: `verifyd watch` reports
    what is still wrong the next morning. What fails here never hides why the job failed.
    """
    config, wrong = Config.read()  # They fail the job; its alert needs only a few of them.
    database = sqlite_path(config.database_url)
    if database:
        require_owner(database)  # Another user's files would lock the service out.
    job, started_at = Job(), clock.now()
    failure: BaseException | None = None
    try:
        # A mistyped URL makes no state directory.
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
    """Queue an alert at the end of a load that is no job's, as `nightly` does."""
    is_well = False
    try:
        yield
        is_well = True
    finally:
        if is_well or not is_attended():
            report_all(*Config.read())


def report_all(config: Config, wrong: Sequence[str], run: Run | None = None) -> None:
    """Queue an alert about all that is wrong now, if there is anything new.

    Args:
        wrong: what is wrong with the settings.
    """
    if config.notify:
        report(config, lambda: gathered_now(config, wrong, run))


def gathered_now(config: Config, wrong: Sequence[str] = (), run: Run | None = None) -> Gathered:
    """Return all that is wrong now, whether the database can be opened or not."""
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
    """Return why a run failed as far as that can be sent: no message, which can quote a record."""
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
