"""Reads what a request asks about vehicles, from its query or its body (D92, D172)."""

from typing import TypeVar

import msgspec

from app import clock
from app.errors import Problem
from app.serve.http.bodies import RequestBody, read_json
from app.serve.http.context import Request, caller_of
from app.serve.http.parameters import (
    choice_parameter,
    date_parameter,
    flag_parameter,
    invalid_parameter,
    require_known_parameters,
)
from app.text import counted
from app.vehicles.answers import invalid_registration
from app.vehicles.periods import Period, Question, period_fault
from app.vehicles.registration import canonical_registration

_PLUS = " A space in a path is %20, not a plus sign."
_DAYS = ("asOf", "from", "to")
INSURANCE_PARAMETERS = (*_DAYS, "details", "policies")
COMPLIANCE_PARAMETERS = (*_DAYS, "details", "explain")
_TODAY = Question()


def question_of(req: Request, known: tuple[str, ...]) -> Question:
    """Return what the query of a request asks.

    Args:
        known: the parameters of the operation.

    Raises Problem: unknown_parameter or invalid_parameter.
    """
    # PERF: most requests have no query.
    if not req.query_string:
        return _TODAY
    require_known_parameters(req, *known)
    as_of, first, last = (date_parameter(req, name) for name in _DAYS)
    fault = period_fault(as_of, first, last)
    if fault is not None:
        raise invalid_parameter(*fault)
    return Question(
        as_of,
        Period(first, last) if first and last else None,
        explain=flag_parameter(req, "explain"),
        details=flag_parameter(req, "details"),
        policies=choice_parameter(req, "policies", ("all",)) is not None,
    )


def require_registration(text: str) -> str:
    """Return the canonical form of a plate in a path. Raises Problem invalid_registration."""
    plate = canonical_registration(text)
    if plate is None:
        raise refused_registration(text)
    return plate


def refused_registration(text: str) -> Problem:
    """Return the refusal of a text in a path that is no registration."""
    detail = f"{invalid_registration(text)}.{_PLUS if '+' in text else ''}"
    return Problem("invalid_registration", detail)


class BulkRequest(RequestBody):
    """What a client sends; a misspelt member would change the answer."""

    registrations: list[str]
    asOf: str | None = None  # noqa: N815 - the wire's spelling
    first: str | None = msgspec.field(default=None, name="from")
    last: str | None = msgspec.field(default=None, name="to")
    details: bool | None = None

    @property
    def question(self) -> Question:
        """What the body asks of all plates; its days are checked."""
        period = Period(self.first, self.last) if self.first and self.last else None
        return Question(self.asOf, period, details=bool(self.details))


class BulkComplianceRequest(BulkRequest):
    """What a client sends to check compliance."""

    explain: bool | None = None


_Sent = TypeVar("_Sent", bound=BulkRequest)


def read_bulk(req: Request, shape: type[_Sent]) -> _Sent:
    """Return the body of a bulk request.

    Raises Problem: unknown_parameter, those of read_json, invalid_body or too_many_registrations.
    """
    require_known_parameters(req, members=shape.__struct_encode_fields__)
    sent = read_json(req, shape)
    if not sent.registrations:
        detail = "The member registrations must have at least one registration."
        raise Problem.at("/registrations", "invalid_body", detail)
    require_allowed(req, len(sent.registrations), "/registrations")
    days = (sent.asOf, sent.first, sent.last)
    for name, day in zip(_DAYS, days, strict=True):
        if day is not None and clock.parse_iso_date(day) is None:
            raise _invalid_member(name, clock.day_fault(day))
    fault = period_fault(*days)
    if fault is not None:
        raise _invalid_member(*fault)
    return sent


def require_allowed(req: Request, count: int, pointer: str) -> None:
    """Refuse more registrations in one request than the account's plan allows.

    Raises Problem too_many_registrations.
    """
    bulk_max = caller_of(req).bulk_max
    if count > bulk_max:
        allowed = counted(bulk_max, "registration")
        detail = f"The account's plan allows {allowed} in one request; got {count:,}."
        raise Problem.at(pointer, "too_many_registrations", detail)


def _invalid_member(name: str, fault: str) -> Problem:
    return Problem.at(f"/{name}", "invalid_body", f"The member {name} {fault}.")
