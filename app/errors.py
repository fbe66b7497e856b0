"""The error catalogue: a code, a status and a title for everything that can go wrong (D5).

No other module knows the status of an error.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, NotRequired, TypedDict


class Fault(TypedDict):
    """A member of the request's body that is wrong."""

    pointer: str
    """JSON pointer (RFC 6901)."""
    detail: str
    """A sentence."""


class ProblemBody(TypedDict):
    """The members of a problem body (RFC 9457, D5)."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    request_id: str
    errors: NotRequired[list[Fault]]


class Kind(NamedTuple):
    """The HTTP status and the error type of a code (spec 7)."""

    status: int
    title: str


_BAD_REQUEST = Kind(400, "Bad Request")
_FORBIDDEN = Kind(403, "Forbidden")
_NOT_FOUND = Kind(404, "Not Found")
_UNAVAILABLE = Kind(503, "Service Unavailable")

CATALOGUE: Mapping[str, Kind] = {
    "invalid_request": _BAD_REQUEST,
    "invalid_parameter": _BAD_REQUEST,
    "invalid_registration": _BAD_REQUEST,
    "invalid_domain_name": _BAD_REQUEST,
    "invalid_json": _BAD_REQUEST,
    "invalid_body": _BAD_REQUEST,
    "too_many_registrations": _BAD_REQUEST,
    "unauthorized": Kind(401, "Unauthorized"),
    "forbidden": _FORBIDDEN,
    "domain_quota_reached": _FORBIDDEN,
    "not_found": _NOT_FOUND,
    "vehicle_not_found": _NOT_FOUND,
    "domain_not_found": _NOT_FOUND,
    "method_not_allowed": Kind(405, "Method Not Allowed"),
    "domain_already_exists": Kind(409, "Conflict"),
    "body_too_large": Kind(413, "Content Too Large"),
    "uri_too_long": Kind(414, "URI Too Long"),
    "unsupported_media_type": Kind(415, "Unsupported Media Type"),
    "rate_limit_exceeded": Kind(429, "Too Many Requests"),
    "internal_error": Kind(500, "Internal Server Error"),
    "service_unavailable": _UNAVAILABLE,
    "database_unavailable": _UNAVAILABLE,
    "not_ready": _UNAVAILABLE,
}

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
        if self.kind.status == _UNAVAILABLE.status:
            self.headers.setdefault("Retry-After", str(RETRY_AFTER_SECONDS))

    @classmethod
    def at(cls, pointer: str, code: str, detail: str) -> "Problem":
        """Return the problem for one wrong member of the body, named by its JSON pointer."""
        return cls(code, detail, errors=[{"pointer": pointer, "detail": detail}])

    def body(self, request_id: str) -> ProblemBody:
        """Return the members of the problem body (D5)."""
        members: ProblemBody = {
            "type": "about:blank",
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
