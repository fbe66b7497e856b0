"""What a request carries from one middleware to the next, and to the resource."""

import random
import time
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import falcon

from app.accounts.authentication import Caller
from app.errors import Problem
from app.serve.limits.bucket import Admission, Rate

Environ = dict[str, Any]
"""Of a WSGI request: values of any type, by name."""

REFUSAL = "verifyd.refusal"
"""Where a WSGI environment has the Problem that answers a request which cannot be read, or
which came to the wrong listener."""

FAILURE = "verifyd.failure"
"""Where a WSGI environment that is answered a second time has the exception that answers it."""

LISTENER = "verifyd.listener"
"""Where a WSGI environment has the address of the listener that the request came in on, if
our worker answers it. SEC: no field of a request can have this name."""

REPEATED = "verifyd.repeated"
"""Where a WSGI environment has the names of the header fields that were sent more than once, as
the environment has them. Their values are joined by commas, which a single field can contain."""


class Share(NamedTuple):
    """The state of a request's bucket, for the headers and the metrics."""

    rate: Rate
    outcome: Admission
    was_charged: bool


@dataclass(slots=True, eq=False)
class RequestContext:
    """Fields that middleware fills in and resources read."""

    _request_id: str = ""
    started_ns: int = field(default_factory=time.perf_counter_ns)
    body: bytes | Problem = b""
    """The whole body, or why it was refused; raised after the key was checked."""
    caller: Caller | None = None
    """The account of the key; never None where a key is needed."""
    refused_key: str | None = None
    """The id of a valid key that was refused for its address, for the log."""
    has_database_error: bool = False
    refusal: Problem | None = None
    """Why a caller is missing, or why the request cannot be read; raised after the address was
    charged."""
    share: Share | None = None
    """The state of the bucket of the account or the address, once it is known."""
    vehicles: int = 0
    """How many vehicles the request was answered for, known ones or not."""

    @property
    def request_id(self) -> str:
        """The id that a proxy gave the request; a random one if there is none.

        PERF: a random one is made only when it is needed, and without a system call.
        """
        if not self._request_id:
            # It must be unique, but is no secret. Python seeds this again after a fork.
            self._request_id = f"{random.getrandbits(128):032x}"
        return self._request_id

    @request_id.setter
    def request_id(self, given: str) -> None:
        self._request_id = given


_ACCEPT_CHARACTERS_MAX = 1_000


class Request(falcon.Request):
    """A request whose context has its fields even if no middleware ran."""

    context_type: ClassVar[type[RequestContext]] = RequestContext
    # Falcon lets an application choose the type, and declares its own.
    context: RequestContext  # type: ignore[assignment]

    @property
    def prefers_html(self) -> bool:
        """Whether the client prefers HTML to JSON, as browsers do."""
        # SEC: Falcon keeps what it has read of 128 such headers: of the longest ones that is 70 MB.
        is_short = len(self.accept) <= _ACCEPT_CHARACTERS_MAX
        accepted = (falcon.MEDIA_JSON, falcon.MEDIA_HTML)
        return is_short and self.client_prefers(accepted) == falcon.MEDIA_HTML


def caller_of(req: falcon.Request) -> Caller:
    """Return the account of the request's key, on a path that needs one."""
    caller: Caller | None = req.context.caller
    assert caller is not None  # noqa: S101 - Limits has refused requests without a valid key
    return caller
