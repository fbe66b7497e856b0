"""What a request of the console carries, and what its resources work with."""

from typing import TYPE_CHECKING, NamedTuple

import falcon

from app.actor import Actor
from app.audit.trail import Trail
from app.config import Config
from app.console.sessions import Session
from app.serve.http.context import Request, RequestContext
from app.serve.limits.store import LimitStore
from app.storage.engine import Engine

if TYPE_CHECKING:
    from app.console.rendering import Renderer

ROOT = "/console"
"""The path of the overview; all other paths of the console are below it."""


class ConsoleContext(RequestContext):
    """The fields of every request, and the session of this one."""

    __slots__ = ("session",)

    def __init__(self) -> None:
        super().__init__()
        self.session: Session | None = None
        """Who asks; always there on pages that need a right."""


class ConsoleRequest(Request):
    """A request for a page of the console."""

    context_type = ConsoleContext
    context: ConsoleContext


class Services(NamedTuple):
    """What resources of the console take through `__init__`."""

    engine: Engine
    config: Config
    limits: LimitStore
    pages: "Renderer"
    trail: Trail | None
    """Where look-ups are recorded; None if the audit trail is off."""


class PageError(Exception):
    """A request that is answered with a page which says why it was refused.

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


def actor_of(req: falcon.Request) -> Actor:
    """Return who asks, for the record of actions (D130)."""
    return Actor(session_of(req).name, "console")


def session_of(req: falcon.Request) -> Session:
    """Return the session of a request; only for pages that need a right."""
    session: Session | None = req.context.session
    assert session is not None  # noqa: S101 - Entrance has refused requests without a session
    return session
