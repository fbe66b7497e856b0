"""The typed clients are what the generator makes of the OpenAPI document (D177)."""

import importlib
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from app.documentation.reference import TYPED_CLIENTS, client_library

ROOT = Path(__file__).parents[2]


@pytest.fixture
def generator(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script that writes them."""
    monkeypatch.syspath_prepend(str(ROOT / "deploy"))
    return importlib.import_module("typed_clients")


def document() -> dict[str, Any]:
    """Return the document in the repository, to be changed."""
    text = (ROOT / "app" / "documentation" / "openapi.json").read_bytes()
    read: dict[str, Any] = json.loads(text)
    return read


@pytest.mark.parametrize("name", TYPED_CLIENTS)
def test_a_typed_client_is_up_to_date(generator: ModuleType, name: str) -> None:
    """Whoever changes the document runs `python3 deploy/typed_clients.py`."""
    assert list(generator.WRITERS) == list(TYPED_CLIENTS)
    written = generator.WRITERS[name](generator.Document(document()))
    assert written.encode() == client_library(name)


def test_each_operation_has_a_method(generator: ModuleType) -> None:
    """Operations for clients are methods in both languages, and a new member is in both."""
    changed = document()
    properties = changed["components"]["schemas"]["Policy"]["properties"]
    properties["broker"] = {"type": ["string", "null"]}
    operations = [each.id for each in generator.Document(changed).operations()]
    assert len(operations) == 16
    typescript = generator.typescript_file(generator.Document(changed))
    for each in operations:
        assert f"\n  {each}(" in typescript
    assert "\n  broker?: string | null;\n" in typescript
    python = generator.python_file(generator.Document(changed))
    assert "\n    broker: NotRequired[str | None]\n" in python
    assert python.count("\n    def ") == len(operations)
