"""POST /api/domains."""

import threading
from collections import Counter

import falcon.testing
import pytest

from app.accounts.administration import set_account_plan, set_plan
from app.domains.repository import Domain
from app.main import create_app
from app.serve.http.bodies import BODY_BYTES_MAX
from tests.conftest import STORAGE, Client, engine_independent
from tests.contract.malformed import NESTED_TOO_DEEPLY, no_objects, not_json
from tests.rows import each_row

PATH = "/api/domains"
KNOWN = '"name": "a.example"'
NOT_JSON = not_json(KNOWN)
NO_OBJECTS = no_objects(KNOWN)
NO_NAMES = {
    "empty": "",
    "blank": " ",
    "one label": "localhost",
    "wildcard": "*.example",
    "wildcard alone": "*",
    "address": "192.0.2.1",
    "wide digits": "\uff11\uff19\uff12.0.2.1",
    "IPv6 address": "2001:db8::1",
    "bracketed address": "[::1]",
    "scheme": "https://a.example",
    "port": "a.example:443",
    "path": "a.example/x",
    "user": "me@a.example",
    "space before": " a.example",
    "space behind": "a.example ",
    "line feed": "a.example\n",
    "tab": "a\t.example",
    "underscore": "a_b.example",
    "hyphen first": "-a.example",
    "hyphen last": "a-.example",
    "empty label": "a..example",
    "dot first": ".a.example",
    "dot alone": ".",
    "two final dots": "a.example..",
    "numeric last label": "a.123",
    "label too long": "a" * 64 + ".example",
    "A-label too long": "\u00fc" * 60 + ".example",
    "name too long": ".".join(["a" * 49] * 5) + ".exam",
    "far too long": "a." * 100_000 + "example",
    "emoji": "\U0001f600.example",
    "joiner": "a\u200db.example",
    "replacement character": "\ufffd.example",
    "mixed directions": "a\u05d0.example",
    "A-label of nothing": "xn--.example",
    "A-label that IDNA would not make": "xn--a.example",
    "SQL": "a'; DROP TABLE domain; --.example",
    "percent encoding": "a%2Eexample",
}


def stored(world):
    """Return the names in the database, of all accounts."""
    return sorted(Domain.select(Domain.name).tuples().execute(world.engine))


def refused(response, status, code, pointer=None):
    """Tell whether a response is this refusal, and points at this member."""
    pointers = [fault["pointer"] for fault in response.json.get("errors", [])]
    expected = (status, code, [] if pointer is None else [pointer])
    return (response.status_int, response.json["code"], pointers) == expected


@pytest.fixture
def post(alice):
    """Send raw bytes, by default as JSON."""

    def send(body, content_type="application/json", **options):
        headers = {} if content_type is None else {"Content-Type": content_type}
        return alice.request("POST", PATH, body=body, headers=headers, **options)

    return send


class Test201:
    def test_spec_4_create_domain(self, alice, bob):
        """The answer is 201 with the domain and its location; only this account has it."""
        response = alice.post(PATH, {"name": "a.example"})
        assert response.status_int == 201
        assert response.headers["Location"] == "/api/domains/a.example"
        assert set(response.json) == {"id", "name", "status", "created_at"}
        assert (response.json["name"], response.json["status"]) == ("a.example", "active")
        assert alice.get(response.headers["Location"]).json == response.json
        assert bob.get(PATH).json == {"domains": []}

    @pytest.mark.parametrize(
        ("sent", "canonical"),
        [
            ("A.EXAMPLE.", "a.example"),
            ("München.Example", "xn--mnchen-3ya.example"),
            ("XN--MNCHEN-3YA.example", "xn--mnchen-3ya.example"),
            ("faß.example", "xn--fa-hia.example"),
            ("例え。テスト", "xn--r8jz45g.xn--zckzah"),
            ("a" * 63 + ".example", "a" * 63 + ".example"),
            (".".join(["a" * 49] * 5) + ".xyz", ".".join(["a" * 49] * 5) + ".xyz"),
            ("1.2.3.4a", "1.2.3.4a"),
        ],
    )
    def test_a_name_is_stored_in_its_canonical_form(self, alice, world, sent, canonical):
        """The stored and answered name is lower case, in A-labels, without a final dot."""
        response = alice.post(PATH, {"name": sent})
        assert response.json["name"] == canonical
        assert response.headers["Location"] == f"/api/domains/{canonical}"
        assert stored(world) == [(canonical,)]

    def test_two_accounts_may_hold_the_same_name(self, alice, bob):
        """Names are unique per account, so no account learns about another's."""
        mine, others = (client.post(PATH, {"name": "a.example"}) for client in (alice, bob))
        assert (mine.status_int, others.status_int) == (201, 201)
        assert mine.json["id"] != others.json["id"]

    def test_a_repeated_name_is_refused(self, post, alice):
        """Of two names neither is created (D90)."""
        response = post(b'{"name": "b.example", "name": "a.example"}')
        assert (response.status_int, response.json["code"]) == (400, "invalid_body")
        assert alice.get(PATH).json == {"domains": []}

    @pytest.mark.parametrize(
        "body",
        [
            b'{"n\\u0061me": "\\u0061.example"}',
            b' {\r\n\t"name" : "a.example" } \n',
        ],
    )
    def test_any_spelling_of_json_is_taken(self, post, body):
        """Escapes and white space are accepted."""
        response = post(body)
        assert (response.status_int, response.json["name"]) == (201, "a.example")

    @pytest.mark.parametrize(
        "content_type",
        [
            "application/json",
            "Application/JSON",
            "application/json;charset=utf-8",
            'application/json ; charset="UTF-8"',
            "application/json;",
        ],
    )
    def test_json_may_name_its_charset(self, post, content_type):
        """The charset UTF-8 is accepted in any spelling."""
        assert post(b'{"name": "a.example"}', content_type).status_int == 201

    def test_a_body_of_exactly_1_mib_is_taken(self, post):
        """A body of exactly the limit is accepted."""
        body = b'{"name": "a.example"}'.ljust(BODY_BYTES_MAX)
        assert len(body) == 1024 * 1024
        assert post(body).status_int == 201

    def test_only_the_bytes_of_content_length_are_read(self, world):
        """Bytes after the body belong to the next request."""
        client = falcon.testing.TestClient(create_app(world.config))
        body = b'{"name": "a.example"}'
        answer = client.simulate_post(
            PATH,
            body=body + b"GET / HTTP/1.1",
            headers={"X-API-Key": world.alice_key, "Content-Type": "application/json"},
            extras={"CONTENT_LENGTH": str(len(body))},
        )
        assert answer.status_code == 201

    def test_four_statements_answer(self, alice, statements):
        """One statement reads the key; a transaction reads name and quota, and inserts.

        On Postgres it locks the account first.
        """
        with statements() as seen:
            alice.post(PATH, {"name": "a.example"})
        verbs = [sql.partition(" ")[0] for sql in seen if "pg_advisory_xact_lock" not in sql]
        assert verbs == ["SELECT", "SELECT", "SELECT", "INSERT"], seen
        assert 'FROM "api_key"' in seen[0]


@engine_independent
class Test400:
    @each_row("fault", NOT_JSON)
    def test_a_body_that_is_not_json_is_refused(self, post, world, fault):
        """A body that is not JSON in UTF-8 gets 400, and nothing is stored."""
        assert refused(post(NOT_JSON[fault]), 400, "invalid_json")
        assert stored(world) == []

    @each_row(
        ("members", "pointer"),
        [
            (b'"name": "a.example", "status": "suspended"', "/status"),
            (b'"domain": "a.example"', "/domain"),
            (b'"Name": "a.example"', "/Name"),
            (b'"x": 1e999, "name": "a.example"', "/x"),
            (b'"name": "a.example", "x": "\\\\u0000"', "/x"),
            (b'"name": "a.example", "x": ' + b"9" * 10_000, "/x"),
            (b'"name": "a.example", "x": ' + b"[" * 100 + b"]" * 100, "/x"),
            (b'"name": "a.example", "AB12CDE": 1', ""),
        ],
    )
    def test_an_unknown_member_is_refused(self, post, world, members, pointer):
        """An unknown member is refused, and nothing is stored."""
        assert refused(post(b"{" + members + b"}"), 400, "unknown_member", pointer)
        assert stored(world) == []

    @each_row("kind", NO_OBJECTS)
    def test_other_json_than_an_object_is_refused(self, post, world, kind):
        """The error of a JSON value that is no object points at the root."""
        assert refused(post(NO_OBJECTS[kind]), 400, "invalid_body", "")
        assert stored(world) == []

    @each_row(
        "members",
        [
            b"",
            b'"name": null',
            b'"name": 1',
            b'"name": 1e999',
            b'"name": true',
            b'"name": ["a.example"]',
            b'"name": {"name": "a.example"}',
            b'"name": ' + b"9" * 5_000,
        ],
    )
    def test_the_name_must_be_a_text(self, post, world, members):
        """The error of a missing name, or one of another type, points at it."""
        assert refused(post(b"{" + members + b"}"), 400, "invalid_body", "/name")
        assert stored(world) == []

    def test_a_name_that_is_nested_too_deeply_is_refused(self, post, world):
        """Deep nesting is refused in known and unknown members."""
        assert refused(post(b'{"name": ' + NESTED_TOO_DEEPLY + b"}"), 400, "invalid_json")
        assert stored(world) == []

    @each_row("text", [b"NaN", b'"a\\u0000.example"', b'"\\ud800.example"', b'"\xff.example"'])
    def test_the_name_itself_must_be_json(self, post, world, text):
        """The name is decoded as strictly as unknown members."""
        assert refused(post(b'{"name": ' + text + b"}"), 400, "invalid_json")
        assert stored(world) == []

    @each_row("name", NO_NAMES.values(), ids=NO_NAMES)
    def test_an_invalid_domain_name_is_refused(self, alice, world, name):
        """A name that DNS could not hold is refused, and the error points at it."""
        assert refused(alice.post(PATH, {"name": name}), 400, "invalid_domain_name", "/name")
        assert stored(world) == []

    def test_a_refusal_does_not_repeat_what_was_sent(self, alice):
        """The refusal has no text of the body."""
        sent = {"name": "<script>alert(1)</script>", "x": "<script>"}
        assert "script" not in alice.post(PATH, sent).text

    def test_a_chunked_body_is_refused(self, post, world):
        """A body without a length is refused instead of being read as empty (D5)."""
        response = post(NOT_JSON["truncated"], environ={"HTTP_TRANSFER_ENCODING": "chunked"})
        assert refused(response, 400, "invalid_request")
        assert stored(world) == []

    def test_a_body_that_ends_early_is_refused(self, world):
        """A body shorter than its Content-Length is refused, even if it is valid JSON."""
        client = falcon.testing.TestClient(create_app(world.config))
        answer = client.simulate_post(
            PATH,
            body=b'{"name": "a.example"}',
            headers={"X-API-Key": world.alice_key, "Content-Type": "application/json"},
            extras={"CONTENT_LENGTH": "22"},
        )
        assert (answer.status_code, answer.json["code"]) == (400, "invalid_request")
        assert stored(world) == []


class Test403:
    @pytest.fixture
    def carol(self, world):
        """A client whose account has a quota of two domains."""
        set_plan(
            world.engine,
            "tiny",
            {"requests": 600, "window_seconds": 60, "bulk_max": 1, "domains_max": 2},
        )
        return world.client(world.key_of("carol", "tiny"))

    def test_the_quota_is_the_plans(self, carol, alice, world):
        """One domain more than the plan allows gets 403; other accounts are unaffected."""
        alice.post(PATH, {"name": "alice.example"})
        statuses = [carol.post(PATH, {"name": f"{n}.example"}).status_int for n in range(3)]
        assert statuses == [201, 201, 403]
        response = carol.post(PATH, {"name": "c.example"})
        assert refused(response, 403, "domain_quota_reached")
        assert response.json["title"] == "Forbidden"
        assert "2 domains" in response.json["detail"]
        assert stored(world) == [("0.example",), ("1.example",), ("alice.example",)]

    def test_a_changed_plan_counts_from_the_next_request(self, carol, world):
        """A higher quota applies without a restart (D12)."""
        statuses = [carol.post(PATH, {"name": f"{n}.example"}).status_int for n in range(3)]
        set_account_plan(world.engine, "carol", "free")
        statuses.append(carol.post(PATH, {"name": "2.example"}).status_int)
        assert statuses == [201, 201, 403, 201]

    def test_a_plan_may_allow_no_domains(self, world):
        """A quota of 0 allows no domain."""
        set_plan(
            world.engine,
            "none",
            {"requests": 600, "window_seconds": 60, "bulk_max": 1, "domains_max": 0},
        )
        dave = world.client(world.key_of("dave", "none"))
        assert refused(dave.post(PATH, {"name": "a.example"}), 403, "domain_quota_reached")

    def test_simultaneous_creations_never_exceed_the_quota(self, carol, world):
        """Of many simultaneous creations, as many succeed as the quota allows."""
        statuses = at_once(world, carol.headers, [f"{n}.example" for n in range(8)])
        assert statuses == {201: 2, 403: 6}
        assert len(stored(world)) == 2


class Test409:
    @pytest.mark.parametrize("again", ["bücher.example", "XN--BCHER-KVA.EXAMPLE."])
    def test_a_name_is_there_once(self, alice, world, again):
        """The same name in any form gets 409, and the first domain stays unchanged."""
        first = alice.post(PATH, {"name": "bücher.example"}).json
        assert refused(alice.post(PATH, {"name": again}), 409, "domain_already_exists")
        assert alice.get(PATH).json == {"domains": [first]}
        assert len(stored(world)) == 1

    def test_it_comes_before_the_quota(self, alice, world):
        """At a full quota, a repeated creation gets 409, which shows that it succeeded before."""
        set_plan(
            world.engine,
            "one",
            {"requests": 600, "window_seconds": 60, "bulk_max": 1, "domains_max": 1},
        )
        alice.post(PATH, {"name": "a.example"})
        set_account_plan(world.engine, "alice", "one")
        assert refused(alice.post(PATH, {"name": "a.example"}), 409, "domain_already_exists")
        assert refused(alice.post(PATH, {"name": "b.example"}), 403, "domain_quota_reached")

    def test_simultaneous_creations_make_one(self, alice, world):
        """Of many simultaneous creations of one name, exactly one succeeds."""
        assert at_once(world, alice.headers, ["a.example"] * 8) == {201: 1, 409: 7}
        assert stored(world) == [("a.example",)]


def at_once(world, headers, names):
    """Create all names at once through one application; return the counted statuses."""
    app = create_app(world.config)
    start = threading.Barrier(len(names))
    statuses = []

    def create(name):
        client = Client(app, None)
        client.headers = headers
        start.wait()
        statuses.append(client.post(PATH, {"name": name}).status_int)

    threads = [threading.Thread(target=create, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return Counter(statuses)


@engine_independent
class Test413:
    def test_one_byte_over_1_mib_is_too_much(self, post, world):
        """A body over the limit is refused, whatever it holds and however it is declared."""
        body = b'{"name": "a.example"}'.ljust(BODY_BYTES_MAX + 1)
        for content_type in ("application/json", "text/plain", None):
            assert refused(post(body, content_type), 413, "body_too_large")
        assert stored(world) == []

    @pytest.mark.parametrize("digits", ["1048577", "99999999999", "9" * 4_000])
    def test_a_declared_length_is_enough(self, world, digits):
        """A declared length over the limit is refused, however large the number."""
        client = falcon.testing.TestClient(create_app(world.config))
        answer = client.simulate_post(
            PATH, headers={"X-API-Key": world.alice_key}, extras={"CONTENT_LENGTH": digits}
        )
        assert (answer.status_code, answer.json["code"]) == (413, "body_too_large")


@engine_independent
class Test415:
    @each_row(
        "content_type",
        [
            None,
            "",
            "text/plain",
            "text/json",
            "application/x-www-form-urlencoded",
            "multipart/form-data; boundary=x",
            "application/json-patch+json",
            "application/vnd.api+json",
            "application/json; charset=iso-8859-1",
            "application/json; charset=utf-16",
            "application/json; charset=",
            "application/json; version=2",
            "application/json, application/json",
            "application",
            "*/*",
            "\u00fc",
        ],
    )
    def test_only_json_in_utf_8_is_taken(self, post, world, content_type):
        """A missing or other content type or charset gets 415 before the body is decoded."""
        for body in (b'{"name": "a.example"}', b"{"):
            assert refused(post(body, content_type), 415, "unsupported_media_type")
        assert stored(world) == []


@STORAGE
class Test503:
    def test_a_database_that_stays_locked_is_503(self, world, monkeypatch, caplog):
        """If another program writes for too long, the creation is refused as a whole (D27)."""
        monkeypatch.setattr("app.storage.sqlite.BUSY_TIMEOUT_SECONDS", 0.01)
        monkeypatch.setattr("app.storage.engine.SERVING_LIMITS", {"lock_timeout": "10ms"})
        client = world.client(world.alice_key)
        with world.engine.atomic():
            world.store.lock_writes(world.engine)
            response = client.post(PATH, {"name": "a.example"})
        assert refused(response, 503, "database_unavailable")
        assert int(response.headers["Retry-After"]) >= 1
        assert stored(world) == []
        assert client.post(PATH, {"name": "a.example"}).status_int == 201
