"""What a request carries on its way: made before anything can go wrong with it."""

import secrets
import time
from typing import Any

import falcon

from app.accounts.authentication import Caller
from app.errors import Problem


class RequestContext:
    """Fields that middleware fills in and resources read."""

    __slots__ = (
        "body",
        "caller",
        "has_database_error",
        "refusal",
        "request_id",
        "share",
        "started_ns",
    )

    def __init__(self) -> None:
        self.request_id: str = secrets.token_hex(16)
        self.started_ns: int = time.perf_counter_ns()
        self.body: bytes | Problem = b""
        """The whole body, or why it was refused; that is told after the key was checked (D5)."""
        self.caller: Caller | None = None
        """The account behind the key; always there where a key is needed."""
        self.has_database_error: bool = False
        self.refusal: Problem | None = None
        """Why there is no caller where one is needed; told after the address was charged (D10)."""
        self.share: Any = None
        """The Share of its bucket that the request was told, once it is known."""


class Request(falcon.Request):
    """A request whose context has its fields even if no middleware ran."""

    context_type = RequestContext
    context: Any


def caller_of(req: falcon.Request) -> Caller:
    """Return the account behind the request's key; only for paths that need one."""
    caller: Caller | None = req.context.caller
    assert caller is not None  # noqa: S101 - the authentication middleware let nobody else pass
    return caller
