"""Sweeps beside sweeps, requests and loads (D185)."""

import random
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from app.storage.engine import close_quietly, open_engine
from app.watches import sweep
from app.watches.repository import Edit, Terms, Watches
from tests.conftest import STORAGE, World
from tests.unit.test_watch_sweeps import load, policy
from tests.unit.watched import Watched

pytestmark = STORAGE

PLATES = [f"AB{number:03}CDE" for number in range(150)]
CHANGED = PLATES[:60]
"""Those whose watches are removed and created meanwhile."""


@pytest.fixture
def watched(world, monkeypatch) -> Watched:
    """An account that watches insured vehicles; a load ends their policies, and is accepted."""
    load(world, [policy("2999-12-31", plate) for plate in PLATES])
    watched = Watched(world.config, world.engine)
    watched.watch(*PLATES)
    load(world, [policy("2021-12-31", plate) for plate in PLATES])
    watched.sweep()
    watched.accept()
    monkeypatch.setattr(sweep, "PIECE_WATCHES", 10)
    return watched


def beside(world: World, *functions: Callable[[Watched], object]) -> None:
    """Call functions at the same time, each with a connection of its own."""

    def run(function: Callable[[Watched], object]) -> None:
        engine = open_engine(world.config.database_url)
        try:
            function(Watched(world.config, engine))
        finally:
            close_quietly(engine)

    with ThreadPoolExecutor(len(functions)) as pool:
        list(pool.map(run, functions))


def test_sweeps_beside_each_other_report_each_change_once(world, watched):
    """What one sweep has committed, another one does not repeat."""
    beside(world, *[Watched.sweep] * 3)
    assert sorted(watched.news()) == [("insurance.changed", plate) for plate in PLATES]


def test_a_sweep_beside_requests(world, watched):
    """Watches that are removed and created meanwhile have today's state, others their event."""

    def changes(other: Watched) -> None:
        chance = random.Random(1)
        for _ in range(60):
            plates = chance.sample(CHANGED, 3)
            other.remove("alice", plates)
            other.put("alice", [Terms(plate, (28,)) for plate in plates])
            other.put("alice", [Terms(plate, reference="new") for plate in PLATES[60:90]])

    beside(world, Watched.sweep, changes)
    found = Counter(watched.news())
    assert all(found["insurance.changed", plate] == 1 for plate in PLATES[60:])
    assert found.keys() <= {("insurance.changed", plate) for plate in PLATES}
    assert set(found.values()) == {1}
    held = watched.watches.list_watches(watched.ids["alice"], "", 1_000)
    assert [each.terms.registration for each in held] == PLATES
    assert not any(each.told and each.told.insurance.valid for each in held)


def test_a_state_of_before_a_load_is_not_stored_after_its_sweep(world, watched):
    """A request that looked a vehicle up before the load looks it up again."""
    looks: Iterator[Any] = iter([lambda: load(world, [policy("2999-12-31", "NEW")])])

    def look(plates: Any) -> Any:
        found = watched.look(plates)
        for interfere in looks:
            interfere()
            watched.sweep()
            break
        return found

    day, tell = watched.reader.day(None), lambda *_: None
    watches = Watches(world.engine)
    put = watches.change_watches(
        watched.ids["bob"], Edit([Terms("NEW")]), 1_000, look, day, tell
    ).watches
    told = put["NEW"].told
    assert told is not None
    assert told.insurance.valid


def test_a_sweep_beside_a_request_is_accepted_like_another(world, watched, monkeypatch):
    """A watch that is changed while it is looked up is looked up again, so its state is known."""
    watched.sweep()
    watched.new_events()
    load(world, [policy("2999-12-31", plate) for plate in PLATES])
    look_up = watched.reader.look_up

    def interfere(*about: Any) -> Any:
        found = look_up(*about)
        monkeypatch.setattr(watched.reader, "look_up", look_up)
        watched.watch(*PLATES[:3], leads=(28,))
        watched.remove("alice", PLATES[3:5])
        return found

    monkeypatch.setattr(watched.reader, "look_up", interfere)
    assert [each.held for each in watched.sweep()] == [148]
    watched.accept()
    assert [each.held for each in watched.sweep()] == [0]
    assert len(watched.news()) == 148
