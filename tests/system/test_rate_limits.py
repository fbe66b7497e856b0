"""The limit is exact, with any kind of server and under any disturbance (D11)."""

import os
import random
import signal
from typing import Any, NamedTuple

import pytest

from app.accounts.administration import set_plan
from app.serve.limits.bucket import Rate, rate
from tests.system.flood import CLIENTS, Flood, at_each, require_exact
from tests.system.processes import GUNICORN, until

THREADS = (*GUNICORN[:-1], "--worker-class", "gthread", "--threads", "4", GUNICORN[-1])
WINDOW_SECONDS = 3600


class Size(NamedTuple):
    """The size of a flood: the plan's requests per hour, those sent, workers killed meanwhile."""

    limit: int
    sent: int
    kills: int

    @property
    def plan(self) -> Rate:
        """The plan of the flooded account."""
        return rate(self.limit, WINDOW_SECONDS)

    @property
    def step(self) -> int:
        """The number of answers between two kills, most of them while tokens are left."""
        return self.limit * 3 // (self.kills * 2)


SIZES = [
    pytest.param(Size(300, 900, 5), id="short"),
    pytest.param(Size(1_000, 5_000, 20), id="long", marks=pytest.mark.system_long),
]
pytestmark = pytest.mark.parametrize("size", SIZES)


@pytest.fixture
def start(world, serve, size):
    """Start a server; its clients' account has the plan of the flood."""
    set_plan(
        world.engine,
        "flood",
        {"requests": size.limit, "window_seconds": WINDOW_SECONDS, "bulk_max": 1, "domains_max": 1},
    )
    key = world.key_of("flood", "flood")

    def run(**options: Any):
        service = serve(access_log="off", **options)
        service.key = key
        return service

    return run


def flood_of(*services):
    return Flood([service.bind for service in services], services[0].key)


def stop(service):
    """Stop a server and wait until it is gone."""
    service.process.terminate()
    assert service.wait() == 0


class TestServers:
    def test_four_workers_admit_exactly_the_plan(self, start, size):
        """Four sync workers share one limit."""
        flood = flood_of(start(workers=4))
        flood.send(size.sent)
        assert flood.lost == 0
        require_exact(flood, size.plan)

    def test_threads_admit_exactly_the_plan(self, start, size):
        """Two workers of four threads share one limit."""
        flood = flood_of(start(command=THREADS, workers=2))
        flood.send(size.sent)
        assert flood.lost == 0
        require_exact(flood, size.plan)

    def test_independent_servers_admit_exactly_the_plan(self, start, size):
        """Two servers with one state directory share one limit."""
        flood = flood_of(start(), start(command=GUNICORN))
        flood.send(size.sent)
        assert flood.lost == 0
        require_exact(flood, size.plan)


class TestInterruptions:
    def test_killed_workers_admit_no_more(self, start, size):
        """`kill -9` never admits an extra request, and loses at most one per kill."""
        service = start(workers=4)
        flood = flood_of(service)
        killed: list[int] = []

        def living():
            # NOTE: a worker that was killed just now may still be listed.
            return [worker for worker in service.workers() if worker not in killed]

        def kill():
            killed.append(random.choice(until(living, "a worker")))
            os.kill(killed[-1], signal.SIGKILL)

        flood.send(size.sent, at_each(size.step, size.kills, kill))
        assert len(killed) == size.kills
        # A worker holds a request of each of its clients, and a token of one of them.
        assert flood.lost <= size.kills * CLIENTS
        require_exact(flood, size.plan, kills=size.kills)

    def test_a_reload_keeps_the_count(self, start, size):
        """HUP during the flood replaces the workers, and loses no request and no count."""
        service = start(workers=3)
        before = set(service.workers())
        flood = flood_of(service)
        times = 2

        def reload():
            service.process.send_signal(signal.SIGHUP)

        flood.send(size.sent, at_each(size.sent // (times + 2), times, reload))
        until(lambda: before.isdisjoint(service.workers()), "new workers")
        assert flood.lost == 0
        require_exact(flood, size.plan)

    def test_a_full_stop_and_start_keeps_the_count(self, start, size):
        """A service that is stopped and started again continues the count."""
        first = start()
        flood = flood_of(first)
        flood.send(size.limit // 2)
        stop(first)
        second = flood_of(start())
        second.told += flood.told
        second.send(size.limit)
        assert flood.lost == second.lost == 0
        require_exact(second, size.plan)
