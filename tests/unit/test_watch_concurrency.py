"""Sweeps beside sweeps, requests and loads; and a clock that is set back (D185)."""

import random
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from app import clock
from app.storage.engine import close_quietly, open_engine
from app.watches import sweep
from app.watches.sweep import accounts_to_sweep
from app.watches.tables import WatchEvent
from tests.conftest import STORAGE
from tests.unit.test_watch_sweeps import Watched

pytestmark = STORAGE

PLATES = [f"AB{number:03}CDE" for number in range(300)]
CHANGED = PLATES[:60]
"""Those whose watches are removed and created meanwhile."""


def policies(last: str, plates: Any = PLATES) -> list[dict[str, str]]:
    policy = {"number": "1", "insurer": "A", "validFrom": "2020-01-01", "validTo": last}
    return [{"registration": plate, **policy} for plate in plates]


@pytest.fixture
def watched(world) -> Watched:
    """An account that watches insured vehicles."""
    world.load(policies("2999-12-31"))
    watched = Watched(world)
    watched.watch(*PLATES)
    return watched


class Other(Watched):
    """The same with a connection of its own."""

    def __init__(self, world: Any) -> None:
        super().__init__(world)
