"""The examples of the OpenAPI document work as they stand on the data of the demo."""

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest

from tests.contract.answers import document, resolved
from tests.contract.document_walk import operations
from tests.system.processes import Service, free_port, run_command, send

# Other examples name what PUT creates and DELETE deletes.
OPERATIONS = sorted(operations(), key=lambda each: ["put", "get", "post", "delete"].index(each[1]))


@pytest.fixture
def demo(tmp_path: Path) -> Any:
    """The service on the data of the demo."""
    settings: dict[str, Any] = {
        "bind": f"127.0.0.1:{free_port()}",
        "database_url": f"sqlite:///{tmp_path / 'demo.db'}",
        "workers": 1,
    }
    key = json.loads(run_command("demo", "--json", **settings).stdout)["key"]
    with Service(tmp_path, is_warm=True, **settings) as service:
        service.key = key
        yield service.wait_ready()


def requests_of(
    path: str, operation: dict[str, Any]
) -> list[tuple[str, dict[str, str], bytes | None]]:
    """Return the requests that the examples of an operation make: address, headers and body."""
    sent: dict[str, dict[str, str]] = {"path": {}, "query": {}, "header": {}}
    for each in map(resolved, operation.get("parameters", [])):
        value = each["example"] if isinstance(each["example"], str) else json.dumps(each["example"])
        sent[each["in"]][each["name"]] = value
    for name, value in sent["path"].items():
        path = path.replace(f"{{{name}}}", quote(value))
    days = ({"asOf"}, {"from", "to"})  # Sent one without the other.
    if path == "/v1/events":
        sent["query"].pop("after")  # Each feed has cursors of its own.
    queries = [
        {name: value for name, value in sent["query"].items() if name not in left_out}
        for left_out in (days if set().union(*days) <= sent["query"].keys() else [set()])
    ]
    addresses = [f"{path}?{urlencode(each)}" if each else path for each in queries]
    if "requestBody" not in operation:
        return [(address, sent["header"], None) for address in addresses]
    (address,) = addresses
    examples = operation["requestBody"]["content"]["application/json"]["examples"].values()
    return [
        (address, sent["header"], json.dumps(resolved(each)["value"]).encode()) for each in examples
    ]


def test_every_example_of_a_request_succeeds(demo):
    """Each operation, called with the examples of its parameters and bodies, answers 200 to 204."""
    common = {"X-API-Key": demo.key, "Content-Type": "application/json"}
    refused = []
    for path, method, operation in OPERATIONS:
        for address, headers, body in requests_of(path, operation):
            headers = common | headers
            answer = send(demo.bind, method.upper(), address, body=body, headers=headers)
            documented = {status for status in operation["responses"] if status < "300"}
            if str(answer.status) not in documented:
                refused.append((method, address, body, answer.status, answer.body))
    assert refused == []


def test_the_document_shows_what_the_demo_answers(demo):
    """The example of a bulk answer has the plates and the outcomes that its request gets."""
    examples = document()["components"]["examples"]
    sent, shown = examples["vehicles_today"]["value"], examples["mixed_insurance"]["value"]
    told = demo.post("/v1/vehicle/bulk-insurance", sent).json()
    kept = ("registration", "insured", "error", "code")
    outcomes = [
        [{name: item[name] for name in kept if name in item} for item in answer["results"]]
        for answer in (told, shown)
    ]
    assert outcomes[0] == outcomes[1]
