"""Turns every exception below /console into a page (D131)."""

import logging
from collections.abc import Mapping

import falcon
import peewee

from app.console.context import ConsoleRequest, PageError
from app.console.entrance import SignInRefused
from app.console.rendering import Renderer
from app.errors import RETRY_AFTER_SECONDS, Problem
from app.storage.engine import Engine
from app.storage.errors import message_of

_log = logging.getLogger("verifyd.console")
_HEADINGS: Mapping[str, str] = {
    "rate_limit_exceeded": "Too many attempts",
    "service_unavailable": "The service cannot answer now",
    "body_too_large": "The form is too long",
    "invalid_request": "The request is malformed",
}


class Failures:
    """Answers exceptions with pages.

    SEC: no page shows the text of an exception that is not meant for people.
    """

    def __init__(self, engine: Engine, pages: Renderer) -> None:
        self._engine = engine
        self._pages = pages

    def install(self, app: "falcon.App[ConsoleRequest, falcon.Response]") -> None:
        """Make an application answer every exception with a page."""
        app.add_error_handler(Exception, self._unexpected)
        app.add_error_handler(falcon.HTTPError, self._framework_error)
        app.add_error_handler(Problem, self._problem)
        app.add_error_handler(SignInRefused, self._sign_in_refused)
        app.add_error_handler(PageError, self._page_error)
        app.add_error_handler((peewee.DatabaseError, peewee.InterfaceError), self._database_failed)
        app.add_error_handler(
            (peewee.ProgrammingError, peewee.DataError, peewee.IntegrityError),
            self._programming_failed,
        )

    def _page_error(
        self, req: ConsoleRequest, resp: falcon.Response, error: PageError, params: object
    ) -> None:
        self._write(req, resp, error)

    def _sign_in_refused(
        self, req: ConsoleRequest, resp: falcon.Response, error: SignInRefused, params: object
    ) -> None:
        resp.status = error.kind.status
        resp.set_headers(error.headers)
        self._pages.send(req, resp, "signed_out.html", heading=error.heading, text=error.detail)

    def _problem(
        self, req: ConsoleRequest, resp: falcon.Response, error: Problem, params: object
    ) -> None:
        resp.set_headers(error.headers)
        heading = _HEADINGS.get(error.code, "This did not work")
        self._write(req, resp, PageError(error.kind.status, heading, error.detail))

    def _framework_error(
        self, req: ConsoleRequest, resp: falcon.Response, error: falcon.HTTPError, params: object
    ) -> None:
        status = falcon.http_status_to_code(error.status)
        resp.set_headers(error.headers or {})
        if status == 404:
            shown = PageError(404, "There is no such page", "The address may be mistyped or old.")
        elif status == 405:
            text = "This page does not take this method. Go back, and use the buttons of the page."
            shown = PageError(405, "That does not work here", text)
        else:
            shown = PageError(status, "This did not work", "The request is malformed.")
        self._write(req, resp, shown)

    def _database_failed(
        self, req: ConsoleRequest, resp: falcon.Response, error: Exception, params: object
    ) -> None:
        self._engine.recover(error)
        req.context.has_database_error = True
        # SEC: the whole message could quote a value of the request.
        message = message_of(error)
        _log.error("database error: %s: %s", type(error).__name__, message, extra=_extra(req))
        resp.set_header("Retry-After", str(RETRY_AFTER_SECONDS))
        text = (
            "The service runs, but its database does not answer, or cannot be written to. "
            "If you sent a form, look whether it was done before you send it again. "
            "On the host, “sudo verifyd check” says more."
        )
        self._write(req, resp, PageError(503, "The database cannot be used now", text))

    def _programming_failed(
        self, req: ConsoleRequest, resp: falcon.Response, error: Exception, params: object
    ) -> None:
        self._engine.recover(error)
        self._unexpected(req, resp, error, params)

    def _unexpected(
        self, req: ConsoleRequest, resp: falcon.Response, error: Exception, params: object
    ) -> None:
        # SEC: the stack without the message, which can quote the request.
        _log.error("unexpected %s", type(error).__name__, exc_info=error, extra=_extra(req))
        text = f"The log has the details, under the request id {req.context.request_id}."
        self._write(req, resp, PageError(500, "The console failed", text))

    def _write(self, req: ConsoleRequest, resp: falcon.Response, error: PageError) -> None:
        resp.status = error.status
        self._pages.send(req, resp, "error.html", error=error)


def _extra(req: ConsoleRequest) -> dict[str, str]:
    return {"request_id": req.context.request_id}
