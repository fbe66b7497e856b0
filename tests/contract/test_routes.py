"""Routes, resources and the OpenAPI document hold together."""

import re

import falcon.inspect
import pytest

from app.accounts.restrictions import Area
from app.accounts.usage.counts import OTHER
from app.accounts.usage.store import EVENTS
from app.console.pages import PAGES
from app.main import create_app
from app.routes import ENDPOINTS, OPERATIONS
from app.serve.http.authentication import is_open
from tests.contract.answers import document, find_operation
from tests.contract.pages import ROOT, documentation_section, section
from tests.rows import each_row
from tests.system.test_console_browser import VISITED

UNDOCUMENTED = {"/docs/operations/{operation}", "/docs.md", "/docs/{asset}"}
"""More of the documentation, and what its pages load: nothing for generated clients."""
RESPONDERS = [
    pytest.param(endpoint, method, id=f"{method} {endpoint.path}")
    for endpoint in ENDPOINTS
    for method in ("GET", "POST", "PUT", "PATCH", "DELETE")
    if hasattr(endpoint.resource, f"on_{method.lower()}")
]
EVERY = [pytest.param(endpoint, id=endpoint.path) for endpoint in ENDPOINTS]


def methods_of(resource):
    """Return the methods that a resource has responders for, except HEAD."""
    names = {name.removeprefix("on_").upper() for name in vars(resource) if name.startswith("on_")}
    return names - {"HEAD"}


def test_the_browser_visits_every_page():
    """Nobody forgets to add a new page of the console to the walk of the browser."""
    assert {page.path for page in PAGES} == VISITED


def test_each_path_is_routed_once():
    """No path has two resources, and no resource two paths."""
    assert len({endpoint.path for endpoint in ENDPOINTS}) == len(ENDPOINTS)
    assert len({endpoint.resource for endpoint in ENDPOINTS}) == len(ENDPOINTS)


def test_every_route_is_documented_and_the_other_way_round():
    """Paths and methods of the table equal the document's, except for the page's assets."""
    routed = {
        (endpoint.path, method)
        for endpoint in ENDPOINTS
        for method in methods_of(endpoint.resource)
        if endpoint.path not in UNDOCUMENTED
    }
    # They are about the plate BULK, as the path with `{registration}` describes (D92).
    routed.remove(("/v1/compliance/bulk", "GET"))
    routed -= {("/v1/watches/bulk", method) for method in ("GET", "PUT", "DELETE")}
    documented = {
        (path, method.upper()) for path, item in document()["paths"].items() for method in item
    }
    assert routed == documented


@pytest.mark.parametrize("site", ["deploy/nginx/verifyd.conf", "deploy/scale-out/nginx.conf"])
def test_both_bulk_operations_are_alike_to_nginx(site):
    """Each rule for bulk insurance has its equal for bulk compliance, except for methods (D92)."""
    text = (ROOT / site).read_text()
    lines = {}
    for path in ("/v1/vehicle/bulk-insurance", "/v1/compliance/bulk"):
        found = re.findall(rf"(?m)^.*{path}[^/\w-].*(?:\{{\n(?:[^}}]*)\}})?$", text)
        lines[path] = [re.sub('"(GET, HEAD, )?POST', '"', each.replace(path, "")) for each in found]
    assert len(lines["/v1/compliance/bulk"]) == 2
    assert lines["/v1/vehicle/bulk-insurance"] == lines["/v1/compliance/bulk"]


@pytest.mark.parametrize("site", ["deploy/nginx/verifyd.conf", "deploy/scale-out/nginx.conf"])
def test_the_pages_say_what_nginx_takes_at_once(site):
    """One HTTP/2 connection may have all requests of a client; pages name that and the maximum."""
    text = (ROOT / site).read_text()

    def number(setting: str) -> int:
        (found,) = re.findall(rf"(?m)^    {setting} (\d+);", text)
        return int(found)

    at_once = number("http2_max_concurrent_streams")
    assert number("limit_conn verifyd_networks") == at_once
    in_all = number("keepalive_requests")
    limits = section("deploy/docs/interface.md", "Limits of nginx")
    assert f"(streams) of one HTTP/2 connection | {at_once} |" in limits
    assert f"| Requests over one connection | {in_all:,}, " in limits
    guide = documentation_section("requests")
    assert f"at most {at_once} requests" in guide
    assert f"after {in_all:,} requests" in guide


def test_spec_4_the_operations_come_in_the_specs_order():
    """The table of endpoints begins with the operations that customers were promised first."""
    assert [endpoint.path for endpoint in ENDPOINTS[:5]] == [
        "/api/domains",
        "/api/domains/{domain}",
        "/v1/vehicle/{registration}/insurance",
        "/v1/vehicle/bulk-insurance",
        "/v1/compliance/{registration}",
    ]


@each_row(("endpoint", "method"), RESPONDERS)
def test_a_responders_docstring_begins_with_its_route(endpoint, method):
    """The docstring shows which requests a responder answers."""
    responder = getattr(endpoint.resource, f"on_{method.lower()}")
    assert responder.__doc__.startswith(f"{method} {endpoint.path}.")


@each_row("endpoint", EVERY)
def test_head_is_answered_wherever_get_is(endpoint):
    """HEAD has the responder of GET (D1)."""
    resource = endpoint.resource
    assert getattr(resource, "on_head", None) is getattr(resource, "on_get", None)


@each_row("endpoint", EVERY)
def test_a_responder_takes_what_its_path_names(endpoint):
    """Each `{name}` in a path is an argument of its responders."""
    named = set(re.findall(r"\{(\w+)\}", endpoint.path))
    for method in methods_of(endpoint.resource):
        code = getattr(endpoint.resource, f"on_{method.lower()}").__code__
        assert set(code.co_varnames[3 : code.co_argcount]) == named


def test_a_restricted_key_opens_only_paths_of_its_area():
    """Each path that needs a key names its areas; one that names none is for other keys (D178)."""
    areas = {each.path: tuple(each.areas) for each in ENDPOINTS if not is_open(each.path)}
    of_vehicles = ("/v1/vehicle/", "/v1/compliance/", "/v1/watches", "/v1/events")
    vehicles = [path for path in areas if path.startswith(of_vehicles)]
    expected: dict[str, tuple[Area, ...]] = dict.fromkeys(vehicles, ("vehicles",))
    expected |= dict.fromkeys(("/api/domains", "/api/domains/{domain}"), ("domains",))
    expected |= {"/v1/account": ("domains", "vehicles"), "/v1/usage": (), "/metrics": ()}
    assert areas == expected


@each_row("endpoint", EVERY)
def test_an_endpoint_says_where_it_is_specified(endpoint):
    """Each endpoint cites numbered decisions."""
    assert re.fullmatch(r"D\d+( to D\d+)?(, D\d+)*", endpoint.decisions)


@each_row("endpoint", EVERY)
def test_the_open_paths_are_documented_as_open(endpoint):
    """The document requires a key exactly where the service does (D2)."""
    operation = find_operation("GET", endpoint.path) or find_operation("POST", endpoint.path)
    if endpoint.path not in UNDOCUMENTED:
        assert operation
        assert is_open(endpoint.path) == (operation.get("security") == [])


def test_the_table_is_what_is_served(world):
    """Every path of the table is routed to its resource, and no other path is."""
    routes = falcon.inspect.inspect_routes(create_app(world.config))
    served = {route.path: route.class_name for route in routes}
    assert served == {endpoint.path: endpoint.resource.__name__ for endpoint in ENDPOINTS}


def test_every_operation_with_a_key_has_a_name_in_the_usage():
    """The names are those of the document, and those of the table in the reference (D128)."""
    keyed = {
        (endpoint.path, method)
        for endpoint in ENDPOINTS
        for method in methods_of(endpoint.resource)
        if not is_open(endpoint.path)
    }
    assert OPERATIONS.keys() == keyed
    usage = document()["components"]["schemas"]["OperationUsage"]
    names = {*OPERATIONS.values(), OTHER, EVENTS}
    assert set(usage["properties"]["operation"]["examples"]) == names
    reference = (ROOT / "deploy" / "docs" / "interface.md").read_text()
    (row,) = re.findall(r"(?m)^\| operation \| (.*) \|$", reference)
    assert set(re.findall("`(.+?)`", row)) == names
