"""Checks an answer against the OpenAPI document: status, media type, body, headers.

The document leaves answers open, so that clients accept what later versions add (D95). Here they
are closed: a member, a code or another open string that the document does not name is a fault.
"""

import json
import re
from functools import cache
from typing import Any
from urllib.parse import unquote

import jsonschema_rs
from webtest import TestResponse

from app.documentation.resources import read_document

_DOCUMENT_URI = "urn:openapi"
_EVERYWHERE = {
    "X-RateLimit-Limit",
    "X-RateLimit-Remaining",
    "X-RateLimit-Reset",
    "X-Request-ID",
    "Cache-Control",
}
_END_ITEMS = 100
_NOT_DOCUMENTED = re.compile(r"/docs[/.]")


@cache
def document() -> dict[str, Any]:
    """Return the OpenAPI document."""
    return read_document()


@cache
def closed_document() -> dict[str, Any]:
    """Return the document with all its schemas closed."""
    schemas = {name: _closed(each) for name, each in document()["components"]["schemas"].items()}
    return {**document(), "components": document()["components"] | {"schemas": schemas}}


def _closed(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {name: _closed(member) for name, member in schema.items()}
    if isinstance(schema.get("properties"), dict):
        closed.setdefault("additionalProperties", False)
    if schema.get("type") == "string" and "examples" in schema and "pattern" not in schema:
        closed["enum"] = schema["examples"]
    return closed


def resolved(node: dict[str, Any]) -> dict[str, Any]:
    """Follow a `$ref` within the document."""
    while "$ref" in node:
        target: Any = document()
        for step in node["$ref"].removeprefix("#/").split("/"):
            target = target[step.replace("~1", "/").replace("~0", "~")]
        node = target
    return node


def find_operation(method: str, path: str) -> dict[str, Any] | None:
    """Return the documented operation of a request, for HEAD that of GET; None if there is none."""
    path = unquote(path.partition("?")[0])
    name = "get" if method == "HEAD" else method.lower()
    # A path without parameters comes before one with parameters that fits as well.
    for template, item in sorted(document()["paths"].items(), key=lambda each: "{" in each[0]):
        pattern = re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(template))
        if re.fullmatch(pattern, path) and name in item:
            operation: dict[str, Any] = item[name]
            return operation
    return None


SAME_ID: dict[str, Any] = {
    "headers": {"X-Request-ID": "5f0c6a9e2b7d4c1f8a3e9d6b0c2f4a71"},
    "environ": {"REMOTE_ADDR": ""},
}
"""Options of a request that its proxy, on the Unix socket, has given this id."""


def lasting_headers(response: TestResponse) -> dict[str, str]:
    """Return the headers without the two that change from one request to the next."""
    changing = {"x-ratelimit-remaining", "x-ratelimit-reset"}
    return {name: value for name, value in response.headers.items() if name.lower() not in changing}


def require_documented(method: str, path: str, response: TestResponse) -> None:
    """Fail unless the document describes the answer."""
    for header in _EVERYWHERE:
        assert header in response.headers, f"{method} {path}: no {header}"
    if response.status_int == 204:
        return
    operation = find_operation(method, path)
    if operation is None:
        is_page_for_lost = (response.status_int, response.content_type) == (404, "text/html")  # D5
        is_refusal = not _NOT_DOCUMENTED.match(path) or response.status_int >= 400
        if is_refusal and not is_page_for_lost:
            _require_body(response, method, {"$ref": "#/components/schemas/Problem"})
        return
    answers = operation["responses"]
    assert str(response.status_int) in answers, f"{method} {path}: {response.status} undocumented"
    answer = resolved(answers[str(response.status_int)])
    for header, described in answer.get("headers", {}).items():
        if resolved(described).get("required"):
            assert header in response.headers, f"{method} {path}: {response.status} lacks {header}"
    if "content" not in answer:
        assert response.body == b""
        return
    media_type = response.content_type
    assert media_type in answer["content"], f"{method} {path}: {media_type} is not documented"
    if media_type.endswith("json"):
        _require_body(response, method, answer["content"][media_type].get("schema", {}))


def _require_body(response: TestResponse, method: str, schema: dict[str, Any]) -> None:
    if method == "HEAD":
        assert response.body == b""
        return
    assert response.content_type in ("application/json", "application/problem+json")
    _validator(json.dumps(schema)).validate(json.loads(response.body, object_hook=_shortened))


def _shortened(answer: dict[str, Any]) -> dict[str, Any]:
    """Shorten long lists, which take seconds: their middle is like their ends."""
    ends = {
        name: value[:_END_ITEMS] + value[-_END_ITEMS:]
        for name, value in answer.items()
        if isinstance(value, list) and len(value) > 2 * _END_ITEMS
    }
    return answer | ends


@cache
def _validator(schema: str) -> jsonschema_rs.Draft202012Validator:
    registry = jsonschema_rs.Registry(
        [(_DOCUMENT_URI, closed_document())], draft=jsonschema_rs.Draft202012
    )
    absolute = json.loads(schema.replace('"#/', f'"{_DOCUMENT_URI}#/'))
    return jsonschema_rs.Draft202012Validator(absolute, registry=registry, validate_formats=True)
