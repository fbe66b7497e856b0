"""What a job is, and the one way to run it (D152).

The command line, a timer and the console start a job in the same way: a command of this program
calls `run`. The subclass says what the job does, and what is special about it.
"""

import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Generic, TypeVar

import peewee

from app import clock
from app.alerts.conditions import FoundConditions, gathered
from app.alerts.nightly import Run, record, running, shortened
from app.alerts.report import report
from app.config import Config, ConfigError
from app.errors import OperatorError
from app.logs import progress_log
from app.processes import ended_like_ctrl_c
from app.settings.values import sqlite_path
from app.storage.errors import is_out_of_space
from app.storage.session import opened_database, require_owner

NICENESS = 10
"""The niceness of long work, so that the service comes first."""
R = TypeVar("R")


class Job(ABC, Generic[R]):
    """One piece of work on an installation, such as a load, a backup or a task of the console.

    A job reports progress to the functions that it is created with, such as `Waiting` and `Show`.
    """

    name = ""
    """The name under which its runs are recorded, and missed ones reported; or empty."""
    is_scheduled = False
    """Whether a timer started it, so that another run is expected."""
    niceness = 0
    logs_progress = True
    """Whether the log shows the progress, because nobody sees the output of the command."""
    is_alerted = False
    """Whether an alert about everything that is wrong is queued when it ends (D77)."""
    size_bytes: int | None = None
    """The size of the result, such as a backup, for the record of the run."""

    def lock(self, config: Config) -> AbstractContextManager[object]:
        """Return the lock of the job. Raises OperatorError if the job cannot run now.

        By default there is none: the work locks the register, the trail or the backups it changes.
        """
        return nullcontext()

    @abstractmethod
    def do(self, config: Config) -> R:
        """Do the work. Raises OperatorError, OSError or peewee.PeeweeException if it fails."""

    def faults(self, error: BaseException | None) -> list[str]:
        """Return a sentence for everything that failed, for the record of the run and its alert.

        SEC: alerts are sent, so no sentence may quote a message: that can have a record.

        Args:
            error: the error that ended the run; None if the run succeeded.
        """
        return [] if error is None else [reason_of(error)]


def run(job: Job[R]) -> R:
    """Run a job and return its result. TERM and Ctrl-C end it: it cleans up first.

    A named job's run is recorded, and marked while it lasts. A failure at a terminal is not sent
    at once, because somebody sees it: `verifyd watch` reports it the next morning if it is still
    wrong. An error in the record or the alert never hides why the job failed.

    Raises ConfigError, and what the job raises.
    """
    # Wrong settings fail the job, but its record and its alert need only a few.
    config, wrong = Config.read()
    if job.name:
        require_owner(config)  # The service could not use files of another user.
    # A mistyped URL must not create a state directory.
    database = sqlite_path(config.database_url)
    is_marked = bool(job.name) and (database is None or database.exists())
    started_at = clock.now()
    failure: BaseException | None = None
    try:
        with (
            progress_log() if job.logs_progress else nullcontext(),
            ended_like_ctrl_c(),
            running(config.state_dir, job.name) if is_marked else nullcontext(),
        ):
            os.nice(job.niceness)
            if wrong:
                raise ConfigError(wrong)
            with job.lock(config):
                return job.do(config)
    except BaseException as error:
        failure = error
        raise
    finally:
        ended = None
        if job.name:
            faults = shortened(job.faults(failure))
            ended = Run(job.name, job.is_scheduled, started_at, faults, job.size_bytes)
            with (
                suppress(OperatorError, OSError, peewee.PeeweeException),
                opened_database(config) as engine,
            ):
                record(engine, config.data_dir, ended)
        if job.is_alerted and (failure is None or not is_attended()):
            queue_alert(config, wrong, ended)


def queue_alert(config: Config, wrong: Sequence[str], ended: Run | None = None) -> None:
    """Queue an alert about everything that is wrong now, if anything is new.

    Args:
        wrong: the faults of the settings.
        ended: the run that ends now.
    """
    if config.notify:
        report(config, lambda: gathered_now(config, wrong, ended))


def gathered_now(
    config: Config, wrong: Sequence[str] = (), ended: Run | None = None
) -> FoundConditions:
    """Return everything that is wrong now, also if the database cannot be opened."""
    with (
        suppress(OperatorError, OSError, peewee.PeeweeException),
        opened_database(config) as engine,
    ):
        return gathered(engine, config, ended, wrong)
    return gathered(None, config, ended, wrong)


def is_attended() -> bool:
    """Tell whether somebody sees the messages of a command at a terminal."""
    return sys.stderr is not None and sys.stderr.isatty()


def reason_of(error: BaseException) -> str:
    """Return why a run failed, as a sentence that an alert may send."""
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
