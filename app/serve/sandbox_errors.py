"""The errors of a sandbox: which plates and domain names provoke which one.

Its vehicles are in `app.vehicles.sandbox`. Both tables are on the page /docs.
"""

from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Final, NamedTuple

from app.errors import CATALOGUE, Problem

_PLATE, _DOMAIN = "TEST", ".test"


class Operations(NamedTuple):
    """The operations that can give an error, by their names in usage."""

    text: str
    """As the page names them."""
    names: frozenset[str]


_ONE = frozenset({"insurance", "compliance"})
_BULK = frozenset({"bulk_insurance", "bulk_compliance"})
_PUT, _BULK_WATCH = frozenset({"put_watch"}), frozenset({"bulk_watch"})
_WATCH = frozenset({"get_watch", "delete_watch"}) | _PUT
_PLATES = _ONE | _BULK | _WATCH | _BULK_WATCH
_CREATE, _DELETE = frozenset({"create_domain"}), frozenset({"delete_domain"})
_DOMAINS = frozenset({"list_domains", "get_domain"}) | _CREATE | _DELETE

EVERY: Final = Operations("every operation", _PLATES | _DOMAINS)
ENQUIRIES: Final = Operations("look-ups and new watches", _ONE | _BULK | _PUT | _BULK_WATCH)
SINGLE: Final = Operations("look-ups and watches of one vehicle", _ONE | _WATCH)
BULK: Final = Operations("bulk operations", _BULK | _BULK_WATCH)
WITH_BODY: Final = Operations("operations with a body", BULK.names | _CREATE | _PUT)
WITH_QUERY: Final = Operations("look-ups of one vehicle, listing domains", _ONE | {"list_domains"})
WATCHING: Final = Operations("watching a vehicle", _PUT)
CREATION: Final = Operations("creating a domain", _CREATE)
DELETION: Final = Operations("deleting a domain", _DELETE)


class Provoked(NamedTuple):
    """An error that a plate and a domain name provoke."""

    key: str
    """What the plate ends with, and the name begins with."""
    code: str
    operations: Operations
    status: int = 0
    """If it is not the one of the catalogue."""

    @property
    def plate(self) -> str | None:
        """The plate, in its canonical form; None if no operation on plates gives the error."""
        return f"{_PLATE}{self.key}" if self.operations.names & _PLATES else None

    @property
    def domain(self) -> str | None:
        """The domain name; None if no operation on domains gives the error."""
        is_given = self.operations.names & _DOMAINS
        return f"{self.key.lower()}{_DOMAIN}" if is_given else None

    @property
    def answer(self) -> int:
        """The status of the answer."""
        return self.status or CATALOGUE[self.code].status

    @property
    def meaning(self) -> str:
        """What would have happened outside of a sandbox, as a clause."""
        return CATALOGUE[self.code].meaning.partition(";")[0]

    def problem(self, pointer: str) -> Problem:
        """Return the answer.

        Args:
            pointer: JSON pointer to the plate or name, if it is in a body.
        """
        detail = f"The sandbox acts as if {self.meaning}."
        problem = Problem(self.code, detail, headers=_HEADERS.get(self.code))
        if self.code in _OF_MEMBERS:
            problem.errors = ({"pointer": pointer, "detail": detail},)
        if self.status:
            title = HTTPStatus(self.status).phrase
            problem.kind = problem.kind._replace(status=self.status, title=title)
        return problem


ERRORS: Final = (
    Provoked("400", "invalid_request", EVERY),
    Provoked("400PARAM", "invalid_parameter", WITH_QUERY),
    Provoked("400QUERY", "unknown_parameter", EVERY),
    Provoked("400PLATE", "invalid_registration", SINGLE),
    Provoked("400ENQ", "invalid_enquiry", ENQUIRIES),
    Provoked("400WHY", "enquiry_reason_required", ENQUIRIES),
    Provoked("400NAME", "invalid_domain_name", CREATION),
    Provoked("400JSON", "invalid_json", WITH_BODY),
    Provoked("400BODY", "invalid_body", WITH_BODY),
    Provoked("400EXTRA", "unknown_member", WITH_BODY),
    Provoked("400MANY", "too_many_registrations", BULK),
    Provoked("401", "unauthorized", EVERY),
    Provoked("403", "operation_forbidden", EVERY),
    Provoked("403NET", "address_forbidden", EVERY),
    Provoked("403FULL", "watch_quota_reached", WATCHING),
    Provoked("403FULL", "domain_quota_reached", CREATION),
    Provoked("405", "method_not_allowed", EVERY),
    Provoked("409", "domain_already_exists", CREATION),
    Provoked("409", "domain_suspended", DELETION),
    Provoked("413", "body_too_large", WITH_BODY),
    Provoked("414", "uri_too_long", EVERY),
    Provoked("415", "unsupported_media_type", WITH_BODY),
    Provoked("429", "rate_limit_exceeded", EVERY),
    Provoked("429BUSY", "too_many_connections", EVERY),
    Provoked("500", "internal_error", EVERY),
    Provoked("502", "service_unavailable", EVERY, 502),
    Provoked("503", "service_unavailable", EVERY),
    Provoked("503DB", "database_unavailable", EVERY),
    Provoked("504", "service_unavailable", EVERY, 504),
)
"""Every error that an operation with a plate or a name can give, as the OpenAPI document says.

Generated clients meet none that they do not know. Those that a test could cause for real are here,
too, because most clients cannot send a wrong body.

Without `vehicle_not_found`, `watch_not_found` and `domain_not_found`, which any other plate and
name provoke.
"""
_OF_MEMBERS = ("invalid_domain_name", "invalid_body", "unknown_member", "too_many_registrations")
"""The codes of errors that name a member of the body."""
_HEADERS: Mapping[str, Mapping[str, str]] = {
    "unauthorized": {"WWW-Authenticate": "Bearer"},
    "method_not_allowed": {"Allow": "OPTIONS"},
    "rate_limit_exceeded": {"Retry-After": "1"},
    "too_many_connections": {"Retry-After": "1"},
}
_PROVOKED: Mapping[tuple[str, str], Provoked] = {
    (operation, text): each
    for each in ERRORS
    for operation in each.operations.names
    for text in (each.plate, each.domain)
    if text is not None
}


def refuse_plates(
    operation: str, plates: Iterable[str | None], pointer: str = "/registrations/{}"
) -> None:
    """Raise the Problem of the first plate that provokes one.

    Args:
        operation: its name in usage.
        plates: in their canonical form; None for a text that is no registration.
        pointer: JSON pointer to a plate in the body, with `{}` in place of its number.
    """
    for place, plate in enumerate(plates):
        provoked = _PROVOKED.get((operation, plate or ""))
        if provoked is not None:
            raise provoked.problem(pointer.format(place))


def refuse_domain(operation: str, name: str) -> None:
    """Raise the Problem that a domain name provokes, if it does.

    Args:
        operation: its name in usage.
        name: in its canonical form.
    """
    provoked = _PROVOKED.get((operation, name))
    if provoked is not None:
        raise provoked.problem("/name")
