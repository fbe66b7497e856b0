"""The console as an application of its own, beside that of the API (D131)."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import falcon

from app.audit.trail import Trail
from app.config import Config
from app.console.context import ROOT, ConsoleRequest, Services
from app.console.entrance import Entrance
from app.console.failures import Failures
from app.console.pages import PAGES, menu
from app.console.rendering import Renderer
from app.errors import Problem
from app.serve.http.context import LISTENER, REFUSAL, Request
from app.serve.http.limits import Limits
from app.serve.limits.store import LimitStore
from app.storage.engine import Engine

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
        """Leave out the headers about what is left: pages are not limited."""


class BehindConsole(falcon.App[Request, falcon.Response]):
    """An application that leaves requests for the console to another one.

    Args:
        listener: where the console alone listens; None if it is where the API is (D131).
    """

    def __init__(
        self, console: ConsoleApplication, listener: str | None = None, **options: Any
    ) -> None:
        super().__init__(**options)
        self._console = console
        self._listener = listener
        # PERF: looking it up for each request takes as long as the rest of `__call__`.
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
        outermost: the middleware that the API has, too: what counts, logs and reads requests.
    """
    pages = Renderer(config.timezone, menu())
    services = Services(engine, config, limits, pages, trail)
    rights = {page.resource: page.rights for page in PAGES}
    app: ConsoleApplication = falcon.App(
        request_type=ConsoleRequest,
        middleware=[
            *outermost,
            SecurityHeaders(),
            Entrance(engine, config, rights),
            Attempts(limits, config),
        ],
    )
    app.req_options.strip_url_path_trailing_slash = True
    Failures(engine, pages).install(app)
    for page in PAGES:
        app.add_route(page.path, page.resource(services))
    return app
