"""Sweeps of watches: what is reported after loads and after midnight."""

import pytest

from app.accounts.models import Account
from app.storage.registers import read_state
from app.vehicles.reader import VehicleReader
from app.vehicles.records import Records
from app.watches.feed import Feed
from app.watches.repository import Terms, Watches
from app.watches.sweep import WANTED, Sweep, accounts_to_sweep
from app.watches.told import checks_of


class Watched:
    def __init__(self, world):
        self.world = world
        engine = self.engine = world.engine
        self.reader = VehicleReader(Records(engine, ("native",), {"*": 0}), world.config)
        self.account = Account.select().first(engine)
        self.watches = Watches(engine)
        self.told = []

    def watch(self, *plates, leads=()):
        day = self.reader.day(None)

        def look(missing):
            found, _ = self.reader.look_up(read_state(self.engine), missing, day, WANTED)
            return {e.registration: e.record and checks_of(e.record, day) for e in found}

        terms = [Terms(plate, leads) for plate in plates]
        return self.watches.set_watches(self.account.id, terms, 1000, look, day, lambda *_: None)

    def sweep(self, **options):
        sweep = Sweep(
            self.engine, lambda _: self.reader, "", lambda _, some: self.told.extend(some)
        )
        return [sweep.run(each, **options) for each in accounts_to_sweep(self.engine)]

    def events(self):
        page = Feed(self.engine).list_events(self.account.id, None, 1000)
        return [(e.type, e.registration) for e in page.events]


@pytest.fixture
def watched(world):
    return Watched(world)


def test_a_load_that_ends_a_policy_is_reported(world, watched):
    """A changed verdict is one event."""
    policy = {"registration": "AB12CDE", "number": "1", "insurer": "A", "validFrom": "2020-01-01"}
    world.load([policy | {"validTo": "2999-01-01"}])
    watched.watch("AB12CDE", "ZZ99ZZZ", leads=(28,))
    print(watched.sweep())
    assert watched.events() == []
    world.load([policy | {"validTo": "2021-01-01"}])
    print(watched.sweep())
    assert watched.events() == [("insurance.changed", "AB12CDE")]
    print(Feed(watched.engine).list_events(watched.account.id, None, 10))
    world.load([policy | {"validTo": "2999-01-01", "registration": "ZZ99ZZZ"}])
    print(watched.sweep())
    assert watched.events()[1:] == [("vehicle.known", "ZZ99ZZZ")]
