"""Walks through the OpenAPI document."""

from collections.abc import Iterator
from typing import Any

from tests.contract.answers import document

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
