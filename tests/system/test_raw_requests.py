"""Requests byte by byte: malformed ones are refused, and none hides behind another."""

import http.client
import io
import json
import socket
from contextlib import suppress
from email.message import Message
from typing import NamedTuple

import pytest

from tests.conftest import SHARED
from tests.system.processes import connected, until
from tests.system.raw_requests import MALFORMED, NOTHING, Expected, rows
from tests.system.test_metrics import counted


class Reply(NamedTuple):
    """One of the answers to what was sent."""

    status: int
    headers: Message
    body: bytes

    @property
    def expected(self) -> Expected:
        """Its status, its code if it is a problem, and what is wrong with a malformed request."""
        if self.status < 400:
            return Expected(self.status)
        problem = json.loads(self.body)
        is_malformed = problem["code"] == MALFORMED.code
        return Expected(self.status, problem["code"], problem["detail"] if is_malformed else "")


def replies(bind: str, sent: bytes) -> list[Reply]:
    """Send bytes and the end of the connection; return all answers."""
    with connected(bind) as connection:
        # The service may refuse and close before it has read everything.
        with suppress(OSError):
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_WR)
        with connection.makefile("rb") as received:
            return split(received.read())


def split(received: bytes) -> list[Reply]:
    """Return the answers that follow each other, none of which is chunked."""
    found = []
    stream = io.BytesIO(received)
    while line := stream.readline():
        headers = http.client.parse_headers(stream)
        body = stream.read(int(headers.get("Content-Length", 0)))
        found.append(Reply(int(line.split(b" ")[1]), headers, body))
    return found


@SHARED
def test_each_request_gets_its_answer(served):
    """Requests that are malformed or ambiguous are refused, before anything of them is used."""
    wrong, names = {}, []
    for name, sent, expected in rows(served.key):
        names.append(name)
        answers = replies(served.bind, sent)
        got = answers[0].expected if answers else NOTHING
        if got != expected:
            wrong[name] = got, expected
        if expected.code == MALFORMED.code:
            # What follows is part of the request, whatever it looks like.
            assert len(answers) == 1, name
            assert answers[0].headers["Connection"] == "close", name
    assert wrong == {}
    assert len(set(names)) == len(names) > 180


@SHARED
@pytest.mark.parametrize("asked", range(10))
def test_an_answer_has_a_version_that_the_service_knows(served, asked):
    """Later versions of HTTP/1 get HTTP/1.1 (RFC 9110, 2.5)."""
    with connected(served.bind) as connection:
        connection.sendall(b"GET /healthz HTTP/1.%d\r\nHost: x\r\n\r\n" % asked)
        assert connection.recv(13) == b"HTTP/1.%d 200 " % min(asked, 1)


GIVEN_ID = "5f0c6a9e2b7d4c1f8a3e9d6b0c2f4a71"
MALFORMED_BY_NGINX = (
    f"GET /é HTTP/1.1\r\nX-Request-ID: {GIVEN_ID}\r\nX-Real-IP: 203.0.113.7\r\n\r\n".encode()
)


def test_a_refusal_is_like_any_other(serve):
    """A malformed request is logged, counted and charged to its address."""
    service = serve(workers=1, anonymous_limit=5)
    answers = [replies(service.bind, MALFORMED_BY_NGINX)[0] for _ in range(7)]
    assert [answer.status for answer in answers] == [400] * 5 + [429] * 2
    first = answers[0]
    assert first.headers["X-RateLimit-Limit"] == "5"
    assert first.headers["X-RateLimit-Remaining"] == "4"
    assert "X-RateLimit-Reset" in first.headers
    request_id = first.headers["X-Request-ID"]
    assert request_id == json.loads(first.body)["request_id"] != GIVEN_ID
    (line,) = [line for line in service.lines("stdout") if line["request_id"] == request_id]
    assert (line["method"], line["route"], line["key"]) == ("(other)", None, None)
    until(lambda: counted(service, route="(none)", status="400") == 5, "the counts of all workers")
    assert "verifyd_authentication_failures_total 0.0" in service.get("/metrics").body.decode()


def test_a_proxy_says_whose_request_is_malformed(serve, socket_directory):
    """The refusal has nginx's request id, and is charged to the address that nginx names."""
    service = serve(bind=f"unix:{socket_directory}/socket", workers=1, anonymous_limit=1)
    others = MALFORMED_BY_NGINX.replace(b"203.0.113.7", b"203.0.113.8")
    ambiguous = MALFORMED_BY_NGINX.replace(
        b"\r\n\r\n", f"\r\nX-Request-ID: {'0' * 32}\r\n\r\n".encode()
    )
    for sent, status in ((MALFORMED_BY_NGINX, 400), (MALFORMED_BY_NGINX, 429), (others, 400)):
        (answer,) = replies(service.bind, sent)
        assert (answer.status, answer.headers["X-Request-ID"]) == (status, GIVEN_ID)
    (answer,) = replies(service.bind, ambiguous)
    assert answer.headers["X-Request-ID"] not in (GIVEN_ID, "0" * 32)
