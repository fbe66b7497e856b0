"""The console as an application of its own, beside the API's.

No page can be reached with an API key. With a listener of its own, a firewall or the permissions of
files can guard the console: a proxy's list of paths is only as good as both programs' idea of a
path.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import falcon
import peewee

from app.audit.trail import Trail
from app.config import Config
from app.console.entrance import Entrance, Rights, SignInRefused, link_refusal
from app.console.pages import PAGES, menu
from app.console.rendering import ROOT, ConsoleRequest, Renderer
from app.console.resources import PageError, Services, StartOfListener
from app.errors import RETRY_AFTER_SECONDS, Problem
from app.jobs.audit_tasks import AuditTasks
from app.jobs.register_tasks import RegisterTasks
from app.own_command import INSTALLED, as_run_here
from app.people.directory import directory_of
from app.people.sessions import LinkRefused
from app.serve.http.context import LISTENER, REFUSAL, Request
from app.serve.http.limits import Limits
from app.serve.limits.store import LimitStore
from app.storage.engine import Engine
from app.storage.errors import message_of

_log = logging.getLogger("verifyd.console")
_HEADINGS: Mapping[str, str] = {
    "rate_limit_exceeded": "Too many attempts",
    "service_unavailable": "The service cannot answer now",
    "body_too_large": "The form is too long",
    "invalid_request": "The request is malformed",
}
_FRAMEWORK_ERRORS = {
    404: ("There is no such page", "The address may be mistyped or old."),
    405: (
        "That does not work here",
        "This page does not take this method. Go back, and use the buttons of the page.",
    ),
}
_MALFORMED = "This did not work", "The request is malformed."
_BUGS = (peewee.ProgrammingError, peewee.DataError, peewee.IntegrityError)
"""What the database raises if one of our statements is wrong."""


class Failures:
    """Answers exceptions with pages.

    SEC: no page shows the text of an exception that is not meant for people.
    """

    def __init__(self, engine: Engine, pages: Renderer) -> None:
        self._engine = engine
        self._pages = pages

    def answer(
        self, req: ConsoleRequest, resp: falcon.Response, error: Exception, params: object
    ) -> None:
        """Answer a request that raised an exception."""
        if isinstance(error, peewee.DatabaseError | peewee.InterfaceError):
            self._engine.recover(error)
        if isinstance(error, LinkRefused):
            error = link_refusal(error)
        if isinstance(error, Problem | falcon.HTTPError):
            resp.set_headers(error.headers or {})
        shown = _page_of(req, resp, error)
        resp.status = shown.status
        if isinstance(error, SignInRefused):
            values = {"heading": shown.heading, "text": shown.text}
            self._pages.send(req, resp, "signed_out.html", values)
        else:
            self._pages.send(req, resp, "error.html", {"error": shown})


def _page_of(req: ConsoleRequest, resp: falcon.Response, error: Exception) -> PageError:
    """Return the page that answers an exception, and log failures of the service."""
    match error:
        case PageError():
            return error
        case SignInRefused():
            return PageError(error.kind.status, error.heading, error.detail)
        case Problem():
            heading = _HEADINGS.get(error.code, "This did not work")
            return PageError(error.kind.status, heading, error.detail)
        case falcon.HTTPError():
            status = falcon.http_status_to_code(error.status)
            return PageError(status, *_FRAMEWORK_ERRORS.get(status, _MALFORMED))
        case peewee.DatabaseError() | peewee.InterfaceError() if not isinstance(error, _BUGS):
            return _database_failed(req, resp, error)
    # SEC: the stack without the message, which can quote the request.
    _log.error("unexpected %s", type(error).__name__, exc_info=error, extra=_extra(req))
    text = f"The log has the details, under the request id {req.context.request_id}."
    return PageError(500, "The console failed", text)


def _database_failed(req: ConsoleRequest, resp: falcon.Response, error: Exception) -> PageError:
    req.context.has_database_error = True
    # SEC: the whole message could quote a value of the request.
    message = message_of(error)
    _log.error("database error: %s: %s", type(error).__name__, message, extra=_extra(req))
    resp.set_header("Retry-After", str(RETRY_AFTER_SECONDS))
    text = (
        "The service runs, but its database does not answer, or cannot be written to. "
        "If you sent a form, look whether it was done before you send it again. "
        f"On the host, “{as_run_here(INSTALLED)} check” says more."
    )
    return PageError(503, "The database cannot be used now", text)


def _extra(req: ConsoleRequest) -> dict[str, str]:
    return {"request_id": req.context.request_id}


# SEC: pages load nothing but files of this service, send forms only to it, and stand in no frame.
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # NOTE: `no-referrer` would make browsers send `Origin: null` with our own forms.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


ConsoleApplication = falcon.App[ConsoleRequest, falcon.Response]


class SecurityHeaders:
    """Gives every answer of the console the headers that protect its pages."""

    def process_response(
        self, req: ConsoleRequest, resp: falcon.Response, resource: object, req_succeeded: bool
    ) -> None:
        """Set the headers."""
        resp.set_headers(_HEADERS)


class Attempts(Limits):
    """Charges the client's address for wrong cookies and links, and nobody for anything else."""

    def process_response(
        self, req: Request, resp: falcon.Response, resource: object, req_succeeded: bool
    ) -> None:
        """Set no headers: pages are not limited."""


class BehindConsole(falcon.App[Request, falcon.Response]):
    """The API's application, which hands requests for the console to the console's.

    Args:
        listener: the console's own listener; None if it shares the API's.
    """

    def __init__(
        self, console: ConsoleApplication, listener: str | None = None, **options: Any
    ) -> None:
        super().__init__(**options)
        self._console = console
        self._listener = listener
        # PERF: to look this method up for each request takes as long as the rest of `__call__`.
        self._api = super().__call__

    def __call__(self, env: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Answer a request."""
        if self._listener is not None and env.get(LISTENER) == self._listener:
            return self._console(env, start_response)
        path: str = env["PATH_INFO"]
        if path.startswith(ROOT) and path[len(ROOT) :][:1] in ("", "/") and REFUSAL not in env:
            if self._listener is None:
                return self._console(env, start_response)
            env[REFUSAL] = Problem("not_found", "There is nothing at this path.")
        return self._api(env, start_response)


def create_console(
    config: Config,
    engine: Engine,
    limits: LimitStore,
    trail: Trail | None,
    outermost: Sequence[Any],
) -> ConsoleApplication:
    """Return the application that answers every path below /console.

    Args:
        trail: where look-ups are recorded; None if the audit trail is off.
        outermost: middleware of the API, too, which counts, logs and reads requests.
    """
    pages = Renderer(config.timezone, menu(), has_directory=directory_of(config) is not None)
    tasks, audit_tasks = RegisterTasks(engine, config), AuditTasks(engine, config)
    services = Services(engine, config, limits, pages, trail, tasks, audit_tasks)
    rights: dict[type, Rights] = {page.resource: page.rights for page in PAGES}
    entrance = Entrance(engine, config, rights | {StartOfListener: {"GET": None}})
    middleware = [*outermost, SecurityHeaders(), entrance, Attempts(limits, config)]
    app: ConsoleApplication = falcon.App(request_type=ConsoleRequest, middleware=middleware)
    app.req_options.strip_url_path_trailing_slash = True
    # This handler replaces those of Falcon for its own errors.
    app.add_error_handler((Exception, falcon.HTTPError), Failures(engine, pages).answer)
    for page in PAGES:
        app.add_route(page.path, page.resource(services))
    if config.console_bind:  # Its listener serves nothing else.
        app.add_route("/", StartOfListener(services))
    return app
