"""One conversation with a service on SQLite and one on Postgres: identical answers.

Only generated values differ: ids, times, and the two headers that count.
"""

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from webtest import TestResponse

from app.accounts.administration import create_key
from app.accounts.restrictions import Restrictions
from tests.conftest import World
from tests.contract.answers import lasting_headers
from tests.enquiry import set_watches_max
from tests.stores import Template

# By code point, upper case precedes lower case, digits precede letters, and hyphens precede both;
# other collations mix or skip them.
NAMES = (
    "b.example",
    "a-b.example",
    "ab.example",
    "a1.example",
    "xn--bcher-kva.example",
    "a.b-c.de",
)
CHANGING = (
    rb'"request_id":"[0-9a-f]{32}"',
    rb'"id":"dom_[0-9A-Za-z]{20}"',
    rb'"[a-zA-Z_]+":"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}Z"',
    rb'"age_seconds":[0-9]+',
)
DATES = {"validFrom": "2026-01-01", "validTo": "2026-12-31"}
VEHICLES = [
    {"registration": "AB12CDE", "make": "Škoda", "year": 2012, "motExpiry": "2026-05-13"},
    {"registration": "MÜAB123", "make": "", "insured": True, "taxStatus": "taxed"},
    {"registration": "AA1", "motExempt": True, "firstRegistered": "1959-12-31"},
]
POLICIES = [
    {"registration": "AB12CDE", "number": number, "insurer": insurer} | DATES
    for number, insurer in (("p-1", "b"), ("P-1", "B"), ("P1", "é"), ("p1", "a"), ("P_1", ""))
]
FINES = [
    {"registration": "AB12CDE", "reference": "F-1", "amount": "65.00", "currency": "EUR"},
    {"registration": "ZZ1", "reference": "f-1", "amount": "0", "issuedOn": "2026-01-31"},
]
JSON = {"Content-Type": "application/json"}
KEYLESS = {"Authorization": ""}
CHUNKED = {"HTTP_TRANSFER_ENCODING": "chunked"}
LARGE = b"x" * (1024 * 1024 + 1)
POSTED = ("/api/domains", "/v1/vehicle/bulk-insurance", "/v1/compliance/bulk")
READ = (
    *("/api/domains", "/api/domains/b.example"),
    *("/v1/vehicle/AB12CDE/insurance", "/v1/compliance/AB12CDE", "/v1/account", "/v1/usage"),
)
PLATES = ("AB12CDE", "ab 12-cde", "MÜAB123", "AA1", "ZZ1", "NONE1", "A" * 13, "0", "é")


def lines() -> Iterator[tuple[str, object]]:
    """Return the conversation: paths in order, with the posted document, or None for a GET."""
    for name in (*NAMES, NAMES[0], "no name", "B\u00fccher.example"):
        yield "/api/domains", {"name": name}
    for query in ("", "?limit=2", "?limit=2&after=a1.example", "?status=active", "?limit=0"):
        yield f"/api/domains{query}", None
    for name in ("AB.example", "none.example", "%00"):
        yield f"/api/domains/{name}", None
    for plate in map(quote, PLATES):
        for path in (f"/v1/vehicle/{plate}/insurance", f"/v1/compliance/{plate}"):
            for query in ("?asOf=2026-05-13", "?asOf=0001-01-01", "?asOf=9999-12-31&explain=true"):
                yield path + query, None
    for registrations in (PLATES, (), ("AA1",) * 3):
        body = {"registrations": registrations, "asOf": "2026-06-01"}
        yield "/v1/vehicle/bulk-insurance", body
        yield "/v1/compliance/bulk", {**body, "explain": True, "details": True}
    for path in ("/readyz", "/healthz", "/nothing"):
        yield path, None


def refusals() -> Iterator[tuple[int, str, str, dict[str, Any]]]:
    """Return one refusal of each kind per operation: status, method, path, and request.

    The tests of the operations try all refusals of each kind on SQLite alone.
    """
    for path in READ:
        yield 401, "GET", path, {"headers": KEYLESS}
        yield 405, "PATCH", path, {}
        yield 404, "GET", f"{path}/", {}
        yield 400, "GET", path, {"environ": CHUNKED}
    for path in POSTED:
        yield 401, "POST", path, {"headers": KEYLESS | JSON, "body": b"{}"}
        yield 405, "PUT", path, {}
        yield 400, "POST", path, {"headers": JSON, "body": b"{"}
        yield 400, "POST", path, {"headers": JSON, "body": b"[]"}
        yield 400, "POST", path, {"headers": JSON, "body": b"{}"}
        yield 413, "POST", path, {"headers": JSON, "body": LARGE}
        yield 415, "POST", path, {"headers": {"Content-Type": "text/plain"}, "body": b"{}"}
    yield 400, "POST", POSTED[0], {"headers": JSON, "body": b'{"name": "localhost"}'}
    yield 400, "POST", POSTED[1], {"headers": JSON, "body": b'{"registrations": [1]}'}
    yield 400, "POST", POSTED[1], {"headers": JSON, "body": b'{"registrations": [], "asOf": 1}'}
    for query in ("limit=0", "after=x", "status=deleted", "limit=1&limit=1"):
        yield 400, "GET", f"{READ[0]}?{query}", {}
    yield 404, "GET", "/api/domains/localhost", {}
    for path in READ[2:4]:
        yield 400, "GET", path.replace("AB12CDE", "-"), {}
        yield 400, "GET", f"{path}?asOf=today", {}
    yield 400, "GET", "/v1/compliance/AB12CDE?explain=2", {}
    for key in ("nonsense", "Bearer", "Basic nonsense"):
        yield 401, "GET", "/api/domains", {"headers": {"Authorization": key}}


def masked(response: TestResponse) -> tuple[str, dict[str, str], bytes]:
    """Return an answer without its generated values."""
    body = response.body
    for pattern in CHANGING:
        body = re.sub(pattern, rb"*", body)
    headers = {name.lower(): text for name, text in lasting_headers(response).items()}
    del headers["x-request-id"]
    return response.status, headers, body


@pytest.fixture
def worlds(
    sqlite_template: Template, postgres_template: Template, tmp_path
) -> Iterator[list[World]]:
    """A SQLite and a Postgres installation with the same content."""
    templates = (sqlite_template, postgres_template)
    worlds = []
    for template, name in zip(templates, ("sqlite", "postgres"), strict=True):
        (tmp_path / name).mkdir()
        world = World(tmp_path / name, template.store(tmp_path / name), template.keys)
        for rows in (VEHICLES, POLICIES, FINES):
            world.load(rows)
        world.load([VEHICLES[0] | {"make": "Other", "color": "red"}], register="rdw")
        worlds.append(world)
    yield worlds
    for world, template in zip(worlds, templates, strict=True):
        world.close()
        template.take_back(world.store)


def test_both_databases_answer_alike(worlds):
    """Status, headers and every byte of every answer are equal, in the same order."""
    on_sqlite, on_postgres = (world.client(world.alice_key) for world in worlds)
    seen = set()
    for path, document in lines():
        answers = [
            masked(client.get(path) if document is None else client.post(path, document))
            for client in (on_sqlite, on_postgres)
        ]
        assert answers[0] == answers[1], path
        seen.add(answers[0][0][:3])
    assert seen == {"200", "201", "400", "404", "409"}


def test_both_databases_refuse_alike(worlds):
    """Each kind of refusal of each operation is equal to the byte, and changes nothing."""
    on_sqlite, on_postgres = (world.client(world.alice_key) for world in worlds)
    for status, method, path, sent in refusals():
        answers = [
            masked(client.request(method, path, **sent)) for client in (on_sqlite, on_postgres)
        ]
        assert answers[0] == answers[1], (method, path)
        assert answers[0][0].startswith(str(status)), (method, path, answers[0])
    assert on_postgres.get("/api/domains").json == {"domains": []}


def test_both_databases_watch_alike(worlds):
    """Watches and their lists are equal to the byte, in the same order."""
    clients = [world.client(world.alice_key) for world in worlds]
    for world in worlds:
        set_watches_max(world.engine, "standard", len(PLATES))
    added = [{"registration": each, "leadDays": [7, 28]} for each in PLATES]
    for path, document in (
        ("/v1/watches/bulk", {"add": added, "remove": ["ZZ2"]}),
        ("/v1/watches/bulk", {"add": [added[0]], "remove": ["AA1"]}),
        ("/v1/watches", None),
        ("/v1/watches?limit=2&after=AA1", None),
        ("/v1/watches/AB12CDE", None),
        ("/v1/watches/AA1", None),
        ("/v1/events?after=00000000-1", None),
    ):
        answers = [
            masked(each.get(path) if document is None else each.post(path, document))
            for each in clients
        ]
        assert answers[0] == answers[1], path
    plates = [each["registration"] for each in clients[0].get("/v1/watches").json["watches"]]
    assert plates == ["0", "AB12CDE", "MÜAB123", "NONE1", "ZZ1", "É"]


def test_both_databases_restrict_alike(worlds):
    """The answers to a restricted key are equal to the byte (D178)."""
    restrictions = Restrictions("domains", ["192.0.2.0/24"])
    keys = [create_key(world.engine, "alice", restrictions=restrictions)[1] for world in worlds]
    clients = [world.client(key.text) for world, key in zip(worlds, keys, strict=True)]
    for path, address, status in (
        ("/api/domains", "192.0.2.1", "200"),
        ("/v1/usage", "192.0.2.1", "403"),
        ("/api/domains", "192.0.3.1", "403"),
    ):
        answers = [masked(each.get(path, environ={"REMOTE_ADDR": address})) for each in clients]
        assert answers[0] == answers[1], path
        assert answers[0][0].startswith(status), path
