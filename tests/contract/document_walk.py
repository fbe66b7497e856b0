"""Walks through the OpenAPI document."""

from collections.abc import Iterator
from typing import Any

from tests.contract.answers import document, resolved

Steps = tuple[str | int, ...]


def pointer(steps: Steps) -> str:
    """Return the JSON pointer of a place in the document."""
    escaped = (str(step).replace("~", "~0").replace("/", "~1") for step in steps)
    return "".join(f"/{step}" for step in escaped)


def places(node: object, steps: Steps = ()) -> Iterator[tuple[Steps, dict[str, Any]]]:
    """Walk the document's objects, without the inside of examples and constants."""
    if isinstance(node, dict):
        yield steps, node
        for name, member in node.items():
            is_data = name in ("example", "value", "const", "enum", "default")
            if not is_data or steps[-1:] == ("properties",):
                yield from places(member, (*steps, name))
    elif isinstance(node, list):
        for index, member in enumerate(node):
            yield from places(member, (*steps, index))


def operations() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """List the operations as path, method and description."""
    for path, item in document()["paths"].items():
        for method, operation in item.items():
            yield path, method, operation


def request_schemas() -> Iterator[tuple[str, dict[str, Any]]]:
    """List the schemas of parameters and bodies with names such as `Day` or `WatchRequest.until`.

    The name begins with that of the parameter if the schema has none.
    """
    left: list[tuple[str, object]] = []
    for _, _, operation in operations():
        left += [(each["name"], each["schema"]) for each in operation.get("parameters", [])]
        for body in operation.get("requestBody", {}).get("content", {}).values():
            left.append(("body", body["schema"]))
    followed: set[str] = set()
    for name, schema in left:
        for steps, node in places(schema):
            if "type" in node:
                yield ".".join([name, *(str(step) for step in steps if step != "properties")]), node
            reference = node.get("$ref")
            if reference is not None and reference not in followed:
                followed.add(reference)
                left.append((reference.rpartition("/")[2], resolved(node)))
