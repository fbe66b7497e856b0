"""The schemas of the OpenAPI document are strict enough to find a wrong answer."""

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator, ValidationError

import app.operations

DOCUMENT: dict[str, Any] = json.loads(
    (Path(app.operations.__file__).parent / "openapi.json").read_text(encoding="utf-8")
)
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


@pytest.mark.parametrize(
    ("schema", "value", "change"),
    [
        pytest.param("BulkItem", FOUND, {"vehicle": None}, id="surplus member"),
        pytest.param("BulkItem", FOUND, {"error": "Vehicle not found"}, id="policy and error"),
        pytest.param("BulkItem", FAILED, {"insured": True}, id="failed but insured"),
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
    ],
)
def test_schema_refuses(schema: str, value: dict[str, Any], change: dict[str, Any]) -> None:
    """The schema refuses a wrong answer."""
    checked = Draft202012Validator(
        {**DOCUMENT, "$ref": f"#/components/schemas/{schema}"},
        format_checker=Draft202012Validator.FORMAT_CHECKER,
    )
    checked.validate(value)
    with pytest.raises(ValidationError):
        checked.validate({**value, **change})


@pytest.mark.parametrize("more", [{}, {"next": None}, {"next": "example.com"}])
def test_a_list_of_domains_may_be_a_page(more: dict[str, Any]) -> None:
    """`next` is absent without `limit`; with it, it is a name or, at the end, null (D17)."""
    schema = {**DOCUMENT, "$ref": "#/components/schemas/DomainList"}
    Draft202012Validator(schema).validate({"domains": [DOMAIN], **more})


def test_answers_are_closed() -> None:
    """Answers allow no other members, so that an extra one is noticed."""
    requests = {"NewDomain", "BulkRequest"}
    schemas = DOCUMENT["components"]["schemas"]
    objects = {name for name, schema in schemas.items() if schema.get("type") == "object"}
    closed = {name for name in objects if schemas[name].get("additionalProperties") is False}
    assert objects - closed == requests
