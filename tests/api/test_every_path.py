"""Rules for every path: methods, order of checks, request id, headers, log (D1, D5, D7)."""

import ipaddress
import json
import re
from typing import ClassVar

import falcon.testing
import pytest

from app.accounts.administration import set_plan
from app.documentation.resources import ASSETS
from app.domains.repository import Domain
from app.main import create_app
from tests.conftest import engine_independent
from tests.contract.answers import SAME_ID, lasting_headers
from tests.rows import each_row

KNOWN = {
    "/api/domains": "GET, HEAD, POST, OPTIONS",
    "/api/domains/a.example": "GET, HEAD, DELETE, OPTIONS",
    "/v1/vehicle/AB12CDE/insurance": "GET, HEAD, OPTIONS",
    "/v1/vehicle/bulk-insurance": "POST, OPTIONS",
    "/v1/compliance/AB12CDE": "GET, HEAD, OPTIONS",
    "/v1/compliance/bulk": "GET, HEAD, POST, OPTIONS",
    "/v1/watches": "GET, HEAD, OPTIONS",
    "/v1/watches/AB12CDE": "GET, HEAD, PUT, DELETE, OPTIONS",
    "/v1/watches/bulk": "GET, HEAD, POST, PUT, DELETE, OPTIONS",
    "/v1/events": "GET, HEAD, OPTIONS",
    "/v1/account": "GET, HEAD, OPTIONS",
    "/v1/usage": "GET, HEAD, OPTIONS",
    "/healthz": "GET, HEAD, OPTIONS",
    "/readyz": "GET, HEAD, OPTIONS",
    "/openapi.json": "GET, HEAD, OPTIONS",
    "/docs": "GET, HEAD, OPTIONS",
    "/docs/operations/putWatch": "GET, HEAD, OPTIONS",
    "/docs.md": "GET, HEAD, OPTIONS",
    "/metrics": "GET, HEAD, OPTIONS",
    "/": "GET, HEAD, OPTIONS",
    "/docs/errors": "GET, HEAD, OPTIONS",
    "/docs/try": "GET, HEAD, OPTIONS",
    f"/docs/{ASSETS['style.css'].served_name}": "GET, HEAD, OPTIONS",
}
CACHING = dict.fromkeys(
    (
        *("/", "/docs", "/docs/operations/putWatch", "/docs.md", "/docs/errors", "/docs/try"),
        "/openapi.json",
    ),
    "no-cache",
)
CACHING[f"/docs/{ASSETS['style.css'].served_name}"] = "public, max-age=31536000, immutable"
UNKNOWN = [
    "//",
    "/api",
    "/api/",
    "/api/domains/",
    "/api//domains",
    "//api/domains",
    "/API/domains",
    "/api/Domains",
    "/api/domains/a.example/",
    "/api/domains;x=1",
    "/api/domains/a.example/records",
    "/v1",
    "/v1/api/domains",
    "/v2/compliance/AB12CDE",
    "/v1/compliance",
    "/v1/compliance/",
    "/v1/compliance/AB12CDE/",
    "/v1/vehicle/AB12CDE",
    "/v1/vehicle/AB12CDE/insurance/",
    "/v1/vehicle/bulk-insurance/",
    "/vehicle/AB12CDE/insurance",
    "/healthz/",
    "/docs/",
    "/docs/swagger-ui.css/",
    "/docs/errors/",
    "/docs/operations/",
    "/docs/operations/putWatch/",
    "/docs/Operations/putWatch",
    "/favicon.ico",
    "/%00",
    "/%FF",
    "/%E2%82",
    "/" + "x" * 10_000,
]
DOTTED = [
    "/..",
    "/./healthz",
    "/docs/../openapi.json",
    "/docs/%2E%2E/openapi.json",
    "/docs/operations/%2e%2e%2ferrors",
    "/api/domains/.",
    "/api/..%2fapi/domains",
    "/v1/vehicle/..%2f/insurance",
    "/v1/vehicle/.%2e/insurance",
    "/v1/../console/",
    "/nothing/..",
]
METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "TRACE", "CONNECT"]
UNUSUAL = ["PROPFIND", "BREW", "get", "Post", "GET,POST", "X"]
IDENTIFIER = "5f0c6a9e2b7d4c1f8a3e9d6b0c2f4a71"
UUID = "3f2504e0-4f89-11d3-9a0c-0305e82c3301"
PROXIES = (ipaddress.ip_network("10.0.0.0/24"),)
TOO_LARGE = b"x" * (1024 * 1024 + 1)

unusual_methods = pytest.mark.filterwarnings("ignore:Unknown REQUEST_METHOD")


@engine_independent
class TestMethods:
    @each_row("path", KNOWN)
    def test_options_names_the_methods(self, alice, path):
        """OPTIONS answers 204 with `Allow` and no body."""
        response = alice.request("OPTIONS", path)
        assert (response.status_int, response.body) == (204, b"")
        assert response.headers["Allow"] == KNOWN[path]

    @unusual_methods
    @each_row("path", KNOWN)
    def test_other_methods_get_405(self, alice, path):
        """A method that the path does not support gets 405 with the same `Allow`."""
        for method in set(METHODS + UNUSUAL) - set(KNOWN[path].split(", ")):
            response = alice.request(method, path)
            assert response.status_int == 405, method
            assert method == "HEAD" or response.json["code"] == "method_not_allowed"
            assert response.headers["Allow"] == KNOWN[path]

    @each_row("path", KNOWN)
    def test_the_methods_that_are_named_are_taken(self, alice, path):
        """No method in `Allow` gets 405."""
        for method in KNOWN[path].split(", "):
            assert alice.request(method, path).status_int != 405, method

    @each_row(
        "path",
        # The length of the metrics changes from one request to the next.
        [path for path in KNOWN if "GET" in KNOWN[path] and path != "/metrics"],
    )
    def test_head_works_wherever_get_does(self, alice, path):
        """HEAD has the status and the headers of GET, and no body (D1)."""
        get = alice.get(path, **SAME_ID)
        head = alice.request("HEAD", path, **SAME_ID)
        assert head.status == get.status
        assert lasting_headers(head) == lasting_headers(get)

    def test_a_method_override_is_not_heard(self, alice):
        """Headers and parameters cannot override the method."""
        headers = {"X-HTTP-Method-Override": "POST", "X-Method": "POST"}
        assert alice.get("/api/domains", headers=headers).json == {"domains": []}
        response = alice.get("/api/domains?_method=POST")
        assert (response.status_int, response.json["code"]) == (400, "unknown_parameter")


@engine_independent
class TestUnknownPaths:
    @unusual_methods
    @each_row("path", UNKNOWN, ids=lambda path: path[:40])
    def test_an_unknown_path_gets_404(self, alice, path):
        """A path without a route gets 404 with any method; a trailing slash is another path."""
        for method in ("GET", "HEAD", "POST", "DELETE", "OPTIONS", "BREW"):
            response = alice.request(method, path)
            assert response.status_int == 404, method
            assert response.content_type == "application/problem+json"
            assert method == "HEAD" or response.json["code"] == "not_found"

    @each_row(
        "name",
        [
            *("nothing.js", "..%5Copenapi.json", "index.html", "%00", "operations"),
            *("operations/putwatch", "operations/getMetrics", "operations/..%5Cerrors"),
        ],
    )
    def test_what_the_documentation_lacks_gets_404(self, alice, stranger, name):
        """Below /docs/ only the pages and their files are served."""
        for client in (alice, stranger):
            response = client.get(f"/docs/{name}")
            assert (response.status_int, response.json["code"]) == (404, "not_found")

    @each_row("path", UNKNOWN, ids=lambda path: path[:40])
    def test_without_a_key_it_gets_401(self, stranger, path):
        """Without a key, unknown paths look like known ones, except for the documentation."""
        expected = 404 if path.startswith("/docs/") else 401
        assert stranger.get(path).status_int == expected


class TestPeople:
    """Somebody who mistypes an address in a browser gets a page with 404 (D5)."""

    BROWSER: ClassVar = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}

    @pytest.mark.parametrize(
        "path",
        [
            *("/nothing", "/docs/nothing", "/a/b/", "//x", "/console"),
            *("/docs/operations", "/docs/operations/", "/docs/operations/putwatch"),
        ],
    )
    def test_an_unknown_address_is_a_page(self, alice, stranger, path):
        """With and without a key; its links lead to pages that exist, from any depth."""
        for client in (alice, stranger):
            response = client.get(path, headers=self.BROWSER)
            assert (response.status_int, response.content_type) == (404, "text/html")
            assert "nothing at this address" in response.text
            assert response.headers["Vary"] == "Accept"
            assert "default-src 'none'" in response.headers["Content-Security-Policy"]
        up = "../" * (path.count("/") - 1)
        assert f'href="{up}docs"' in response.text
        assert client.get(path).content_type == "application/problem+json"

    def test_many_slashes_make_no_large_page(self, stranger):
        """No link repeats the way out of thousands of segments."""
        page = stranger.get(f"/x{'/' * 8_000}", headers=self.BROWSER)
        assert (page.status_int, page.content_type) == (404, "text/html")
        assert 'href="/docs"' in page.text
        assert len(page.body) < 4_000

    @pytest.mark.parametrize("path", ["/v1/nothing", "/API/nothing", "//v1/x", "/metrics"])
    def test_the_api_answers_json(self, stranger, path):
        """What programs ask for stays as it was, whatever they accept, and known paths do."""
        response = stranger.get(path, headers=self.BROWSER)
        assert (response.status_int, response.content_type) == (401, "application/problem+json")

    def test_a_list_that_no_browser_sends_gets_json(self, stranger):
        """A very long `Accept` is not read: what was read of it would stay in memory."""
        of_browser, of_program = (
            {"Accept": "text/html," + "text/plain," * number + "text/xml"} for number in (89, 90)
        )
        assert stranger.get("/", headers=of_browser).content_type == "text/html"
        assert stranger.get("/", headers=of_program).content_type == "application/json"
        response = stranger.get("/docs/nothing", headers=of_program)
        assert response.content_type == "application/problem+json"

    def test_only_reading_is_of_people(self, stranger):
        """A form that is sent to an unknown address is refused as before."""
        response = stranger.request("POST", "/nothing", headers=self.BROWSER)
        assert response.content_type == "application/problem+json"


class TestDottedPaths:
    """A proxy resolves `.` and `..` before it looks for its rules, and forwards the path as it is.

    So no such path may be answered.
    """

    @pytest.mark.parametrize("path", DOTTED)
    def test_a_path_with_a_dot_segment_is_malformed(self, world, path, capfd):
        """After percent-decoding it is 400, with an id, a log line, and a charge to the address."""
        client = world.client(world.alice_key, access_log=True, anonymous_limit=2)
        answers = [client.get(path) for _ in range(3)]
        assert [each.status_int for each in answers] == [400, 400, 429]
        problem = answers[0].json
        assert (problem["code"], problem["request_id"]) == (
            "invalid_request",
            answers[0].headers["X-Request-ID"],
        )
        assert "`.` or `..`" in problem["detail"]
        lines = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
        assert [(line["route"], line["status"]) for line in lines] == [
            (None, 400),
            (None, 400),
            (None, 429),
        ]
        assert client.get("/v1/account").headers["X-RateLimit-Remaining"] == "599"

    @each_row(
        ("path", "status"),
        [
            ("/v1/vehicle/..AB/insurance", 400),
            ("/v1/account?x=/../", 400),
            ("/api/domains/..a.example", 404),
            ("/api/domains/a..b", 404),
            ("/...", 404),
            ("/.well-known/x", 404),
            ("/%252e%252e/x", 404),
            ("/..;/x", 404),
            ("/..%5Cx", 404),
        ],
    )
    def test_other_dots_are_part_of_a_name(self, alice, path, status):
        """A segment that begins with dots, a query, and what is encoded twice are left alone."""
        response = alice.get(path)
        assert response.status_int == status
        assert "`..`" not in response.json["detail"]


class TestOrderOfChecks:
    """D5: read the body, open path, key, rate limit, path and method, body, plan's limits."""

    @engine_independent
    @pytest.mark.parametrize(
        ("method", "path"),
        [("GET", "/nothing"), ("DELETE", "/api/domains"), ("POST", "/api/domains")],
    )
    def test_the_key_comes_first(self, stranger, method, path):
        """Without a key the answer is 401, whatever else is wrong."""
        assert stranger.request(method, path, body=TOO_LARGE).status_int == 401

    @pytest.mark.parametrize("path", ["/api/domains", "/nothing", "/healthz"])
    def test_the_body_is_taken_in_before_any_refusal(self, world, path):
        """An unexpected body is read, too, so that the client gets the refusal."""
        environ = falcon.testing.create_environ(path, method="POST", body=TOO_LARGE)
        start_response = falcon.testing.StartResponseMock()
        create_app(world.configured())(environ, start_response)
        assert str(start_response.status)[:3] in ("401", "405")
        assert environ["wsgi.input"].read() == b""

    @engine_independent
    @pytest.mark.parametrize("chunked", [{}, {"HTTP_TRANSFER_ENCODING": "chunked"}])
    def test_the_path_comes_before_the_body(self, alice, chunked):
        """An unknown path is reported whatever the body."""
        response = alice.request("POST", "/nothing", body=TOO_LARGE, environ=chunked)
        assert response.status_int == 404

    @engine_independent
    @pytest.mark.parametrize("chunked", [{}, {"HTTP_TRANSFER_ENCODING": "chunked"}])
    def test_the_method_comes_before_the_body(self, alice, chunked):
        """An unsupported method is reported whatever the body."""
        response = alice.request("DELETE", "/api/domains", body=TOO_LARGE, environ=chunked)
        assert response.status_int == 405

    @engine_independent
    @pytest.mark.parametrize("path", ["/api/domains", "/v1/vehicle/bulk-insurance"])
    def test_the_size_comes_before_the_type(self, alice, path):
        """A body that is too large is refused for that, whatever its type."""
        response = alice.request("POST", path, body=TOO_LARGE)
        assert response.status_int == 413

    @engine_independent
    @pytest.mark.parametrize("path", ["/api/domains", "/v1/vehicle/bulk-insurance"])
    def test_the_type_comes_before_the_content(self, alice, path):
        """A body of another type is not decoded."""
        response = alice.request("POST", path, body=b"{", headers={"Content-Type": "text/json"})
        assert response.status_int == 415

    @engine_independent
    def test_the_type_comes_before_a_missing_length(self, alice):
        """A chunked body of another type is refused for its type."""
        headers, chunked = {"Content-Type": "text/json"}, {"HTTP_TRANSFER_ENCODING": "chunked"}
        response = alice.request("POST", "/api/domains", headers=headers, environ=chunked)
        assert response.status_int == 415

    def test_the_content_comes_before_the_plans_limits(self, world):
        """A wrong body is reported even if the account's quota is used up."""
        set_plan(
            world.engine,
            "none",
            {"requests": 600, "window_seconds": 60, "bulk_max": 1, "domains_max": 0},
        )
        carol = world.client(world.key_of("carol", "none"))
        sent = [{"name": 1}, {"name": "x"}, {"name": "a.example"}]
        statuses = [carol.post("/api/domains", body).status_int for body in sent]
        assert statuses == [400, 400, 403]

    @engine_independent
    @each_row("path", [path for path in KNOWN if "GET" in KNOWN[path]])
    def test_a_chunked_body_is_refused_everywhere(self, alice, path):
        """A chunked body that reaches the application gets 400 on every known path."""
        response = alice.get(path, environ={"HTTP_TRANSFER_ENCODING": "chunked"})
        assert (response.status_int, response.json["code"]) == (400, "invalid_request")


@engine_independent
class TestRequestId:
    @each_row("peer", ["", "10.0.0.1", "::ffff:10.0.0.1"])
    @each_row("given", ["0123456789abcdef", IDENTIFIER, "A" * 64, UUID])
    def test_a_proxys_request_id_is_kept(self, world, given, peer):
        """A trusted proxy's id is returned, also in the body of an error (D7)."""
        alice = world.client(world.alice_key, trusted_proxies=PROXIES)
        sent = {"headers": {"X-Request-ID": given}, "environ": {"REMOTE_ADDR": peer}}
        response = alice.get("/nothing", **sent)
        assert response.headers["X-Request-ID"] == response.json["request_id"] == given

    @each_row("peer", ["127.0.0.1", "::1", "192.0.2.1", "10.0.1.1"])
    def test_a_clients_request_id_is_not_kept(self, world, peer):
        """A client's id is ignored: it would be logged, and can be a plate or a secret (D7)."""
        alice = world.client(world.alice_key, trusted_proxies=PROXIES)
        sent = {"headers": {"X-Request-ID": IDENTIFIER}, "environ": {"REMOTE_ADDR": peer}}
        made = alice.get("/nothing", **sent).headers["X-Request-ID"]
        assert re.fullmatch(r"[0-9a-f]{32}", made)
        assert made != IDENTIFIER

    @each_row(
        "given",
        [
            *("", " ", "a" * 15, "a" * 65, f"{IDENTIFIER},{IDENTIFIER}", "AB12CDE", "BEEF-CAFE-1"),
            *("a-" * 16, "---------AB12CDE", UUID.replace("-", "", 1)),
            *("g" * 32, "deadbeef deadbeef", "deadbeef.example.com", "\u00fc" * 16, "\u0661" * 16),
        ],
    )
    def test_another_is_replaced(self, alice, given):
        """A text that is no id is replaced in the answer and the log.

        No registration is that long, every domain has a dot, and every secret has other letters.
        """
        sent = {"headers": {"X-Request-ID": given}, "environ": {"REMOTE_ADDR": ""}}
        response = alice.get("/nothing", **sent)
        made = response.headers["X-Request-ID"]
        assert re.fullmatch(r"[0-9a-f]{32}", made)
        assert response.json["request_id"] == made

    def test_each_request_gets_its_own(self, alice):
        """Every id is unique."""
        ids = {alice.get("/healthz").headers["X-Request-ID"] for _ in range(20)}
        assert len(ids) == 20


@engine_independent
class TestHeaders:
    @each_row("path", [*KNOWN, "/nothing"])
    def test_no_answer_may_be_stored(self, alice, stranger, path):
        """Every answer, also a refusal, has an id and forbids caching, but not documents (D7).

        Documents may be kept and must be checked before each use; assets never change.
        """
        for method in ("GET", "HEAD", "OPTIONS", "POST"):
            is_read = method in ("GET", "HEAD")
            expected = CACHING.get(path, "no-store") if is_read else "no-store"
            for client in (alice, stranger):
                response = client.request(method, path)
                assert response.headers.getall("Cache-Control") == [expected]
                assert len(response.headers.getall("X-Request-ID")) == 1

    @each_row("path", [*KNOWN, "/nothing"])
    def test_web_pages_of_others_are_not_let_in(self, alice, path):
        """No answer has a header of CORS, whatever a browser asks."""
        headers = {"Origin": "https://example.com", "Access-Control-Request-Method": "GET"}
        for method in ("GET", "OPTIONS"):
            response = alice.request(method, path, headers=headers)
            assert not [name for name in response.headers if name.lower().startswith("access-")]

    @each_row("path", [*KNOWN, "/nothing"])
    def test_no_header_names_a_product(self, alice, path):
        """No header names a product or a version, and none sets a cookie."""
        headers = alice.get(path).headers
        assert {"server", "x-powered-by", "set-cookie", "via"}.isdisjoint(map(str.lower, headers))


class TestAccessLog:
    @pytest.fixture
    def lines(self, world, capfd):
        """Return the lines that a client's requests write to stdout."""

        def run(*requests, key=world.alice_key):
            client = world.client(key, access_log=True)
            for method, path in requests:
                client.request(method, path)
            return [json.loads(line) for line in capfd.readouterr().out.splitlines()]

        return run

    def test_each_request_leaves_one_line(self, lines):
        """Method, route and status of every request are logged, also of refused ones."""
        seen = lines(("GET", "/api/domains"), ("PUT", "/healthz"), ("HEAD", "/nothing"))
        assert [(line["method"], line["route"], line["status"]) for line in seen] == [
            ("GET", "/api/domains", 200),
            ("PUT", "/healthz", 405),
            ("HEAD", None, 404),
        ]

    def test_a_line_names_the_key_by_its_id(self, lines, world):
        """The public part of the key is logged, and nothing for a client without one."""
        assert lines(("GET", "/api/domains"))[0]["key"] == world.alice_key[10:18]
        assert lines(("GET", "/api/domains"), key=None)[0]["key"] is None

    def test_a_line_holds_no_path(self, lines):
        """The route's template is logged instead of the path, which is private."""
        seen = lines(
            ("GET", "/api/domains/private.example?after=private"),
            ("GET", "/v1/vehicle/PR1VATE/insurance?private"),
            ("GET", "/private"),
        )
        assert len(seen) == 3
        assert not re.search("private|pr1vate", json.dumps(seen), re.IGNORECASE)

    def test_the_log_can_be_switched_off(self, world, capfd):
        """With VERIFYD_ACCESS_LOG=off nothing is written to stdout."""
        world.client(world.alice_key, access_log=False).get("/api/domains")
        assert capfd.readouterr().out == ""


def test_spec_7_400_bad_request(alice):
    """Invalid parameters and malformed data get 400."""
    for response in (alice.get("/api/domains?limit=x"), alice.post("/api/domains", b"{")):
        assert (response.status_int, response.json["title"]) == (400, "Bad Request")


def test_spec_7_401_unauthorized(stranger):
    """A missing key gets 401."""
    response = stranger.get("/api/domains")
    assert (response.status_int, response.json["title"]) == (401, "Unauthorized")


def test_spec_7_404_not_found(alice):
    """A domain that the account does not have gets 404."""
    response = alice.get("/api/domains/a.example")
    assert (response.status_int, response.json["title"]) == (404, "Not Found")


def test_spec_7_500_internal_server_error(alice, world, caplog):
    """An error of the service gets 500 without details."""
    alice.post("/api/domains", {"name": "a.example"})
    Domain.update(created_at=10**17).execute(world.engine)  # No calendar has such a day.
    response = alice.get("/api/domains/a.example")
    assert (response.status_int, response.json["title"]) == (500, "Internal Server Error")
    assert "out of range" not in response.text + caplog.text
    assert response.headers["X-Request-ID"] in [
        getattr(record, "request_id", None) for record in caplog.records
    ]
