"""One shape of errors on all paths, with all methods and `Accept` headers (D5)."""

import json

import pytest

from app.errors import CATALOGUE
from tests.rows import each_row

PATHS = [
    "/",
    "/nothing",
    "/api/domains",
    "/api/domains/",
    "/api/domains?limit=x",
    "/api/domains/a.example",
    "/api/domains/%00%FF",
    "/v1/vehicle/AB12CDE/insurance",
    "/v1/vehicle/%FF/insurance?asOf=x",
    "/v1/vehicle/bulk-insurance",
    "/v1/compliance/AB12CDE?explain=x",
    "/v1/compliance/",
    "/v1/watches?limit=x",
    "/v1/watches/AB12CDE",
    "/v1/watches/bulk",
    "/v1/events?after=x",
    "/healthz",
    "/readyz",
    "/openapi.json",
    "/docs",
    "/docs/nothing",
    "/docs/operations/nothing",
]
METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "BREW"]
ACCEPTED = [
    "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
    "text/html",
    "application/xml",
    "text/plain",
    "multipart/form-data",
    "application/json;q=0, */*;q=0",
    "nonsense",
    "",
    None,
]
REQUIRED = {"type", "title", "status", "detail", "code", "request_id"}
INTERNALS = ("Traceback", "Error", "sqlite", "peewee", "msgspec", "falcon", "<", ".py")

pytestmark = pytest.mark.filterwarnings("ignore:Unknown REQUEST_METHOD")


def require_problem(response):
    """Fail unless the body of a response is an error in the common shape."""
    assert response.content_type == "application/problem+json"
    problem = json.loads(response.body)
    assert set(problem) - {"errors"} == REQUIRED
    assert problem["status"] == response.status_int
    assert (problem["status"], problem["title"]) == CATALOGUE[problem["code"]][:2]
    assert problem["type"] == f"/docs/errors#{problem['code']}"
    assert problem["request_id"] == response.headers["X-Request-ID"]
    assert problem["detail"][0].isupper()
    assert not any(word in response.text for word in INTERNALS)
    for fault in problem.get("errors", []):
        assert set(fault) == {"pointer", "detail"}


@pytest.mark.parametrize("accept", ACCEPTED)
@pytest.mark.parametrize("who", ["alice", "stranger"])
def test_every_refusal_has_one_shape(request, who, accept):
    """No refusal is HTML, XML or empty, for any path or client, but for lost people (D5)."""
    client = request.getfixturevalue(who)
    headers = {} if accept is None else {"Accept": accept}
    for path in PATHS:
        for method in METHODS:
            response = client.request(method, path, headers=headers)
            assert response.status_int < 500, f"{method} {path}"
            is_of_person = accept in ACCEPTED[:2] and method in ("GET", "HEAD")
            if is_of_person and path.endswith("/nothing"):
                assert (response.status_int, response.content_type) == (404, "text/html")
            elif method == "HEAD" or response.status_int == 204:
                assert response.body == b""
            elif response.status_int >= 400:
                require_problem(response)


@each_row("accept", ACCEPTED)
def test_every_success_except_the_page_is_json(alice, accept):
    """A success ignores `Accept`, too."""
    headers = {} if accept is None else {"Accept": accept}
    for path in ("/api/domains", "/healthz", "/readyz", "/openapi.json"):
        response = alice.get(path, headers=headers)
        assert (response.status_int, response.content_type) == (200, "application/json")


@pytest.mark.parametrize("accept", ["text/html", "multipart/form-data", None])
def test_a_failure_of_the_database_has_the_same_shape(world, caplog, accept):
    """An error of the service has the same shape as an error of the client."""
    headers = {} if accept is None else {"Accept": accept}
    client = world.client(world.alice_key)
    world.database.unlink()
    for path in ("/nothing", "/api/domains", "/v1/compliance/AB12CDE", "/readyz"):
        response = client.get(path, headers=headers)
        assert response.status_int == 503
        require_problem(response)


@each_row("path", ["/api/domains", "/v1/vehicle/bulk-insurance"])
@each_row(
    ("body", "content_type", "status"),
    [
        (b"{}", "text/html", 415),
        (b"{", "application/json", 400),
        (b"{}", "application/json", 400),
        (b"x" * (1024 * 1024 + 1), "application/json", 413),
    ],
)
def test_a_refused_body_has_the_same_shape(alice, path, body, content_type, status):
    """The answer has the same shape whatever is wrong with a body."""
    response = alice.request("POST", path, body=body, headers={"Content-Type": content_type})
    assert response.status_int == status
    require_problem(response)
