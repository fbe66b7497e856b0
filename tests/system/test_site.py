"""The shipped nginx site in front of a real service: its headers and its own answers."""

import json
import re
import signal
import subprocess
import sys
from collections import Counter
from http import HTTPStatus
from pathlib import Path

import pytest

from app.accounts.administration import create_key
from app.accounts.restrictions import Restrictions
from tests.conftest import SHARED
from tests.system.conftest import short_directory
from tests.system.http2 import Http2
from tests.system.nginx import configured, running
from tests.system.processes import connected, free_port, read_answer, send, until
from tests.system.scale_out import FOLDER
from tests.system.site import SITE, behind_site, command_with_site
from tests.system.slow_clients import LONG_ANSWER

TOOLS = Path(sys.executable).parent
HSTS = "max-age=31536000"
# The names of RFC 9110, which Python uses since 3.13.
TITLES = {413: "Content Too Large", 414: "URI Too Long"}


@pytest.fixture(scope="module")
def shared_served(shared_serve):
    """A server on a Unix socket, as installed, that limits nobody."""
    with short_directory() as directory:
        yield shared_serve(bind=f"unix:{directory}/socket", anonymous_limit=1_000_000)


@pytest.fixture(scope="module")
def shared_site(shared_served, tmp_path_factory):
    """The address of nginx in front of it."""
    with behind_site(shared_served.bind, tmp_path_factory.mktemp("site")) as bind:
        yield bind


@pytest.fixture
def served(request):
    """A server on a Unix socket: the shared one if the test is marked `shared_world`, else its own.

    Its own allows one request per minute without a key.
    """
    if request.node.get_closest_marker("shared_world"):
        return request.getfixturevalue("shared_served")
    bind = f"unix:{request.getfixturevalue('socket_directory')}/socket"
    serve = request.getfixturevalue("serve")
    return serve(bind=bind, anonymous_limit=1, metrics_accounts="alice")


@pytest.fixture
def site(request, served, world):
    """The address of nginx in front of a running service."""
    if request.node.get_closest_marker("shared_world"):
        yield request.getfixturevalue("shared_site")
        return
    with behind_site(served.bind, world.directory) as bind:
        yield bind


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """The address of nginx without a service."""
    with behind_site("127.0.0.1:1", tmp_path_factory.mktemp("alone")) as bind:
        yield bind


def require_problem(answer, status: int, code: str) -> None:
    """Fail unless nginx made the answer: the common error body (D5), with the status's title."""
    assert (answer.status, answer.media_type) == (status, "application/problem+json")
    told = answer.json()
    assert set(told) == {"type", "title", "status", "detail", "code", "request_id"}
    assert (told["status"], told["code"]) == (status, code)
    assert told["title"] == TITLES.get(status, HTTPStatus(status).phrase)
    assert told["request_id"] == answer.headers["X-Request-ID"]
    assert answer.headers["Cache-Control"] == "no-store"
    require_browsers_told(answer)


def require_browsers_told(answer) -> None:
    """Fail unless an answer has, once, the headers that nginx adds to all."""
    assert answer.headers.get_all("Strict-Transport-Security") == [HSTS]
    assert answer.headers.get_all("X-Content-Type-Options") == ["nosniff"]


def test_nginx_takes_it(tmp_path):
    """`nginx -t` finds no errors and no warnings."""
    command = command_with_site("127.0.0.1:1", f"127.0.0.1:{free_port()}", tmp_path)
    ended = subprocess.run([*command, "-t"], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert "[warn]" not in ended.stderr


@pytest.mark.parametrize("file", [SITE, FOLDER / "nginx.conf"], ids=["one host", "several"])
def test_a_linter_takes_it(file):
    """Gixy finds no weakness in it."""
    ended = subprocess.run(
        [TOOLS / "gixy", "--format", "json", file], capture_output=True, text=True, check=False
    )
    assert json.loads(ended.stdout) == [], ended.stdout


def test_the_service_answers_through_it(site, served):
    """The service's answers come with their headers."""
    key = {"Authorization": f"Bearer {served.key}"}
    answer = send(site, "GET", "/api/domains", headers=key | {"X-Request-ID": "mine"})
    assert answer.json() == {"domains": []}
    assert answer.headers["X-RateLimit-Limit"] == "600"
    assert re.fullmatch("[0-9a-f]{32}", answer.headers["X-Request-ID"])


@SHARED
@pytest.mark.parametrize(
    "path", ["/", "/api/domains", "/docs", "/openapi.json", "/metrics", "/nothing"]
)
def test_answers_have_headers_for_tls_and_types(site, path):
    """Every answer, of nginx or the service, has the headers for TLS and media types."""
    require_browsers_told(send(site, "GET", path))


@SHARED
def test_the_document_names_the_address_of_nginx(site):
    """Its server is the https address of the request; made-up headers do not count."""
    made_up = {"X-Forwarded-Proto": "http", "X-Forwarded-Host": "made.up"}
    port = site.rpartition(":")[2]
    for headers in ({}, made_up):
        (server,) = send(site, "GET", "/openapi.json", headers=headers).json()["servers"]
        assert server["url"] == f"https://localhost:{port}"
    etag = send(site, "GET", "/openapi.json").headers["ETag"]
    assert send(site, "GET", "/openapi.json", headers={"If-None-Match": etag}).status == 304


def test_long_answers_to_a_key_are_compressed(site, served):
    """A bulk answer shrinks to a tenth; without a key nginx does not compress."""
    plates = json.dumps({"registrations": ["AB12CDE"] * 1_000})
    accepted = {"Accept-Encoding": "gzip"}
    key = {"X-API-Key": served.key, "Content-Type": "application/json"}
    bulk = "/v1/vehicle/bulk-insurance"
    plain = send(site, "POST", bulk, body=plates, headers=key)
    answer = send(site, "POST", bulk, body=plates, headers=key | accepted)
    assert answer.headers["Content-Encoding"] == "gzip"
    assert len(answer.body) < len(plain.body) / 10
    for path in ("/", "/openapi.json", "/docs", "/docs/errors", LONG_ANSWER):
        assert "Content-Encoding" not in send(site, "GET", path, headers=accepted).headers


@SHARED
@pytest.mark.parametrize(
    "path",
    ["/", "/docs", "/docs/operations/putWatch", "/docs.md", "/docs/errors", "/openapi.json"],
)
def test_documents_are_kept_until_they_change(site, path):
    """The ETag of a document arrives as the service sent it, and a copy of it gets 304."""
    accepted = {"Accept-Encoding": "gzip"}
    answer = send(site, "GET", path, headers=accepted)
    assert re.fullmatch('"[0-9a-f]{64}"', answer.headers["ETag"])
    assert answer.headers["Cache-Control"] == "no-cache"
    held = accepted | {"If-None-Match": answer.headers["ETag"]}
    assert send(site, "GET", path, headers=held).status == 304
    assert send(site, "GET", LONG_ANSWER).headers["Cache-Control"].endswith(", immutable")


@SHARED
def test_up_to_2_mib_the_refusal_is_the_services_own(site, served):
    """It has all headers of the service's answers; above 2 MiB nginx answers, in JSON."""
    key = {"X-API-Key": served.key}
    own = send(site, "POST", "/api/domains", body=b" " * 1_500_000, headers=key)
    assert (own.status, own.json()["code"]) == (413, "body_too_large")
    assert "X-RateLimit-Limit" in own.headers
    nginx = send(site, "POST", "/api/domains", body=b" " * 2_200_000, headers=key)
    require_problem(nginx, 413, "body_too_large")


def test_a_stopped_service_is_502_in_json(site, served):
    """The answer is 502 with Retry-After."""
    served.process.send_signal(signal.SIGTERM)
    served.wait()
    answer = send(site, "GET", "/api/domains")
    require_problem(answer, 502, "service_unavailable")
    assert answer.headers["Retry-After"] == "2"


@pytest.mark.parametrize(
    ("status", "request_line"),
    [
        (400, b"GARBAGE"),
        (400, b"GET /\x00 HTTP/1.1"),
        (400, b"GET / HTTP/1.1\r\nX-Long: " + b"a" * 9_000),
        (405, b"TRACE / HTTP/1.1"),
        (414, b"GET /" + b"a" * 9_000 + b" HTTP/1.1"),
        (501, b"POST / HTTP/1.1\r\nTransfer-Encoding: rot13"),
        (505, b"GET / HTTP/9.9"),
    ],
    ids=["garbage", "NUL", "header", "TRACE", "address", "encoding", "version"],
)
def test_nginx_refuses_in_json(alone, status, request_line):
    """Nginx's own refusals have the common error body."""
    with connected(alone) as connection:
        connection.sendall(request_line + b"\r\nHost: x\r\n\r\n")
        answer = read_answer(connection)
    code = {405: "method_not_allowed", 414: "uri_too_long"}.get(status, "invalid_request")
    require_problem(answer, status, code)


@pytest.mark.parametrize("path", ["/problem", "/problem-page"])
def test_its_internal_paths_are_not_found(alone, path):
    """The paths where nginx keeps its errors do not exist for clients."""
    require_problem(send(alone, "GET", path), 404, "not_found")


@pytest.mark.parametrize(
    ("method", "path", "size", "status", "heading"),
    [
        ("GET", "/console", 0, 502, "The service does not answer"),
        ("GET", "/console/accounts?q=x", 0, 502, "The service does not answer"),
        ("POST", "/console/look-up", 2_200_000, 413, "The form is too long"),
        ("GET", f"/console/{'a' * 9_000}", 0, 414, "The address is too long"),
        ("TRACE", "/console", 0, 405, "That does not work here"),
    ],
)
def test_below_the_console_its_errors_are_pages(alone, method, path, size, status, heading):
    """A person in a browser reads what is wrong, without anything of the request."""
    answer = send(alone, method, path, body=b" " * size)
    require_page(answer, status, heading)
    assert ("Retry-After" in answer.headers) == (status == 502)
    assert ("Allow" in answer.headers) == (status == 405)
    assert "a" * 40 not in answer.body.decode()


def require_page(answer, status: int, heading: str) -> None:
    """Fail unless nginx made the answer: a page that loads nothing and is not kept."""
    assert (answer.status, answer.media_type) == (status, "text/html")
    text = answer.body.decode()
    assert f"<h1>{heading}</h1>" in text
    assert f"{status}, request id {answer.headers['X-Request-ID']}" in text
    assert answer.headers["Content-Security-Policy"].startswith("default-src 'none'")
    assert answer.headers["Cache-Control"] == "no-store"
    require_browsers_told(answer)


def test_over_http_2_its_errors_are_pages_too(alone):
    """The path decides, not the version of HTTP."""
    with Http2(alone) as client:
        kinds = []
        for path in ("/console", "/console/keys", "/consoles", "/v1/account"):
            headers, _ = client.answer(client.request("GET", path))
            kinds.append((headers[":status"], headers["content-type"]))
    pages, problems = ("502", "text/html; charset=utf-8"), ("502", "application/problem+json")
    assert kinds == [pages, pages, problems, problems]


@pytest.mark.parametrize("file", [SITE, FOLDER / "nginx.conf"], ids=["one host", "several"])
def test_what_a_browser_can_meet_has_a_page(file):
    """Each page is of an error that nginx answers, and the usual ones have pages of their own."""
    text = file.read_text()
    (page,) = re.findall(r"map \$status \$verifyd_page {(.*?)\n}", text, re.DOTALL)
    (sent,) = re.findall(r"error_page ([0-9 ]+) \$verifyd_error;", text)
    told = set(re.findall(r"^    (\d+) '<h1>", page, re.MULTILINE))
    assert told <= {"400", *sent.split()}
    assert told >= {"403", "413", "414", "429", "502", "503", "504"}


def test_both_files_answer_the_same_errors():
    """No status has a JSON body in one of them and HTML in the other."""
    sent, told = (
        [
            re.findall(pattern, file.read_text(), re.MULTILINE)
            for file in (SITE, FOLDER / "nginx.conf")
        ]
        for pattern in (r"^    error_page (.*);", r"^    (\d+) '(?:\"type|<h1)")
    )
    assert sent[0] == sent[1]
    assert told[0] == told[1]


@SHARED
@pytest.mark.parametrize(
    "path",
    [
        *("/api/domains", "/api/domains/a.example", "/v1/vehicle/bulk-insurance"),
        *("/v1/compliance/AB12CDE", "/v1/compliance/bulk", "/v1/account", "/v1/usage"),
        *("/v1/watches", "/v1/watches/AB12CDE", "/v1/watches/bulk", "/v1/events"),
    ],
)
def test_the_405_to_trace_has_allow(site, served, path):
    """Nginx's 405 has the same `Allow` as the service's, over HTTP/1.1 and HTTP/2."""
    expected = send(served.bind, "PATCH", path, headers={"X-API-Key": served.key}).headers["Allow"]
    answer = send(site, "TRACE", path)
    require_problem(answer, 405, "method_not_allowed")
    assert answer.headers["Allow"] == expected
    with Http2(site) as client:
        headers, _ = client.answer(client.request("TRACE", path))
    assert (headers[":status"], headers["allow"]) == ("405", expected)


def test_the_405_to_connect_has_allow(alone):
    """Nginx's 405 has an `Allow` even for a method without a path."""
    answer = send(alone, "CONNECT", "example.com:443")
    require_problem(answer, 405, "method_not_allowed")
    assert answer.headers["Allow"] == "GET, HEAD, OPTIONS"


# The longest request line that both accept has 8,190 bytes.
AROUND_THE_LIMIT = [4_000, 4_095, 8_000, 8_176, 8_177, 8_178, 8_190, 9_000, 16_000]


@SHARED
@pytest.mark.parametrize("length", AROUND_THE_LIMIT)
def test_a_path_that_is_too_long_gets_one_answer(site, served, length):
    """Nginx and the service have the same limit, and the same answer above it."""
    path = "/" + "a" * (length - 1)
    answers = [send(bind, "GET", path) for bind in (site, served.bind)]
    told = []
    for answer in answers:
        problem = answer.json()
        assert problem.pop("request_id") == answer.headers["X-Request-ID"]
        told.append((answer.status, answer.media_type, problem))
    assert told[0] == told[1]
    is_too_long = len(f"GET {path} HTTP/1.1") > 8_190
    assert told[0][0] == (414 if is_too_long else 401)


@SHARED
def test_over_http_2_too_long_a_path_gets_the_same_answer(site):
    """The service refuses in the same words what nginx forwards."""
    with Http2(site) as client:
        headers, body = client.answer(client.request("GET", "/" + "a" * 8_180))
    assert headers[":status"] == "414"
    over_http_1 = send(site, "GET", "/" + "a" * 8_190).json()
    expected = over_http_1 | {"request_id": headers["x-request-id"]}
    assert json.loads(body) == expected


def test_plain_http_is_refused_in_json(alone):
    """The answer to plain HTTP at the TLS port says https; below the console it is a page."""
    answer = send(alone.removeprefix("tls:"), "GET", "/healthz?headers")
    require_problem(answer, 400, "invalid_request")
    assert answer.json()["detail"].startswith("This port takes https only: begin the address with")
    page = send(alone.removeprefix("tls:"), "GET", "/console")
    require_page(page, 400, "This address needs https")
    malformed = send(alone, "GET", "/%00?https")
    assert malformed.json()["detail"] == "The request is not well-formed HTTP."


@SHARED
def test_metrics_need_no_key_on_this_host(site):
    """A Prometheus on this host is local, whatever headers it sends."""
    assert send(site, "GET", "/metrics").status == 200
    assert send(site, "GET", "/metrics", headers={"X-Real-IP": "192.0.2.1"}).status == 200


def test_a_client_cannot_choose_its_address(site):
    """Guesses from one address share a bucket, whatever their headers say (D10)."""
    claims = [
        {"X-Real-IP": f"192.0.2.{number}", "X-Forwarded-For": f"192.0.2.{number}"}
        for number in range(2)
    ]
    statuses = [send(site, "GET", "/api/domains", headers=claim).status for claim in claims]
    assert statuses == [401, 429]


def remote_metrics(site, *headers: str, source: str = "127.0.0.2"):
    """Request the metrics from another address than 127.0.0.1."""
    lines = ["GET /metrics HTTP/1.1", "Host: x", *headers]
    with connected(site, source=source) as connection:
        connection.sendall("".join(f"{line}\r\n" for line in [*lines, ""]).encode())
        return read_answer(connection)


def test_a_remote_prometheus_needs_the_key_of_a_listed_account(site, world):
    """Other keys get 403; both are charged to their account (D80)."""
    told = remote_metrics(site, f"Authorization: Bearer {world.alice_key}")
    assert (told.status, b"verifyd_request_seconds" in told.body) == (200, True)
    assert told.headers["X-RateLimit-Remaining"] == "599"
    refused = remote_metrics(site, f"X-API-Key: {world.bob_key}")
    assert (refused.status, refused.json()["code"]) == (403, "forbidden")
    assert refused.headers["X-RateLimit-Remaining"] == "599"


def test_a_key_is_accepted_from_its_networks_only(site, served, world):
    """The proxy tells the address; on the socket itself none is known (D178)."""
    restrictions = Restrictions(None, ["127.0.0.2"])
    key = create_key(world.engine, "alice", restrictions=restrictions)[1].text
    claim = "X-Real-IP: 127.0.0.2"
    refused = remote_metrics(site, f"X-API-Key: {key}", claim, source="127.0.0.3")
    assert (refused.status, refused.json()["code"]) == (403, "address_forbidden")
    assert refused.json()["detail"].endswith(" from the address 127.0.0.3.")
    assert remote_metrics(site, f"X-API-Key: {key}").status == 200
    unknown = send(served.bind, "GET", "/v1/account", headers={"X-API-Key": key})
    assert (unknown.status, unknown.json()["code"]) == (403, "address_forbidden")


def test_remote_metrics_without_a_key_are_refused_and_charged(site):
    """The answer is 401, and 429 once the bucket is empty (D10), whatever the headers."""
    headers = ("X-Real-IP: 127.0.0.1", "X-Forwarded-For: ::1", "X-Any: y")
    for number, header in enumerate(headers, start=2):
        source = f"127.0.0.{number}"
        told = [remote_metrics(site, header, source=source).status for _ in range(2)]
        assert told == [401, 429], header


@pytest.mark.system_long
@pytest.mark.parametrize(("network", "status"), [("192.0.2.0/24", 403), ("127.0.0.0/8", 401)])
def test_the_console_can_be_kept_to_a_network(serve, socket_directory, tmp_path, network, status):
    """As documented, nginx refuses the console to other addresses, and nothing else.

    What nginx forwards by other rules is no page, although it begins with `/console`.
    """
    page = (SITE.parent.parent / "docs/staff.md").read_text()
    (location,) = re.findall(r"```nginx\n(location ~ \^/console.*?)```", page, re.DOTALL)
    served = serve(bind=f"unix:{socket_directory}/socket", console="on")
    bind = f"127.0.0.1:{free_port()}"
    command = command_with_site(served.bind, bind, tmp_path)
    text = (tmp_path / "site.conf").read_text()
    assert "192.0.2.0/24" in location
    added = location.replace("192.0.2.0/24", network)
    (tmp_path / "site.conf").write_text(
        text.replace("    location / {", f"{added}    location / {{")
    )
    with running(command, bind):
        refused = send(f"tls:{bind}", "GET", "/console/..")
        assert (refused.status, b"The request is malformed" in refused.body) == (400, True)
        for path in ("/console%2f..", "/%63onsole/x/%2E./.%2e"):
            assert send(f"tls:{bind}", "GET", path).status == 400
        for path in ("/console", "/console/sign-in/x", "/console/people"):
            answer = send(f"tls:{bind}", "GET", path)
            assert answer.status == status
            if status == 403:
                require_page(answer, 403, "The console is not open to you")
        assert send(f"tls:{bind}", "GET", "/consoles").status == 401
        assert send(f"tls:{bind}", "GET", "/docs").status == 200


def test_the_server_for_acme_answers_challenges_and_nothing_else(tmp_path):
    """As documented, any other request there gets no answer."""
    page = (SITE.parent.parent / "docs/install.md").read_text()
    (server,) = re.findall("```nginx\n(server .*?)```", page, re.DOTALL)
    bind = f"127.0.0.1:{free_port()}"
    site = server.replace("listen 80;", f"listen {bind};").replace("    listen [::]:80;\n", "")
    challenge = tmp_path / "www" / ".well-known" / "acme-challenge" / "token"
    challenge.parent.mkdir(parents=True)
    challenge.write_text("token.thumbprint")
    with running(configured(tmp_path, site.replace("/var/www/acme", f"{tmp_path}/www")), bind):
        answer = send(bind, "GET", "/.well-known/acme-challenge/token")
        assert (answer.status, answer.body) == (200, b"token.thumbprint")
        for path in ("/", "/v1/compliance/AB12CDE", "/.well-known/other"):
            with connected(bind) as connection:
                connection.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
                assert connection.recv(1) == b""


def test_its_log_knows_the_methods_of_http_only(site, served, world):
    """Any other method could be a plate, and is logged as one fixed word."""
    send(site, "AQUAVIT", "/healthz")
    send(site, "OPTIONS", "/healthz", headers={"X-API-Key": served.key})
    with Http2(site) as client:
        client.answer(client.request("AQUAVIT", "/healthz"))
        client.answer(client.request("DELETE", "/healthz"))
    log = world.directory / "verifyd.log"
    until(lambda: log.read_text().count("\n") == 4, "nginx to log every request")
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [line["method"] for line in lines] == ["(other)", "OPTIONS", "(other)", "DELETE"]


def test_logs_hold_no_registration_and_no_key(site, served, world):
    """Neither the access log nor the error log has one, whatever fails."""
    secrets = ("AB12CDE", "secret.example.com", served.key, "token-of-a-link")
    key = {"X-API-Key": served.key}
    for _ in range(2):
        send(site, "GET", "/v1/vehicle/AB12CDE/insurance", headers=key)
        send(site, "GET", "/v1/compliance/AB12CDE?asOf=2026-01-01", headers=key)
        send(site, "GET", f"/AB12CDE/{served.key}", headers=key)
        send(site, "POST", "/api/domains", body=b"AB12CDE" * 400_000, headers=key)
        send(site, "GET", "/api/domains/secret.example.com", headers=key)
        send(site, "GET", "/console/sign-in/token-of-a-link")
        served.process.terminate()
        served.wait()
    log = world.directory / "verifyd.log"
    # A refused body is logged when nginx has finished with it, after later requests.
    until(lambda: log.read_text().count("\n") == 12, "nginx to log every request")
    written = "".join(path.read_text() for path in world.directory.glob("*nginx*.error"))
    written += log.read_text() + (world.directory / "verifyd.error.log").read_text()
    assert [secret for secret in secrets if secret in written] == []
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    routes = [
        "/v1/vehicle/{registration}/insurance",
        "/v1/compliance/{registration}",
        "(other)",
        "/api/domains",
        "/api/domains/{domain}",
        "/console",
    ]
    assert sorted(line["route"] for line in lines) == sorted(routes * 2)
    statuses = Counter(line["status"] for line in lines)
    assert (statuses[502], statuses[413]) == (5, 2)
