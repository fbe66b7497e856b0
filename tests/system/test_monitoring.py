"""deploy/monitoring with the real Prometheus: rules, readings through nginx, the dashboard."""

import json
import re
import subprocess
import urllib.parse
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import yaml

from tests.system.nginx import adapted, running
from tests.system.processes import ROOT, free_port, send, until
from tests.system.prometheus import program
from tests.system.site import command_with_site

FOLDER = ROOT / "deploy" / "monitoring"
RULES = FOLDER / "verifyd.rules.yml"
RULES_TEST = FOLDER / "verifyd.rules.test.yml"
DASHBOARD = json.loads((FOLDER / "grafana" / "verifyd.json").read_text())
CONFIGURATION = (FOLDER / "prometheus.yml").read_text()


@pytest.fixture(scope="module")
def promtool():
    """`promtool(*words)` runs it, and returns how that ended."""
    path = program("promtool")

    def run(*words: object) -> subprocess.CompletedProcess[str]:
        command = [str(path), *map(str, words)]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    return run


def test_the_rules_are_well_formed(promtool):
    """Promtool finds no errors and no warnings."""
    ended = promtool("check", "rules", "--lint=all", "--lint-fatal", RULES)
    assert ended.returncode == 0, ended.stderr


def test_the_rules_fire_as_they_should(promtool):
    """Each fault raises its alert, with its text; a healthy installation raises none."""
    ended = promtool("test", "rules", RULES_TEST)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_a_rule_that_changed_is_noticed(promtool, tmp_path):
    """The tests of the rules fail when a threshold changes."""
    (tmp_path / RULES_TEST.name).write_text(RULES_TEST.read_text())
    rules = RULES.read_text()
    assert rules.count("3 * 86400") == 1
    (tmp_path / RULES.name).write_text(rules.replace("3 * 86400", "1 * 86400"))
    ended = promtool("test", "rules", tmp_path / RULES_TEST.name)
    assert (ended.returncode, "VerifydCertificateExpiresSoon," in ended.stderr) == (1, True)


def test_every_rule_is_tested():
    """Each rule has a test that raises it and one that does not."""
    rules = {rule["alert"] for rule in yaml.safe_load(RULES.read_text())["groups"][0]["rules"]}
    healthy, sick, *_ = yaml.safe_load(RULES_TEST.read_text())["tests"]
    assert {case["alertname"] for case in healthy["alert_rule_test"]} == rules
    assert not any("exp_alerts" in case for case in healthy["alert_rule_test"])
    assert {case["alertname"] for case in sick["alert_rule_test"] if case["exp_alerts"]} == rules


def jobs() -> list[str]:
    """Return the job of the example, and its alternatives."""
    (first,) = re.findall(r"(?m)^  - job_name.*\n(?:    .*\n)*", CONFIGURATION)
    others = re.findall(r"(?m)^  # - job_name.*\n(?:  #   .*\n)*", CONFIGURATION)
    return [first, *(re.sub("(?m)^  # ", "  ", other) for other in others)]


@pytest.mark.parametrize("job", jobs(), ids=["remote", "several hosts", "local"])
def test_every_job_of_the_example_is_understood(promtool, tmp_path, job):
    """With each of them the configuration is well-formed."""
    (tmp_path / "verifyd.key").write_text("key")
    job = job.replace("/etc/prometheus/", f"{tmp_path}/")
    (tmp_path / "prometheus.yml").write_text(f"scrape_configs:\n{job}")
    ended = promtool("check", "config", tmp_path / "prometheus.yml")
    assert ended.returncode == 0, ended.stderr


class Prometheus:
    """A running Prometheus, with a client for its API."""

    def __init__(self, bind: str) -> None:
        self.bind = bind

    def ask(self, path: str, **parameters: str):
        """Return the data of an answer, which must be a success."""
        answer = send(self.bind, "GET", f"/api/v1/{path}?{urllib.parse.urlencode(parameters)}")
        assert answer.status == 200, answer.body
        return answer.json()["data"]

    def read_as(self) -> str:
        """Return the result of the last reading: `up`, or an error; empty before the first."""
        targets = self.ask("targets")["activeTargets"]
        return " ".join(each["lastError"] or each["health"] for each in targets)


@contextmanager
def prometheus(directory: Path, site: str) -> Iterator[Prometheus]:
    """Run Prometheus with the example's configuration, reading the site every second."""
    changes = {
        "scrape_interval: 30s": "scrape_interval: 1s",
        "verifyd.rules.yml": str(RULES),
        "/etc/prometheus/verifyd.key": f"{directory}/verifyd.key",
        "    # tls_config:\n    #   ca_file: /etc/prometheus/ca.pem\n": (
            f"    tls_config:\n      ca_file: {directory}/fullchain.pem\n"
        ),
        "targets: [api.example.com]\n\n": f"targets: ['{site}']\n\n",
    }
    (directory / "prometheus.yml").write_text(adapted(CONFIGURATION, changes))
    bind = f"127.0.0.1:{free_port()}"
    words = ["--log.level=error", f"--web.listen-address={bind}"]
    words += [f"--config.file={directory}/prometheus.yml", f"--storage.tsdb.path={directory}/tsdb"]
    with running([str(program("prometheus")), *words], bind):
        until(lambda: send(bind, "GET", "/-/ready").status == 200, "Prometheus to be ready")
        yield Prometheus(bind)


@pytest.fixture
def read(serve, socket_directory, world) -> Iterator[Prometheus]:
    """A Prometheus that reads a service through the shipped nginx site, as a remote one."""
    program("prometheus")
    served = serve(bind=f"unix:{socket_directory}/socket", metrics_accounts="alice")
    directory, site = world.directory, f"127.0.0.1:{free_port()}"
    (directory / "verifyd.key").write_text(f"{world.alice_key}\n")
    command = command_with_site(served.bind, site, directory)
    text = (directory / "site.conf").read_text()
    assert text.count('127.0.0.1 "";') == 1
    (directory / "site.conf").write_text(text.replace('127.0.0.1 "";', '127.0.0.9 "";'))
    with ExitStack() as stack:
        stack.enter_context(running(command, site))
        yield stack.enter_context(prometheus(directory, site))


@pytest.mark.system_long
def test_prometheus_reads_through_nginx_with_a_key(read, world):
    """A reading needs TLS and a key of a listed account; another key is refused (D80)."""
    until(lambda: read.read_as() == "up", "Prometheus to read the metrics")
    until(lambda: read.ask("query", query="verifyd_database_up")["result"], "samples")
    (group,) = read.ask("rules")["groups"]
    assert {rule["type"] for rule in group["rules"]} == {"alerting"}
    (world.directory / "verifyd.key").write_text(world.bob_key)
    until(lambda: "403 Forbidden" in read.read_as(), "Prometheus to be refused")


def test_every_query_of_the_dashboard_is_understood(read):
    """Prometheus parses each query, with the variables as Grafana fills them in."""
    queries = [t["expr"] for panel in DASHBOARD["panels"] for t in panel.get("targets", [])]
    assert len(queries) > 20
    for query in queries:
        filled = query.replace("$instance", ".*").replace("$__rate_interval", "2m")
        assert "$" not in filled
        read.ask("query", query=filled)
