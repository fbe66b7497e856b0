"""A sweep holds the write lock of the main database shortly (D185)."""

from datetime import UTC, timedelta

import pytest

from app import clock
from app.accounts.models import Account
from app.storage.engine import close_quietly, open_engine
from app.watches.repository import Terms
from app.watches.tables import Watch, WatchFeed
from tests.system.processes import run_command
from tests.system.threads import Threads
from tests.unit.watched import Watched

WATCHES = 20_000
WRITES_MIN = 5
"""A sweep of so many watches has 20 pieces. If it held the lock throughout, there would be one."""


@pytest.mark.system_long
@pytest.mark.parametrize("database_kind", ["sqlite"], indirect=True)
def test_others_write_between_the_pieces_of_a_sweep(world):
    """Each piece of a sweep is a transaction of its own, and others write after it."""
    watched = Watched(world.config, world.engine)
    for first in range(0, WATCHES, 5_000):
        terms = [Terms(f"AB{first + number:06}", (28, 14)) for number in range(5_000)]
        watched.put("alice", terms)
    Watch.update(day=(clock.today(UTC) - timedelta(1)).isoformat()).execute(world.engine)
    WatchFeed.update(swept=None).execute(world.engine)
    written = [0]

    def write() -> None:
        engine = open_engine(world.config.database_url)
        while not writer.over.is_set():
            Account.update(created_at=Account.created_at).execute(engine)
            # It counts only if the sweep has begun and has not ended.
            swept = Watch.select().where(Watch.day == clock.today(UTC).isoformat()).count(engine)
            written[0] += 0 < swept < WATCHES
        close_quietly(engine)

    writer = Threads(write)
    with writer:
        ended = run_command(
            "sweep",
            database_url=world.config.database_url,
            state_dir=world.config.state_dir,
            data_dir=world.config.data_dir,
        )
    assert ended.returncode == 0, ended.stderr
    assert written[0] >= WRITES_MIN
