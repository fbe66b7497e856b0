"""The shipped nginx site in front of a real service: what nginx adds, and what it says itself."""

import json
import re
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from contextlib import ExitStack, suppress
from http import HTTPStatus
from pathlib import Path

import pytest

from tests.system.processes import TLS, connected, free_port, read_answer, send, until
from tests.system.site import SITE, behind_site, command_with_site

TOOLS = Path(sys.executable).parent
CONNECTIONS_MAX = 64
# As RFC 9110 names them; Python took these names over with 3.13.
TITLES = {413: "Content Too Large", 414: "URI Too Long"}


@pytest.fixture
def served(serve, socket_directory):
    """A server on a Unix socket, as installed; one request a minute without a key."""
    return serve(bind=f"unix:{socket_directory}/socket", anonymous_limit=1)


@pytest.fixture
def site(served, world):
    """The address of nginx in front of a running service."""
    with behind_site(served.bind, world.directory) as bind:
        yield bind


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """The address of nginx in front of nothing."""
    with behind_site("127.0.0.1:1", tmp_path_factory.mktemp("alone")) as bind:
        yield bind


def require_problem(answer, status: int, code: str) -> None:
    """Fail unless an answer is the one error body (D5), made by nginx, with the status's title."""
    assert (answer.status, answer.media_type) == (status, "application/problem+json")
    told = answer.json()
    assert set(told) == {"type", "title", "status", "detail", "code", "request_id"}
    assert (told["status"], told["code"]) == (status, code)
    assert told["title"] == TITLES.get(status, HTTPStatus(status).phrase)
    assert told["request_id"] == answer.headers["X-Request-ID"]
    assert answer.headers["Cache-Control"] == "no-store"


def test_nginx_takes_it(tmp_path):
    """`nginx -t` finds no fault, and nothing to warn of."""
    command = command_with_site("127.0.0.1:1", f"127.0.0.1:{free_port()}", tmp_path)
    ended = subprocess.run([*command, "-t"], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert "[warn]" not in ended.stderr


def test_a_linter_takes_it():
    """Gixy knows of no weakness in it."""
    ended = subprocess.run(
        [TOOLS / "gixy", "--format", "json", SITE], capture_output=True, text=True, check=False
    )
    assert json.loads(ended.stdout) == [], ended.stdout


def test_the_service_answers_through_it(site, served):
    """Its answers come with their headers, and TLS is told to stay."""
    key = {"Authorization": f"Bearer {served.key}"}
    answer = send(site, "GET", "/api/domains", headers=key | {"X-Request-ID": "mine"})
    assert answer.json() == {"domains": []}
    assert answer.headers["X-RateLimit-Limit"] == "600"
    assert re.fullmatch("[0-9a-f]{32}", answer.headers["X-Request-ID"])
    assert answer.headers["Strict-Transport-Security"] == "max-age=31536000"


def test_large_answers_are_compressed(site):
    """The OpenAPI document comes in a quarter of its length."""
    answer = send(site, "GET", "/openapi.json", headers={"Accept-Encoding": "gzip"})
    assert answer.headers["Content-Encoding"] == "gzip"
    assert len(answer.body) < 30_000


def test_up_to_2_mib_the_refusal_is_the_services_own(site, served):
    """It has the headers that every answer of the service has; above nginx answers, in JSON."""
    key = {"X-API-Key": served.key}
    own = send(site, "POST", "/api/domains", body=b" " * 1_500_000, headers=key)
    assert (own.status, own.json()["code"]) == (413, "body_too_large")
    assert "X-RateLimit-Limit" in own.headers
    nginx = send(site, "POST", "/api/domains", body=b" " * 2_200_000, headers=key)
    require_problem(nginx, 413, "body_too_large")


def test_a_stopped_service_is_told_in_json(site, served):
    """502, with when to come again."""
    served.process.send_signal(signal.SIGTERM)
    served.process.wait(30)
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
def test_what_nginx_refuses_is_told_in_json(alone, status, request_line):
    """Nginx's own refusals have the one error body."""
    with connected(alone) as connection:
        connection.sendall(request_line + b"\r\nHost: x\r\n\r\n")
        answer = read_answer(connection)
    code = "method_not_allowed" if status == 405 else "invalid_request"
    require_problem(answer, status, code)


def test_plain_http_is_told_in_json(alone):
    """What was meant for another port is no HTML page either."""
    answer = send(alone.removeprefix("tls:"), "GET", "/healthz")
    require_problem(answer, 400, "invalid_request")


def test_metrics_need_no_key_on_this_host(site):
    """Prometheus beside nginx counts as local; a stranger's address cannot be pretended."""
    assert send(site, "GET", "/metrics").status == 200
    assert send(site, "GET", "/metrics", headers={"X-Real-IP": "192.0.2.1"}).status == 200


def test_a_client_cannot_choose_its_address(site):
    """Whatever headers say, guesses at keys from one connection's end share a bucket (D10)."""
    claims = [
        {"X-Real-IP": f"192.0.2.{number}", "X-Forwarded-For": f"192.0.2.{number}"}
        for number in range(2)
    ]
    statuses = [send(site, "GET", "/api/domains", headers=claim).status for claim in claims]
    assert statuses == [401, 429]


def test_metrics_are_for_this_host_only(alone):
    """Whoever comes from another address than 127.0.0.1 is refused, with or without a key."""
    host, _, port = alone.removeprefix("tls:").rpartition(":")
    other = socket.create_connection((host, int(port)), source_address=("127.0.0.2", 0))
    with TLS.wrap_socket(other, server_hostname="localhost") as connection:
        connection.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        require_problem(read_answer(connection), 403, "forbidden")


def test_no_body_is_written_to_a_file(site, served, world):
    """Where nginx would put files there is nothing: the longest bulk goes through memory."""
    for folder in ("body", "proxy"):
        (world.directory / folder).rmdir()
    plates = {"registrations": ["AB12CDE"] * 1_000, "padding": "x" * 1_000_000}
    key = {"X-API-Key": served.key, "Content-Type": "application/json"}
    answer = send(site, "POST", "/v1/vehicle/bulk-insurance", body=json.dumps(plates), headers=key)
    assert answer.json()["processed"] == 1_000


def test_an_address_has_so_many_connections(alone):
    """What goes beyond is told to come again, before anything of it is read."""
    answer = until(lambda: beyond_connections(alone), "nginx to refuse a connection")
    require_problem(answer, 429, "too_many_connections")
    assert answer.headers["Retry-After"] == "1"


def beyond_connections(bind):
    """The answer to one request more than an address may have, if it is 429.

    On a busy machine the first of them may have been too slow by then.
    """
    begun = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n"
    with ExitStack() as open_ones:
        for _ in range(CONNECTIONS_MAX):
            open_ones.enter_context(connected(bind)).sendall(begun)
        answer = send(bind, "GET", "/")
    return answer if answer.status == 429 else None


@pytest.mark.system_long
@pytest.mark.parametrize(
    "begun", [b"GET / HT", b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{"]
)
def test_a_slow_client_is_let_go(alone, begun):
    """Ten seconds without a byte, in the head or in the body, are the end."""
    with connected(alone) as connection:
        connection.sendall(begun)
        started = time.monotonic()
        with suppress(ConnectionResetError):
            assert connection.recv(1) == b""
    assert 8 < time.monotonic() - started < 20


def test_logs_hold_no_registration_and_no_key(site, served, world):
    """Neither in the access log nor in the error log, whatever goes wrong."""
    secrets = ("AB12CDE", "secret.example.com", served.key)
    key = {"X-API-Key": served.key}
    for _ in range(2):
        send(site, "GET", "/v1/vehicle/AB12CDE/insurance", headers=key)
        send(site, "GET", "/v1/compliance/AB12CDE?asOf=2026-01-01", headers=key)
        send(site, "GET", f"/AB12CDE/{served.key}", headers=key)
        send(site, "POST", "/api/domains", body=b"AB12CDE" * 400_000, headers=key)
        send(site, "GET", "/api/domains/secret.example.com", headers=key)
        served.process.terminate()
        served.process.wait(30)
    log = world.directory / "verifyd.log"
    # A refused body is logged when nginx has finished with it, later than what came next.
    until(lambda: log.read_text().count("\n") == 10, "nginx to log every request")
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
    ]
    assert sorted(line["route"] for line in lines) == sorted(routes * 2)
    statuses = Counter(line["status"] for line in lines)
    assert (statuses[502], statuses[413]) == (4, 2)
