"""The OpenAPI document is valid, complete, and consistent with its examples."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import openapi_spec_validator
import pytest
from jsonschema import Draft202012Validator

import app.documentation
from app.errors import CATALOGUE, Problem
from app.serve.http.authentication import OPEN_PATHS
from tests.contract.answers import document, resolved
from tests.contract.document_walk import Steps, operations, places, pointer
from tests.rows import each_row

DOCUMENT = document()


class Example(NamedTuple):
    """A value in the document, and the location of its schema."""

    name: str
    value: object
    schema: Steps


def documented_examples() -> Iterator[Example]:
    """Find the examples of bodies, parameters, headers and schemas, and schemas' defaults."""
    for steps, node in places(DOCUMENT):
        where = pointer(steps)
        if "schema" in node:
            if "example" in node:
                yield Example(where, node["example"], (*steps, "schema"))
            for name, example in node.get("examples", {}).items():
                yield Example(f"{where}/{name}", resolved(example)["value"], (*steps, "schema"))
        elif isinstance(node.get("examples"), list):
            for value in node["examples"]:
                yield Example(where, value, steps)
        if "default" in node and steps[-1] != "properties":
            yield Example(f"{where}/default", node["default"], steps)


def target(reference: str) -> Any:
    """Return the target of a reference in this document; KeyError if there is none."""
    node: Any = DOCUMENT
    for step in reference.removeprefix("#/").split("/"):
        node = node[step]
    return node


def answers() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """List every answer of every operation as operation, status and response."""
    for _, _, operation in operations():
        for status, response in operation["responses"].items():
            yield operation["operationId"], status, resolved(response)


def references(document: dict[str, Any]) -> set[str]:
    """Return the targets of all references of a document."""
    return {node["$ref"] for _, node in places(document) if isinstance(node.get("$ref"), str)}


EXAMPLES = list(documented_examples())
RATE_HEADERS = {"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"}
COMMON_HEADERS = RATE_HEADERS | {"X-Request-ID"}
# The proxy answers these, not the service.
PROXY_STATUSES = {"502", "504"}
HEADERS_BY_STATUS = {
    "201": {"Location"},
    "304": {"ETag", "Cache-Control"},
    "401": {"WWW-Authenticate"},
    "405": {"Allow"},
    "429": {"Retry-After"},
    "502": {"Retry-After"},
    "503": {"Retry-After"},
    "504": {"Retry-After"},
}
PAGES = {
    "getStartPage",
    "getDocumentationPage",
    "getErrorsPage",
    "getTryPage",
}
DOCUMENTS = {"getOpenApiDocument", *PAGES}
KEYED = [
    pytest.param(operation, id=operation["operationId"])
    for path, _, operation in operations()
    if path not in OPEN_PATHS
]
ANSWERS = [
    pytest.param(name, status, response, id=f"{name}-{status}")
    for name, status, response in answers()
]


def test_it_is_openapi_3_1() -> None:
    """The document is valid OpenAPI 3.1."""
    assert DOCUMENT["openapi"].startswith("3.1.")
    openapi_spec_validator.validate(DOCUMENT)


def test_it_has_the_endpoints_of_the_spec_and_the_open_ones() -> None:
    """The documented operations are those with a path, and no others."""
    assert {(method, path) for path, method, _ in operations()} == {
        ("get", "/api/domains"),
        ("post", "/api/domains"),
        ("get", "/api/domains/{domain}"),
        ("delete", "/api/domains/{domain}"),
        ("get", "/v1/vehicle/{registration}/insurance"),
        ("post", "/v1/vehicle/bulk-insurance"),
        ("get", "/v1/compliance/{registration}"),
        ("post", "/v1/compliance/bulk"),
        ("get", "/v1/watches"),
        *((method, "/v1/watches/{registration}") for method in ("get", "put", "delete")),
        ("post", "/v1/watches/bulk"),
        ("get", "/v1/events"),
        ("get", "/v1/account"),
        ("get", "/v1/usage"),
        *(("get", path) for path in OPEN_PATHS - {"/docs.md"}),
        ("get", "/metrics"),
    }


def test_formats_are_really_checked() -> None:
    """Each format has a checker; otherwise the tests of the examples would prove less."""
    used = {node["format"] for _, node in places(DOCUMENT) if isinstance(node.get("format"), str)}
    assert used - {"uri-reference"} <= set(Draft202012Validator.FORMAT_CHECKER.checkers)


@each_row("example", [pytest.param(e, id=e.name) for e in EXAMPLES])
def test_example_fits_its_schema(example: Example) -> None:
    """Every example and every default validates against its own schema."""
    schema = {**DOCUMENT, "$ref": f"#{pointer(example.schema)}"}
    checker = Draft202012Validator.FORMAT_CHECKER
    Draft202012Validator(schema, format_checker=checker).validate(example.value)


def test_every_body_has_an_example() -> None:
    """Every request and every answer has at least one example."""
    bodies = [(steps, node) for steps, node in places(DOCUMENT) if steps[-2:-1] == ("content",)]
    assert bodies
    assert [steps for steps, node in bodies if not node.get("examples")] == []


def test_every_operation_is_described() -> None:
    """Every operation has its own id, a summary, and tags that the document declares."""
    ids = [operation["operationId"] for _, _, operation in operations()]
    tags = {tag["name"] for tag in DOCUMENT["tags"]}
    assert len(ids) == len(set(ids))
    for _, _, operation in operations():
        assert operation["summary"]
        assert operation["tags"]
        assert set(operation["tags"]) <= tags


def test_only_the_open_paths_need_no_key() -> None:
    """Either form of the key opens every operation; the four of D2 need none.

    The metrics need a key only from another machine.
    """
    assert DOCUMENT["security"] == [{"bearerKey": []}, {"headerKey": []}]
    schemes = DOCUMENT["components"]["securitySchemes"]
    assert (schemes["bearerKey"]["type"], schemes["bearerKey"]["scheme"]) == ("http", "bearer")
    assert (schemes["headerKey"]["in"], schemes["headerKey"]["name"]) == ("header", "X-API-Key")
    expected = {path: [] for path in OPEN_PATHS} | {"/metrics": [*DOCUMENT["security"], {}]}
    for path, _, operation in operations():
        assert operation.get("security") == expected.get(path)


@each_row("operation", KEYED)
def test_keyed_operation_documents_the_common_failures(operation: dict[str, Any]) -> None:
    """Whatever needs a key can be refused in these ways, by the service or by the proxy."""
    expected = {"400", "401", "405", "414", "429", "500", "502", "503", "504"}
    assert expected <= set(operation["responses"])


@each_row("operation", KEYED)
def test_operation_with_a_body_documents_its_limits(operation: dict[str, Any]) -> None:
    """An operation can answer 413 and 415 exactly if it takes a body."""
    documented = {"413", "415"} & set(operation["responses"])
    assert documented == ({"413", "415"} if "requestBody" in operation else set())


@each_row("operation", KEYED)
def test_only_a_query_has_wrong_parameters(operation: dict[str, Any]) -> None:
    """An operation can answer `invalid_parameter` exactly if it has query parameters."""
    content = resolved(operation["responses"]["400"])["content"]["application/problem+json"]
    codes = {resolved(example)["value"]["code"] for example in content["examples"].values()}
    places = {resolved(each)["in"] for each in operation.get("parameters", [])}
    assert ("invalid_parameter" in codes) == ("query" in places)


@each_row(("name", "status", "response"), ANSWERS)
def test_answer_documents_its_headers(name: str, status: str, response: dict[str, Any]) -> None:
    """Every answer carries the headers of D7, and those that its status calls for."""
    common = {"X-Request-ID"} if status in PROXY_STATUSES else COMMON_HEADERS
    further = HEADERS_BY_STATUS.get(status, set())
    if name in DOCUMENTS and status == "200":
        further = {"ETag", "Cache-Control"}
    assert set(response["headers"]) == common | further


@each_row(("name", "status", "response"), ANSWERS)
def test_refusal_is_a_problem_of_its_status(
    name: str, status: str, response: dict[str, Any]
) -> None:
    """Every error is the one schema `Problem`, with examples of its status and type."""
    if status < "400":
        assert "application/problem+json" not in response.get("content", {})
        return
    (media_type,) = response["content"]
    content = response["content"][media_type]
    assert media_type == "application/problem+json"
    assert content["schema"] == {"$ref": "#/components/schemas/Problem"}
    for example in content["examples"].values():
        problem = resolved(example)["value"]
        assert str(problem["status"]) == status
        assert problem["type"] == Problem(problem["code"], "").body("")["type"]
        if status not in PROXY_STATUSES:
            kind = CATALOGUE[problem["code"]]
            assert (problem["status"], problem["title"]) == (kind.status, kind.title)


def test_error_codes_are_those_of_the_catalogue() -> None:
    """The documented codes are those that the program knows (D5)."""
    documented = DOCUMENT["components"]["schemas"]["Problem"]["properties"]["code"]["examples"]
    assert documented == list(CATALOGUE)


def test_every_error_code_is_shown() -> None:
    """Each code has an example, except that of paths that do not exist."""
    values = [example.value for example in EXAMPLES if isinstance(example.value, dict)]
    shown = {value["code"] for value in values if "request_id" in value}
    assert set(CATALOGUE) - shown == {"not_found"}


def test_every_reference_resolves() -> None:
    """Every reference points at something in this document."""
    for reference in references(DOCUMENT):
        assert reference.startswith("#/components/")
        assert isinstance(target(reference), dict)


def test_no_component_is_unused() -> None:
    """Every component is used, in the document and in the file from which it is made."""
    written = json.loads(Path(app.documentation.__file__).with_name("openapi.json").read_bytes())
    names = [name for alternative in DOCUMENT["security"] for name in alternative]
    schemes = {f"#/components/securitySchemes/{name}" for name in names}
    for each in (DOCUMENT, written):
        components = {
            f"#/components/{kind}/{name}"
            for kind, members in each["components"].items()
            for name in members
        }
        assert components == references(each) | schemes


def test_nothing_is_left_of_openapi_3_0() -> None:
    """No schema uses `nullable` or a single `example`, which JSON Schema does not have."""
    for steps, node in places(DOCUMENT):
        if steps[-1:] != ("properties",):
            assert "nullable" not in node, pointer(steps)
            assert "example" not in node or "schema" in node, pointer(steps)
