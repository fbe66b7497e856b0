"""Compares all watched plates with what was told about them, and writes the events (D185).

Each account is swept in two passes. The first one reports what the calendar has changed, and finds
out which watches a load has changed. If these are not suspiciously many, the second one reports
them, too. Events and new states are committed together, a few watches at a time. So a sweep can be
killed, and run again or beside another one, at any time.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from datetime import date, timedelta
from functools import partial
from typing import NamedTuple

import peewee
from peewee import fn

from app import clock
from app.accounts.models import Account, Plan
from app.storage.engine import Engine
from app.storage.registers import with_current_registers
from app.vehicles.facts import Record, WantedFields
from app.vehicles.reader import FoundPlate, VehicleReader
from app.vehicles.records import Read
from app.watches.changes import NewEvent, WatchComparison, compare
from app.watches.repository import StoredWatch, Watches, changing_watches, loads_of
from app.watches.tables import Watch, WatchEvent, WatchFeed
from app.watches.told import Seen, body_of, digest_of, encode

PIECE_WATCHES = 1_000
"""Watches that are committed together. That takes at most some 0.1 s."""
HELD_SHARE = 0.05
HELD_MIN = 20
"""Changes by loads are held back if they concern at least so many watches, and more of the
account's watches than this share."""
_AHEAD_DAYS = 3
"""How many days ahead of today a state can be because the clock was set back. The clock that made
a later one is no longer trusted (D162)."""
_ACCEPTED = "accepted "
"""What `swept` begins with once an operator has accepted what is held back."""
WANTED = WantedFields(vehicle=False, papers=True, dates=True)


class SweptWatch(NamedTuple):
    """What the sweep found out about one watch."""

    watch: StoredWatch
    """As it was before."""
    found: WatchComparison
    has_ended: bool
    """Whether its last day is over."""
    registers: Read
    """The registers that it was looked up in."""


class Swept(NamedTuple):
    """What the sweep of one account did."""

    account: str
    watches: int
    events: int
    held: int
    """How many watches have changes that are held back."""


class AccountToSweep(NamedTuple):
    """An account with watches, or with changes that are held back."""

    id: int
    name: str
    is_sandbox: bool
    swept: str | None
    """The day and the registers of its last sweep; `accepted` before it (`accept_held`)."""
    has_unrecorded: bool
    """Whether it has watches whose states were stored without the audit trail."""


Tell = Callable[[AccountToSweep, Sequence[SweptWatch]], object]
"""Records events and new states of an account before the commit, so nobody can read them yet."""


def accounts_to_sweep(engine: Engine) -> list[AccountToSweep]:
    """Return the active accounts that have watches, or had some that were held back, by number.

    Those that have no watch any more are always due.
    """
    of_account = Watch.select().where(Watch.account == Account.id)
    has_watches = fn.EXISTS(of_account)
    has_unrecorded = fn.EXISTS(of_account.where(Watch.recorded.is_null()))
    swept = peewee.Case(None, [(has_watches, WatchFeed.swept)])
    query = (
        Account.select(Account.id, Account.name, Plan.sandbox == "on", swept, has_unrecorded)
        .join(Plan)
        .join(WatchFeed, on=(WatchFeed.account == Account.id))
        .where(Account.suspended_at.is_null(), has_watches | (WatchFeed.held > 0))
        .order_by(Account.id)
    )
    return [
        AccountToSweep(number, name, bool(is_sandbox), swept, bool(unrecorded))
        for number, name, is_sandbox, swept, unrecorded in query.tuples().execute(engine)
    ]


class _LoadEnded(Exception):
    """A load, rollback or drop has ended since the sweep began."""


class Sweep:
    """The sweep of one account, a few watches at a time.

    Args:
        reader: that of the registers, or that of a sandbox if the account is one.
        settings: what else decides answers, as text; a difference counts as that of a load.
        tell: records events and new states before they can be read.
        records: whether `tell` has an audit trail. Then it gets each state that this one lacks,
            except of a sandbox.
    """

    def __init__(
        self,
        engine: Engine,
        reader: VehicleReader,
        account: AccountToSweep,
        settings: str,
        tell: Tell,
        *,
        records: bool = False,
    ) -> None:
        self._engine = engine
        self._watches = Watches(engine)
        self._reader = reader
        self._account = account
        self._settings = settings
        self._tell = tell
        self._records = records and not account.is_sandbox
        self._events = 0

    @property
    def is_due(self) -> bool:
        """Whether the day or the registers have changed since the account's last sweep."""
        return self._account.swept != self._state()

    @property
    def lacks_records(self) -> bool:
        """Whether the trail lacks states that were stored without it (D187)."""
        return self._records and self._account.has_unrecorded

    def _state(self) -> str:
        """Return what the sweep depends on: the day, the registers, the settings."""
        today = self._reader.day(None)
        if self._account.is_sandbox:
            return today
        return " ".join([today, self._settings, loads_of(self._engine)])

    def run(self) -> Swept:
        """Sweep the watches of the account.

        A load that ends meanwhile ends the sweep, because it may be one of many that belong
        together. Then the account is still due.

        Raises what the engine, the reader and `tell` raise. What was committed before stays.
        """
        engine, account = self._engine, self._account
        # NOTE: this waits for requests that store a state of before the last load, on Postgres.
        with changing_watches(engine, account.id):
            state = self._state()
        # Not before, because it can take hours until an account's turn comes.
        self._today = self._reader.day(None)
        ahead = date.fromisoformat(self._today) + timedelta(_AHEAD_DAYS)
        self._last_sound_day = ahead.isoformat()
        self._loads = loads_of(engine)
        watches, after, waiting = 0, "", list[str]()
        try:
            while piece := self._watches.list_watches(account.id, after, PIECE_WATCHES):
                watches, after = watches + len(piece), piece[-1].terms.registration
                waiting += self._sweep(piece, reports_loads=False)
            accepted = f"{_ACCEPTED}{state}"
            if account.swept == accepted or not _is_suspicious(len(waiting), watches):
                while waiting:
                    some, waiting = waiting[:PIECE_WATCHES], waiting[PIECE_WATCHES:]
                    self._sweep(self._find_watches(some), reports_loads=True)
        except _LoadEnded:
            return Swept(account.name, watches, self._events, 0)
        held, now = len(waiting), clock.now()
        held_at = fn.COALESCE(WatchFeed.held_at, now) if held else None
        with changing_watches(engine, account.id):
            update = WatchFeed.update(swept=state, swept_at=now, held=held, held_at=held_at)
            update.where(WatchFeed.account == account.id).execute(engine)
        return Swept(account.name, watches, self._events, held)

    def _find_watches(self, plates: Sequence[str]) -> list[StoredWatch]:
        return list(self._watches.find_watches(self._account.id, plates).values())

    def _sweep(self, watches: Sequence[StoredWatch], *, reports_loads: bool) -> list[str]:
        """Sweep some watches; return the plates whose changes by loads were not reported."""
        waiting: list[str] = []
        while watches:
            outcomes = list(self._outcomes(watches, reports_loads=reports_loads))
            changed = [each for each in outcomes if self._has_changed(each)]
            overtaken = self._write(changed) if changed else set()
            held = (each.watch.terms.registration for each in outcomes if each.found.is_held)
            waiting += (plate for plate in held if plate not in overtaken)
            watches = self._find_watches([*overtaken])
        return waiting

    def _has_changed(self, outcome: SweptWatch) -> bool:
        watch, found, has_ended, _ = outcome
        is_new_day = watch.day != self._day_to_store(outcome)
        is_changed = is_new_day or watch.told != found.told
        return has_ended or is_changed or self._is_unrecorded(outcome)

    def _is_unrecorded(self, outcome: SweptWatch) -> bool:
        """Tell whether the trail lacks the state, as after a load that only moved a last day."""
        return self._records and outcome.watch.recorded != digest_of(outcome.found.told)

    def _day_to_store(self, outcome: SweptWatch) -> str:
        # A check that is held back has its own day; an unknown vehicle has no check.
        keeps_day = outcome.found.told is None and outcome.found.is_held
        return outcome.watch.day if keeps_day else self._day_of(outcome.watch)

    def _day_of(self, watch: StoredWatch) -> str:
        """Return the day to judge a watch on.

        After the clock was set back a little, no day is judged twice. A state that a wrong clock
        made far ahead would otherwise stay until then.
        """
        return watch.day if self._today < watch.day <= self._last_sound_day else self._today

    def _outcomes(
        self, watches: Sequence[StoredWatch], *, reports_loads: bool
    ) -> Iterator[SweptWatch]:
        by_day: dict[str, list[StoredWatch]] = defaultdict(list)
        for watch in watches:
            until = watch.terms.until
            if until is not None and until < self._today:
                ended = NewEvent("watch.ended", watch.told, None)
                yield SweptWatch(watch, WatchComparison(None, [ended]), True, {})
            else:
                by_day[min(watch.as_of, self._day_of(watch))].append(watch)
        for first_day, some in by_day.items():
            plates = [watch.terms.registration for watch in some]
            records, read = self._look_up(plates, first_day)
            for watch, each in zip(some, records, strict=True):
                find = partial(self._find, watch.terms.registration)
                seen = Seen(each.record, first_day, find)
                today, leads = self._day_of(watch), watch.terms.lead_days
                found = compare(
                    watch.told, watch.day, leads, seen, today, reports_loads=reports_loads
                )
                yield SweptWatch(watch, found, False, read)

    def _look_up(self, plates: Sequence[str], day: str) -> tuple[list[FoundPlate], Read]:
        return with_current_registers(
            self._engine, lambda state: self._reader.look_up(state, plates, day, WANTED)
        )

    def _find(self, plate: str, day: str) -> Record | None:
        (found,), _ = self._look_up([plate], day)
        return found.record

    def _write(self, changed: Sequence[SweptWatch]) -> set[str]:
        """Commit events together with the states that they lead to.

        Returns the plates whose watches somebody has changed since; nothing of these is committed.
        """
        engine, account = self._engine, self._account
        with changing_watches(engine, account.id):
            if loads_of(engine) != self._loads:
                raise _LoadEnded
            by_plate = {each.watch.terms.registration: each for each in changed}
            now = self._watches.find_watches(account.id, [*by_plate])
            overtaken = {plate for plate, each in by_plate.items() if now.get(plate) != each.watch}
            same = [each for plate, each in by_plate.items() if plate not in overtaken]
            told = [each for each in same if each.found.changes or self._is_unrecorded(each)]
            if told:
                self._tell(account, told)
                self._add_events(told)
            self._store(same)
        return overtaken

    def _add_events(self, outcomes: Sequence[SweptWatch]) -> None:
        engine, account_id = self._engine, self._account.id
        is_it = WatchFeed.account == account_id
        number = WatchFeed.select(WatchFeed.last_event).where(is_it).scalar(engine)
        at, rows = clock.now(), []
        for watch, found, *_ in outcomes:
            terms = watch.terms
            for change in found.changes:
                number += 1
                states = (body_of(change.before), body_of(change.after))
                about = (change.type, terms.registration, terms.reference)
                rows.append((account_id, number, at, *about, *states))
        columns = "account_id, number, at, type, registration, reference, before, after"
        places = ", ".join([engine.param] * len(columns.split(", ")))
        engine.run_many(f"INSERT INTO watch_event ({columns}) VALUES ({places})", rows)  # noqa: S608 - ours
        WatchFeed.update(last_event=number).where(is_it).execute(engine)
        self._events += len(rows)

    def _store(self, outcomes: Sequence[SweptWatch]) -> None:
        """Delete the watches that have ended, and store the states of the others."""
        engine, ended, states, same = self._engine, list[int](), [], list[str]()
        for outcome in outcomes:
            watch, found, has_ended, _ = outcome
            if has_ended:
                ended.append(watch.id)
            elif found.told == watch.told and not self._is_unrecorded(outcome):
                same.append(watch.terms.registration)
            else:
                recorded = digest_of(found.told) if self._records else None
                state = (self._day_to_store(outcome), encode(found.told).decode(), recorded)
                states.append((*state, watch.id))
        Watch.delete().where(Watch.id.in_(ended)).execute(engine)
        self._watches.set_day(self._account.id, same, self._today)
        place = engine.param
        values = ", ".join(f"{name} = {place}" for name in ("day", "told", "recorded"))
        update = f"UPDATE watch SET {values} WHERE id = {place}"  # noqa: S608 - ours
        engine.run_many(update, states)


def accept_held(engine: Engine, account_id: int) -> None:
    """Have the next sweep of an account report what it holds back. Needs a transaction.

    This counts only for the day and the registers of the last sweep, which somebody has seen: after
    midnight or another load, changes are judged, and may be held back, again.
    """
    update = WatchFeed.update(swept=_ACCEPTED + WatchFeed.swept).where(
        WatchFeed.account == account_id, WatchFeed.held > 0, ~WatchFeed.swept.startswith(_ACCEPTED)
    )
    update.execute(engine)


def is_accepted(swept: str | None) -> bool:
    """Tell whether a next sweep is to report what is held back, given `WatchFeed.swept`."""
    return swept is not None and swept.startswith(_ACCEPTED)


def _is_suspicious(changed: int, watches: int) -> bool:
    """Tell whether a load has changed so many watches of an account that it may be a bad one."""
    return changed >= HELD_MIN and changed > HELD_SHARE * watches


_PRUNED_EVENTS = 10_000


def prune_events(engine: Engine, old: range) -> None:
    """Remove events of these times (Unix seconds), some thousands in each transaction."""
    is_old = WatchEvent.at.between(old.start, old.stop - 1)
    query = WatchEvent.select(WatchEvent.at).where(is_old).order_by(WatchEvent.at)
    while (first := query.limit(1).scalar(engine)) is not None:
        last = query.limit(1).offset(_PRUNED_EVENTS).scalar(engine)
        until = old.stop - 1 if last is None else max(first, last - 1)
        WatchEvent.delete().where(WatchEvent.at.between(old.start, until)).execute(engine)
