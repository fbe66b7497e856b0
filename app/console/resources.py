"""The base of the console's resources, and the services that they use."""

from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any, NamedTuple

import falcon

from app.audit.record import AuditError
from app.audit.recording import record_now
from app.audit.trail import Trail
from app.config import Config
from app.console.rendering import ASSETS, ROOT, ConsoleRequest, Renderer, Values, View
from app.jobs.audit_tasks import AuditTasks
from app.jobs.register_tasks import RegisterTasks
from app.serve.http.caching import send_asset
from app.serve.limits.store import LimitStore
from app.storage.engine import Engine

LOOK_UP = "look-up"
"""The segment of the path of the look-up page, the only page of a clerk."""
_NUMBER_DIGITS_MAX = 18
_ASSETS = {asset.served_name: asset for asset in ASSETS.values()}


class Services(NamedTuple):
    """The services that resources of the console take through `__init__`."""

    engine: Engine
    config: Config
    limits: LimitStore
    pages: Renderer
    trail: Trail | None
    """Where look-ups are recorded; None if the audit trail is off."""
    tasks: RegisterTasks
    """The tasks that change registers."""
    audit_tasks: AuditTasks
    """The tasks that read the audit trail."""


class PageError(Exception):
    """A request is refused; the answer is a page that says why.

    Args:
        status: the HTTP status.
        heading: what happened, in a few words.
        text: why, and what to do now, in sentences.
        back: the segments of the path to offer as a way out; the overview by default.
    """

    def __init__(self, status: int, heading: str, text: str, back: tuple[str, ...] = ()) -> None:
        super().__init__(heading)
        self.status = status
        self.heading = heading
        self.text = text
        self.back = back


def redirect(req: ConsoleRequest, resp: falcon.Response, *segments: str, **query: object) -> None:
    """Send the browser to another page with GET (303), as after each POST that was done."""
    resp.status = falcon.HTTP_303
    resp.location = View(req, ()).to(*segments, **query)


def send_csv(resp: falcon.Response, name: str, lines: Iterable[str]) -> None:
    """Answer with a CSV file.

    It begins with a byte order mark, without which Excel misreads letters outside of ASCII.
    """
    resp.content_type = falcon.MEDIA_CSV
    resp.downloadable_as = f"{name}.csv"
    resp.data = "".join(lines).encode("utf-8-sig")


class Resource:
    """Answers the requests for one path. HEAD is answered like GET."""

    on_get: Callable[..., None]
    on_head: Callable[..., None]

    def __init__(self, services: Services) -> None:
        self.services = services
        self.engine = services.engine
        self.config = services.config

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if hasattr(cls, "on_get"):
            cls.on_head = cls.on_get

    def show(
        self, req: ConsoleRequest, resp: falcon.Response, template: str, values: Values
    ) -> None:
        """Answer with a page."""
        self.services.pages.send(req, resp, template, values)

    def record(self, req: ConsoleRequest, unrecorded: PageError, **members: Any) -> None:
        """Record plates before a person sees them, if the audit trail is on.

        Args:
            unrecorded: is raised if that fails.
            members: of the record.
        """
        if self.services.trail is None:
            return
        said = {"request_id": req.context.request_id, "user": req.session.name}
        try:
            self.services.trail.append(record_now(**said | members))
        except AuditError as error:
            raise unrecorded from error


def view(template: str) -> Callable[[Callable[..., Values | None]], Callable[..., None]]:
    """Return a decorator for responders that return the values of a template.

    A responder that returns None has answered by itself.
    """

    def decorated(responder: Callable[..., Values | None]) -> Callable[..., None]:
        @wraps(responder)
        def shown(
            resource: Resource, req: ConsoleRequest, resp: falcon.Response, **segments: str
        ) -> None:
            values = responder(resource, req, resp, **segments)
            if values is not None:
                resource.show(req, resp, template, values)

        return shown

    return decorated


class StartOfListener(Resource):
    """The root of the console's own listener; whoever types its address means the console."""

    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """GET /."""
        resp.status = falcon.HTTP_303
        resp.location = ROOT.lstrip("/")


class ConsoleAsset(Resource):
    """A style sheet or script; everybody may read it."""

    def on_get(self, req: falcon.Request, resp: falcon.Response, asset: str) -> None:
        """GET /console/assets/{asset}. Raises falcon.HTTPNotFound for any name but the current."""
        if asset not in _ASSETS:  # SEC: only these names ever become a path.
            raise falcon.HTTPNotFound
        send_asset(resp, _ASSETS[asset])


def missing(what: str, text: str, *back: str) -> PageError:
    """Return the error page of a path that names nothing.

    Args:
        what: a noun, such as `account`.
        text: why there is none, in sentences.
        back: the segments of the path to offer as a way out.
    """
    return PageError(404, f"There is no such {what}", text, back)


def number_in_path(text: str) -> int:
    """Return a segment as a number; 0, which no row has, if it is no number."""
    is_number = text.isascii() and text.isdigit() and len(text) <= _NUMBER_DIGITS_MAX
    return int(text) if is_number else 0
