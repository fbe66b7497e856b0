"""An account's watches in the database; another account's do not exist here (D4, D183)."""

import secrets
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import peewee

from app import clock
from app.storage.engine import Engine, Prepared, parameter
from app.storage.registers import list_entries
from app.watches.tables import Watch, WatchEvent, WatchFeed
from app.watches.told import ToldChecks, decode, digest_of, encode

_CHANGE_LOCK = 0x766677  # Postgres locks by numbers; any number serves.
_FEED_BYTES = 4


class Terms(NamedTuple):
    """What a client wants of a watch."""

    registration: str
    """The canonical form."""
    lead_days: tuple[int, ...] = ()
    """The greatest first."""
    reference: str | None = None
    reason: str | None = None
    until: str | None = None
    """ISO date of its last day; None for no end."""


class StoredWatch(NamedTuple):
    """A watch that an account has."""

    id: int
    terms: Terms
    created_at: int
    """Unix seconds."""
    day: str
    """ISO date that `told` was judged on, except checks that are held back."""
    told: ToldChecks
    recorded: str | None
    """The digest of the state that the audit trail has; None if it has none."""

    @property
    def is_recorded(self) -> bool:
        """Whether the audit trail has the state."""
        return self.recorded == digest_of(self.told)

    @property
    def as_of(self) -> str:
        """The oldest day that anything of `told` was judged on."""
        return min([self.day, *(check.day for check in self.told or () if check.day)])


class Edit(NamedTuple):
    """What to do with the watches of an account. Each plate is in it once."""

    wanted: Sequence[Terms]
    """The watches to create or replace."""
    unwanted: Sequence[str] = ()
    """The plates whose watches to remove."""


class WatchesChange(NamedTuple):
    """What a change of watches did."""

    watches: Mapping[str, StoredWatch]
    """Those that were created or replaced, by plate."""
    created: Collection[str]
    """The plates of those that are new."""
    removed: Collection[str]
    """The plates of those that there were."""


Look = Callable[[Sequence[str]], Mapping[str, ToldChecks]]
"""Looks plates up today, in the registers as they are now; returns what the account will have been
told about each of them."""
Tell = Callable[[Sequence[Terms], Mapping[str, ToldChecks]], object]
"""Records states of watches that the audit trail does not have, before anybody can read them."""
_TERMS = (Watch.registration, Watch.lead_days, Watch.reference, Watch.reason, Watch.until)
COLUMNS = (Watch.id, *_TERMS, Watch.created_at, Watch.day, Watch.told, Watch.recorded)


def watch_of(row: Sequence[object]) -> StoredWatch:
    """Return the watch of a row with all columns but the account."""
    number, registration, leads, reference, reason, until, created_at, day, told, recorded = row
    lead_days = tuple(map(int, str(leads).split(","))) if leads else ()
    terms = Terms(str(registration), lead_days, reference, reason, until)  # type: ignore[arg-type]
    state = decode(str(told))
    return StoredWatch(number, terms, created_at, str(day), state, recorded)  # type: ignore[arg-type]


class Watches:
    """Lists, finds, sets and removes the watches of accounts."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        of_account = Watch.account == parameter("account")
        self._find = Prepared(
            engine,
            lambda: Watch.select(*COLUMNS).where(
                of_account
                & Watch.registration.in_(engine.each_of(parameter("plates"), "registration"))
            ),
        )
        self._list = Prepared(
            engine,
            lambda: (
                Watch.select(*COLUMNS)
                .where(of_account & (Watch.registration > parameter("after")))
                .order_by(Watch.registration)
                .limit(parameter("limit"))
            ),
        )

    def list_watches(self, account_id: int, after: str = "", limit: int = 1) -> list[StoredWatch]:
        """Return the account's watches by plate: at most `limit`, from plates after `after`."""
        return list(map(watch_of, self._list.rows(account=account_id, after=after, limit=limit)))

    def find_watches(self, account_id: int, registrations: Sequence[str]) -> dict[str, StoredWatch]:
        """Return the account's watches of these plates, by plate."""
        plates = self._engine.listed(sorted(set(registrations)))
        found = map(watch_of, self._find.rows(account=account_id, plates=plates))
        return {watch.terms.registration: watch for watch in found}

    def count(self, account_id: int) -> int:
        """Return how many watches the account has."""
        return int(Watch.select().where(Watch.account == account_id).count(self._engine))

    def change_watches(
        self,
        account_id: int,
        edit: Edit,
        watches_max: int,
        look: Look,
        day: str,
        tell: Tell | None,
        *,
        note: Callable[[WatchesChange], object] = lambda _: None,
    ) -> WatchesChange:
        """Create, replace and remove watches together.

        A watch that is replaced keeps the state that was told last. A new one gets today's.

        Args:
            watches_max: how many watches the account may have. New ones beyond it are left out,
                the last ones first.
            day: today as an ISO date.
            tell: None if nothing is recorded.
            note: called with the result before the commit, once nothing else can fail.

        Raises what `look` and `tell` raise; then nothing has changed.
        """
        wanted, unwanted = edit
        plates = [each.registration for each in wanted]
        while True:
            loads = loads_of(self._engine)
            held = self.find_watches(account_id, plates)
            missing = [each for each in plates if each not in held]
            # NOTE: outside the transaction, because SQLite attaches no file within one.
            looked_up = look(missing) if missing else {}
            with changing_watches(self._engine, account_id):
                held = self.find_watches(account_id, plates)
                new = [each for each in wanted if each.registration not in held]
                is_known = looked_up.keys() >= {each.registration for each in new}
                if new and (not is_known or loads != loads_of(self._engine)):
                    # A watch was removed meanwhile, or a load may have been swept already.
                    continue
                removed = self._remove(account_id, unwanted)
                room = max(0, watches_max - self.count(account_id)) if new else 0
                new = new[:room]
                told = {each.registration: looked_up[each.registration] for each in new}
                kept = [each for each in wanted if each.registration in held]
                self._write(account_id, [*kept, *new], held, told, day, records=tell is not None)
                if new:
                    ensure_feed(self._engine, account_id)
                if tell is not None:
                    # The answer to a replacement shows the state that is kept.
                    unrecorded = [e for e in kept if not held[e.registration].is_recorded]
                    known = {e.registration: held[e.registration].told for e in unrecorded}
                    if unrecorded or new:
                        tell([*new, *unrecorded], {**told, **known})
                changed = WatchesChange(self.find_watches(account_id, plates), told.keys(), removed)
                note(changed)
                return changed

    def _write(
        self,
        account_id: int,
        wanted: Iterable[Terms],
        known: Mapping[str, StoredWatch],
        told: Mapping[str, ToldChecks],
        day: str,
        *,
        records: bool,
    ) -> None:
        now = clock.now()
        rows = []
        for terms in wanted:
            plate, lead_days, *others = terms
            kept = known.get(plate)
            judged_on, state = (day, told[plate]) if kept is None else (kept.day, kept.told)
            leads = ",".join(map(str, lead_days))
            text = encode(state).decode()
            recorded = digest_of(state) if records else None
            rows.append((account_id, plate, leads, *others, now, judged_on, text, recorded))
        replaced = ("lead_days", "reference", "reason", "until")
        columns = ("account_id", "registration", *replaced, "created_at", "day", "told", "recorded")
        places = ", ".join([self._engine.param] * len(columns))
        kept_columns = ", ".join(f"{name} = excluded.{name}" for name in replaced)
        kept_columns += ", recorded = COALESCE(excluded.recorded, watch.recorded)"
        self._engine.run_many(
            f"INSERT INTO watch ({', '.join(columns)}) VALUES ({places}) "  # noqa: S608 - ours
            f"ON CONFLICT (account_id, registration) DO UPDATE SET {kept_columns}",
            rows,
        )

    def set_day(self, account_id: int, registrations: Sequence[str], day: str) -> None:
        """Note that what was told about these plates is still right on a later day.

        PERF: with one statement for many plates, sweeps on Postgres take a quarter less.
        """
        listed_plates = peewee.Value(self._engine.listed(registrations), unpack=False)
        plates = self._engine.each_of(listed_plates, "registration")
        update = Watch.update(day=day).where(Watch.account == account_id)
        update.where(Watch.registration.in_(plates)).execute(self._engine)

    def remove_watches(self, account_id: int, registrations: Sequence[str]) -> Collection[str]:
        """Remove the account's watches of these plates; return those that there were."""
        with changing_watches(self._engine, account_id):
            return self._remove(account_id, registrations)

    def _remove(self, account_id: int, registrations: Sequence[str]) -> Collection[str]:
        held = self.find_watches(account_id, registrations) if registrations else {}
        place = self._engine.param
        self._engine.run_many(
            f"DELETE FROM watch WHERE account_id = {place} AND registration = {place}",  # noqa: S608 - ours
            [(account_id, each) for each in held],
        )
        return held.keys()


def loads_of(engine: Engine) -> str:
    """Return a text that each load, rollback or drop changes."""
    entries = list_entries(engine)
    return " ".join(f"{each.name}/{each.generation}/{each.last_load}" for each in entries)


@contextmanager
def changing_watches(engine: Engine, account_id: int) -> Iterator[None]:
    """Begin a transaction that changes watches of an account. Others wait for its end.

    So the number of watches and the numbers of events are right, also on Postgres.
    """
    with engine.atomic():
        engine.take_advisory_lock(_CHANGE_LOCK, account_id)
        yield


def ensure_feed(engine: Engine, account_id: int) -> None:
    """Create the account's row of its feed, if it has none. Needs a transaction."""
    row = WatchFeed.insert(account=account_id, feed=secrets.token_hex(_FEED_BYTES))
    row.on_conflict_ignore().execute(engine)


def renew_feeds(engine: Engine) -> None:
    """Refuse all cursors of before, because a restored database gives numbers again (D186)."""
    with engine.atomic():
        for (account_id,) in WatchFeed.select(WatchFeed.account).tuples().execute(engine):
            update = WatchFeed.update(feed=secrets.token_hex(_FEED_BYTES))
            update.where(WatchFeed.account == account_id).execute(engine)


def count_of_account(engine: Engine, account_id: int) -> dict[str, int]:
    """Return how many watches and events an account has, which are deleted with it."""
    watches = Watch.select().where(Watch.account == account_id)
    events = WatchEvent.select().where(WatchEvent.account == account_id)
    return {"watches": int(watches.count(engine)), "events": int(events.count(engine))}
