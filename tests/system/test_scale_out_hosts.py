"""Two hosts behind the shipped nginx configuration can fail, leave and return."""

from collections import defaultdict
from collections.abc import Iterator

import pytest

from tests.system.creators import CLIENTS, Creators
from tests.system.postgres_pair import primary_alone, url_of
from tests.system.processes import Service, send, until
from tests.system.scale_out import Installation, installed

pytestmark = pytest.mark.system_long


@pytest.fixture
def installation(tmp_path) -> Iterator[Installation]:
    """Two hosts behind nginx, on one Postgres."""
    with primary_alone() as primary, installed(tmp_path, url_of(primary)) as installation:
        yield installation


def host_of(installation: Installation, key: str) -> Service:
    """Return the host that answers requests with this key."""
    answer = send(installation.bind, "GET", "/api/domains", headers={"X-API-Key": key})
    assert answer.status == 200
    return installation.host_of(answer.headers["X-Request-ID"])


def keys_by_host(installation: Installation, requests: int = 1_000_000) -> dict[Service, list[str]]:
    """Create accounts with this many requests per hour until each host has two; return the keys."""
    found: dict[Service, list[str]] = defaultdict(list)
    number = 0
    while len(found) < len(installation.hosts) or min(map(len, found.values())) < 2:
        number += 1
        key = installation.key_of(f"account-{requests}-{number}", requests=requests)
        found[host_of(installation, key)].append(key)
    return found


def test_when_a_host_dies_the_other_takes_over(installation):
    """At most the creations in flight fail, each sent once, and no look-up fails."""
    dies, stays = installation.hosts
    keys = keys_by_host(installation)
    with Creators(installation.bind, keys[dies][:2] + keys[stays][:2]) as creators:
        creators.wait_for(50)
        dies.kill()
        creators.wait_for(100)
    assert creators.statuses("GET") <= {200, 404}
    # A creation that was sent twice would get 409.
    assert creators.statuses("POST") <= {201, 502}
    failed = {each.domain for each in creators.outcomes if each.status == 502}
    assert len(failed) <= CLIENTS
    missed = {each.domain for each in creators.outcomes if each.status == 404}
    assert missed <= failed
    assert {host_of(installation, key) for key in keys[dies]} == {stays}


def test_a_host_that_returns_gets_its_accounts_back(installation):
    """Meanwhile their buckets are full on the other host, and later as they were."""
    dies, stays = installation.hosts
    busy, counted = (keys_by_host(installation, requests) for requests in (1_000_000, 100))

    def remaining() -> int:
        headers = {"X-API-Key": counted[dies][0]}
        answer = send(installation.bind, "GET", "/api/domains", headers=headers)
        return int(answer.headers["X-RateLimit-Remaining"])

    # One token returns every 36 s.
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


def test_a_host_that_is_taken_out_first_loses_nothing(installation):
    """A host that is marked `down` first can be stopped without a failed request."""
    leaves, stays = installation.hosts
    keys = keys_by_host(installation)
    with Creators(installation.bind, keys[leaves][:2] + keys[stays][:2]) as creators:
        creators.wait_for(50)
        installation.reconfigure(f"{leaves.bind} max_fails", f"{leaves.bind} down max_fails")
        until(lambda: host_of(installation, keys[leaves][0]) is stays, "the accounts to move")
        leaves.process.terminate()
        assert leaves.wait() == 0
        creators.wait_for(50)
    assert creators.statuses("POST") == {201}
    assert creators.statuses("GET") == {200}
    assert {host_of(installation, key) for key in keys[leaves] + keys[stays]} == {stays}


def test_a_host_that_is_added_takes_accounts_of_all(installation):
    """Some accounts move to the new host, and none between the others."""
    keys = [installation.key_of(f"account-{n}", requests=1_000_000) for n in range(30)]
    before = [host_of(installation, key) for key in keys]
    first = installation.hosts[0]
    third = installation.start_another()
    line = f"server {third.bind} max_fails=3 fail_timeout=10s;"
    installation.reconfigure(f"server {first.bind}", f"{line}\n    server {first.bind}")
    until(lambda: third in {host_of(installation, key) for key in keys}, "accounts to move")
    after = [host_of(installation, key) for key in keys]
    assert all(new in (old, third) for old, new in zip(before, after, strict=True))
    assert set(after) == set(installation.hosts)
