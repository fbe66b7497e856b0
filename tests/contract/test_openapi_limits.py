"""Texts and lists of requests have limits in the OpenAPI document, which are the service's."""

from collections.abc import Callable

import pytest
from webtest import TestResponse

from app.serve.http.bodies import BODY_BYTES_MAX
from tests.api.watches import put
from tests.conftest import Client
from tests.contract.document_walk import request_schemas

LIMITS = {
    name: node["maxItems" if "array" in node["type"] else "maxLength"]
    for name, node in request_schemas()
    if "maxItems" in node or "maxLength" in node
}
INSURANCE = "/v1/vehicle/AB12CDE/insurance"
BULK = "/v1/vehicle/bulk-insurance"
COMPLIANCE = "/v1/compliance/bulk"
WATCHES = "/v1/watches/bulk"


def longest(path: str, body: bytes) -> Callable[[Client, int], TestResponse]:
    """Return what sends a body with a registration in place of `?` that fills it, or is longer."""

    def send(client: Client, count: int) -> TestResponse:
        if count <= BODY_BYTES_MAX:
            count -= len(body) - len(b"?")
        return client.post(path, body.replace(b"?", b"A" * count))

    return send


SENT: dict[str, Callable[[Client, int], TestResponse]] = {
    "SentRegistration": lambda c, n: c.get(f"/v1/compliance/{'A'.ljust(n, '-')}"),
    # Soft hyphens are left out.
    "SentDomainName": lambda c, n: c.post("/api/domains", {"name": "ü.de".rjust(n, "\u00ad")}),
    "Day": lambda c, n: c.get(f"{INSURANCE}?asOf={'2026-01-01'.ljust(n, '1')}"),
    "Cursor": lambda c, n: c.get(f"/v1/events?after={'3f9a1c07-'.ljust(n, '9')}"),
    "EnquiryText": lambda c, n: put(c, reference="A" * n),
    # An invalid registration in a body fails alone, so only the body's limit counts.
    "BulkRequest.registrations.items": longest(BULK, b'{"registrations":["?"]}'),
    "ComplianceBulkRequest.registrations.items": longest(COMPLIANCE, b'{"registrations":["?"]}'),
    "AddedWatch.registration": longest(WATCHES, b'{"add":[{"registration":"?"}]}'),
    "BulkWatchRequest.remove.items": longest(WATCHES, b'{"remove":["?"]}'),
    "BulkRequest.registrations": lambda c, n: c.post(BULK, {"registrations": ["A"] * n}),
    "ComplianceBulkRequest.registrations": lambda c, n: c.post(
        COMPLIANCE, {"registrations": ["A"] * n}
    ),
    "WatchRequest.leadDays": lambda c, n: put(c, leadDays=list(range(1, n + 1))),
    "AddedWatch.leadDays": lambda c, n: c.post(
        WATCHES, {"add": [{"registration": "A", "leadDays": list(range(1, n + 1))}]}
    ),
    "BulkWatchRequest.add": lambda c, n: c.post(
        WATCHES, {"add": [{"registration": f"A{each}"} for each in range(n)]}
    ),
    "BulkWatchRequest.remove": lambda c, n: c.post(
        WATCHES, {"remove": [f"A{each}" for each in range(n)]}
    ),
}
"""Requests with a text or a list of so many characters or items, by its name in the document."""


def is_refused(response: TestResponse) -> bool:
    """Tell whether a request, or its one item, is refused for its form."""
    items = response.json.get("results", [])
    return response.status_int in (400, 413) or [item.get("code") for item in items] == [
        "invalid_body"
    ]


def test_every_text_and_list_of_requests_has_a_limit() -> None:
    """No text or list of a request is without limit, so a gateway can check each."""
    unlimited = [
        name
        for name, node in request_schemas()
        if ("array" in node["type"] or "string" in node["type"])
        and {"maxItems", "maxLength", "enum"}.isdisjoint(node)
    ]
    assert unlimited == []
    assert LIMITS.keys() == SENT.keys()


@pytest.mark.parametrize("name", LIMITS)
def test_a_limit_is_the_services(world, name) -> None:
    """The service accepts what is as long as the document allows, and refuses what is longer."""
    client = world.client(world.key_of("carol", "enterprise"))
    assert not is_refused(SENT[name](client, LIMITS[name]))
    assert is_refused(SENT[name](client, LIMITS[name] + 1))
