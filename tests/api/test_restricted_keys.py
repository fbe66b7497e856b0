"""Keys that are restricted to operations of one area, or to networks (D178)."""

import ipaddress
import json

import pytest

from app.accounts.administration import create_key, rotate_key, suspend_account
from app.accounts.models import ApiKey
from app.accounts.restrictions import Restrictions
from app.accounts.tokens import parse_token
from app.accounts.usage.report import By, usage_of_hours
from app.serve.http.access_log import AccessLog
from tests.api.rate_limits import limit, remaining
from tests.conftest import STORAGE, Client
from tests.rows import each_row

HERE = "192.0.2.1"
"""The address of the clients of tests."""
ELSEWHERE = {"REMOTE_ADDR": "198.51.100.7"}
JSON = {"Content-Type": "application/json"}
ACCOUNT = ("GET", "/v1/account")
DOMAINS = (
    ("GET", "/api/domains"),
    ("POST", "/api/domains"),
    ("GET", "/api/domains/a.example"),
    ("DELETE", "/api/domains/a.example"),
)
VEHICLES = (
    ("GET", "/v1/vehicle/AB12CDE/insurance"),
    ("POST", "/v1/vehicle/bulk-insurance"),
    ("GET", "/v1/compliance/AB12CDE"),
    ("GET", "/v1/compliance/bulk"),
    ("POST", "/v1/compliance/bulk"),
)
UNRESTRICTED = (("GET", "/v1/usage"), ("GET", "/metrics"))
ALLOWED = {"domains": (*DOMAINS, ACCOUNT), "vehicles": (*VEHICLES, ACCOUNT)}
EVERY = (*DOMAINS, *VEHICLES, *UNRESTRICTED, ACCOUNT)


@pytest.fixture
def restricted(world):
    """`restricted("vehicles", "192.0.2.0/24")` returns a client with such a key of alice."""

    def made(only, *networks, **settings) -> Client:
        restrictions = Restrictions(only, list(networks))
        _, token = create_key(world.engine, "alice", restrictions=restrictions)
        return world.client(token.text, **settings)

    return made


def code_of(response):
    """Return the code of a refusal; None of any other answer."""
    is_problem = response.content_type == "application/problem+json"
    return response.json["code"] if is_problem else None


def key_id(client):
    """Return the id of a client's key."""
    token = parse_token(client.headers["Authorization"].removeprefix("Bearer "))
    assert token
    return token.key_id


class TestOnly:
    @pytest.mark.parametrize("only", ["domains", "vehicles"])
    def test_other_operations_are_refused(self, restricted, only):
        """Usage and metrics too; the account shows itself, whatever a key is restricted to."""
        client = restricted(only, metrics_accounts=["alice"])
        for method, path in EVERY:
            response = client.request(method, path, body=b"{}", headers=JSON)
            is_refused = code_of(response) == "operation_forbidden"
            assert is_refused == ((method, path) not in ALLOWED[only]), (method, path)
            if is_refused:
                told = f"The key may be used only for {only}, not for this operation."
                assert (response.status_int, response.json["detail"]) == (403, told)

    def test_no_method_gets_around_it(self, restricted):
        """HEAD, OPTIONS and methods that a path does not take are refused like the others."""
        client = restricted("domains")
        for method in ("HEAD", "OPTIONS", "PUT", "PATCH", "DELETE"):
            for path in ("/v1/compliance/AB12CDE", "/v1//compliance/AB12CDE", "/v1/usage"):
                status = client.request(method, path).status_int
                assert status in (403, 404), (method, path)

    def test_a_path_that_does_not_exist_is_not_found(self, restricted):
        """The refusal of a key says nothing about it."""
        assert code_of(restricted("domains").get("/v1/nothing")) == "not_found"

    def test_open_paths_stay_open(self, restricted):
        """They look at no key."""
        client = restricted("domains")
        for path in ("/healthz", "/openapi.json", "/docs"):
            assert client.get(path).status_int == 200

    def test_the_details_of_readiness_are_for_other_keys(self, restricted):
        """The state of the registers is no business of a key that has one task."""
        for only, network, is_shown in (
            (None, f"{HERE}/32", True),
            (None, "10.0.0.0/8", False),
            ("vehicles", f"{HERE}/32", False),
        ):
            monitoring = restricted(only, network, metrics_accounts=["alice"])
            assert ("checks" in monitoring.get("/readyz").json) == is_shown, (only, network)

    def test_a_local_scrape_needs_no_key_at_all(self, restricted):
        """So the key that it sends does not matter either (D80)."""
        local = {"REMOTE_ADDR": "127.0.0.1"}
        assert restricted("domains", "10.0.0.0/8").get("/metrics", environ=local).status_int == 200

    def test_a_refusal_is_charged_to_the_account(self, world, restricted, alice):
        """Like every refusal of a valid key, and it is in the account's usage."""
        client = restricted("domains")
        before = remaining(alice.get("/v1/account"))
        refused = client.get("/v1/compliance/AB12CDE")
        assert (limit(refused), remaining(refused)) == (600, before - 1)
        client.application.usage.flush()
        (used,) = usage_of_hours(world.engine, (By.KEY, By.OPERATION))
        assert (used.key, used.operation, used.by_class[1]) == (key_id(client), "compliance", 1)

    def test_the_body_is_not_looked_at(self, restricted):
        """An operation that is refused says nothing about what was sent."""
        client = restricted("domains")
        assert code_of(client.post("/v1/compliance/bulk", b"{")) == "operation_forbidden"
        chunked = {"HTTP_TRANSFER_ENCODING": "chunked"}
        refused = client.get("/v1/compliance/AB12CDE", environ=chunked)
        assert code_of(refused) == "operation_forbidden"


ADMITTED = (
    ("192.0.2.1", "192.0.2.0/24"),
    ("192.0.2.255", "192.0.2.0/24"),
    ("192.0.2.1", "192.0.2.1"),
    ("192.0.2.1", "0.0.0.0/0"),
    ("::ffff:192.0.2.1", "192.0.2.0/24"),
    ("192.0.2.1", "::ffff:192.0.2.0/120"),
    ("2001:db8::7", "2001:db8::/32"),
    ("fe80::1%eth0", "fe80::/10"),
    ("::1", "::/0"),
)
REFUSED = (
    ("192.0.3.0", "192.0.2.0/24"),
    ("192.0.2.1", "::/0"),
    ("2001:db8::7", "0.0.0.0/0"),
    ("::192.0.2.1", "192.0.2.0/24"),
    ("127.0.0.1", "192.0.2.0/24"),
    ("", "0.0.0.0/0"),
    ("", "::/0"),
    ("nonsense", "0.0.0.0/0"),
)


class TestNetworks:
    @each_row(("address", "network"), ADMITTED)
    def test_a_key_works_from_its_networks(self, restricted, address, network):
        """Of either family, and IPv4 addresses in IPv6 are IPv4 (D10)."""
        environ = {"REMOTE_ADDR": address}
        assert restricted(None, network).get("/v1/usage", environ=environ).status_int == 200

    @each_row(("address", "network"), REFUSED)
    def test_it_is_refused_elsewhere(self, restricted, address, network):
        """An address that is not known, as on a Unix socket, is in no network."""
        response = restricted(None, network).get("/v1/usage", environ={"REMOTE_ADDR": address})
        assert (response.status_int, code_of(response)) == (403, "address_forbidden")

    def test_the_refusal_names_the_address(self, restricted):
        """So that an operator sees that a proxy is not trusted; it names no network."""
        client = restricted("domains", "10.1.2.0/24", "10.1.3.0/24")
        told = client.get("/api/domains", environ=ELSEWHERE).json["detail"]
        assert told == "The key may not be used from the address 198.51.100.7."
        unknown = client.get("/api/domains", environ={"REMOTE_ADDR": ""}).json["detail"]
        assert unknown == (
            "The key may be used only from certain networks, and your address is not known."
        )

    def test_one_network_of_several_is_enough(self, restricted):
        """Each of them admits."""
        client = restricted(None, "10.0.0.0/8", f"{HERE}/32", "::/0")
        assert client.get("/v1/usage").status_int == 200
        assert client.get("/v1/usage", environ={"REMOTE_ADDR": "::5"}).status_int == 200
        assert client.get("/v1/usage", environ=ELSEWHERE).status_int == 403

    @pytest.mark.parametrize("peer", ["", "10.0.0.9"])
    def test_a_proxy_passes_the_address(self, restricted, peer):
        """Of a Unix socket or a trusted proxy `X-Real-IP` decides, as for the limits (D10)."""
        trusted = (ipaddress.ip_network("10.0.0.0/24"),)
        client = restricted(None, "203.0.113.0/24", trusted_proxies=trusted)
        for sent, status in (("203.0.113.5", 200), ("198.51.100.7", 403), ("x", 403)):
            headers, environ = {"X-Real-IP": sent}, {"REMOTE_ADDR": peer}
            response = client.get("/v1/usage", headers=headers, environ=environ)
            assert response.status_int == status, sent

    @each_row(
        "headers",
        [
            {"X-Real-IP": "203.0.113.7:80"},
            {"X-Real-IP": "::1%x,203.0.113.7"},
            {"X-Real-IP": ""},
            {"X-Forwarded-For": "203.0.113.7"},
            {"Forwarded": "for=203.0.113.7"},
        ],
    )
    def test_a_forwarded_client_does_not_pass_for_its_proxy(self, restricted, headers):
        """Whoever a proxy does not name by one valid address is in no network (D10)."""
        trusted = (ipaddress.ip_network("127.0.0.0/8"),)
        client = restricted(None, "127.0.0.0/8", "::/0", trusted_proxies=trusted)
        environ = {"REMOTE_ADDR": "127.0.0.1"}
        assert client.get("/v1/usage", environ=environ).status_int == 200
        response = client.get("/v1/usage", headers=headers, environ=environ)
        assert (response.status_int, code_of(response)) == (403, "address_forbidden")
        assert "your address is not known" in response.json["detail"]

    def test_a_client_cannot_choose_its_address(self, restricted):
        """Headers of a peer that is not trusted are ignored."""
        client = restricted(None, "203.0.113.0/24")
        claims = {"X-Real-IP": "203.0.113.5", "X-Forwarded-For": "203.0.113.5"}
        assert client.get("/v1/usage", headers=claims).status_int == 403

    @pytest.mark.parametrize("path", ["/v1/account", "/api/domains", "/v1/nothing", "/metrics"])
    def test_no_path_that_needs_a_key_gets_around_it(self, restricted, path):
        """Neither does the account, nor a path that does not exist."""
        client = restricted(None, "10.0.0.0/8", metrics_accounts=["alice"])
        for method in ("GET", "HEAD", "POST", "OPTIONS"):
            assert client.request(method, path).status_int == 403

    def test_networks_are_checked_before_the_area(self, restricted):
        """Whoever has a stolen key does not learn what it is for."""
        client = restricted("domains", "10.0.0.0/8")
        assert code_of(client.get("/v1/usage")) == "address_forbidden"

    def test_only_a_valid_key_is_told(self, restricted, world):
        """A key that is mistyped, revoked or of a suspended account gets the usual 401."""
        client = restricted(None, "10.0.0.0/8")
        suspend_account(world.engine, "alice")
        assert code_of(client.get("/v1/usage")) == "unauthorized"


class TestStolenKey:
    """Somebody has a key, but is in none of its networks."""

    @pytest.fixture
    def thief(self, restricted):
        return restricted("vehicles", "10.0.0.0/8", anonymous_limit=2)

    def test_it_cannot_drain_the_account(self, thief, alice, stopped_clock):
        """The address is charged like one with a wrong key, until it gets 429."""
        before = remaining(alice.get("/v1/account"))
        answers = [thief.get("/v1/compliance/AB12CDE", environ=ELSEWHERE) for _ in range(4)]
        assert [each.status_int for each in answers] == [403, 403, 429, 429]
        assert [limit(each) for each in answers] == [2] * 4
        assert [remaining(each) for each in answers] == [1, 0, 0, 0]
        told = answers[3].json["detail"]
        assert told.startswith("The limit of 2 requests from this address in 60 s is used up;")
        assert remaining(alice.get("/v1/account")) == before - 1

    def test_the_holder_is_not_held_up(self, thief):
        """From its own networks the key works, whatever others do with it."""
        for _ in range(3):
            thief.get("/v1/account", environ=ELSEWHERE)
        assert thief.get("/v1/account", environ={"REMOTE_ADDR": "10.0.0.1"}).status_int == 200

    def test_it_is_in_no_usage(self, world, thief):
        """Nobody pays for what a thief sends."""
        thief.get("/v1/compliance/AB12CDE")
        thief.application.usage.flush()
        assert usage_of_hours(world.engine, (By.KEY,)) == []

    def test_the_log_names_the_key(self, thief):
        """The operator finds out that it was used elsewhere. No line has the secret."""
        lines: list[bytes] = []
        thief.application.unit._notes.append(AccessLog(lines.extend).note)
        thief.get("/v1/compliance/AB12CDE")
        line = json.loads(lines[0])
        assert (line["key"], line["status"], line["route"]) == (key_id(thief), 403, None)


@STORAGE
class TestFromTheNextRequest:
    def test_a_key_is_restricted_as_long_as_the_database_says_so(self, world, restricted):
        """Workers that know a key forget its restrictions when the database changes (D109)."""
        clients = [restricted("domains", f"{HERE}/32")]
        clients.append(world.client(clients[0].headers["Authorization"].removeprefix("Bearer ")))
        row = ApiKey.id == key_id(clients[0])
        for columns, status in (
            ({}, 200),
            ({"only": "vehicles"}, 403),
            ({"only": ""}, 200),
            ({"networks": "10.0.0.0/8"}, 403),
            ({"networks": "10.0.0.0/8,0.0.0.0/0"}, 200),
            ({"only": "unknown"}, 403),
        ):
            if columns:
                ApiKey.update(**columns).where(row).execute(world.engine)
            statuses = {each.get("/api/domains").status_int for each in clients * 2}
            assert statuses == {status}, columns

    def test_a_rotated_key_stays_restricted(self, world, restricted):
        """Its successor has the same restrictions, and only those."""
        old = restricted("domains", f"{HERE}/32", "2001:db8::/32")
        key, token = rotate_key(world.engine, key_id(old))
        new = world.client(token.text)
        told = new.get("/v1/account").json["key"]
        assert (told["only"], told["networks"]) == ("domains", [f"{HERE}/32", "2001:db8::/32"])
        assert key.secret_hash != token.secret_hash
        for client in (old, new):
            assert client.get("/api/domains").status_int == 200
            assert code_of(client.get("/v1/usage")) == "operation_forbidden"
            elsewhere = client.get("/api/domains", environ=ELSEWHERE)
            assert code_of(elsewhere) == "address_forbidden"

    def test_a_key_that_is_only_like_it_does_not_work(self, world, restricted):
        """The secret of a restricted key is checked like any other."""
        client = restricted("domains")
        other = parse_token(world.bob_key)
        token = parse_token(client.headers["Authorization"].removeprefix("Bearer "))
        assert other
        assert token
        forged = token._replace(secret=other.secret)
        assert world.client(forged.text).get("/api/domains").status_int == 401
