"""Requests without a valid key use the bucket of their address (D7, D10)."""

import gc
import ipaddress
import random
import sys
from typing import Any

import falcon.testing
import pytest

from app.main import create_app
from tests.api.rate_limits import DOMAINS, NOW, OPEN, limit, remaining, reset

ADDRESS = {"REMOTE_ADDR": "198.51.100.7"}


@pytest.fixture
def stranger(world, stopped_clock):
    """A client without a key, under the same clock."""
    return world.client(None)


class TestAddresses:
    def test_a_401_shows_and_charges_the_address(self, stranger, stopped_clock):
        """Requests without a valid key have the anonymous limit, by default 60 per minute (D10)."""
        responses = [stranger.get(DOMAINS) for _ in range(3)]
        assert [each.status_int for each in responses] == [401] * 3
        assert [limit(each) for each in responses] == [60] * 3
        assert [remaining(each) for each in responses] == [59, 58, 57]
        assert reset(responses[2]) == NOW + 3

    @pytest.mark.parametrize("key", ["nonsense", "vfd_" + "x" * 64, ""])
    def test_an_invalid_key_charges_the_address(self, world, stopped_clock, key):
        """An invalid key is charged like a missing one, so guessing ends with 429."""
        client = world.client(None, anonymous_limit=2)
        answers = [client.get(DOMAINS, headers={"X-API-Key": key}) for _ in range(3)]
        assert [each.status_int for each in answers] == [401, 401, 429]
        assert answers[2].headers["Retry-After"] == "30"
        assert "WWW-Authenticate" not in answers[2].headers

    def test_a_valid_key_is_never_held_up(self, world, stopped_clock):
        """A valid key is served from an address with an empty bucket, which is not charged."""
        stranger = world.client(None, anonymous_limit=1)
        alice = world.client(world.alice_key, anonymous_limit=1)
        assert [stranger.get(DOMAINS).status_int for _ in range(2)] == [401, 429]
        assert (alice.get(DOMAINS).status_int, limit(alice.get(DOMAINS))) == (200, 600)
        stopped_clock.pass_seconds(60)
        assert stranger.get(DOMAINS).status_int == 401

    @pytest.mark.parametrize("path", OPEN)
    def test_open_paths_show_the_address_and_charge_nothing(self, world, stopped_clock, path):
        """Open paths show the bucket of the address and take nothing from it (D7)."""
        client = world.client(None, anonymous_limit=5)
        client.get(DOMAINS)
        for method in ("GET", "HEAD", "OPTIONS", "PUT", "GET"):
            response = client.request(method, path)
            assert (limit(response), remaining(response)) == (5, 4)
            assert reset(response) == NOW + 12

    @pytest.mark.parametrize("path", OPEN)
    def test_open_paths_are_never_refused(self, world, stopped_clock, path):
        """Open paths answer although the bucket is empty."""
        client = world.client(None, anonymous_limit=1)
        before = client.get(path).status_int
        client.get(DOMAINS)
        response = client.get(path)
        assert (response.status_int, remaining(response)) == (before, 0)

    def test_an_open_path_charges_no_account_either(self, carol):
        """Open paths ignore a key, even a wrong one."""
        for path in OPEN:
            assert limit(carol.get(path)) == 60
        assert remaining(carol.get(DOMAINS)) == 2

    def test_each_address_has_its_own(self, stranger, stopped_clock):
        """Two addresses have separate buckets."""
        stranger.get(DOMAINS)
        assert remaining(stranger.get(DOMAINS, environ=ADDRESS)) == 59

    def test_a_network_of_ipv6_is_one_client(self, stranger, stopped_clock):
        """A /64, which one customer of a provider has, shares a bucket (D10)."""
        for number in range(3):
            response = stranger.get(DOMAINS, environ={"REMOTE_ADDR": f"2001:db8::{number}"})
        assert remaining(response) == 57

    def test_a_stranger_cannot_choose_an_address(self, stranger, stopped_clock):
        """X-Real-IP and similar headers of an untrusted peer are ignored (D10)."""
        for number in range(3):
            given = f"203.0.113.{number}"
            headers = {"X-Real-IP": given, "X-Forwarded-For": given, "Forwarded": f"for={given}"}
            response = stranger.get(DOMAINS, headers=headers)
        assert remaining(response) == 57

    @pytest.mark.parametrize("peer", ["", "10.0.0.9"])
    def test_a_proxy_passes_the_address(self, world, stopped_clock, peer):
        """Clients of a Unix socket or a trusted proxy have their own buckets."""
        client = world.client(None, trusted_proxies=(ipaddress.ip_network("10.0.0.0/8"),))
        environ = {"REMOTE_ADDR": peer}
        for address, left in (("203.0.113.1", 59), ("203.0.113.2", 59), ("203.0.113.1", 58)):
            response = client.get(DOMAINS, headers={"X-Real-IP": address}, environ=environ)
            assert remaining(response) == left


@pytest.mark.system_long
def test_100_000_strangers_cost_constant_memory(world):
    """Any number of addresses without a key grows neither the process nor its file (D11)."""
    app: Any = create_app(world.config)
    chance = random.Random(0)
    environ = falcon.testing.create_environ(DOMAINS)
    statuses = set()

    def come(count):
        for _ in range(count):
            address = str(ipaddress.IPv6Address(chance.getrandbits(128)))
            app({**environ, "REMOTE_ADDR": address}, lambda status, *_: statuses.add(status[:3]))
        gc.collect()

    come(1_000)
    size_bytes, blocks = world.limits.stat().st_size, sys.getallocatedblocks()
    come(100_000)
    assert statuses <= {"401", "429"}
    assert sys.getallocatedblocks() - blocks < 200
    assert world.limits.stat().st_size == size_bytes
