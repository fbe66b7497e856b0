"""GET /api/domains."""

import re

import pytest

from app.domains.repository import Domain, Domains
from tests.conftest import STORAGE, engine_independent
from tests.rows import each_row

pytestmark = pytest.mark.sample

PATH = "/api/domains"


def create(client, *names):
    for name in names:
        assert client.post(PATH, {"name": name}).status_int == 201


def names(response):
    assert response.status_int == 200
    return [domain["name"] for domain in response.json["domains"]]


def suspend(world, name):
    Domains(world.engine).set_status(1, name, "suspended")


class Test200:
    def test_spec_4_list_domains_returns_all_domains_of_the_account(self, alice, bob):
        """The answer has every domain of the caller's account, and none of another's."""
        create(alice, "b.example", "a.example")
        create(bob, "c.example", "a.example")
        assert names(alice.get(PATH)) == ["a.example", "b.example"]
        assert names(bob.get(PATH)) == ["a.example", "c.example"]

    def test_an_item_is_what_get_answers(self, alice):
        """A domain in the list equals the answer of GET."""
        create(alice, "a.example")
        assert alice.get(PATH).json == {"domains": [alice.get(f"{PATH}/a.example").json]}

    def test_spec_2_domain_id(self, alice):
        """The identifier is `dom_` and 20 letters or digits, unique per domain."""
        create(alice, "a.example", "b.example")
        ids = [domain["id"] for domain in alice.get(PATH).json["domains"]]
        assert all(re.fullmatch(r"dom_[0-9A-Za-z]{20}", id) for id in ids)
        assert len(set(ids)) == 2

    def test_spec_2_domain_name(self, alice):
        """The name is in canonical form."""
        create(alice, "München.Example.")
        assert names(alice.get(PATH)) == ["xn--mnchen-3ya.example"]

    def test_spec_2_domain_status(self, alice, world):
        """The status is `active`, or `suspended` if the operator suspended it."""
        create(alice, "a.example", "b.example")
        suspend(world, "b.example")
        statuses = [domain["status"] for domain in alice.get(PATH).json["domains"]]
        assert statuses == ["active", "suspended"]

    def test_spec_2_domain_created_at(self, alice, world):
        """The time of creation is ISO 8601, in UTC, in whole seconds."""
        create(alice, "a.example")
        Domain.update(created_at=1_767_601_800).execute(world.engine)
        assert alice.get(PATH).json["domains"][0]["created_at"] == "2026-01-05T08:30:00Z"

    def test_an_account_without_domains_gets_an_empty_list(self, alice, bob):
        """The answer is an empty array."""
        create(bob, "b.example")
        assert alice.get(PATH).json == {"domains": []}

    def test_domains_are_ordered_by_name(self, alice):
        """Names are sorted by code point, whatever the order of creation."""
        create(alice, "ab.example", "a.example", "a1.example", "a-b.example")
        expected = ["a-b.example", "a.example", "a1.example", "ab.example"]
        assert names(alice.get(PATH)) == expected

    def test_all_means_all(self, alice, world):
        """Without `limit` there are no pages: 1,001 domains are in one answer."""
        rows = [
            {
                "id": f"dom_{n:020}",
                "account": 1,
                "name": f"{n:04}.example",
                "status": "active",
                "created_at": 0,
            }
            for n in range(1_001)
        ]
        Domain.insert_many(rows).execute(world.engine)
        assert len(names(alice.get(PATH))) == 1_001
        page = alice.get(f"{PATH}?limit=1000").json
        assert (len(page["domains"]), page["next"]) == (1_000, "0999.example")

    def test_pages_walk_through_all_domains(self, alice, bob):
        """With each `next` passed as `after`, the pages have every domain once."""
        create(alice, *(f"{letter}.example" for letter in "abcde"))
        create(bob, "bb.example", "z.example")
        pages = []
        after: str | None = ""
        while after is not None:
            page = alice.get(f"{PATH}?limit=2{after and f'&after={after}'}")
            pages.append(names(page))
            after = page.json["next"]
        assert pages == [["a.example", "b.example"], ["c.example", "d.example"], ["e.example"]]

    @pytest.mark.parametrize("limit", [2, 3, 1_000])
    def test_next_is_null_on_the_last_page(self, alice, limit):
        """The last page has `next` null, even if it is full."""
        create(alice, "a.example", "b.example")
        assert alice.get(f"{PATH}?limit={limit}").json["next"] is None

    def test_next_is_null_on_an_empty_page(self, alice):
        """With `limit` even an empty page has `next`."""
        assert alice.get(f"{PATH}?limit=1").json == {"domains": [], "next": None}

    def test_next_is_absent_without_limit(self, alice):
        """Without `limit` there is no `next`."""
        create(alice, "a.example", "b.example")
        assert set(alice.get(f"{PATH}?after=a.example").json) == {"domains"}

    @pytest.mark.parametrize("after", ["b.example", "B.Example.", "aa.example"])
    def test_after_leaves_out_what_comes_before(self, alice, after):
        """`after` takes a name in any form, existing or not, and excludes it."""
        create(alice, "a.example", "b.example", "c.example")
        expected = ["b.example", "c.example"] if after == "aa.example" else ["c.example"]
        assert names(alice.get(f"{PATH}?after={after}")) == expected

    def test_after_takes_an_international_name(self, alice):
        """`after` is compared in canonical form."""
        create(alice, "xn--mnchen-3ya.example", "z.example")
        assert names(alice.get(f"{PATH}?after=m%C3%BCnchen.example")) == ["z.example"]

    def test_status_filters(self, alice, world):
        """`status` selects the domains of that status, also in pages."""
        create(alice, "a.example", "b.example", "c.example", "d.example")
        suspend(world, "b.example")
        suspend(world, "d.example")
        assert names(alice.get(f"{PATH}?status=active")) == ["a.example", "c.example"]
        page = alice.get(f"{PATH}?status=suspended&limit=1")
        assert (names(page), page.json["next"]) == (["b.example"], "b.example")
        rest = alice.get(f"{PATH}?status=suspended&limit=1&after=b.example")
        assert (names(rest), rest.json["next"]) == (["d.example"], None)

    @pytest.mark.parametrize("query", ["", "?", "?&", "?&&"])
    def test_an_empty_query_is_none(self, alice, query):
        """A question mark alone changes nothing."""
        create(alice, "a.example")
        assert names(alice.get(PATH + query)) == ["a.example"]

    def test_a_body_is_ignored(self, alice):
        """The body of a GET is read and discarded, even if it is malformed or too large."""
        for body in (b"{not json", b"x" * (2 * 1024 * 1024)):
            assert alice.get(PATH, body=body).status_int == 200

    def test_head_is_get_without_a_body(self, alice):
        """HEAD answers with the headers of GET, its length included (D1)."""
        create(alice, "a.example")
        get, head = alice.get(PATH), alice.request("HEAD", PATH)
        assert head.status_int == 200
        assert head.headers["Content-Length"] == get.headers["Content-Length"]
        assert head.content_type == "application/json"

    @pytest.mark.parametrize("query", ["", "?limit=2&after=a.example&status=active"])
    def test_two_statements_answer(self, alice, statements, query):
        """One statement reads the key, and one any number of domains."""
        create(alice, *(f"{letter}.example" for letter in "abcde"))
        with statements() as seen:
            alice.get(PATH + query)
        assert len(seen) == 2, seen
        assert 'FROM "api_key"' in seen[0]
        assert 'FROM "domain"' in seen[1]


@engine_independent
class Test400:
    @each_row(
        ("query", "parameter"),
        [
            *((f"limit={value}", "limit") for value in ("", "0", "1001", "-1", "1.0", "1e2", "x")),
            *((f"limit={value}", "limit") for value in ("%2B1", "%201", "%D9%A1", "9" * 5_000)),
            ("limit=1&limit=1", "limit"),
            ("limit=1&limit=2", "limit"),
            ("limit=1,2", "limit"),
            *((f"after={value}", "after") for value in ("", "x", "*.example", "1.2.3.4", "%00")),
            *((f"after={value}", "after") for value in ("%FF.example", "a" * 5_000, "a%2Fb.c")),
            ("after=a.example&after=b.example", "after"),
            ("status=", "status"),
            ("status=Active", "status"),
            ("status=deleted", "status"),
            ("status=active,suspended", "status"),
            ("status=active&status=active", "status"),
        ],
    )
    def test_a_bad_parameter_is_named(self, alice, query, parameter):
        """The error of a wrong or repeated parameter names it."""
        response = alice.get(f"{PATH}?{query}")
        assert (response.status_int, response.json["code"]) == (400, "invalid_parameter")
        assert f" {parameter} " in response.json["detail"]
        assert "errors" not in response.json

    def test_a_chunked_body_is_refused(self, alice):
        """A body without a length is refused even on a GET (D5)."""
        response = alice.get(PATH, environ={"HTTP_TRANSFER_ENCODING": "chunked"})
        assert (response.status_int, response.json["code"]) == (400, "invalid_request")


@STORAGE
class Test503:
    def test_a_lost_database_is_503_with_retry_after(self, world, caplog):
        """Without its database the service answers 503 with Retry-After."""
        client = world.client(world.alice_key)
        world.store.lose()
        response = client.get(PATH)
        assert (response.status_int, response.json["code"]) == (503, "database_unavailable")
        assert int(response.headers["Retry-After"]) >= 1

    def test_the_next_request_tries_again(self, world, caplog):
        """When the database is back it is used without a restart."""
        client = world.client(world.alice_key)
        world.store.lose()
        assert client.get(PATH).status_int == 503
        world.store.give_back()
        assert client.get(PATH).status_int == 200
