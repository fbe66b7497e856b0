"""The one way to answer an error, and the one way a command fails (D5)."""

from collections.abc import Mapping, Sequence
from typing import NotRequired, TypedDict

from app.error_codes import CATALOGUE

_UNAVAILABLE = 503


class Fault(TypedDict):
    """A member of the request's body that is wrong."""

    pointer: str
    """JSON pointer (RFC 6901)."""
    detail: str
    """A sentence."""


class ProblemBody(TypedDict):
    """The members of a problem body (RFC 9457, D5)."""

    type: str
    """`/docs/errors#CODE`, relative to the service's address (D90)."""
    title: str
    status: int
    detail: str
    code: str
    request_id: str
    errors: NotRequired[list[Fault]]


RETRY_AFTER_SECONDS = 2
"""How long a client should wait after a 503. Each request tries again to reach the database."""


class Problem(Exception):
    """A refused request, answered as `application/problem+json` (RFC 9457).

    Args:
        code: a key of CATALOGUE; stable, for programs.
        detail: a sentence for a person, never the text of an exception.
        errors: the members of the body that are wrong.
        headers: further response headers, such as `Retry-After`.
    """

    def __init__(
        self,
        code: str,
        detail: str,
        *,
        errors: Sequence[Fault] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(code, detail)
        self.kind = CATALOGUE[code]
        self.code = code
        self.detail = detail
        self.errors = tuple(errors)
        self.headers = dict(headers or {})
        if self.kind.status == _UNAVAILABLE:
            self.headers.setdefault("Retry-After", str(RETRY_AFTER_SECONDS))

    @classmethod
    def at(cls, pointer: str, code: str, detail: str) -> "Problem":
        """Return the problem for one wrong member of the body, named by its JSON pointer."""
        return cls(code, detail, errors=[{"pointer": pointer, "detail": detail}])

    def body(self, request_id: str) -> ProblemBody:
        """Return the members of the problem body (D5)."""
        members: ProblemBody = {
            "type": f"/docs/errors#{self.code}",
            "title": self.kind.title,
            "status": self.kind.status,
            "detail": self.detail,
            "code": self.code,
            "request_id": request_id,
        }
        if self.errors:
            members["errors"] = list(self.errors)
        return members


class OperatorError(Exception):
    """A command failed. The message tells the operator why, and what to do.

    Args:
        details: further members of the document that `--json` prints.
    """

    def __init__(self, message: str, details: Mapping[str, object] | None = None) -> None:
        super().__init__(message)
        self.details = details or {}

    @property
    def sentence(self) -> str:
        """The message without the parts that are meant only for a person at a terminal."""
        return str(self)


class Hindered(OperatorError):
    """A command failed for a temporary reason: the same command can succeed later."""
