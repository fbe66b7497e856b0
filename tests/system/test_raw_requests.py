"""Requests byte by byte: malformed ones are refused, and none hides behind another (D40, D104)."""

import http.client
import io
import json
import socket
from contextlib import suppress
from email.message import Message
from typing import NamedTuple

from tests.conftest import SHARED
from tests.system.processes import connected
from tests.system.raw_requests import MALFORMED, NOTHING, Expected, rows


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
