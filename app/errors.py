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
"""How long a client waits after a 503; every request tries to reach a lost database again."""


class Problem(Exception):
    """A refusal, which is answered as `application/problem+json` (RFC 9457).

    Args:
        code: a key of CATALOGUE; stable, for programs.
        detail: a sentence for a person; never an internal message.
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
        """Return a refusal of one body member, named by its JSON pointer."""
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
    """A command cannot do what it should; the message says to the operator why.

    Args:
        details: further members of the document that `--json` prints.
    """

    def __init__(self, message: str, details: Mapping[str, object] | None = None) -> None:
        super().__init__(message)
        self.details = details or {}

    @property
    def sentence(self) -> str:
        """The message without what is shown only to a person."""
        return str(self)


class Hindered(OperatorError):
    """A command was hindered by something that passes: the same command can succeed later."""
