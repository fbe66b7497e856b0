"""The schemas, closed as the tests of answers close them, are strict enough to find a wrong one."""

from typing import Any

import pytest
from jsonschema import Draft202012Validator, ValidationError

from tests.contract.answers import closed_document, document
from tests.rows import each_row

CLOSED = closed_document()
FOUND = {"registration": "AB12CDE", "insured": False, "policy": None}
FAILED = {
    "registration": "AB12CDE",
    "insured": False,
    "error": "Vehicle not found",
    "code": "vehicle_not_found",
}
PROBLEM = {
    "type": "about:blank",
    "title": "Not Found",
    "status": 404,
    "detail": "Not found",
    "code": "not_found",
    "request_id": "0",
}
DOMAIN = {
    "id": "dom_" + "a" * 20,
    "name": "example.com",
    "status": "active",
    "created_at": "2026-01-05T08:30:00Z",
}
LAST_PAGE = {"domains": [DOMAIN], "next": None}
INSURANCE = {
    "registration": "AB12CDE",
    "insured": False,
    "policy": None,
    "vehicle": {"make": None, "model": None, "year": None, "color": None},
    "lastUpdated": "2026-01-05T08:30:00Z",
}
EVENT: dict[str, Any] = {
    "id": "3f9a1c07-41",
    "type": "vehicle.unknown",
    "time": "2026-11-22T02:14:08Z",
    "registration": "AB12CDE",
    "reference": None,
    "before": None,
    "after": {"valid": False, "reason": "unknown", "lastDay": None},
}
WATCH: dict[str, Any] = {
    "registration": "AB12CDE",
    "leadDays": [],
    "reference": None,
    "until": None,
    "created": "2026-11-22T02:14:08Z",
    "asOf": "2026-11-22",
    "known": False,
    "checks": None,
}


@each_row(
    ("schema", "value", "change"),
    [
        pytest.param("BulkItem", FOUND, {"surplus": None}, id="surplus member"),
        pytest.param("BulkItem", FAILED, {"code": "unheard_of"}, id="unknown code of an item"),
        pytest.param("Problem", PROBLEM, {"code": "unheard_of"}, id="unknown code"),
        pytest.param("Problem", PROBLEM, {"traceback": "..."}, id="internal message"),
        pytest.param("Domain", DOMAIN, {"id": "dom_1"}, id="short id"),
        pytest.param("Domain", DOMAIN, {"name": "Example.com"}, id="upper case name"),
        pytest.param("Domain", DOMAIN, {"created_at": "2026-01-05T08:30:00+00:00"}, id="offset"),
        pytest.param("Domain", DOMAIN, {"created_at": "2026-13-05T08:30:00Z"}, id="month 13"),
        pytest.param("DomainList", LAST_PAGE, {"next": ""}, id="no name to go on with"),
        pytest.param("DomainList", LAST_PAGE, {"next": "Example.com"}, id="upper case next"),
        pytest.param("DomainList", LAST_PAGE, {"total": 1}, id="surplus member of a list"),
        pytest.param("InsuranceRecord", INSURANCE, {"lastUpdated": None}, id="no time"),
        pytest.param("Event", EVENT, {"type": "insurance.lapsed"}, id="unknown type of event"),
        pytest.param("Event", EVENT, {"after": {"valid": True, "why": ""}}, id="surplus state"),
        pytest.param("Watch", WATCH, {"asOf": None}, id="no day"),
    ],
)
def test_schema_refuses(schema: str, value: dict[str, Any], change: dict[str, Any]) -> None:
    """The schemas tell a wrong answer from a right one."""
    checked = Draft202012Validator(
        {**CLOSED, "$ref": f"#/components/schemas/{schema}"},
        format_checker=Draft202012Validator.FORMAT_CHECKER,
    )
    checked.validate(value)
    with pytest.raises(ValidationError):
        checked.validate({**value, **change})


@pytest.mark.parametrize("more", [{}, {"next": None}, {"next": "example.com"}])
def test_a_list_of_domains_may_be_a_page(more: dict[str, Any]) -> None:
    """`next` is absent without `limit`; with it, it is a name or, at the end, null."""
    schema = {**CLOSED, "$ref": "#/components/schemas/DomainList"}
    Draft202012Validator(schema).validate({"domains": [DOMAIN], **more})


@each_row(
    ("schema", "value"),
    [("BulkItem", FOUND), ("Problem", PROBLEM), ("Domain", DOMAIN), ("InsuranceRecord", INSURANCE)],
)
def test_a_client_accepts_what_comes_later(schema: str, value: dict[str, Any]) -> None:
    """As it is served, the document allows members that it does not name yet (D95)."""
    served = {**document(), "$ref": f"#/components/schemas/{schema}"}
    Draft202012Validator(served).validate({**value, "later": True})
