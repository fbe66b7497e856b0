"""Turns the bytes of one connection into whole requests, one after the other.

It uses no socket and no clock. A request is complete when its whole body has arrived, so the
application never waits for a client.
"""

import io
import re

from app.errors import Problem
from app.serve.http.bodies import BODY_BYTES_MAX, DRAINED_BYTES_MAX
from app.serve.http.context import REFUSAL, Environ
from app.serve.worker.head import LINE_BYTES_MAX, LineTooLong, Malformed, head_length, read_head

# What nginx says about a request, even if the rest of its head cannot be read.
_OF_NGINX = {
    "HTTP_X_REQUEST_ID": re.compile(rb"\r\nX-Request-ID: *([0-9A-Fa-f-]{16,64}) *(?=\r\n)", re.I),
    "HTTP_X_REAL_IP": re.compile(rb"\r\nX-Real-IP: *([0-9A-Fa-f:.]{2,45}) *(?=\r\n)", re.I),
}

_QUICK_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_QUICK_PREFIXES = ("/v1/vehicle/", "/v1/compliance/", "/api/domains/")
_QUICK_PATHS = frozenset({"/api/domains", "/v1/account", "/healthz"})


class Intake:
    """The requests of one connection.

    Args:
        environ: what all of them have in common, for WSGI.
    """

    __slots__ = ("_begun", "_common", "_left", "_received", "_searched", "expects_continue")

    def __init__(self, environ: Environ) -> None:
        self._common = environ
        self._received: bytes | bytearray = b""
        self._searched = 0
        """How many bytes of an incomplete head were searched for its end."""
        self._begun: Environ | None = None
        """The request whose body is incomplete."""
        self._left = 0
        """How many bytes its body has, or of a refused body how many are still to be discarded."""
        self.expects_continue = False
        """Whether the client waits for `100 Continue`; its reader resets it."""

    @property
    def held_bytes(self) -> int:
        """How many bytes wait for the rest of their request, or for their turn."""
        return len(self._received)

    @property
    def is_in_body(self) -> bool:
        """Whether the head of a request has been read, and a part of its body is missing."""
        return self._begun is not None

    def add(self, data: bytes) -> None:
        """Take what was received."""
        # PERF: most requests come in one piece, which is then not copied.
        if not self._received:
            self._received = data
            return
        if isinstance(self._received, bytes):
            self._received = bytearray(self._received)
        self._received += data

    def next_request(self) -> Environ | None:
        """Return the next request that is complete, or None. Raises Malformed."""
        if self._begun is None:
            environ = self._next_head()
            if environ is None:
                return None
            if "CONTENT_LENGTH" not in environ and "HTTP_TRANSFER_ENCODING" not in environ:
                environ["wsgi.input"] = io.BytesIO()
                # PERF: Falcon raises and catches a KeyError otherwise.
                environ.setdefault("CONTENT_TYPE", "")
                return environ
            # A chunked body is discarded after the answer, so its end does not matter.
            self._begun, self._left = environ, min(_length(environ), DRAINED_BYTES_MAX)
            if self.expects_continue and _is_refused(environ):
                # The client does not send its body before it has an answer.
                self.expects_continue, self._left = False, 0
        return self._whole_request(self._begun)

    def _next_head(self) -> Environ | None:
        if not self._received:
            return None
        length = head_length(self._received, self._searched)
        if not length:
            self._searched = len(self._received)
            return None
        environ = self._common.copy()
        read_head(bytes(self._received[:length]), environ)
        self._searched = 0
        self._received = self._received[length:]
        self.expects_continue = (
            "HTTP_EXPECT" in environ and environ["SERVER_PROTOCOL"] != "HTTP/1.0"
        )
        return environ

    def _whole_request(self, environ: Environ) -> Environ | None:
        if _is_refused(environ):
            # The application does not need what is discarded here, only its length.
            self._left -= len(self._received)
            self._received = b""
            if self._left > 0:
                return None
            body = b""
        else:
            if len(self._received) < self._left:
                return None
            body = bytes(self._received[: self._left])
            self._received = self._received[self._left :]
        self._begun = None
        environ["wsgi.input"] = io.BytesIO(body)
        return environ

    def last_request(self) -> Environ | None:
        """Return the request that ends with the connection, in its body, or None."""
        environ, self._begun = self._begun, None
        if environ is not None:
            environ["wsgi.input"] = io.BytesIO(bytes(self._received))
        self._received = b""
        return environ

    def discard(self) -> None:
        """Forget what was received and is not yet a request."""
        self._received, self._begun = b"", None

    def refused(self, problem: Problem) -> Environ:
        """Return a request that stands for the one that has begun, and gets this answer."""
        environ = self._begun
        if environ is None:
            environ = self._common | {
                "REQUEST_METHOD": "",
                "PATH_INFO": "/",
                "QUERY_STRING": "",
                "SERVER_PROTOCOL": "HTTP/1.1",
            }
            # SEC: whoever sends the body must not speak for nginx.
            head = self._received.partition(b"\r\n\r\n")[0] + b"\r\n"
            for key, pattern in _OF_NGINX.items():
                found = pattern.findall(head)
                if len(found) == 1:
                    environ[key] = found[0].decode("ascii")
        environ.pop("CONTENT_LENGTH", None)
        environ.pop("HTTP_TRANSFER_ENCODING", None)
        environ["wsgi.input"] = io.BytesIO()
        environ[REFUSAL] = problem
        return environ


def is_last(environ: Environ) -> bool:
    """Tell whether nothing after this request is a request."""
    if _is_refused(environ) or REFUSAL in environ or environ["REQUEST_METHOD"] == "CONNECT":
        return True
    connection: str | None = environ.get("HTTP_CONNECTION")
    if connection is None:
        return bool(environ["SERVER_PROTOCOL"] == "HTTP/1.0")
    options = {each.strip(" \t").lower() for each in connection.split(",")}
    is_kept = environ["SERVER_PROTOCOL"] != "HTTP/1.0" or "keep-alive" in options
    return "close" in options or not is_kept


def is_quick(environ: Environ) -> bool:
    """Tell whether a request surely takes no longer than a look-up, unless the database does.

    Bulk look-ups, and changes that wait for a lock, can take long, and so can pages.
    """
    if REFUSAL in environ:
        return True
    path: str = environ["PATH_INFO"]
    is_path_quick = path.startswith(_QUICK_PREFIXES) or path in _QUICK_PATHS
    return is_path_quick and environ["REQUEST_METHOD"] in _QUICK_METHODS


def problem_of(error: Malformed) -> Problem:
    """Return the answer to a malformed request."""
    if isinstance(error, LineTooLong):
        detail = f"The request line is longer than {LINE_BYTES_MAX:,} bytes."
        return Problem("uri_too_long", detail)
    return Problem("invalid_request", str(error) or "The request is not well-formed HTTP.")


def _is_refused(environ: Environ) -> bool:
    """Tell whether the application refuses the body for its length or its coding (D5)."""
    return "HTTP_TRANSFER_ENCODING" in environ or _length(environ) > BODY_BYTES_MAX


def _length(environ: Environ) -> int:
    return int(environ.get("CONTENT_LENGTH") or 0)
