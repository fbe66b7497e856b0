"""A failing store of the limiter refuses requests, and recovers by itself (D7, D11)."""

import logging
import os

import pytest

from app.serve.limits.store import start
from app.storage.versions import database_id
from tests.api.rate_limits import DOMAINS, NOW, limit, remaining, reset, use_up


@pytest.fixture
def stranger(world, stopped_clock):
    """A client without a key, under the same clock."""
    return world.client(None)


class Test503:
    @pytest.fixture
    def broken(self, world, carol):
        """The file of the buckets is removed while the service runs."""
        use_up(carol, 1)
        return world.limits.rename(world.limits.with_name("away"))

    def test_without_the_store_every_request_is_refused(self, carol, stranger, broken, caplog):
        """Every request gets 503 with Retry-After, and none is admitted without a token."""
        for client in (carol, stranger):
            response = client.get(DOMAINS)
            assert (response.status_int, response.json["code"]) == (503, "service_unavailable")
            assert response.headers["Retry-After"] == "2"
            assert "limits" not in response.json["detail"].split()[0]

    def test_the_headers_are_there_as_far_as_known(self, carol, stranger, broken, caplog):
        """The headers have the known limit, 0 remaining, and the reset time of Retry-After (D7)."""
        for client, known in ((carol, 3), (stranger, 60)):
            response = client.get(DOMAINS)
            assert (limit(response), remaining(response)) == (known, 0)
            assert reset(response) == NOW + 2

    def test_the_log_says_why(self, carol, world, broken, caplog):
        """The log has the reason; the answer does not."""
        response = carol.get(DOMAINS)
        assert f"{world.limits} does not exist" in caplog.text
        assert str(world.directory) not in response.text
        assert caplog.records[-1].request_id == response.headers["X-Request-ID"]

    def test_the_log_is_not_flooded(self, carol, broken, caplog, stopped_clock):
        """The same reason is logged at most once a minute."""
        for _ in range(20):
            carol.get(DOMAINS)
        assert caplog.text.count("does not exist") == 1
        stopped_clock.pass_seconds(60)
        carol.get(DOMAINS)
        assert caplog.text.count("does not exist") == 2

    def test_it_works_again_without_a_restart(self, carol, world, broken, caplog):
        """When the file is back the counts continue, and the log says so."""
        caplog.set_level(logging.INFO)
        assert carol.get(DOMAINS).status_int == 503
        broken.rename(world.limits)
        assert remaining(carol.get(DOMAINS)) == 1
        assert "they can be kept again" in caplog.text

    def test_a_truncated_file_admits_no_request(self, carol, world, caplog):
        """A service whose file is truncated admits nobody; a start repairs the file."""
        os.truncate(world.limits, 5000)
        assert carol.get(DOMAINS).status_int == 503
        assert "has 5,000 bytes" in caplog.text
        start(world.limits, database_id(world.engine))
        assert carol.get(DOMAINS).status_int == 200

    @pytest.mark.parametrize("path", ["/", "/healthz", "/openapi.json", "/docs", "/docs/errors"])
    def test_open_paths_answer(self, stranger, broken, caplog, path):
        """Open paths answer without a token; the headers say that nothing is known."""
        response = stranger.get(path)
        assert (response.status_int, limit(response), remaining(response)) == (200, 60, 0)

    def test_it_is_not_ready(self, stranger, world, broken, caplog):
        """A load balancer sees that this service refuses everybody."""
        response = stranger.get("/readyz")
        assert (response.status_int, response.json["code"]) == (503, "not_ready")
        broken.rename(world.limits)
        local = stranger.get("/readyz", environ={"REMOTE_ADDR": "127.0.0.1"})
        assert (local.status_int, local.json["checks"]["limits"]) == (200, "kept")

    def test_a_lost_database_has_the_headers_too(self, world, carol, caplog):
        """Before the account is known only the anonymous limit is in the headers (D7)."""
        world.store.lose()
        response = carol.get(DOMAINS)
        assert (response.status_int, response.json["code"]) == (503, "database_unavailable")
        assert (limit(response), remaining(response)) == (60, 0)
        assert reset(response) == NOW + 2

    def test_a_database_lost_after_the_key_was_read_charges_the_account(self, world, carol, caplog):
        """A 503 after the key was read has the account's headers."""
        world.engine.execute_sql("ALTER TABLE domain RENAME TO lost")
        response = carol.get(DOMAINS)
        assert response.status_int in (500, 503)
        assert (limit(response), remaining(response)) == (3, 2)
