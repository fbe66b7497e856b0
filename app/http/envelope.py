"""The outermost middleware: request id, the headers of every answer, the access log (D7)."""

import re
import time
from collections.abc import Callable

import falcon
import msgspec

from app import clock

_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")


class Envelope:
    """Gives each request its id and each answer its headers.

    Args:
        log: takes one access log line, or None for no access log.
    """

    def __init__(self, log: Callable[[bytes], object] | None) -> None:
        self._log = log

    def process_request(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Take nginx's request id if it is well-formed; otherwise the one made before stays."""
        given = req.env.get("HTTP_X_REQUEST_ID", "")
        if _REQUEST_ID.fullmatch(given):
            req.context.request_id = given

    def process_response(
        self, req: falcon.Request, resp: falcon.Response, resource: object, req_succeeded: bool
    ) -> None:
        """Set the headers that every answer has, and log it."""
        resp.set_header("X-Request-ID", req.context.request_id)
        resp.set_header("Cache-Control", "no-store")
        if self._log is not None:
            self._log(_access_line(req, resp))


def _access_line(req: falcon.Request, resp: falcon.Response) -> bytes:
    # SEC: the route's template, never the path: paths hold registrations.
    context = req.context
    line = {
        "time": clock.iso_utc(clock.now()),
        "event": "request",
        "request_id": context.request_id,
        "key": context.caller.key_id if context.caller else None,
        "method": req.method,
        "route": req.uri_template,
        "status": falcon.http_status_to_code(resp.status),
        "duration_ms": round((time.perf_counter_ns() - context.started_ns) / 1e6, 3),
    }
    return msgspec.json.encode(line) + b"\n"
