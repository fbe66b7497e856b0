"""A sweep of 100,000 watches: how long it takes, and how long others wait for it (D185)."""

import random
import statistics
import threading
import time
from datetime import UTC, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from app import clock
from app.accounts.models import Account
from app.storage.engine import close_quietly, open_engine
from app.watches.repository import Terms
from app.watches.tables import Watch, WatchFeed
from tests.conftest import World
from tests.system.processes import run_command
from tests.unit.watched import Watched

PLATES = [f"AB{number:06}" for number in range(100_000)]
RATIO_MAX = 2.5
WAIT_MAX = 1 / 8
"""Of the duration of a sweep, which has 100 pieces."""
ENGINES = pytest.mark.parametrize("database_kind", ["sqlite", "postgres"])


def rows(chance: random.Random) -> dict[str, list[dict[str, Any]]]:
    """Return vehicles and policies, of which some thousands end within the next month."""

    def day(first: int, last: int) -> str:
        return (clock.today(UTC) + timedelta(chance.randint(first, last))).isoformat()

    def policy(plate: str, number: str) -> dict[str, Any]:
        members = {"registration": plate, "number": number, "insurer": "Acme"}
        return members | {"validFrom": day(-365, -20), "validTo": day(-5, 365)}

    vehicles = [
        {"registration": plate, "make": "FORD", "taxStatus": "taxed"}
        | {"motExpiry": day(-10, 360), "taxDue": day(-10, 360)}
        for plate in PLATES
    ]
    policies = [policy(plate, "P1") for plate in PLATES]
    return {"v": vehicles, "p": policies + [policy(plate, "P2") for plate in PLATES[::5]]}


class Fleet:
    """100,000 watches of one account."""

    def __init__(self, world: World) -> None:
        self.engine = world.engine
        self.settings: dict[str, Any] = {
            "database_url": world.config.database_url,
            "state_dir": world.config.state_dir,
            "data_dir": world.config.data_dir,
        }
        for some in rows(random.Random(1)).values():
            path = world.directory / "rows.ndjson"
            path.write_bytes(msgspec.json.Encoder().encode_lines(some))
            world.load_files(path)
        watched = Watched(world.config, world.engine)
        for first in range(0, len(PLATES), 5_000):
            watched.put("alice", [Terms(plate, (28, 14)) for plate in PLATES[first:][:5_000]])
        self.plates = world.directory / "plates.csv"
        self.plates.write_text("\n".join(["registration", *PLATES]))

    def make_due(self) -> None:
        """Let yesterday be the day of the last sweep."""
        yesterday = (clock.today(UTC) - timedelta(1)).isoformat()
        Watch.update(day=yesterday).execute(self.engine)
        WatchFeed.update(swept=None).execute(self.engine)

    def seconds_of(self, *words: Any) -> float:
        """Run a command that must succeed, and return how long it took."""
        begun_ns = time.monotonic_ns()
        ended = run_command(*words, **self.settings)
        assert ended.returncode == 0, ended.stderr
        return (time.monotonic_ns() - begun_ns) / 1e9


@pytest.mark.system_long
@ENGINES
def test_a_sweep_takes_hardly_longer_than_look_ups(world):
    """At most 2.5 times as long as `lookup --csv` of the same plates, in alternation."""
    fleet = Fleet(world)
    output: Path = world.directory / "answers.csv"
    times = []
    for _ in range(5):
        fleet.make_due()
        looked_up = fleet.seconds_of("lookup", "--csv", fleet.plates, "--output", output)
        times.append((fleet.seconds_of("sweep"), looked_up))
    print(world.store.name, [(f"{sweep:.1f}", f"{looked_up:.1f}") for sweep, looked_up in times])
    assert statistics.median(sweep / looked_up for sweep, looked_up in times) <= RATIO_MAX


@pytest.mark.system_long
@pytest.mark.parametrize("database_kind", ["sqlite"], indirect=True)
def test_writers_need_not_wait_for_the_whole_sweep(world):
    """Each piece of a sweep holds the write lock of the main database shortly."""
    fleet = Fleet(world)
    fleet.make_due()
    waits, is_over = list[float](), threading.Event()

    def write() -> None:
        engine = open_engine(world.config.database_url)
        while not is_over.is_set():
            begun_ns = time.monotonic_ns()
            with engine.atomic():
                Account.update(created_at=Account.created_at).execute(engine)
            waits.append((time.monotonic_ns() - begun_ns) / 1e9)
        close_quietly(engine)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        seconds = fleet.seconds_of("sweep")
    finally:
        is_over.set()
        writer.join()
    print(f"{len(waits)} writes, the longest took {max(waits):.2f} s of {seconds:.1f} s")
    assert max(waits) < seconds * WAIT_MAX
