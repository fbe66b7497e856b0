"""What is logged while the database is away."""

import pytest

from app import clock

SECOND_NS = 1_000_000_000
LINE = "database error: "


@pytest.fixture
def database_kind() -> str:
    """One engine is enough: what fails is counted after it has failed."""
    return "sqlite"


def test_failures_are_logged_once_a_second_with_their_number(world, caplog, monkeypatch):
    """Each request fails meanwhile, and its id is in the access log."""
    now_ns = clock.monotonic_ns()
    monkeypatch.setattr(clock, "monotonic_ns", lambda: now_ns)
    client = world.client(world.alice_key)
    world.store.lose()
    for _ in range(4):
        assert client.get("/api/domains").json["code"] == "database_unavailable"
    assert caplog.text.count(LINE) == 1
    now_ns += SECOND_NS
    client.get("/api/domains")
    first, second = (text for text in caplog.messages if text.startswith(LINE))
    assert second == f"{first}; 3 more requests failed since the last such line"
    now_ns += SECOND_NS
    client.get("/api/domains")
    assert caplog.messages[-1] == first
