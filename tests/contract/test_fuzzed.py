"""Requests generated from the OpenAPI document get documented answers."""

import pytest
import schemathesis
from hypothesis import given, settings
from schemathesis.specs.openapi.checks import positive_data_acceptance

from tests.contract.answers import document

OPERATIONS = [
    (path, method.upper())
    for path, item in document()["paths"].items()
    for method in item
    if method in ("get", "post", "put")
]


@pytest.mark.system_long
@pytest.mark.hypothesis
@pytest.mark.parametrize(("path", "method"), OPERATIONS)
def test_no_request_gets_an_undocumented_answer(world, path, method):
    """Every answer's status, media type, headers and body are documented; none is a 500."""
    # Each example is also sent with keys that are not valid.
    client = world.client(world.alice_key, anonymous_limit=1_000_000)
    schema = schemathesis.openapi.from_wsgi("/openapi.json", client.application)

    # Each example is several requests.
    @settings(max_examples=settings().max_examples // 2)
    @given(case=schema[path][method].as_strategy())
    def send(case):
        # A schema cannot describe domain names and plates in full (D19).
        case.call_and_validate(headers=client.headers, excluded_checks=[positive_data_acceptance])

    send()
