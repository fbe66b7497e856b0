"""The outermost middleware: request id, and the headers of every answer."""

import re
from collections.abc import Callable, Iterable, MutableMapping, Sequence
from typing import Any

import falcon

from app.errors import Problem
from app.serve.http.address import comes_from_proxy
from app.serve.http.context import FAILURE, REFUSAL, Request
from app.settings.values import Network

Application = Callable[..., Iterable[bytes]]


class GivenUp(BaseException):
    """A request took too long; raised by the handler of a signal, wherever the program is.

    NOTE: it is not an Exception, because code that ignores Exceptions would ignore it, too. It is
    no KeyboardInterrupt or SystemExit either, because psycopg cancels the statement for those:
    a COMMIT that waits for the standby would end, and others would see what only the primary has.
    """


class TookTooLong(Exception):
    """Stands for GivenUp within Falcon, which turns only Exceptions into answers."""


class Deadline:
    """A WSGI application that also answers the requests that are given up.

    It is called a second time with such a request. Then the middleware raises TookTooLong before
    anything of the request is done again.
    """

    def __init__(self, application: Application) -> None:
        self._application = application
        self.is_answering = False
        """Whether the application is working, rather than waiting for the client."""

    def __call__(
        self, environ: MutableMapping[str, Any], start_response: Callable[..., object]
    ) -> Iterable[bytes]:
        self.is_answering = True
        try:
            return self._application(environ, start_response)
        except GivenUp as error:
            environ[FAILURE] = TookTooLong().with_traceback(error.__traceback__)
            return self._application(environ, start_response)
        finally:
            self.is_answering = False


_CONTEXT = "verifyd.context"
# SEC: the id is logged. It must not contain a plate, name or key that a client put into it.
_REQUEST_ID = re.compile(r"[0-9A-Fa-f]{16,64}|[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")

_DOT_SEGMENTS = frozenset({".", ".."})


class Envelope:
    """Gives each request its id and each answer its headers.

    Args:
        trusted_proxies: whose request id is taken, besides a peer's on a Unix socket.
    """

    def __init__(self, trusted_proxies: Sequence[Network]) -> None:
        self._trusted_proxies = trusted_proxies

    def process_request(self, req: Request, resp: falcon.Response) -> None:
        """Take over a well-formed request id of a proxy; otherwise keep the generated one.

        A request that the worker could not read brings its refusal along. A path with a
        segment `.` or `..` is refused like it.

        A request that was given up, or cannot be recorded, comes a second time, with the context it
        had. For it this raises the exception that answers it.
        """
        former = req.env.setdefault(_CONTEXT, req.context)
        if former is not req.context:
            req.context = former
        failure: Exception | None = req.env.get(FAILURE)
        if failure is not None:
            raise failure
        given = req.env.get("HTTP_X_REQUEST_ID")
        if given and _REQUEST_ID.fullmatch(given) and comes_from_proxy(req, self._trusted_proxies):
            req.context.request_id = given
        req.context.refusal = req.env.get(REFUSAL) or _path_fault(req.env["PATH_INFO"])

    def process_response(
        self, req: Request, resp: falcon.Response, resource: object, req_succeeded: bool
    ) -> None:
        """Set the headers that every answer has."""
        resp.set_header("X-Request-ID", req.context.request_id)
        if resp.get_header("Cache-Control") is None:
            resp.set_header("Cache-Control", "no-store")


def _path_fault(path: str) -> Problem | None:
    """Return why a path, after percent-decoding, is refused; None if it is not.

    SEC: a proxy resolves `..` before it looks for rules about a path, and forwards the path as it
    came: `/console/..` would reach the console by the rules of `/`.
    """
    if "." not in path or _DOT_SEGMENTS.isdisjoint(path.split("/")):
        return None
    return Problem("invalid_request", "The path has a segment that is `.` or `..`.")
