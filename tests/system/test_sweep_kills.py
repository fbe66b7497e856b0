"""`verifyd sweep` killed at any moment loses no event and creates none twice (D185)."""

import os
import random
import secrets
import signal
import time
from collections import Counter
from typing import Any

import msgspec
import pytest

from app.jobs.sweeping import SWEEP_LOCKS
from app.registers.rules import RULES
from app.storage.stores import store_of
from app.watches.repository import Terms
from app.watches.sweep import PIECE_WATCHES
from app.watches.tables import WatchFeed
from tests.conftest import World
from tests.system.processes import environment, run_command, until
from tests.system.warm import WarmProcess
from tests.unit.audit_trails import lines
from tests.unit.watched import Watched

PIECES = 4
PLATES = [f"AB{number:05}" for number in range(PIECES * PIECE_WATCHES)]
ENGINES = pytest.mark.parametrize("database_kind", ["sqlite", "postgres"])


class Fleet:
    """An account whose watches a load changes all at once, so that they are held back."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._settings: dict[str, Any] = {
            "database_url": world.config.database_url,
            "state_dir": world.config.state_dir,
            "data_dir": world.config.data_dir,
            "audit": "on",
        }
        self.is_insured = True
        self._load()
        self._watched = Watched(world.config, world.engine)
        self._watched.put("alice", [Terms(plate, reference="fleet") for plate in PLATES])
        self.command("sweep")

    def _load(self) -> None:
        last = "2999-12-31" if self.is_insured else "2021-12-31"
        policy = {"number": "1", "insurer": "A", "validFrom": "2020-01-01", "validTo": last}
        rows = [{"registration": plate, **policy} for plate in PLATES]
        path = self._world.directory / "rows.ndjson"
        path.write_bytes(msgspec.json.Encoder().encode_lines(rows))
        self._world.load_files(path, accept=tuple(RULES))

    def flip(self) -> None:
        """End all policies, or begin them again."""
        self.is_insured = not self.is_insured
        self._load()

    def command(self, *words: str) -> None:
        """Run a command that must succeed."""
        ended = run_command(*words, **self._settings)
        assert ended.returncode == 0, ended.stderr

    def begun(self, *words: str) -> WarmProcess:
        """Start a command."""
        with open(os.devnull, "r+") as null:
            streams = [null.fileno()] * 3
            return WarmProcess(words, streams, env=environment(**self._settings), is_leader=True)

    def held(self) -> int:
        """Return how many watches have changes that are held back."""
        return int(WatchFeed.select(WatchFeed.held).scalar(self._world.engine))

    def is_halfway(self) -> bool:
        """Tell whether only some of the events of the last load are there."""
        events = WatchFeed.select(WatchFeed.last_event).scalar(self._world.engine)
        return bool(events % len(PLATES))

    def require_each_once(self) -> None:
        """Fail unless there is one new event of each plate."""
        events = self._watched.new_events()
        expected = [("insurance.changed", plate) for plate in PLATES]
        assert sorted((each.type, each.registration) for each in events) == expected
        verdicts = {
            tuple(msgspec.json.decode(text)["valid"] for text in (each.before, each.after))
            for each in events
        }
        assert verdicts == {(not self.is_insured, self.is_insured)}

    def require_trail(self, flips: int) -> None:
        """Fail unless each event is in the trail; one that a kill took back can be there twice."""
        swept = (
            line for line in lines(self._world.config.audit_dir) if line.get("operation") == "sweep"
        )
        told = Counter(plate["plate"] for line in swept for plate in line["plates"])
        assert set(told) == set(PLATES)
        assert min(told.values()) >= flips


def kill_often(world: World, kills: int) -> None:
    """Kill sweeps at random moments, and check the events after each round."""
    seed = secrets.randbits(32)
    chance = random.Random(seed)
    print(f"seed {seed}")
    fleet, lock = Fleet(world), store_of(world.engine, SWEEP_LOCKS["sweeps"])
    fleet.flip()
    fleet.command("sweep")
    assert fleet.held() == len(PLATES)
    begun_ns = time.monotonic_ns()
    fleet.command("sweep", "--accept", "alice")
    seconds = (time.monotonic_ns() - begun_ns) / 1e9
    fleet.require_each_once()
    flips, ends, killed = 1, Counter[str](), 0
    while killed < kills:
        fleet.flip()
        flips += 1
        fleet.command("sweep")
        for _ in range(chance.randint(1, 4)):
            if not fleet.held():
                break
            sweep = fleet.begun("sweep", "--accept", "alice")
            time.sleep(chance.uniform(0.1, 1) * seconds)  # This test tries random moments.
            sweep.kill()
            if sweep.wait() == 0:  # It was faster than the measured one.
                seconds *= 0.95
            ends["ended" if sweep.returncode == 0 else "killed"] += 1
            assert sweep.returncode in (0, -signal.SIGKILL)
            # Postgres ends the statement of a process that was killed, and then frees its lock.
            until(lambda: not lock.is_locked(), "the lock of the sweep to be free")
            ends["halfway"] += fleet.is_halfway()
            killed = ends["killed"]
        if fleet.held():
            fleet.command("sweep", "--accept", "alice")
        fleet.require_each_once()
    fleet.require_trail(flips)
    assert ends["halfway"] > kills / 10
    print(f"{world.store.name}: {flips} loads, {dict(ends)}, {seconds:.2f} s")


@pytest.mark.system_long
@ENGINES
def test_a_sweep_killed_at_fifty_moments(world):
    """Each change is one event, however often the sweep that reports it is killed."""
    kill_often(world, 50)
