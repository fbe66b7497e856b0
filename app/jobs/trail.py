"""Seal and prune of the audit trail as jobs (D116, D119). Neither needs the database."""

import logging
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial

import msgspec
import peewee

from app.actions import Name, Subject, changing, record, session
from app.audit.digests import latest
from app.audit.hosts import record_gap
from app.audit.owner import find_owner, require_own
from app.audit.prune import Pruned, PruneRefused, prune
from app.audit.record import Upkeep
from app.audit.seal import Sealed, seal
from app.clock_steps import clock_fault
from app.config import Config
from app.errors import OperatorError
from app.jobs.job import NICENESS, Job
from app.jobs.results import Results
from app.storage import reserve
from app.storage.interface import Waiting
from app.storage.session import opened_database
from app.storage.versions import database_id
from app.text import as_sentence

_log = logging.getLogger("verifyd.jobs")


@dataclass(kw_only=True)
class SealTrail(Job[Sealed | None]):
    """Seals everything that was recorded until now; a timer's run only hours that are over."""

    is_scheduled: bool
    is_background: bool
    """Whether a service started it."""
    waiting: Waiting
    """Tells the user what the job waits for."""

    def __post_init__(self) -> None:
        """Let the service come first."""
        self.niceness = NICENESS if self.is_background else 0

    def do(self, config: Config) -> Sealed | None:
        """Seal the trail. Return None if a timer runs where nothing was ever recorded."""
        # Its timer runs every hour, also while the service and so its sweeps are stopped.
        Results(config.data_dir).remove_old()
        directory = config.audit_dir
        if self.is_scheduled and find_owner(directory) is None:
            return None
        with (
            self.waiting("the segments to be sealed"),
            _explained(f"the audit trail in {directory} cannot be sealed"),
        ):
            done = seal(directory, current=not self.is_scheduled)
        # A journal that leaves the host is a text for `verify --digests`.
        _log.info("audit trail sealed: segments %d; %s", len(done.seals), latest(directory) or "-")
        _record_gap(config)
        return done


def _record_gap(config: Config) -> None:
    """Record a gap that could not be when the service started, as on a full disk (D166).

    A trail can be sealed without its database. Then the next start or seal tries again.
    """
    with (
        suppress(OperatorError, peewee.PeeweeException, OSError),
        opened_database(config) as engine,
    ):
        record_gap(engine, config.audit_dir, require_own(config.audit_dir, database_id(engine)))


@dataclass(kw_only=True)
class PruneTrail(Job[Pruned | None]):
    """Removes records that are older than an age."""

    name = "prune"
    niceness = NICENESS
    is_alerted = True

    keep: str | None
    """The age; None for that of VERIFYD_AUDIT_KEEP."""
    accepted: Sequence[str]
    """What a person accepts for this run."""
    is_scheduled: bool
    waiting: Waiting
    """Tells the user what the job waits for."""

    def do(self, config: Config) -> Pruned | None:
        """Prune the trail. Return None if a timer runs where nothing was ever recorded.

        A trail that is switched off is still pruned: its records still grow old.
        """
        directory = config.audit_dir
        if self.is_scheduled and find_owner(directory) is None:
            return None
        jump = clock_fault(config.data_dir)
        with (
            self.waiting("old segments to be removed"),
            _explained(f"records of the audit trail in {directory} cannot be removed"),
        ):
            done = prune(
                directory,
                self.keep or config.audit_keep,
                setting=config.audit_keep,
                accepted=self.accepted,
                jump=jump,
                by=session(),
                noted=None if self.is_scheduled else partial(record_action, config, "audit.prune"),
            )
        _log.info(
            "audit trail pruned: segments %d; %s", len(done.segments), latest(directory) or "-"
        )
        return done

    def faults(self, error: BaseException | None) -> list[str]:
        """Return why nothing was removed, with the command that removes it all the same."""
        if isinstance(error, PruneRefused):
            return [as_sentence(str(error))]
        return super().faults(error)


def record_action(config: Config, action: Name, note: Upkeep, reason: str | None = None) -> None:
    """Record what an operator did to the trail as an action, too, if the database can be written.

    Neither prune nor acknowledge needs the database, and the trail has its own record.
    """
    after = msgspec.to_builtins(note) | ({"reason": reason} if reason else {})

    def write() -> None:
        with changing(engine):
            record(engine, None, action, Subject("host", socket.gethostname()), None, after)

    try:
        with opened_database(config) as engine:
            reserve.with_reserve(engine, write)
    except (OperatorError, peewee.PeeweeException, OSError) as error:
        _log.warning("%s is recorded in the trail, but not as an action: %s", action, error)


@contextmanager
def _explained(what: str) -> Iterator[None]:
    """Name the work that a disk error stopped, and say that the next run continues."""
    try:
        yield
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        raise OperatorError(
            f"{what} now: {where}{error.strerror}; the next run continues"
        ) from error
