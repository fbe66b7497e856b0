"""Sixty simulated days of watches, compared with an independent model (D184, D185)."""

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from app import clock
from app.accounts.administration import create_account, resume_account, suspend_account
from app.accounts.models import Account
from app.registers.formats.changes import PolicyRow
from app.storage.registers import read_state
from app.vehicles.reader import VehicleReader
from app.vehicles.records import Records
from app.watches.feed import Feed
from app.watches.repository import Terms, Watches
from app.watches.sweep import WANTED, Sweep, accounts_to_sweep
from app.watches.told import answer_of, checks_of
from tests.conftest import STORAGE, World
from tests.unit.watch_registers import FIRST_YEARS, NAMES, ORDER, Life, Registers, shifted
from tests.unit.watches_model import Event, ModelAccount

FIRST_DAY = "2028-01-15"
PLATES = [f"AB{number:02}CDE" for number in range(70)]
MANY = PLATES[0]
"""A plate with more policies than a look-up reads."""
LEADS = ((), (28,), (28, 14), (30, 7, 1), (60, 28, 14, 7))


class Days:
    """An installation that lives some days beside its model."""

    def __init__(self, world: World, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
        self.engine = world.engine
        self.chance = random.Random(seed)
        self.registers = Registers(world)
        self.life = Life(self.chance, PLATES)
        create_account(self.engine, "carol", "standard")
        self.ids = dict(Account.select(Account.name, Account.id).tuples().execute(self.engine))
        self.models = {name: ModelAccount() for name in self.ids}
        self.suspended: set[str] = set()
        self.seen: Counter[str] = Counter()
        self.told: list[tuple[str, str]] = []
        records = Records(self.engine, ORDER, FIRST_YEARS)
        self.reader = VehicleReader(records, world.config)
        self.watches, self.feed = Watches(self.engine), Feed(self.engine)
        self._sweep = Sweep(self.engine, lambda _: self.reader, "", self._tell)
        self._cursors: dict[str, str | None] = dict.fromkeys(self.ids)
        self.day = FIRST_DAY
        noon = {"now": lambda: 1_800_000_000, "today": lambda _: clock.parse_iso_date(self.day)}
        for name, replacement in noon.items():
            monkeypatch.setattr(clock, name, replacement)

    def _tell(self, account: str, outcomes: Sequence[Any]) -> None:
        for each in outcomes:
            self.told += [(account, change.type) for change in each.found.changes]

    def put(self, account: str, terms: Sequence[Terms]) -> None:
        """Create or replace watches with one request."""

        def look(missing: Sequence[str]) -> Any:
            found, _ = self.reader.look_up(read_state(self.engine), missing, self.day, WANTED)
            return {e.asked: e.record and checks_of(e.record, self.day) for e in found}

        number, tell = self.ids[account], lambda *_: None
        self.watches.set_watches(number, terms, 1_000, look, self.day, tell)
        for plate, leads, reference, _, until in terms:
            self.models[account].put(
                self.registers.judge, self.day, plate, leads, reference, until
            )

    def remove(self, account: str, plates: Sequence[str]) -> None:
        """Remove watches."""
        self.watches.remove_watches(self.ids[account], plates)
        for plate in plates:
            self.models[account].watches.pop(plate, None)

    def sweep(self, accepts: str = "") -> None:
        """Sweep all accounts that need it, and compare the events and the states."""
        due = {each.name: each for each in accounts_to_sweep(self.engine)}
        assert due.keys().isdisjoint(self.suspended)
        for name, account in due.items():
            model, is_accepted = self.models[name], name == accepts
            if self._sweep.state(account) == account.swept and not is_accepted:
                continue
            swept = self._sweep.run(account, accepts_loads=is_accepted)
            expected, held = model.sweep(self.registers.judge, self.day, accepts=is_accepted)
            assert (self.events(name), swept.held) == (_sorted(expected), held), (self.day, name)
            assert self._sweep.run(account)[2:] == (0, held)
            self.seen.update(each.type for each in expected)
            self.seen["held"] += bool(held)
            self.seen["accepted"] += is_accepted and bool(expected)
        self.require_states()

    def events(self, account: str) -> list[Event]:
        """Return the account's events since the last call."""
        page = self.feed.list_events(self.ids[account], self._cursors[account], 10_000)
        numbers = [each.number for each in page.events]
        first = page.last_event - len(numbers) + 1
        assert numbers == list(range(first, page.last_event + 1))
        self._cursors[account] = f"{page.feed}-{page.last_event}"
        assert [kind for name, kind in self.told if name == account] == [
            each.type for each in page.events
        ]
        self.told = [each for each in self.told if each[0] != account]
        return _sorted(
            Event(e.type, e.registration, e.reference, *map(_json, (e.before, e.after)))
            for e in page.events
        )

    def require_states(self) -> None:
        """Compare all watches with the model's."""
        for name, model in self.models.items():
            held = self.watches.list_watches(self.ids[name], "", 1_000)
            stored = {e.terms.registration: (e.terms[1:], _built(e.told)) for e in held}
            assert stored == {
                each.plate: ((each.leads, each.reference, None, each.until), each.state())
                for each in model.watches.values()
            }

    # What may happen on a day.

    def begin(self) -> None:
        """Fill the registers, and watch."""
        for name, described, insured in zip(NAMES, (0.2, 0.9, 0.2), (0.9, 0.2, 0.1), strict=True):
            self.registers.load(name, "v", self.life.vehicles(self._some(described), self.day))
            self.registers.load(name, "p", self.life.policies(self._some(insured), self.day))
        first = shifted(self.day, -9)
        many = [(shifted(first, n // 3), shifted(self.day, n // 3)) for n in range(130)]
        rows = [PolicyRow(MANY, "", f"M{n}", *days, None, None, 1) for n, days in enumerate(many)]
        self.registers.load("alpha", "p", rows)
        self.put("alice", self._terms(PLATES[:60]))
        for plate in PLATES[55:65]:
            self.put("bob", self._terms([plate]))
        self.put("carol", self._terms([MANY, *PLATES[50:60]]))

    def live(self, *, has_bad_load: bool) -> None:
        """Live one day: an hourly sweep, requests, and loads with their sweeps."""
        chance = self.chance
        if chance.random() < 0.8:
            self.sweep()
        if chance.random() < 0.3:
            self._change_watches()
        for _ in range(chance.choice((0, 1, 1, 2))):
            name = chance.choice(NAMES)
            content = self.registers.content.get(name)
            if content:
                self.registers.load(name, *self.life.changes(content, self.day))
        if chance.random() < 0.2:
            self._replace(chance.choice(NAMES))
        self.sweep()
        if has_bad_load:
            self._load_badly(chance.choice(("alpha", "alpha", "beta", "gamma")))
            self.sweep()

    def mend(self, name: str) -> None:
        """End what a bad load did: go back, accept it, or leave it."""
        if name not in self.registers.content:
            self.registers.undrop(name)
            self.seen["undropped"] += 1
        elif self.registers.can_roll_back(name) and self.chance.random() < 0.6:
            self.registers.roll_back(name)
            self.seen["rolled back"] += 1
        else:
            self.sweep(accepts="alice")
        self.sweep()

    def _some(self, share: float) -> list[str]:
        return [plate for plate in PLATES[1:66] if self.chance.random() < share]

    def _terms(self, plates: Sequence[str]) -> list[Terms]:
        chance = self.chance
        return [
            Terms(
                *(plate, chance.choice(LEADS), chance.choice((None, "fleet 7")), None),
                until=shifted(self.day, chance.randint(0, 60)) if chance.random() < 0.2 else None,
            )
            for plate in plates
        ]

    def _change_watches(self) -> None:
        """Replace some watches, create others; remove and create one on the same day."""
        account = self.chance.choice(("alice", "bob", "carol"))
        plates = self.chance.sample(PLATES, 4)
        self.remove(account, plates[:2])
        self.put(account, self._terms(plates[1:]))
        if self.chance.random() < 0.3:
            change = resume_account if "carol" in self.suspended else suspend_account
            change(self.engine, "carol")
            self.suspended ^= {"carol"}

    def _replace(self, name: str) -> None:
        """Replace one kind, with a few rows less."""
        content = self.registers.content.get(name)
        kind = self.chance.choice("vp")
        rows = [row for row in (content or {}).get(kind, {}).values() if self.chance.random() < 0.95]
        if rows:
            self.registers.load(name, kind, rows, "replace")

    def _load_badly(self, name: str) -> None:
        """Lose most rows of a register, shorten its policies, or drop it."""
        content = self.registers.content.get(name)
        self.bad = name
        if content is None:
            return
        what = self.chance.choice(("lose", "lose", "shorten", "drop"))
        if what == "drop":
            self.registers.drop(name)
            return
        kind = self.chance.choice("vpp")
        rows = list(content[kind].values())
        if what == "lose":
            rows = rows[: len(rows) // 4]
        elif kind == "p":
            last = shifted(self.day, self.chance.randint(0, 12))
            rows = [row._replace(valid_to=max(row.valid_from, last)) for row in rows]
        else:
            rows = [row._replace(mot_expiry=shifted(self.day, 1)) for row in rows]
        if rows:
            self.registers.load(name, kind, rows, "replace")


def _json(text: str) -> Any:
    return msgspec.json.decode(text)


def _built(told: Any) -> Any:
    return msgspec.to_builtins(answer_of(told))


def _sorted(events: Any) -> list[Event]:
    return sorted(events, key=lambda each: (each.registration, each.type))


def lived(world: World, monkeypatch: pytest.MonkeyPatch, days: int, seed: int) -> Counter[str]:
    """Live some days, and return how often each kind of event and of day was seen."""
    life = Days(world, monkeypatch, seed)
    life.begin()
    last = shifted(FIRST_DAY, days)
    while life.day < last:
        life.day = shifted(life.day, life.chance.choice((1, 1, 1, 1, 1, 2, 3)))
        life.bad = ""
        life.live(has_bad_load=life.chance.random() < 0.3)
        if life.bad:
            for _ in range(life.chance.choice((0, 0, 1, 2))):
                life.day = shifted(life.day, 1)
                life.sweep()
            life.mend(life.bad)
    return life.seen


@pytest.mark.system_long
@pytest.mark.parametrize("seed", range(5))
def test_the_events_of_sixty_days_are_those_of_the_model(world, monkeypatch, seed):
    """Events, states and holds are the model's after each sweep, whatever happens to registers."""
    seen = lived(world, monkeypatch, 60, seed)
    print(seen)


@STORAGE
def test_the_events_of_ten_days_are_those_of_the_model(world, monkeypatch):
    """The same for ten days."""
    lived(world, monkeypatch, 10, 0)
