"""The one way to answer an error, and the one way a command fails (D5)."""

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from functools import partial
from typing import NamedTuple, TypedDict


class Retry(StrEnum):
    """Whether the same request can succeed later."""

    NO = "no"
    AFTER = "after Retry-After seconds"
    LATER = "yes, with growing pauses"


class Kind(NamedTuple):
    """The status, the title and the explanation of an error code."""

    status: int
    """The HTTP status."""
    title: str
    """The type of the error, as the interface names it."""
    meaning: str
    """What happened, as a sentence without its full stop."""
    action: str
    """What the client should do, as sentences."""
    retry: Retry = Retry.NO


_bad_request = partial(Kind, 400, "Bad Request")
_forbidden = partial(Kind, 403, "Forbidden")
_not_found = partial(Kind, 404, "Not Found")
_conflict = partial(Kind, 409, "Conflict")
_unavailable = partial(Kind, 503, "Service Unavailable", retry=Retry.AFTER)

CATALOGUE: Mapping[str, Kind] = {
    "invalid_request": _bad_request(
        "the request is not well-formed HTTP, its path has a segment `.` or `..`, or its body did "
        "not arrive whole; the statuses "
        "421, 501 and 505 have this code, too",
        "Send a Content-Length that fits the body, no Transfer-Encoding, and shorter headers.",
    ),
    "invalid_parameter": _bad_request(
        "a query parameter has a wrong value, or is given twice",
        "Correct the parameter that `detail` names.",
    ),
    "unknown_parameter": _bad_request(
        "the operation has no query parameter of this name",
        "Correct its spelling; upper and lower case count. `detail` names the closest one, "
        "or all that there are.",
    ),
    "invalid_registration": _bad_request(
        "the text is no registration",
        "Send 1 to 12 letters and digits; spaces and hyphens are ignored.",
    ),
    "invalid_enquiry": _bad_request(
        "a header of the enquiry is empty, too long, repeated, or not printable ASCII, or the plan "
        "does not accept the reason",
        "Correct the header that `detail` names. Reference and user can be left out.",
    ),
    "enquiry_reason_required": _bad_request(
        "the account's plan needs a reason for each look-up",
        "Send the header `Enquiry-Reason`; `detail` names the reasons that the plan accepts.",
    ),
    "invalid_domain_name": _bad_request(
        "the text is no domain name",
        "Send at least two labels of letters, digits and inner hyphens, such as example.com.",
    ),
    "invalid_json": _bad_request(
        "the body is not JSON in UTF-8",
        "Correct the body; `detail` says what is wrong or where.",
    ),
    "invalid_body": _bad_request(
        "a member of the body is missing, wrong or repeated",
        "Correct the member that `errors[0].pointer` names.",
    ),
    "unknown_member": _bad_request(
        "the operation's body has no member of this name",
        "Correct its spelling; upper and lower case count. `detail` names the closest one, "
        "or all that there are.",
    ),
    "too_many_registrations": _bad_request(
        "a bulk request has more registrations than the plan allows",
        "Split the list. `GET /v1/account` gives the plan's maximum as `bulkMax`.",
    ),
    "unauthorized": Kind(
        401,
        "Unauthorized",
        "there is no valid key",
        "Send a valid key. Ask the operator for one if yours is unknown, expired or revoked.",
    ),
    "forbidden": _forbidden(
        "the key may not read `/metrics`",
        "Ask the operator to list the account in `VERIFYD_METRICS_ACCOUNTS`.",
    ),
    "operation_forbidden": _forbidden(
        "the key is restricted to other operations",
        "Send another key of the account. `GET /v1/account` shows what a key is restricted to, as "
        "`only`.",
    ),
    "address_forbidden": _forbidden(
        "the key is restricted to networks that the request did not come from",
        "Send the request from one of them, or ask the operator for another key. `GET /v1/account` "
        "shows them there, as `networks`.",
    ),
    "domain_quota_reached": _forbidden(
        "the account has as many domains as its plan allows",
        "Delete a domain, or ask the operator for a larger plan.",
    ),
    "watch_quota_reached": _forbidden(
        "the account has as many watches as its plan allows",
        "Delete a watch, or ask the operator for a larger plan. `GET /v1/account` gives the plan's "
        "maximum as `watchesMax`.",
    ),
    "not_found": _not_found(
        "there is no such path",
        "Correct the path; `detail` names the closest one if there is one.",
    ),
    "vehicle_not_found": _not_found(
        "no register mentions the plate",
        "Treat it as an answer: nothing is known about this vehicle. If there are `suggestions`, "
        "let a person compare them with the vehicle, and look the right one up.",
    ),
    "domain_not_found": _not_found(
        "the account has no such domain",
        "Treat it as an answer. Domains of other accounts are not found either. If you repeated a "
        "DELETE, treat it as success: the first one may have taken effect.",
    ),
    "watch_not_found": _not_found(
        "the account has no such watch",
        "Treat it as an answer. Watches of other accounts are not found either. If you repeated a "
        "DELETE, treat it as success: the first one may have taken effect.",
    ),
    "method_not_allowed": Kind(
        405,
        "Method Not Allowed",
        "the path has no such method",
        "Use a method that the header `Allow` names.",
    ),
    "domain_already_exists": _conflict(
        "the account has the domain already",
        "Treat it as success if you repeated a request that may have taken effect, as after a 500 "
        "or without an answer.",
    ),
    "domain_suspended": _conflict(
        "the domain is suspended, so it cannot be deleted",
        "Ask the operator to activate it first.",
    ),
    "events_gone": Kind(
        410,
        "Gone",
        "the events after this cursor are no longer kept, or the feed has begun again since, as "
        "after the operator restored a backup",
        "Start over: list the watches, which have their states, and then read events without "
        "`after`.",
    ),
    "body_too_large": Kind(
        413, "Content Too Large", "the body is larger than 1 MiB", "Split the request."
    ),
    "uri_too_long": Kind(
        414,
        "URI Too Long",
        "the request line has more than 8,190 bytes",
        "Shorten the path or the query.",
    ),
    "unsupported_media_type": Kind(
        415,
        "Unsupported Media Type",
        "the body is not sent as `application/json`, or it is compressed",
        "Send `Content-Type: application/json` and no `Content-Encoding`.",
    ),
    "rate_limit_exceeded": Kind(
        429,
        "Too Many Requests",
        "the rate limit is used up",
        "Wait for `Retry-After` seconds. A refused request costs nothing.",
        Retry.AFTER,
    ),
    # nginx answers this one.
    "too_many_connections": Kind(
        429,
        "Too Many Requests",
        "too many requests are open, from the client's network or from all clients together",
        "Send fewer requests at the same time.",
        Retry.AFTER,
    ),
    "internal_error": Kind(
        500,
        "Internal Server Error",
        "something unexpected failed; the log has the details",
        "Repeat the request later. If it fails again, send the operator the `request_id`.",
        Retry.LATER,
    ),
    "service_unavailable": _unavailable(
        "the service, or the proxy in front of it, cannot answer now",
        "Wait for `Retry-After` seconds. After 502 and 504 the request may have taken effect.",
    ),
    "database_unavailable": _unavailable(
        "the database cannot be used now",
        "Wait for `Retry-After` seconds. The request may have taken effect.",
    ),
    "not_ready": _unavailable(
        "the service is not ready; only `/readyz` answers this",
        "Send no requests to this host until `/readyz` answers 200.",
    ),
}
"""What each code means, and what its reader can do (D5, D90).

No other module says which status a code has. The page /docs/errors and the table in
deploy/docs/interface.md show this catalogue.
"""
_UNAVAILABLE = 503


class Fault(TypedDict):
    """A member of the request's body that is wrong."""

    pointer: str
    """JSON pointer (RFC 6901)."""
    detail: str
    """A sentence."""


RETRY_AFTER_SECONDS = 2
"""How long a client should wait after a 503. Each request tries again to reach the database."""


BAD_JSON = (ValueError, RecursionError)
"""What decoding raises if a text is no JSON of the wanted shape."""


class Problem(Exception):
    """A refused request, answered as `application/problem+json` (RFC 9457).

    Args:
        code: a key of CATALOGUE; stable, for programs.
        detail: a sentence for a person, never the text of an exception.
        errors: the members of the body that are wrong.
        headers: further response headers, such as `Retry-After`.
        members: further members of the problem body.
    """

    def __init__(
        self,
        code: str,
        detail: str,
        *,
        errors: Sequence[Fault] = (),
        headers: Mapping[str, str] | None = None,
        members: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(code, detail)
        self.kind = CATALOGUE[code]
        self.code = code
        self.detail = detail
        self.errors = tuple(errors)
        self.headers = dict(headers or {})
        self.members = members or {}
        if self.kind.status == _UNAVAILABLE:
            self.headers.setdefault("Retry-After", str(RETRY_AFTER_SECONDS))

    @classmethod
    def at(cls, pointer: str, code: str, detail: str) -> "Problem":
        """Return the problem for one wrong member of the body, named by its JSON pointer."""
        return cls(code, detail, errors=[{"pointer": pointer, "detail": detail}])

    def body(self, request_id: str) -> Mapping[str, object]:
        """Return the members of the problem body."""
        members: dict[str, object] = {
            "type": f"/docs/errors#{self.code}",
            "title": self.kind.title,
            "status": self.kind.status,
            "detail": self.detail,
            "code": self.code,
            "request_id": request_id,
        }
        if self.errors:
            members["errors"] = list(self.errors)
        return {**members, **self.members}


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


_SIMILARITY_MIN = 0.6
# SEC: comparing two texts takes the product of their lengths.
_CHARACTERS_MAX = 200


def closest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word closest to a wrong one, None if none is close.

    Upper and lower case, underscores and hyphens do not count.
    """
    if len(word) > _CHARACTERS_MAX:
        return None
    by_spelling = {plain(each): each for each in known}
    found = difflib.get_close_matches(plain(word), by_spelling, 1, _SIMILARITY_MIN)
    return by_spelling[found[0]] if found else None


def listed(words: Iterable[str], conjunction: str = "and") -> str:
    """Return words as a list in a sentence, such as `a, b and c`."""
    *first, last = words
    return f"{', '.join(first)} {conjunction} {last}" if first else last


def plain(word: str) -> str:
    """Return a word in lower case, without underscores and hyphens."""
    return word.lower().replace("_", "").replace("-", "")


KEY_PREFIX = "vfd_"
SANDBOX_KEY_PREFIX = f"{KEY_PREFIX}test_"
_LIKE_A_KEY = re.compile(f"{KEY_PREFIX}[0-9A-Za-z_]+")


def without_keys(text: str) -> str:
    """Return a text for messages and records, without anything that looks like a key."""
    return _LIKE_A_KEY.sub(f"{KEY_PREFIX}...", text)
