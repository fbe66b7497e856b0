"""Turns every exception into the one error body (D5)."""

import logging
from collections.abc import Callable, Mapping, Sequence

import falcon
import msgspec
import peewee

from app import clock
from app.errors import RETRY_AFTER_SECONDS, Problem
from app.serve.http.authentication import unauthorized
from app.serve.http.context import Request
from app.serve.http.paths import BASES, closest_path, correction
from app.serve.limits.bucket import SECOND_NS
from app.storage.engine import Engine
from app.storage.errors import is_reference_lost, message_of
from app.text import counted

PROBLEM_JSON = "application/problem+json"
_log = logging.getLogger("verifyd.http")

_FRAMEWORK_CODES = {
    405: ("method_not_allowed", "This path does not take this method."),
    413: ("body_too_large", "The body is too large."),
    415: ("unsupported_media_type", "The body must be sent as application/json."),
    503: ("service_unavailable", "The service cannot answer now."),
}
_OTHERWISE = ("invalid_request", "The request is malformed.")


def install(
    app: falcon.App[Request, falcon.Response],
    engine: Engine,
    paths: Mapping[str, Sequence[str]],
    imagined: Mapping[str, str],
    send_lost_page: Callable[[Request, falcon.Response], None],
) -> None:
    """Make an application answer every exception with a problem body, whatever `Accept` says.

    Only people who mistype an address in a browser get a page, with or without a key (D5).

    Args:
        paths: the path templates that can be suggested, each with its methods.
        imagined: templates that do not exist but are often tried, and which one is meant.
        send_lost_page: answers such a request of a person.
    """
    failures = _CountedFailures()

    def database_failed(
        req: Request, resp: falcon.Response, error: Exception, params: object
    ) -> None:
        engine.recover(error)
        req.context.has_database_error = True
        # SEC: the whole message could quote a value of the request.
        failures.failed(f"{type(error).__name__}: {message_of(error)}", req.context.request_id)
        detail = f"The database cannot be reached now. Retry in {RETRY_AFTER_SECONDS} s."
        _write(req, resp, Problem("database_unavailable", detail))

    def programming_failed(
        req: Request, resp: falcon.Response, error: Exception, params: object
    ) -> None:
        engine.recover(error)
        if is_reference_lost(error):
            # All rows that requests write refer to their account. It was deleted since its key was
            # found, and the next request will be refused so.
            _write(req, resp, unauthorized(req))
        else:
            _unexpected(req, resp, error, params)

    def not_found(
        req: Request, resp: falcon.Response, error: falcon.HTTPNotFound, params: object
    ) -> None:
        if _is_of_person(req):
            send_lost_page(req, resp)
            return
        # SEC: paths without a key are not charged, so their refusal must cost nothing.
        suggested = req.context.caller and closest_path(req.path, req.method, paths, imagined)
        detail = "There is nothing at this path. /docs lists the paths."
        if suggested:
            meant = suggested + correction(req.path, req.method, suggested, paths[suggested])
            detail = f"There is nothing at this path; did you mean {meant}?"
        _write(req, resp, Problem("not_found", detail))

    def problem(req: Request, resp: falcon.Response, error: Problem, params: object) -> None:
        is_lost = error.code in ("not_found", "unauthorized") and req.path not in paths
        if is_lost and _is_of_person(req):
            send_lost_page(req, resp)
        else:
            _write(req, resp, error)

    app.add_error_handler(Exception, _unexpected)
    app.add_error_handler(Problem, problem)
    app.add_error_handler(falcon.HTTPError, _framework_error)
    app.add_error_handler(falcon.HTTPNotFound, not_found)
    app.add_error_handler((peewee.DatabaseError, peewee.InterfaceError), database_failed)
    app.add_error_handler(
        (peewee.ProgrammingError, peewee.DataError, peewee.IntegrityError), programming_failed
    )


def _is_of_person(req: Request) -> bool:
    """Tell whether a browser shows the answer, and the path is not one of the API's."""
    base = next(filter(None, req.path.split("/")), "").lower()
    return req.method in ("GET", "HEAD") and base not in BASES and req.prefers_html


def _framework_error(
    req: Request, resp: falcon.Response, error: falcon.HTTPError, params: object
) -> None:
    status = falcon.http_status_to_code(error.status)
    if status >= 500 and status != 503:
        _unexpected(req, resp, error, params)
        return
    code, detail = _FRAMEWORK_CODES.get(status, _OTHERWISE)
    _write(req, resp, Problem(code, detail, headers=dict(error.headers or {})))


def _unexpected(req: Request, resp: falcon.Response, error: Exception, params: object) -> None:
    # SEC: the stack without the message, which can quote the request.
    extra = {"request_id": req.context.request_id}
    _log.error("unexpected %s", type(error).__name__, exc_info=error, extra=extra)
    _write(req, resp, Problem("internal_error", "The service failed; the request may be retried."))


def _write(req: Request, resp: falcon.Response, problem: Problem) -> None:
    resp.status = problem.kind.status
    resp.content_type = PROBLEM_JSON
    # NOTE: Falcon has discarded what the responder had begun to answer.
    resp.data = msgspec.json.encode(problem.body(req.context.request_id))
    for name, value in problem.headers.items():
        resp.set_header(name, value)


class _CountedFailures:
    """Logs failures of the database, at most one each second, and counts the others.

    While the database is away, every request fails. The access log has the id of each.
    """

    def __init__(self) -> None:
        self._untold = 0
        self._logged_at_ns = -SECOND_NS

    def failed(self, reason: str, request_id: str) -> None:
        """Log a failure, and how many there were since the last line."""
        now_ns = clock.monotonic_ns()
        if now_ns - self._logged_at_ns < SECOND_NS:
            self._untold += 1
            return
        others = f"; {counted(self._untold, 'more request')} failed since the last such line"
        message = f"database error: {reason}{others if self._untold else ''}"
        self._untold, self._logged_at_ns = 0, now_ns
        _log.error("%s", message, extra={"request_id": request_id})


_REMINDER_SECONDS = 60


class FailureLog:
    """Logs why something that requests need fails: at once, then once a minute; and its recovery.

    Args:
        what: what fails, as each message begins.
        solved: what can be done again when it works.
    """

    def __init__(self, log: logging.Logger, what: str, solved: str) -> None:
        self._log = log
        self._what = what
        self._solved = solved
        self._reason = ""
        self._logged_at_ns = 0

    def failed(self, reason: str, request_id: str) -> None:
        """Log a failure, unless the same one was logged less than a minute ago."""
        now_ns = clock.monotonic_ns()
        if reason == self._reason and now_ns - self._logged_at_ns < _REMINDER_SECONDS * SECOND_NS:
            return
        self._reason, self._logged_at_ns = reason, now_ns
        self._log.error("%s: %s", self._what, reason, extra={"request_id": request_id})

    def worked(self) -> None:
        """Log that it works again, if it failed the last time."""
        if self._reason:
            self._reason = ""
            self._log.info("%s: %s", self._what, self._solved)
