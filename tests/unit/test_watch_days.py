"""Sixty simulated days of watches, compared with an independent model (D184, D185)."""

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from app import clock
from app.accounts.administration import create_account, resume_account, suspend_account
from app.storage.tables import PolicyRow, VehicleRow
from app.watches.repository import Terms
from app.watches.sweep import AccountToSweep, accounts_to_sweep, is_accepted
from app.watches.told import answer_of
from tests.conftest import STORAGE, World
from tests.unit.watch_registers import FIRST_YEARS, NAMES, ORDER, Life, Registers, shifted
from tests.unit.watched import Watched
from tests.unit.watches_model import CHECKS, Event, ModelAccount

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
        self.watched = Watched(world.config, self.engine, ORDER, FIRST_YEARS)
        self.models = {name: ModelAccount() for name in self.watched.ids}
        self.suspended: set[str] = set()
        self.seen: Counter[str] = Counter()
        self.day = FIRST_DAY
        self.bad = ""
        """The register that was loaded badly, and must be mended."""
        monkeypatch.setattr(clock, "now", lambda: 1_800_000_000)
        monkeypatch.setattr(clock, "today", lambda _: clock.parse_iso_date(self.day))

    def put(self, account: str, terms: Sequence[Terms]) -> None:
        """Create or replace watches with one request."""
        self.watched.put(account, terms)
        for plate, leads, reference, _, until in terms:
            about = plate, leads, reference, until
            self.models[account].put(self.registers.judge, self.day, *about)

    def remove(self, account: str, plates: Sequence[str]) -> None:
        """Remove watches."""
        self.watched.remove(account, plates)
        for plate in plates:
            self.models[account].watches.pop(plate, None)

    def sweep(self) -> None:
        """Sweep all accounts that need it, and compare the events and the states."""
        due = {each.name: each for each in accounts_to_sweep(self.engine)}
        assert due.keys().isdisjoint(self.suspended)
        for account in due.values():
            if not self.watched.sweep_of(account).is_due:
                continue
            expected = self._sweep(account)
            self.seen.update(each.type for each in expected)
            self.seen["accepted"] += is_accepted(account.swept) and bool(expected)
            # NOTE: the lead days of vehicles that have just become known follow.
            expected = self._sweep(account._replace(swept=None))
            assert {each.type[-7:] for each in expected} <= {".ending"}
        self.require_states()

    def _sweep(self, account: AccountToSweep) -> list[Event]:
        """Sweep an account, compare its events and holds with the model's, and return them."""
        swept = self.watched.sweep_of(account).run()
        accepts = is_accepted(account.swept)
        expected, held = self.models[account.name].sweep(
            self.registers.judge, self.day, accepts=accepts
        )
        found = self.events(account.name), swept.held
        assert found == (_sorted(expected), held), (self.day, account.name)
        self.seen["held"] += bool(held)
        return expected

    def events(self, account: str) -> list[Event]:
        """Return the account's new events; each must be in what was recorded before."""
        events = self.watched.new_events(account)
        told, self.watched.told = self.watched.told, []
        assert told == [(account, each.registration, each.type) for each in events]
        return _sorted(
            Event(
                e.type, e.registration, e.reference, *map(msgspec.json.decode, (e.before, e.after))
            )
            for e in events
        )

    def require_states(self) -> None:
        """Compare all watches with the model's."""
        for name, model in self.models.items():
            held = self.watched.watches.list_watches(self.watched.ids[name], "", 1_000)
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
        self.put("carol", self._terms(PLATES[50:60]))
        self.put("carol", [Terms(MANY, (28, 14))])

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

    def pass_days(self, days: int) -> None:
        """Let some days pass. Now and then the clock is set back meanwhile."""
        if self.chance.random() < 0.1:
            day, self.day = self.day, shifted(self.day, -2)
            self.sweep()
            self.day = day
        self.day = shifted(self.day, days)

    def mend(self) -> None:
        """End what a bad load did: accept it, bring the data back, or both."""
        name, self.bad = self.bad, ""
        if self.chance.random() < 0.4:
            self.watched.accept()
            self.sweep()
        if name not in self.registers.content:
            self.registers.undrop(name)
            self.seen["undropped"] += 1
        elif self.registers.can_roll_back(name) and self.chance.random() < 0.6:
            self.registers.roll_back(name)
            self.seen["rolled back"] += 1
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
        """Replace one kind, with a few rows less, and agencies' days that are one day off."""
        content = self.registers.content.get(name)
        kind = self.chance.choice("vp")
        rows = [
            row for row in (content or {}).get(kind, {}).values() if self.chance.random() < 0.95
        ]
        if kind == "v":
            rows = [_moved(row, len(rows) % 3 - 1) for row in rows]
        if rows:
            self.registers.load(name, kind, rows, "replace")

    def _load_badly(self, name: str) -> None:
        """Lose most rows of a register, shorten its policies, or drop it."""
        content = self.registers.content.get(name)
        if content is None:
            return
        self.bad = name
        what = self.chance.choice(("lose", "lose", "shorten", "drop"))
        if what == "drop":
            self.registers.drop(name)
            return
        kind = self.chance.choice("vpp")
        rows = list(content.get(kind, {}).values())
        if what == "lose":
            rows = rows[: len(rows) // 4]
        elif kind == "p":
            last = shifted(self.day, self.chance.randint(0, 12))
            rows = [row._replace(valid_to=max(row.valid_from, last)) for row in rows]
        else:
            rows = [row._replace(mot_expiry=shifted(self.day, 1)) for row in rows]
        if rows:
            self.registers.load(name, kind, rows, "replace")


def _moved(row: VehicleRow, days: int) -> VehicleRow:
    mot, tax = (day and shifted(day, days) for day in (row.mot_expiry, row.tax_due))
    return row._replace(mot_expiry=mot, tax_due=tax)


def _built(told: Any) -> Any:
    return msgspec.to_builtins(answer_of(told))


def _sorted(events: Any) -> list[Event]:
    return sorted(events, key=lambda each: (each.registration, each.type))


def lived(world: World, monkeypatch: pytest.MonkeyPatch, days: int, seed: int) -> Counter[str]:
    """Live some days, and return how often each kind of event and of day was seen."""
    life = Days(world, monkeypatch, seed)
    chance, last = life.chance, shifted(FIRST_DAY, days)
    life.begin()
    while life.day < last:
        life.pass_days(chance.choice((1, 1, 1, 1, 1, 2, 3)))
        life.live(has_bad_load=chance.random() < 0.3)
        if life.bad:
            for _ in range(chance.choice((0, 0, 1, 2))):
                life.pass_days(1)
                life.sweep()
            life.mend()
    return life.seen


EVENTS = {
    *(f"{check}.changed" for check in CHECKS),
    *("insurance.ending", "mot.ending", "tax.ending"),
    *("vehicle.known", "vehicle.unknown", "watch.ended"),
}


@pytest.mark.system_long
@pytest.mark.parametrize("seed", [0, 3, 4, 5])
def test_the_events_of_sixty_days_are_those_of_the_model(world, monkeypatch, seed):
    """Events, states and holds are the model's after each sweep, whatever happens to registers."""
    seen = lived(world, monkeypatch, 60, seed)
    assert seen >= Counter({*EVENTS, "held", "accepted", "rolled back", "undropped"})


@STORAGE
def test_the_events_of_five_days_are_those_of_the_model(world, monkeypatch):
    """The same for five days."""
    assert lived(world, monkeypatch, 5, 8)["held"]
