"""A clock that stands still, and an account with three requests per minute."""

import pytest

from app import clock
from app.serve.limits.bucket import SECOND_NS
from tests.api.rate_limits import NOW, plan


class StoppedClock:
    """Both clocks of the host, which stand still until a test moves them."""

    def __init__(self):
        self.passed_ns = 0

    def pass_seconds(self, seconds):
        self.passed_ns += round(seconds * SECOND_NS)


@pytest.fixture
def stopped_clock(monkeypatch):
    """The service's clock."""
    stopped = StoppedClock()
    monkeypatch.setattr(clock, "now_ns", lambda: NOW * SECOND_NS + stopped.passed_ns)
    monkeypatch.setattr(clock, "monotonic_ns", lambda: 10**15 + stopped.passed_ns)
    return stopped


@pytest.fixture
def carol_key(world, stopped_clock):
    """A key of an account with three requests per minute."""
    plan(world)
    return world.key_of("carol", "tiny")


@pytest.fixture
def carol(world, carol_key):
    """A client with that key."""
    return world.client(carol_key)
