"""A store that fails is told, never a free ride, and works again by itself (D7, D11)."""

import logging
import os

import pytest

from app.limits.store import start
from app.storage.versions import database_id
from tests.api.rate_limits import DOMAINS, NOW, limit, remaining, reset, use_up


@pytest.fixture
def stranger(world, stopped_clock):
    """A client without a key, under the same clock."""
    return world.client(None)


class Test503:
    @pytest.fixture
    def broken(self, world, carol):
        """The file of the buckets is gone, in the middle of the service."""
        use_up(carol, 1)
        return world.limits.rename(world.limits.with_name("away"))

    def test_without_the_store_nobody_is_served(self, carol, stranger, broken, caplog):
        """A store that fails gets 503 with Retry-After, whoever asks; never a free ride."""
        for client in (carol, stranger):
            response = client.get(DOMAINS)
            assert (response.status_int, response.json["code"]) == (503, "service_unavailable")
            assert response.headers["Retry-After"] == "2"
            assert "limits" not in response.json["detail"].split()[0]

    def test_the_headers_are_there_as_far_as_known(self, carol, stranger, broken, caplog):
        """The limit that is known, nothing left, and Reset as Retry-After says (D7)."""
        for client, known in ((carol, 3), (stranger, 60)):
            response = client.get(DOMAINS)
            assert (limit(response), remaining(response)) == (known, 0)
            assert reset(response) == NOW + 2

    def test_the_log_says_why(self, carol, world, broken, caplog):
        """The operator reads the reason; the client does not."""
        response = carol.get(DOMAINS)
        assert f"{world.limits} does not exist" in caplog.text
        assert str(world.directory) not in response.text
        assert caplog.records[-1].request_id == response.headers["X-Request-ID"]

    def test_the_log_is_not_flooded(self, carol, broken, caplog, stopped_clock):
        """The same reason is logged once a minute."""
        for _ in range(20):
            carol.get(DOMAINS)
        assert caplog.text.count("does not exist") == 1
        stopped_clock.pass_seconds(60)
        carol.get(DOMAINS)
        assert caplog.text.count("does not exist") == 2

    def test_it_works_again_without_a_restart(self, carol, world, broken, caplog):
        """When the file is back the count goes on, and the log says so."""
        caplog.set_level(logging.INFO)
        assert carol.get(DOMAINS).status_int == 503
        broken.rename(world.limits)
        assert remaining(carol.get(DOMAINS)) == 1
        assert "they can be kept again" in caplog.text

    def test_a_truncated_file_is_no_free_ride(self, carol, world, caplog):
        """With half of its file a service admits nobody; a start makes it whole."""
        os.truncate(world.limits, 5000)
        assert carol.get(DOMAINS).status_int == 503
        assert "has 5,000 bytes" in caplog.text
        start(world.limits, database_id(world.engine))
        assert carol.get(DOMAINS).status_int == 200

    @pytest.mark.parametrize("path", ["/healthz", "/openapi.json", "/docs"])
    def test_open_paths_answer(self, stranger, broken, caplog, path):
        """Who needs no token is answered; the headers say that nothing is known."""
        response = stranger.get(path)
        assert (response.status_int, limit(response), remaining(response)) == (200, 60, 0)

    def test_it_is_not_ready(self, stranger, world, broken, caplog):
        """A load balancer learns that this service answers nobody."""
        response = stranger.get("/readyz")
        assert (response.status_int, response.json["code"]) == (503, "not_ready")
        broken.rename(world.limits)
        local = stranger.get("/readyz", environ={"REMOTE_ADDR": "127.0.0.1"})
        assert (local.status_int, local.json["checks"]["limits"]) == (200, "kept")

    def test_a_lost_database_has_the_headers_too(self, world, carol, caplog):
        """Before the account is known there is only the anonymous limit to tell (D7)."""
        world.store.lose()
        response = carol.get(DOMAINS)
        assert (response.status_int, response.json["code"]) == (503, "database_unavailable")
        assert (limit(response), remaining(response)) == (60, 0)
        assert reset(response) == NOW + 2

    def test_a_database_lost_after_the_key_was_read_charges_the_account(self, world, carol, caplog):
        """A 503 that comes later has the account's headers."""
        world.engine.execute_sql("ALTER TABLE domain RENAME TO lost")
        response = carol.get(DOMAINS)
        assert response.status_int in (500, 503)
        assert (limit(response), remaining(response)) == (3, 2)
