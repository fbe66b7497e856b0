"""Two hosts behind the shipped nginx configuration: one exact limit, and one host may die (D13)."""

from collections import defaultdict
from collections.abc import Iterator

import pytest

from app.limits.bucket import rate
from tests.system.creators import CLIENTS, Creators
from tests.system.flood import Flood, require_exact
from tests.system.postgres_pair import primary_alone, url_of
from tests.system.processes import Service, send, until
from tests.system.scale_out import HOUR_SECONDS, Installation, installed


@pytest.fixture
def installation(tmp_path) -> Iterator[Installation]:
    """Two hosts behind nginx, on one Postgres."""
    with primary_alone() as primary, installed(tmp_path, url_of(primary)) as installation:
        yield installation


@pytest.mark.parametrize(
    ("limit", "sent"),
    [
        pytest.param(100, 300, id="short"),
        pytest.param(1_000, 5_000, id="long", marks=pytest.mark.system_long),
    ],
)
def test_a_plan_admits_exactly_its_requests(installation, limit, sent):
    """Eight clients get through to two hosts what the plan allows, and not one request more."""
    flood = Flood([installation.bind], installation.key_of("flood", requests=limit))
    flood.send(sent)
    assert flood.lost == 0
    require_exact(flood, rate(limit, HOUR_SECONDS))


def host_of(installation: Installation, key: str) -> Service:
    """Return the host that answers who presents this key."""
    answer = send(installation.bind, "GET", "/api/domains", headers={"X-API-Key": key})
    assert answer.status == 200
    return installation.host_of(answer.headers["X-Request-ID"])


def keys_by_host(installation: Installation, requests: int = 1_000_000) -> dict[Service, list[str]]:
    """Make accounts with so many requests an hour until each host has two; returns their keys."""
    found: dict[Service, list[str]] = defaultdict(list)
    number = 0
    while len(found) < len(installation.hosts) or min(map(len, found.values())) < 2:
        number += 1
        key = installation.key_of(f"account-{requests}-{number}", requests=requests)
        found[host_of(installation, key)].append(key)
    return found


def test_when_a_host_dies_the_other_takes_over(installation):
    """What fails are at most the creations in flight, each sent once; no look-up fails."""
    dies, stays = installation.hosts
    keys = keys_by_host(installation)
    with Creators(installation.bind, keys[dies][:2] + keys[stays][:2]) as creators:
        creators.wait_for(50)
        dies.kill()
        creators.wait_for(100)
    assert creators.statuses("GET") <= {200, 404}
    # A creation that had been sent twice would be told 409.
    assert creators.statuses("POST") <= {201, 502}
    failed = {each.domain for each in creators.outcomes if each.status == 502}
    assert len(failed) <= CLIENTS
    missed = {each.domain for each in creators.outcomes if each.status == 404}
    assert missed <= failed
    assert {host_of(installation, key) for key in keys[dies]} == {stays}


@pytest.mark.system_long
def test_a_host_that_returns_gets_its_accounts_back(installation):
    """Their buckets are full elsewhere meanwhile, and afterwards where they were (D13)."""
    dies, stays = installation.hosts
    busy, counted = (keys_by_host(installation, requests) for requests in (1_000_000, 100))

    def remaining() -> int:
        headers = {"X-API-Key": counted[dies][0]}
        answer = send(installation.bind, "GET", "/api/domains", headers=headers)
        return int(answer.headers["X-RateLimit-Remaining"])

    # A token comes back every 36 s.
    before = [remaining() for _ in range(10)][-1]
    dies.kill()
    assert remaining() == 99
    installation.start_again(dies)
    back = installation.hosts[0]
    until(lambda: host_of(installation, busy[dies][0]) is back, "its accounts to return")
    assert remaining() <= before + 2
    for keys in (busy, counted):
        assert {host_of(installation, key) for key in keys[stays]} == {stays}
        assert {host_of(installation, key) for key in keys[dies]} == {back}
