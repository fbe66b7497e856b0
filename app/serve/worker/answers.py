"""Calls the application, and turns its answer into bytes."""

import secrets
import socket
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from email.utils import formatdate
from functools import lru_cache

import msgspec

from app import clock
from app.errors import Problem
from app.serve.http.bodies import FileBody
from app.serve.http.context import Environ
from app.serve.http.envelope import Application

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
REST = "verifyd.rest"
"""Where `answer_of` puts the rest of an answer in the environment of its request."""
_BYTES_OF_TEXT = bytes([ord("\t"), *range(0x20, 0x7F), *range(0x80, 0x100)])
_WITHOUT_BODY = ("1", "204", "304")
_WITHOUT_LENGTH = ("1", "204")


class BadAnswer(Exception):
    """The application answered with a header that would break this answer or the next."""


class Response:
    """The answer to one request, while the application makes it."""

    __slots__ = ("_fields", "_status")

    def start(
        self, status: str, fields: Sequence[tuple[str, str]], _failure: object = None
    ) -> Callable[[bytes], object]:
        """Take status and header fields, as `start_response` of WSGI."""
        self._status, self._fields = status, fields
        return _refuse_to_write

    def encoded(
        self, environ: Environ, body: bytes, *, is_last: bool, rest_bytes: int = 0
    ) -> bytes:
        """Return the whole answer, or its beginning. Raises BadAnswer.

        Args:
            is_last: close the connection after it.
            rest_bytes: how much of the body follows later.
        """
        body_bytes = len(body) + rest_bytes
        status = self._status
        lines = [f"{environ['SERVER_PROTOCOL']} {status}", *_common(clock.now(), is_last)]
        length = None
        for name, value in self._fields:
            if name.lower() == "content-length":
                length = value
                if status.startswith(_WITHOUT_LENGTH):
                    continue
            lines.append(f"{name}: {value}")
        if status.startswith(_WITHOUT_BODY) or environ["REQUEST_METHOD"] == "HEAD":
            body = b""
        elif length is None:
            lines.append(f"Content-Length: {body_bytes}")
        elif length != str(body_bytes):
            raise BadAnswer
        head = "\r\n".join(lines).encode("latin-1")
        # SEC: a line end within a header would begin another header, or another answer.
        if head.translate(None, _BYTES_OF_TEXT) != b"\r\n" * (len(lines) - 1):
            raise BadAnswer
        return b"%b\r\n\r\n%b" % (head, body)


def answer_of(application: Application, environ: Environ, *, is_last: bool) -> bytes:
    """Call the application with a whole request, and return its whole answer.

    Of a file that is the body, return the beginning, and put the rest into the environment.
    """
    answer = Response()
    parts: Iterable[bytes] = application(environ, answer.start)
    if isinstance(parts, FileBody):
        rest = iter(parts)
        first = next(rest, b"")
        rest_bytes = parts.length - len(first)
        environ[REST] = rest if rest_bytes else None
        return answer.encoded(environ, first, is_last=is_last, rest_bytes=rest_bytes)
    try:
        return answer.encoded(environ, b"".join(parts), is_last=is_last)
    finally:
        close = getattr(parts, "close", None)
        if close is not None:
            close()


def failure() -> tuple[bytes, str]:
    """Return the answer to a request that the application could not answer, and its request id."""
    problem = Problem("internal_error", "The service failed; the request may be retried.")
    request_id = secrets.token_hex(16)
    body = msgspec.json.encode(problem.body(request_id))
    head = (
        f"HTTP/1.1 {problem.kind.status} {problem.kind.title}\r\n"
        "Connection: close\r\n"
        "Content-Type: application/problem+json\r\n"
        "Cache-Control: no-store\r\n"
        f"X-Request-ID: {request_id}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode("ascii") + body, request_id


# PERF: many answers are sent in the same second.
@lru_cache(2)
def _common(epoch_seconds: int, is_last: bool) -> tuple[str, str, str]:
    """Return the fields that all answers of a second have."""
    return (
        "Server: gunicorn",
        f"Date: {formatdate(epoch_seconds, usegmt=True)}",
        "Connection: close" if is_last else "Connection: keep-alive",
    )


def _refuse_to_write(_data: bytes) -> None:
    raise NotImplementedError("the application must return its body")


class Outgoing:
    """The part of an answer that the client has not read yet.

    Args:
        answer: the answer, or its beginning.
        sent: how much of that was sent.
        rest: yields what follows; None for nothing.
    """

    __slots__ = ("_rest", "_sent", "_unread")

    def __init__(self, answer: bytes, sent: int, rest: Iterator[bytes] | None) -> None:
        self._unread, self._sent = answer, sent
        self._rest = rest
        self._forget_sent()

    @property
    def held_bytes(self) -> int:
        """How much of it is in memory."""
        return len(self._unread)

    @property
    def is_sent(self) -> bool:
        """Whether nothing is left."""
        return not self._unread and self._rest is None

    def take_more(self) -> bool:
        """Take the next piece into memory if nothing is left there; return whether it did.

        Raises OSError if the piece cannot be read.
        """
        if self._unread or self._rest is None:
            return False
        self._unread = next(self._rest, b"")
        if not self._unread:
            self._rest = None
        return True

    def send(self, client: socket.socket) -> None:
        """Send as much as the client takes now. Raises OSError."""
        with suppress(BlockingIOError):
            self._sent += client.send(memoryview(self._unread)[self._sent :])
            self._forget_sent()

    def _forget_sent(self) -> None:
        """Keep what is left, and at most as much again, because a copy takes time."""
        if self._sent * 2 >= len(self._unread):
            self._unread, self._sent = self._unread[self._sent :], 0
