"""GET /api/domains/{domain}."""

import pytest

from app.domains.repository import Domains
from tests.conftest import ON_SQLITE, engine_independent
from tests.contract.answers import SAME_ID, lasting_headers
from tests.rows import each_row

IMPOSSIBLE = {
    "one label": "localhost",
    "wildcard": "*.example",
    "address": "192.0.2.1",
    "IPv6 address": "%5B::1%5D",
    "scheme": "https:%5C%5Ca.example",
    "NUL": "a%00.example",
    "bad UTF-8": "%FF%FE.example",
    "half a surrogate pair": "%ED%A0%80.example",
    "space": "a%20b.example",
    "line feed": "a.example%0A",
    "percent sign": "a%25.example",
    "semicolon": "a.example;x=1",
    "quote": "a'%22.example",
    "SQL": "a.example'%20OR%201=1--",
    "two final dots": "a.example..",
    "dots": "...",
    "right-to-left override": "%E2%80%AEa.example",
    "label too long": "a" * 64 + ".example",
    "far too long": "a." * 2_000 + "example",
    "A-label of nothing": "xn--.example",
}


@pytest.fixture
def created(alice, bob):
    """A domain of alice, as the creation answered it; bob has another."""
    bob.post("/api/domains", {"name": "bob.example"})
    return alice.post("/api/domains", {"name": "bücher.example"}).json


class Test200:
    def test_spec_4_get_domain(self, alice, created):
        """The answer has the four members that the creation answered."""
        response = alice.get("/api/domains/xn--bcher-kva.example")
        assert response.status_int == 200
        assert response.json == created
        assert set(created) == {"id", "name", "status", "created_at"}

    @each_row(
        "name",
        [
            "XN--BCHER-KVA.EXAMPLE",
            "xn--bcher-kva.example.",
            "b%C3%BCcher.example",
            "B%C3%9CCHER.Example.",
            "bu%CC%88cher.example",
            "b%C3%BCcher%E3%80%82example",
            "%78n--bcher-kva%2Eexample",
        ],
    )
    def test_a_name_is_found_in_any_form(self, alice, created, name):
        """Case, a final dot, international letters and percent encoding make no difference."""
        assert alice.get(f"/api/domains/{name}").json == created

    def test_a_suspended_domain_says_so(self, alice, created, world):
        """A suspension by the operator is visible at once."""
        Domains(world.engine).set_status(1, created["name"], "suspended")
        response = alice.get(f"/api/domains/{created['name']}")
        assert response.json == {**created, "status": "suspended"}

    def test_the_same_name_in_two_accounts_is_two_domains(self, alice, bob, created):
        """Each account sees its own domain of a name."""
        other = bob.post("/api/domains", {"name": created["name"]}).json
        assert other["id"] != created["id"]
        assert alice.get(f"/api/domains/{created['name']}").json == created
        assert bob.get(f"/api/domains/{created['name']}").json == other

    def test_head_is_get_without_a_body(self, alice, created):
        """HEAD answers with the headers of GET, its length included (D1)."""
        path = f"/api/domains/{created['name']}"
        get, head = alice.get(path), alice.request("HEAD", path)
        assert head.status_int == 200
        assert head.headers["Content-Length"] == get.headers["Content-Length"]

    def test_two_statements_answer(self, alice, created, statements):
        """One statement reads the key, and one the domain."""
        with statements() as seen:
            alice.get(f"/api/domains/{created['name']}")
        assert len(seen) == 2, seen
        assert 'FROM "api_key"' in seen[0]
        assert 'FROM "domain"' in seen[1]


class Test404:
    def test_another_accounts_domain_answers_like_an_unknown_one(self, alice, created):
        """The answer for another account's domain equals that for an unknown one, byte by byte."""
        anothers = alice.get("/api/domains/bob.example", **SAME_ID)
        nobodys = alice.get("/api/domains/nil.example", **SAME_ID)
        assert (anothers.status_int, anothers.json["code"]) == (404, "domain_not_found")
        assert anothers.body == nobodys.body
        assert lasting_headers(anothers) == lasting_headers(nobodys)

    def test_another_accounts_domain_runs_the_same_statements(self, alice, created, statements):
        """Another account's domain and an unknown one run the same statements."""
        alice.get("/api/domains/nil.example")  # The key is known from here on (D109).
        with statements() as for_anothers:
            alice.get("/api/domains/bob.example")
        with statements() as for_nobodys:
            alice.get("/api/domains/nil.example")
        assert for_anothers == for_nobodys

    @engine_independent
    @each_row("name", IMPOSSIBLE.values(), ids=IMPOSSIBLE)
    def test_an_impossible_name_is_not_found(self, alice, name):
        """An impossible domain name gets 404, and no name is repeated."""
        response = alice.get(f"/api/domains/{name}")
        assert (response.status_int, response.json["code"]) == (404, "domain_not_found")
        assert "omain name" in response.json["detail"]
        assert len(name) < 4 or name not in response.text

    @ON_SQLITE
    @pytest.mark.parametrize("rest", ["/", "%2F", "%2Fexample", "/records", "//"])
    def test_a_longer_path_is_another_path(self, alice, created, rest):
        """A slash after the name, encoded or not, gets 404 (D1)."""
        response = alice.get(f"/api/domains/{created['name']}{rest}")
        assert (response.status_int, response.json["code"]) == (404, "not_found")


class Test405:
    @ON_SQLITE
    @pytest.mark.parametrize("method", ["POST", "PUT", "PATCH"])
    def test_a_domain_cannot_be_changed(self, alice, created, method):
        """Other methods get 405 with the allowed methods."""
        response = alice.request(method, f"/api/domains/{created['name']}")
        assert (response.status_int, response.json["code"]) == (405, "method_not_allowed")
        assert response.headers["Allow"] == "GET, HEAD, DELETE, OPTIONS"
        assert alice.get(f"/api/domains/{created['name']}").json == created


class Test503:
    def test_a_lost_database_is_503_with_retry_after(self, world, caplog):
        """Without its database the service answers 503, not that the domain is unknown."""
        client = world.client(world.alice_key)
        world.store.lose()
        response = client.get("/api/domains/a.example")
        assert (response.status_int, response.json["code"]) == (503, "database_unavailable")
