"""The shipped nginx site in front of a real service: what nginx adds, and what it says itself."""

import json
import re
import signal
import subprocess
import sys
from http import HTTPStatus
from pathlib import Path

import pytest

from tests.system.processes import connected, free_port, read_answer, send
from tests.system.site import SITE, behind_site, command_with_site

TOOLS = Path(sys.executable).parent
# As RFC 9110 names them; Python took these names over with 3.13.
TITLES = {413: "Content Too Large", 414: "URI Too Long"}


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
    written = "".join(path.read_text() for path in world.directory.glob("*nginx*.error"))
    log = (world.directory / "verifyd.log").read_text()
    written += log + (world.directory / "verifyd.error.log").read_text()
    assert [secret for secret in secrets if secret in written] == []
    lines = [json.loads(line) for line in log.splitlines()]
    assert len(lines) == 10
    assert [line["route"] for line in lines[:5]] == [
        "/v1/vehicle/{registration}/insurance",
        "/v1/compliance/{registration}",
        "(other)",
        "/api/domains",
        "/api/domains/{domain}",
    ]
    assert [line["status"] for line in lines[5:]] == [502, 502, 502, 413, 502]
