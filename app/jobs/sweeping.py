"""The sweep of all watches as a job, and as the end of each load (D185, D187)."""

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import peewee

from app.accounts.administration import require_account
from app.accounts.models import subject_of
from app.accounts.usage.store import add_events
from app.actions import Actor, changing, record
from app.audit.record import Plate
from app.audit.recording import Recording, recording, said_by_command
from app.clock_steps import clock_fault, old_times
from app.config import Config
from app.errors import Hindered, OperatorError
from app.jobs.job import NICENESS, Job, run
from app.jobs.results import Results
from app.storage.engine import Engine
from app.storage.registers import require_readable
from app.storage.session import opened_database
from app.storage.stores import store_of
from app.text import as_sentence
from app.vehicles.reader import readers_for_watches
from app.vehicles.records import Read
from app.watches.feed import KEPT_DAYS
from app.watches.repository import Terms
from app.watches.sweep import (
    AccountToSweep,
    Sweep,
    Swept,
    SweptWatch,
    Tell,
    accept_held,
    accounts_to_sweep,
    prune_events,
)
from app.watches.tables import WatchFeed
from app.watches.words import told_plate

SWEEP = "sweep"
"""The name of the job, and of its records in the trail."""
# Locks like those of registers, none of which has such a name.
_LOCK, _HOLD_OFF_LOCK = ".sweep", ".drop"
SWEEP_LOCKS = {"sweeps": _LOCK, "the drop directory": _HOLD_OFF_LOCK}
"""What each lock of this module is of, for people."""
_DAY_SECONDS = 86_400
_log = logging.getLogger("verifyd.jobs")


class SweepRefused(OperatorError):
    """Nothing may be reported while the clock is not trusted. The message quotes no record."""


@dataclass(kw_only=True)
class SweepWatches(Job[list[Swept]]):
    """Sweeps the accounts for whom the day or a register has changed since their last sweep.

    The run is recorded only if there were ever watches, and if nothing runs that sweeps by itself.
    """

    name = SWEEP
    is_alerted = True

    is_scheduled: bool = False
    is_automatic: bool = False
    """Whether nobody asked for it, so that another sweep is no failure."""
    niceness: int = field(default_factory=lambda: max(0, NICENESS - os.nice(0)))
    """A load that ends with a sweep has its niceness already."""

    def __post_init__(self) -> None:
        """Log what nobody sees as the output of the command."""
        self.logs_progress = self.is_automatic

    def do(self, config: Config) -> list[Swept]:
        """Sweep. Raises Hindered if another sweep runs, and SweepRefused."""
        # Every service starts a sweep each hour, also one without watches and without a trail.
        Results(config.data_dir).remove_old()
        with opened_database(config) as engine, store_of(engine, _LOCK).tried_lock() as is_ours:
            is_needed = WatchFeed.select().exists(engine)
            is_held_off = store_of(engine, _HOLD_OFF_LOCK).is_locked()
            if not is_ours or is_held_off or not is_needed:
                self.name = ""  # There is no run to be recorded.
                self.is_alerted = False
                if self.is_automatic or not is_needed:
                    return []
                what = "a load of the drop directory" if is_held_off else "another sweep"
                raise Hindered(f"{what} is running, which also sweeps what has changed until then")
            if fault := clock_fault(config.data_dir):
                raise SweepRefused(f"the watches are not swept, because {fault}")
            try:
                swept = sweep_all(engine, config)
            except (peewee.DatabaseError, peewee.InterfaceError):
                require_readable(engine)
                raise
            prune_events(engine, old_times(config.data_dir, KEPT_DAYS * _DAY_SECONDS))
        # NOTE: one that holds nothing back tells nobody anything new.
        self.is_alerted = any(each.held for each in swept)
        return swept

    def faults(self, error: BaseException | None) -> list[str]:
        """Return why nothing was swept."""
        if isinstance(error, SweepRefused):
            return [as_sentence(str(error))]
        return super().faults(error)


def sweep_after_load() -> None:
    """Sweep what loads have changed, in the process that made them, after their locks.

    A failure is a warning, because the loads have succeeded. The next sweep does what is left.
    """
    try:
        run(SweepWatches(is_automatic=True))
    except KeyboardInterrupt:
        _log.warning("the sweep of the watches was stopped; the next one continues")
    except (OperatorError, OSError, peewee.DatabaseError, peewee.InterfaceError) as error:
        _log.warning("the watches could not be swept; the next sweep tries again: %s", error)
    except Exception as error:
        # SEC: only the stack is logged, because the message can quote a record.
        _log.exception("the watches could not be swept: unexpected %s", type(error).__name__)


@contextmanager
def sweeps_held_off(engine: Engine) -> Iterator[None]:
    """Let no sweep begin, on any host, because loads follow that belong together.

    Several hosts can load at the same time.
    """
    store = store_of(engine, _HOLD_OFF_LOCK)
    with store.tried_lock(shared=True):
        if store.lock_outlives_connection:
            engine.close()  # NOTE: a load that is forked must not find an open SQLite file.
        yield


def accept(engine: Engine, name: str, actor: Actor | None = None) -> int:
    """Let the next sweep of an account report what it holds back; return of how many watches.

    Args:
        actor: who accepts it; None for the user of this process.

    Raises OperatorError if there is no such account, if it is suspended, or holds nothing back.
    """
    with changing(engine):
        account = require_account(engine, name)
        held = WatchFeed.select(WatchFeed.held).where(WatchFeed.account == account.id)
        watches = int(held.scalar(engine) or 0)
        if not watches:
            raise OperatorError(f"no change of a watch of account {name} is held back")
        if account.suspended_at is not None:
            raise OperatorError(f"account {name} is suspended, so its watches are not swept")
        accept_held(engine, account.id)
        record(engine, actor, "watches.accept", subject_of(account), {"held": watches}, {"held": 0})
    return watches


def sweep_all(engine: Engine, config: Config) -> list[Swept]:
    """Sweep each account that is due, until none is: loads may end meanwhile.

    Raises as `Sweep.run` does; what was committed before stays.
    """
    swept = list[Swept]()
    readers = readers_for_watches(engine, config)
    settings = f"{','.join(config.register_order)} {dict(config.mot_first_years)}"
    said = {"operation": SWEEP, **said_by_command()}
    with recording(engine, config, said) as recorded:
        tell, records = _teller(engine, config, recorded), recorded.is_on

        def sweeps() -> list[Sweep]:
            return [
                Sweep(engine, readers[each.is_sandbox], each, settings, tell, records=records)
                for each in accounts_to_sweep(engine)
            ]

        due = [each for each in sweeps() if each.is_due or each.lacks_records]
        while due:
            for sweep in due:
                if store_of(engine, _HOLD_OFF_LOCK).is_locked():
                    return swept
                swept.append(sweep.run())
                _note(swept[-1])
            # NOTE: not `lacks_records`, because a host without a trail can add states all the time.
            due = [each for each in sweeps() if each.is_due]
    return swept


def _note(swept: Swept) -> None:
    name, watches, events, held = swept
    _log.info("watches of account %s swept: %d; events: %d", name, watches, events)
    if held:
        _log.warning(
            "account %s: a load has changed %d of %d watches, which is not reported; "
            'correct the load, or report it with "verifyd sweep --accept ACCOUNT"',
            name,
            held,
            watches,
        )


def _teller(engine: Engine, config: Config, recorded: Recording) -> Tell:
    """Return a function that records and counts the events of accounts, except sandboxes.

    It raises AuditError if that must be recorded, and cannot be.
    """

    def tell(account: AccountToSweep, told: Sequence[SweptWatch]) -> None:
        if account.is_sandbox:
            return
        recorded.record_each(_shown(account.name, each) for each in told)
        if events := sum(len(each.found.changes) for each in told):
            add_events(engine, account.id, account.name, events, config.timezone)

    return tell


def _shown(account: str, outcome: SweptWatch) -> Mapping[str, Any]:
    terms = outcome.watch.terms
    plate = told_plate(terms.registration, outcome.found.told)
    plate.events = [each.type for each in outcome.found.changes]
    if outcome.has_ended:
        plate.found = None
    return watch_shown(account, terms, plate, outcome.registers)


def watch_shown(account: str, terms: Terms, plate: Plate, registers: Read) -> Mapping[str, Any]:
    """Return what the trail has of one watch of an account, if a command tells it something."""
    return {
        "account": account,
        "reason": terms.reason,
        "reference": terms.reference,
        "plates": [plate],
        "registers": registers,
    }
