"""Rules and dashboard use only existing metrics, labels and routes, and every metric."""

import json
import re
from contextlib import suppress
from itertools import combinations
from pathlib import Path

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from app.alerts.nightly import Run, record
from app.audit.owner import claim
from app.errors import OperatorError
from app.routes import ENDPOINTS
from app.storage.versions import database_id
from tests.contract.pages import quoted, table
from tests.system.nginx import make_certificate

FOLDER = Path(__file__).parents[2] / "deploy" / "monitoring"
DASHBOARD = json.loads((FOLDER / "grafana" / "verifyd.json").read_text(encoding="utf-8"))
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
(GROUP,) = yaml.safe_load((FOLDER / "verifyd.rules.yml").read_text(encoding="utf-8"))["groups"]
QUERIES = {
    **{panel["title"]: [target["expr"] for target in panel["targets"]] for panel in PANELS},
    **{rule["alert"]: [rule["expr"]] for rule in GROUP["rules"]},
}
# Prometheus adds them to every sample.
OF_TARGETS = {"job", "instance"}


@pytest.fixture
def told(world, stranger) -> dict[str, set[str]]:
    """Return the labels of each sample of the service, by the sample's name."""
    world.load([{"registration": "AB12CDE"}])
    cut_off = world.directory / "cut-off.csv"
    cut_off.write_text("registration,make\nAB12")
    with suppress(OperatorError):
        world.load_files(cut_off)
    record(
        world.engine,
        world.config.data_dir,
        Run("backup", is_scheduled=True, started_at=1_000, size_bytes=4321),
    )
    for job in ("check", "sweep"):
        record(world.engine, world.config.data_dir, Run(job, is_scheduled=True, started_at=1_000))
    make_certificate(world.directory)
    certificate = world.directory / "fullchain.pem"
    claim(world.directory / "audit", database_id(world.engine))
    client = world.client(
        world.alice_key, stale_after={"*": 3600}, certificate=certificate, audit=True
    )
    client.get("/api/domains")
    text = client.get("/metrics", environ={"REMOTE_ADDR": "127.0.0.1"}).text
    labels: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels.setdefault(sample.name, set()).update(sample.labels)
    return labels


def test_the_table_of_metrics_has_the_labels(told):
    """Each metric of the service is in the table, with its labels."""
    listed = {quoted(row[0])[0]: set(quoted(row[1])) for row in table("Metric")}
    histogram = {"_bucket", "_count", "_sum", "_created"}
    made = {
        name: labels
        for name, labels in told.items()
        if name.startswith("verifyd_") and not any(map(name.endswith, histogram))
    }
    made["verifyd_request_seconds"] = told["verifyd_request_seconds_count"]
    assert made == {name: listed.get(name) for name in made}


def test_queries_use_existing_metrics_and_labels(told):
    """Metrics and labels in queries exist in the service."""
    known = told | {"up": set()}
    for title, query in ((title, query) for title, some in QUERIES.items() for query in some):
        named = re.findall(r"(?<![\w.])(verifyd_\w+|up)\b(?:\{((?:[^}\"]|\"[^\"]*\")*)\})?", query)
        assert named, title
        for name, selectors in named:
            assert name in known, title
            matched = set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)\s*\"", selectors))
            assert matched <= known[name] | OF_TARGETS, title


def test_routes_in_queries_are_routes():
    """Each alternative of a regular expression of routes matches a route."""
    paths = [endpoint.path for endpoint in ENDPOINTS]
    queries = " ".join(query for queries in QUERIES.values() for query in queries)
    found = re.findall(r'route=~?"([^"]*)"', queries)
    assert found
    for alternative in {each for route in found for each in route.split("|")}:
        assert any(re.fullmatch(alternative, path) for path in paths), alternative


def test_every_metric_is_on_the_dashboard(told):
    """Every metric is in a panel."""
    text = json.dumps(DASHBOARD)
    names = {re.sub("_(bucket|sum|count)$", "", name) for name in told}
    assert [name for name in sorted(names) if name not in text] == []


def test_panels_have_places_of_their_own():
    """Panels have unique numbers, do not overlap, and have a description."""
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        assert panel["title"]
        assert 0 <= place["x"] < place["x"] + place["w"] <= 24
    for one, other in combinations([panel["gridPos"] for panel in DASHBOARD["panels"]], 2):
        is_beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        is_above = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert is_beside or is_above


def test_panels_ask_the_data_source_that_is_chosen():
    """No panel is bound to a particular Prometheus."""
    chosen = {"type": "prometheus", "uid": "${datasource}"}
    variables = {each["name"]: each["type"] for each in DASHBOARD["templating"]["list"]}
    assert variables == {"datasource": "datasource", "instance": "query"}
    for panel in PANELS:
        assert panel["datasource"] == chosen
        assert all(target["datasource"] == chosen for target in panel["targets"])


def test_every_alert_says_what_happened():
    """Each alert has a severity, and a summary that names the instance."""
    for rule in GROUP["rules"]:
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert "$labels.instance" in rule["annotations"]["summary"]


def test_the_provisioning_files_are_understood():
    """The files have a source of type prometheus and a directory, as Grafana requires."""
    source, dashboards = (
        yaml.safe_load((FOLDER / "grafana" / name).read_text(encoding="utf-8"))
        for name in ("datasource.yml", "dashboards.yml")
    )
    assert [each["type"] for each in source["datasources"]] == ["prometheus"]
    assert dashboards["providers"][0]["options"]["path"].startswith("/var/lib/grafana/")
    assert source["apiVersion"] == dashboards["apiVersion"] == 1


def test_the_page_lists_every_alert():
    """The page has each alert with its severity, in the order of the rules."""
    page = (FOLDER.parent / "docs" / "monitor.md").read_text(encoding="utf-8")
    rows = re.findall(r"(?m)^\| `(Verifyd\w+)` \|.*\| (\w+) \|$", page)
    assert rows == [(rule["alert"], rule["labels"]["severity"]) for rule in GROUP["rules"]]
