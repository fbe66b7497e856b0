"""The OpenAPI document is what client generators and their users need (D95)."""

import re

from app.version import VERSION
from tests.contract.answers import document, resolved
from tests.contract.document_walk import operations, places, pointer
from tests.system.processes import ROOT

DOCUMENT = document()


def test_every_parameter_has_an_example() -> None:
    """Every parameter has an example, so that a page can fill it in."""
    parameters = [resolved(each) for _, _, op in operations() for each in op.get("parameters", [])]
    assert [each["name"] for each in parameters if "example" not in each] == []


def test_answers_are_open() -> None:
    """Objects and values of answers are open, so that later ones break no client (D95)."""
    schemas = DOCUMENT["components"]["schemas"]
    requests = {"DomainRequest", "BulkRequest", "ComplianceBulkRequest", "DomainStatus"}
    requests |= {"WatchRequest", "AddedWatch", "BulkWatchRequest"}
    for name in schemas.keys() - requests:
        for steps, node in places(schemas[name]):
            if steps[-1:] != ("properties",):
                assert node.get("additionalProperties") is not False, (name, pointer(steps))
                assert {"enum", "const", "allOf", "oneOf"}.isdisjoint(node), (name, pointer(steps))


def test_operations_keep_their_names() -> None:
    """Generators name their methods after these ids, so they stay."""
    ids = [operation["operationId"] for _, _, operation in operations()]
    assert ids == [
        *("listDomains", "createDomain", "getDomain", "deleteDomain"),
        *("checkVehicleInsurance", "checkVehicles", "checkCompliance", "checkVehiclesCompliance"),
        *("listWatches", "getWatch", "putWatch", "deleteWatch", "changeWatches", "listEvents"),
        *("getAccount", "getUsage"),
        *("getHealth", "getReadiness", "getOpenApiDocument", "getStartPage"),
        *("getDocumentationPage", "getErrorsPage", "getTryPage", "getMetrics"),
    ]


def test_probes_and_metrics_have_a_tag_of_their_own() -> None:
    """Exactly the operations outside `/v1` and `/api` can be left out by their tag."""
    for path, _, operation in operations():
        is_for_clients = path.startswith(("/v1/", "/api/"))
        assert ("Operations" not in operation["tags"]) is is_for_clients, path
        assert len(operation["tags"]) == 1, path


def test_every_object_has_a_name() -> None:
    """Every object is a schema with a name; otherwise generators invent one."""
    for steps, node in places(DOCUMENT):
        if "properties" in node and steps[-1:] != ("properties",):
            assert steps[:2] == ("components", "schemas"), pointer(steps)
            assert len(steps) == 3, pointer(steps)


def test_no_name_has_two_meanings() -> None:
    """No schema is `New` before the name of another: so a client in Go calls its constructor."""
    schemas = DOCUMENT["components"]["schemas"].keys()
    assert schemas.isdisjoint(f"New{name}" for name in schemas)


def test_operations_hold_their_parameters_and_responses() -> None:
    """No operation refers to a parameter or a response: some generators ignore such references."""
    for _, _, operation in operations():
        held = [*operation.get("parameters", []), *operation["responses"].values()]
        assert [each for each in held if "$ref" in each] == [], operation["operationId"]
    assert {"parameters", "responses"}.isdisjoint(DOCUMENT["components"])


def test_the_version_is_the_programs() -> None:
    """The version of the document is that of the program."""
    assert DOCUMENT["info"]["version"] == VERSION


def test_what_the_proxy_answers_itself_is_documented() -> None:
    """Each status in the nginx sites has an example with the same code and title.

    Left out are statuses that a client library cannot cause: a path that is not there, a method or
    a version of HTTP that nobody takes, a connection meant for another host.
    """
    shown = {
        (problem["status"], problem["code"], problem["title"])
        for problem in (each["value"] for each in DOCUMENT["components"]["examples"].values())
        if "request_id" in problem
    }
    rule = re.compile(r'^ +(\d+|default) \'.*"title":"([^"]+)","code":"(\w+)"', re.MULTILINE)
    for site in ("nginx/verifyd.conf", "scale-out/nginx.conf"):
        rules = rule.findall((ROOT / "deploy" / site).read_text())
        answered = {
            (500 if status == "default" else int(status), code, title)
            for status, title, code in rules
        }
        assert {status for status, _, _ in answered - shown} <= {404, 421, 501, 505}
        assert {413, 414, 429, 502, 503, 504} <= {status for status, _, _ in answered & shown}
