"""Watches of an installation, set and swept without a server or a command."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from app.accounts.models import Account
from app.config import Config
from app.storage.engine import Engine
from app.storage.registers import read_state
from app.vehicles.reader import VehicleReader
from app.vehicles.records import Records
from app.watches.feed import Event, Feed
from app.watches.repository import Edit, Terms, Watches
from app.watches.sweep import (
    WANTED,
    AccountToSweep,
    Sweep,
    Swept,
    accept_held,
    accounts_to_sweep,
)
from app.watches.told import ToldChecks, told_by_plate


class Watched:
    """Accounts with watches, on a connection of its own if the engine is.

    Args:
        order, first_years: as the settings have them.
    """

    def __init__(
        self,
        config: Config,
        engine: Engine,
        order: tuple[str, ...] = (),
        first_years: Mapping[str, int] | None = None,
    ) -> None:
        self.engine = engine
        config = replace(config, register_order=order, mot_first_years=first_years or {"*": 0})
        self.reader = VehicleReader(Records(engine, config, is_for_watches=True), config)
        self.ids = dict(Account.select(Account.name, Account.id).tuples().execute(engine))
        self.watches = Watches(engine)
        self.told: list[tuple[str, str, str]] = []
        """What was recorded: account, plate and type."""
        self._feed = Feed(engine)
        self._cursors: dict[str, str] = {}

    def _tell(self, account: Any, outcomes: Sequence[Any]) -> None:
        for outcome in outcomes:
            plate = outcome.watch.terms.registration
            self.told += [(account.name, plate, change.type) for change in outcome.found.changes]

    def look(self, plates: Sequence[str]) -> dict[str, ToldChecks]:
        """Look plates up today."""
        day = self.reader.day(None)
        found, _ = self.reader.look_up(read_state(self.engine), plates, day, WANTED)
        return told_by_plate(found, day)

    def put(self, account: str, terms: Sequence[Terms], *, records: bool = True) -> None:
        """Create or replace watches with one request."""
        day, tell = self.reader.day(None), (lambda *_: None) if records else None
        number = self.ids[account]
        self.watches.change_watches(number, Edit(terms), 1_000_000, self.look, day, tell)

    def watch(self, *plates: str, leads: tuple[int, ...] = ()) -> None:
        """Create or replace watches of the account alice."""
        self.put("alice", [Terms(plate, leads) for plate in plates])

    def remove(self, account: str, plates: Sequence[str]) -> None:
        """Remove watches."""
        self.watches.remove_watches(self.ids[account], plates)

    def sweep_of(self, account: AccountToSweep) -> Sweep:
        """Return the sweep of an account."""
        return Sweep(self.engine, self.reader, account, "", self._tell, records=True)

    def sweep(self) -> list[Swept]:
        """Sweep all accounts, due or not."""
        return [self.sweep_of(each).run() for each in accounts_to_sweep(self.engine)]

    def accept(self, account: str = "alice") -> None:
        """Let the next sweep report what the last one held back."""
        accept_held(self.engine, self.ids[account])

    def new_events(self, account: str = "alice") -> list[Event]:
        """Return the account's events since the last call."""
        cursor = self._cursors.get(account)
        page = self._feed.list_events(self.ids[account], cursor, 1_000_000)
        if page.next is not None:
            self._cursors[account] = page.next
        assert not page.has_more
        return page.events

    def news(self, account: str = "alice") -> list[tuple[str, str]]:
        """Return the types and plates of the account's new events."""
        return [(each.type, each.registration) for each in self.new_events(account)]
