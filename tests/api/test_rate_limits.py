"""Every request takes a token, and every answer says what is left (spec 8, D5, D7 to D11)."""

import ipaddress
import json
import logging
import os

import pytest

from app import clock
from app.accounts.administration import create_key, set_account_plan, set_plan
from app.accounts.models import Account
from app.limits.bucket import SECOND_NS
from app.limits.store import start
from app.schema import database_id

DOMAINS = "/api/domains"
OPEN = ["/healthz", "/readyz", "/openapi.json", "/docs", "/docs/docs.js", "/docs/nothing"]
JSON = {"Content-Type": "application/json"}
ADDRESS = {"REMOTE_ADDR": "198.51.100.7"}


class Clock:
    """Both clocks of the host, standing still until they are moved."""

    def __init__(self):
        self.passed_ns = 0

    def pass_seconds(self, seconds):
        self.passed_ns += round(seconds * SECOND_NS)


@pytest.fixture
def time(monkeypatch):
    """The clock that the service sees."""
    stopped = Clock()
    monkeypatch.setattr(clock, "now_ns", lambda: 1_780_000_000 * SECOND_NS + stopped.passed_ns)
    monkeypatch.setattr(clock, "monotonic_ns", lambda: 10**15 + stopped.passed_ns)
    return stopped


def plan(world, name="tiny", requests=3, window_seconds=60):
    """Make or change a plan."""
    set_plan(
        world.engine,
        name,
        requests=requests,
        window_seconds=window_seconds,
        bulk_max=10,
        domains_max=10,
    )


@pytest.fixture
def carol_key(world, time):
    """A key of an account that may send three requests a minute."""
    plan(world)
    return world.key_of("carol", "tiny")


@pytest.fixture
def carol(world, carol_key):
    """A client with that key."""
    return world.client(carol_key)


@pytest.fixture
def stranger(world, time):
    """A client without a key, under the same clock."""
    return world.client(None)


def limit(response):
    return int(response.headers["X-RateLimit-Limit"])


def remaining(response):
    return int(response.headers["X-RateLimit-Remaining"])


def reset(response):
    return int(response.headers["X-RateLimit-Reset"])


def use_up(client, count=3):
    """Send so many requests, all of which are admitted."""
    for _ in range(count):
        assert client.get(DOMAINS).status_int == 200


class TestHeaders:
    def test_spec_8_2_limit_is_the_plans(self, alice, carol):
        """X-RateLimit-Limit is the number of requests the plan allows in its window."""
        assert (limit(alice.get(DOMAINS)), limit(carol.get(DOMAINS))) == (600, 3)

    def test_spec_8_2_remaining_counts_down(self, carol):
        """X-RateLimit-Remaining is what is left after the request."""
        assert [remaining(carol.get(DOMAINS)) for _ in range(4)] == [2, 1, 0, 0]

    def test_spec_8_2_reset_is_when_all_is_back(self, carol, time):
        """X-RateLimit-Reset is the Unix time at which the bucket is full again (D9)."""
        assert [reset(carol.get(DOMAINS)) - 1_780_000_000 for _ in range(4)] == [20, 40, 60, 60]
        time.pass_seconds(5.5)
        assert reset(carol.get(DOMAINS)) == 1_780_000_060

    def test_reset_is_rounded_up(self, carol, time):
        """At that second the bucket is full, not almost."""
        time.pass_seconds(0.25)
        assert reset(carol.get(DOMAINS)) == 1_780_000_021

    def test_a_bulk_request_takes_one_token(self, carol):
        """The header counts requests, not registrations (D8)."""
        body = {"registrations": ["AB12CDE"] * 5}
        assert remaining(carol.post("/v1/vehicle/bulk-insurance", body)) == 2

    @pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "DELETE", "POST"])
    @pytest.mark.parametrize("path", [DOMAINS, "/nothing", "/v1/vehicle/x/insurance"])
    def test_whatever_comes_of_it_a_request_takes_one_token(self, carol, method, path):
        """Unknown paths, other methods and refusals count like any request (D5)."""
        assert remaining(carol.request(method, path)) == 2
        assert remaining(carol.get(DOMAINS)) == 1

    def test_refusals_of_the_body_take_one_token(self, carol):
        """413, 415 and 400 carry the headers and count."""
        large = carol.request("POST", DOMAINS, body=b"x" * (1024 * 1024 + 1), headers=JSON)
        other = carol.request("POST", DOMAINS, body=b"{}", headers={"Content-Type": "text/html"})
        wrong = carol.request("POST", DOMAINS, body=b"{", headers=JSON)
        assert [each.status_int for each in (large, other, wrong)] == [413, 415, 400]
        assert [remaining(each) for each in (large, other, wrong)] == [2, 1, 0]

    def test_a_fault_of_the_service_takes_one_token(self, carol, world, caplog):
        """A 500 carries the headers of the account, too."""
        carol.post(DOMAINS, {"name": "a.example"})
        world.engine.execute_sql("UPDATE domain SET created_at = 'broken'")
        response = carol.get(DOMAINS)
        assert (response.status_int, limit(response), remaining(response)) == (500, 3, 1)


class TestAccounts:
    def test_all_keys_of_an_account_share_its_bucket(self, world, carol):
        """A second key brings no second limit (D8)."""
        other = world.client(create_key(world.engine, "carol")[1].text)
        assert [remaining(each.get(DOMAINS)) for each in (carol, other, carol)] == [2, 1, 0]
        assert other.get(DOMAINS).status_int == 429

    def test_accounts_do_not_share_a_bucket(self, carol, alice, bob):
        """One account's flood is nothing to another."""
        use_up(carol)
        assert carol.get(DOMAINS).status_int == 429
        assert remaining(alice.get(DOMAINS)) == 599
        assert remaining(bob.get(DOMAINS)) == 599

    def test_all_applications_share_the_buckets(self, world, carol, carol_key):
        """Each further application on the same state directory counts on (D11)."""
        others = [world.client(carol_key) for _ in range(2)]
        assert [remaining(each.get(DOMAINS)) for each in (carol, *others)] == [2, 1, 0]

    def test_a_plan_change_counts_from_the_next_request(self, carol, world, time):
        """Another limit is told and kept at once; who is over it waits its interval (D12)."""
        use_up(carol, 2)
        plan(world, requests=600)
        assert (limit(carol.get(DOMAINS)), remaining(carol.get(DOMAINS))) == (600, 198)
        plan(world, requests=1, window_seconds=10)
        refused = carol.get(DOMAINS)
        assert (refused.status_int, limit(refused)) == (429, 1)
        assert refused.headers["Retry-After"] == "10"
        time.pass_seconds(10)
        assert carol.get(DOMAINS).status_int == 200

    def test_another_plan_counts_from_the_next_request(self, carol, world):
        """An account that is moved to another plan has that plan's limit at once."""
        use_up(carol)
        set_account_plan(world.engine, "carol", "free")
        assert limit(carol.get(DOMAINS)) == 60

    def test_an_account_beyond_the_last_bucket_is_refused(self, carol, world, caplog):
        """An account whose number has no slot gets 503, never another's bucket (D11)."""
        world.engine.execute_sql("PRAGMA foreign_keys = OFF")
        world.engine.execute_sql("UPDATE api_key SET account_id = 1048577 WHERE account_id = 3")
        Account.update(id=1_048_577).where(Account.name == "carol").execute(world.engine)
        response = carol.get(DOMAINS)
        assert (response.status_int, response.json["code"]) == (503, "service_unavailable")
        assert "account 1,048,577 has no bucket" in caplog.text


class Test429:
    def test_spec_8_3_429_when_the_limit_is_exceeded(self, carol):
        """The request beyond the limit gets 429 with a problem body."""
        use_up(carol)
        response = carol.get(DOMAINS)
        assert (response.status_int, response.json["code"]) == (429, "rate_limit_exceeded")
        assert response.json["title"] == "Too Many Requests"
        assert "3 requests in 60 s" in response.json["detail"]

    def test_retry_after_is_kept(self, carol, time):
        """Who waits Retry-After is admitted; who waits a second less is not (D9)."""
        use_up(carol)
        wait = int(carol.get(DOMAINS).headers["Retry-After"])
        assert wait == 20
        time.pass_seconds(wait - 1)
        assert carol.get(DOMAINS).headers["Retry-After"] == "1"
        time.pass_seconds(1)
        assert carol.get(DOMAINS).status_int == 200

    def test_a_refusal_takes_nothing(self, carol, time):
        """However often it is refused, the account is served when its token is back (D8)."""
        use_up(carol)
        for _ in range(50):
            assert carol.get(DOMAINS).status_int == 429
        time.pass_seconds(20)
        assert carol.get(DOMAINS).status_int == 200

    @pytest.mark.parametrize("path", ["/nothing", "/v1/compliance/AB12CDE"])
    @pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "DELETE", "POST"])
    def test_it_comes_before_path_method_and_body(self, carol, method, path):
        """An empty bucket is told before anything that is wrong with the request (D5)."""
        use_up(carol)
        response = carol.request(method, path, body=b"x" * (1024 * 1024 + 1))
        assert (response.status_int, remaining(response)) == (429, 0)

    def test_nothing_is_done(self, carol, world, statements):
        """A refused request costs one look-up, that of the key."""
        use_up(carol)
        with statements() as seen:
            carol.post(DOMAINS, {"name": "a.example"})
        assert len(seen) == 1


class TestAddresses:
    def test_a_401_shows_and_charges_the_address(self, stranger, time):
        """Who has no valid key has the anonymous limit, 60 a minute unless set (D10)."""
        responses = [stranger.get(DOMAINS) for _ in range(3)]
        assert [each.status_int for each in responses] == [401] * 3
        assert [limit(each) for each in responses] == [60] * 3
        assert [remaining(each) for each in responses] == [59, 58, 57]
        assert reset(responses[2]) == 1_780_000_003

    @pytest.mark.parametrize("key", ["nonsense", "vfd_" + "x" * 64, ""])
    def test_an_invalid_key_charges_the_address(self, world, time, key):
        """A wrong key is charged like none: guessing ends with 429."""
        client = world.client(None, anonymous_limit=2)
        answers = [client.get(DOMAINS, headers={"X-API-Key": key}) for _ in range(3)]
        assert [each.status_int for each in answers] == [401, 401, 429]
        assert answers[2].headers["Retry-After"] == "30"
        assert "WWW-Authenticate" not in answers[2].headers

    def test_a_valid_key_is_never_held_up(self, world, time):
        """An address whose bucket is empty is served with a valid key, and not charged."""
        stranger = world.client(None, anonymous_limit=1)
        alice = world.client(world.alice_key, anonymous_limit=1)
        assert [stranger.get(DOMAINS).status_int for _ in range(2)] == [401, 429]
        assert (alice.get(DOMAINS).status_int, limit(alice.get(DOMAINS))) == (200, 600)
        time.pass_seconds(60)
        assert stranger.get(DOMAINS).status_int == 401

    @pytest.mark.parametrize("path", OPEN)
    def test_open_paths_show_the_address_and_charge_nothing(self, world, time, path):
        """Open paths tell what the address has left, and take nothing of it (D7)."""
        client = world.client(None, anonymous_limit=5)
        client.get(DOMAINS)
        for method in ("GET", "HEAD", "OPTIONS", "PUT", "GET"):
            response = client.request(method, path)
            assert (limit(response), remaining(response)) == (5, 4)
            assert reset(response) == 1_780_000_012

    @pytest.mark.parametrize("path", OPEN)
    def test_open_paths_are_never_refused(self, world, time, path):
        """With an empty bucket an open path answers as ever."""
        client = world.client(None, anonymous_limit=1)
        before = client.get(path).status_int
        client.get(DOMAINS)
        response = client.get(path)
        assert (response.status_int, remaining(response)) == (before, 0)

    def test_an_open_path_charges_no_account_either(self, carol):
        """A key that is presented where none is needed is not looked at."""
        for path in OPEN:
            assert limit(carol.get(path)) == 60
        assert remaining(carol.get(DOMAINS)) == 2

    def test_each_address_has_its_own(self, stranger, time):
        """Two addresses are charged apart."""
        stranger.get(DOMAINS)
        assert remaining(stranger.get(DOMAINS, environ=ADDRESS)) == 59

    def test_a_network_of_ipv6_is_one_client(self, stranger, time):
        """A /64 is what one customer of a provider has: it shares a bucket (D10)."""
        for number in range(3):
            response = stranger.get(DOMAINS, environ={"REMOTE_ADDR": f"2001:db8::{number}"})
        assert remaining(response) == 57

    def test_a_stranger_cannot_choose_an_address(self, stranger, time):
        """X-Real-IP and its like are not believed from a peer we do not know (D10)."""
        for number in range(3):
            given = f"203.0.113.{number}"
            headers = {"X-Real-IP": given, "X-Forwarded-For": given, "Forwarded": f"for={given}"}
            response = stranger.get(DOMAINS, headers=headers)
        assert remaining(response) == 57

    @pytest.mark.parametrize("peer", ["", "10.0.0.9"])
    def test_a_proxy_tells_the_address(self, world, time, peer):
        """Behind a Unix socket or a trusted proxy each client has its own bucket."""
        client = world.client(None, trusted_proxies=(ipaddress.ip_network("10.0.0.0/8"),))
        environ = {"REMOTE_ADDR": peer}
        for address, left in (("203.0.113.1", 59), ("203.0.113.2", 59), ("203.0.113.1", 58)):
            response = client.get(DOMAINS, headers={"X-Real-IP": address}, environ=environ)
            assert remaining(response) == left


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
            assert reset(response) == 1_780_000_002

    def test_the_log_says_why(self, carol, world, broken, caplog):
        """The operator reads the reason; the client does not."""
        response = carol.get(DOMAINS)
        assert f"{world.limits} is not there" in caplog.text
        assert str(world.directory) not in response.text
        assert caplog.records[-1].request_id == response.headers["X-Request-ID"]

    def test_the_log_is_not_flooded(self, carol, broken, caplog, time):
        """The same reason is logged once a minute."""
        for _ in range(20):
            carol.get(DOMAINS)
        assert caplog.text.count("is not there") == 1
        time.pass_seconds(60)
        carol.get(DOMAINS)
        assert caplog.text.count("is not there") == 2

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
        world.database.rename(world.database.with_suffix(".away"))
        response = carol.get(DOMAINS)
        assert (response.status_int, response.json["code"]) == (503, "database_unavailable")
        assert (limit(response), remaining(response)) == (60, 0)
        assert reset(response) == 1_780_000_002

    def test_a_database_lost_after_the_key_was_read_charges_the_account(self, world, carol, caplog):
        """A 503 that comes later has the account's headers."""
        world.engine.execute_sql("ALTER TABLE domain RENAME TO lost")
        response = carol.get(DOMAINS)
        assert response.status_int in (500, 503)
        assert (limit(response), remaining(response)) == (3, 2)


def test_spec_7_429_too_many_requests(carol):
    """More requests than the plan allows get 429."""
    use_up(carol)
    response = carol.get(DOMAINS)
    assert (response.status_int, response.json["title"]) == (429, "Too Many Requests")


def test_every_number_is_one(carol, stranger):
    """The three headers are whole numbers without sign or spaces, on every answer."""
    for client in (carol, stranger):
        for path in (DOMAINS, "/nothing", *OPEN):
            headers = client.get(path).headers
            for name in ("Limit", "Remaining", "Reset"):
                value = headers.getall(f"X-RateLimit-{name}")
                assert len(value) == 1
                assert value[0].isascii()
                assert value[0].isdigit()
                assert json.loads(value[0]) >= 0
