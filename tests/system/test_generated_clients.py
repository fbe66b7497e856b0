"""Clients that generators write from the served OpenAPI document reach the service (D95)."""

import html
import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import openapi_spec_validator
import pytest

from app.serve.http.authentication import OPEN_PATHS
from tests.contract.answers import document
from tests.contract.document_walk import request_schemas
from tests.contract.pages import documentation_section, table
from tests.system.client_tools import (
    PROGRAMS,
    generator_jar,
    node_tools,
    python_tools,
    ran,
    tools_environment,
)
from tests.system.later_release import LaterRelease
from tests.system.processes import Service, free_port, run_command
from tests.system.threads import serving

pytestmark = pytest.mark.system_long

PLATES = ["AB12CDE", "lp63 sed", "ZZ99ZZZ", "?"]
HARMLESS = (
    # openapi-generator says these of every document, also of one with a single member.
    *("OpenAPI 3.1 support is still in beta", "Failed to get the schema name: null"),
    # Of the parameter `from`, which gets no model. In the client it is called `var_from`.
    "From (reserved word) cannot be used as model name",
    # Examples of bodies are left out of the comments in Java.
    "Ignoring complex example on request body",
)


class Demo(NamedTuple):
    """The service on the demo's data, with the document that it served."""

    service: Service
    bind: str
    """Where a later release answers."""
    document: Path
    run: Callable[..., subprocess.CompletedProcess[str]]

    def hurried_key(self, account: str) -> str:
        """Return the key of a new account that may send one request an hour."""
        self.run("accounts", "create", account, "--plan", "hurried")
        created = self.run("keys", "create", account, "--json")
        key: str = json.loads(created.stdout)["key"]
        return key


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    """The service, run as `make run` runs it, with answers as a later release sends them."""
    directory = tmp_path_factory.mktemp("demo")
    settings: dict[str, Any] = {
        "bind": f"127.0.0.1:{free_port()}",
        "database_url": f"sqlite:///{directory / 'demo.db'}",
        "mot_first_years": 3,
        "workers": 1,
    }

    def run(*words: object) -> subprocess.CompletedProcess[str]:
        ended = run_command(*words, **settings)
        assert ended.returncode == 0, ended.stderr
        return ended

    key = json.loads(run("demo", "--json").stdout)["key"]
    limits = ("--requests", 1, "--window", 3600, "--bulk-max", 1, "--domains-max", 1)
    run("plans", "set", "hurried", *limits)
    with Service(directory, **settings) as service, serving(LaterRelease(service.bind)) as later:
        service.wait_ready()
        service.key = key
        path = directory / "openapi.json"
        path.write_bytes(service.get("/openapi.json", Host=later.bind).body)
        yield Demo(service, later.bind, path, run)


class Row(NamedTuple):
    """A row of the table of generators on the page /docs."""

    language: str
    package: str
    """Its name and its version, as pip and npm take them."""
    command: str
    key: str

    @property
    def name(self) -> str:
        """The language, and the package without its version."""
        return f"{self.language} {re.split('==|(?<=.)@', self.package)[0]}"


def rows() -> list[Row]:
    """Return the table of generators."""
    found = re.findall(
        r"(?s)<tr><td>(\w+): <code>(.*?)</code></td>\s*"
        r"<td><code>(.*?)</code></td>\s*<td><code>(.*?)</code>.*?</td></tr>",
        documentation_section("clients"),
    )
    return [Row(*map(html.unescape, each)) for each in found]


def generate(row: Row, document: Path, directory: Path) -> None:
    """Run the command of the table as it stands there; it must succeed, and warn of nothing."""
    shutil.copy(document, directory)
    if "npx " in row.command:
        link_node_modules(directory)
    ended = ran(["sh", "-c", row.command], directory, tools_environment())
    said = ended.stdout + ended.stderr
    assert ended.returncode == 0, said
    faults = re.findall(r"(?im)^.*\b(?:warn|warnings?|errors?)\b.*$", said)
    assert [line for line in faults if not any(each in line for each in HARMLESS)] == []


def with_python(program: str, package: str, *lenient: str) -> Callable[[Path], list[object]]:
    """Return what checks a program in Python and returns its command.

    Args:
        program: the name of its file.
        package: the directory that the package of the client is in.
        lenient: options for mypy.
    """

    def check(directory: Path) -> list[object]:
        shutil.move(directory / package / "verifyd_client", directory)
        for name in (program, "mypy.ini"):
            shutil.copy(PROGRAMS / name, directory)
        python = python_tools()
        checked = [directory / program] if lenient else [directory]
        shutil.rmtree(directory / package)
        require_quiet(
            ran([python, "-m", "mypy", "--no-incremental", *lenient, *checked], directory)
        )
        return [python, directory / program]

    return check


def with_go(directory: Path) -> list[object]:
    """Compile a program in Go, without a proxy for modules; return the command that runs it."""
    shutil.copy(PROGRAMS / "with_openapi_generator.go", directory)
    (directory / "go.mod").write_text("module example\n\ngo 1.23\n")
    env = {**tools_environment(), "GOPROXY": "off", "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=mod"}
    require_quiet(ran(["go", "vet", "."], directory, env))
    require_quiet(ran(["go", "build", "-o", "program", "."], directory, env))
    return [directory / "program"]


def with_java(directory: Path) -> list[object]:
    """Compile a program in Java with the Jackson of the generator; return the command to run it."""
    sources = [*PROGRAMS.glob("*.java"), *(directory / "verifyd" / "src" / "main").rglob("*.java")]
    path = f"{generator_jar()}:{directory / 'classes'}"
    require_quiet(ran(["javac", "-d", "classes", "-cp", path, *sources], directory))
    return ["java", "-cp", path, "WithOpenapiGenerator"]


def with_typescript(program: str) -> Callable[[Path], list[object]]:
    """Return what compiles a program in TypeScript strictly and returns its command."""

    def check(directory: Path) -> list[object]:
        for name in ("package.json", "tsconfig.json", program):
            shutil.copy(PROGRAMS / name, directory)
        require_quiet(ran([node_tools() / "tsc", "--project", directory], directory))
        return [node_tools() / "tsx", directory / program]

    return check


def link_node_modules(directory: Path) -> None:
    """Let programs in a directory find the packages of npm."""
    (directory / "node_modules").symlink_to(node_tools().parent)


def require_quiet(ended: subprocess.CompletedProcess[str]) -> None:
    """Fail unless a program succeeded, and warned of nothing."""
    said = ended.stdout + ended.stderr
    assert ended.returncode == 0, said
    assert "warning" not in said.lower(), said


CHECKS: dict[str, Callable[[Path], list[object]]] = {
    # Its own template is not strict; what the program uses of it is checked.
    "Python openapi-generator-cli": with_python(
        "with_openapi_generator.py", "verifyd", "--follow-imports=silent", "--allow-untyped-calls"
    ),
    "Python openapi-python-client": with_python("with_openapi_python_client.py", "verifyd-client"),
    "Go openapi-generator-cli": with_go,
    "Java openapi-generator-cli": with_java,
    "TypeScript openapi-typescript": with_typescript("with_openapi_fetch.ts"),
    "TypeScript @hey-api/openapi-ts": with_typescript("with_hey_api.ts"),
    "TypeScript swagger-typescript-api": with_typescript("with_swagger_typescript_api.ts"),
    "TypeScript orval": with_typescript("with_orval.ts"),
}
"""What compiles the program that uses a client, by the rows of the table."""

UNREAD = {"Java openapi-generator-cli": {"pages": ["not read"] * 3}}
"""What the programs cannot get, by the rows of the table: the page says so."""


def test_the_table_has_the_generators_that_are_tried():
    """The table names each generator that a test uses, in the version that the tests install."""
    assert [row.name for row in rows()] == list(CHECKS)
    wanted = json.loads((PROGRAMS / "package.json").read_text())["dependencies"]
    installed = {f"{name}@{version}" for name, version in wanted.items()}
    installed |= set((PROGRAMS / "requirements.txt").read_text().splitlines())
    text = html.unescape(documentation_section("clients"))
    named = set(re.findall(r"<code>(@?[\w/-]+(?:==|@)[\d.]+)</code>", text))
    assert named > {row.package for row in rows()}
    assert named - installed == set()


def expected(service: Service, domain: str) -> dict[str, Any]:
    """Return what a client must get, by the answers to plain requests."""
    insured = service.get("/v1/vehicle/AB12CDE/insurance").json()
    bulk = service.post("/v1/vehicle/bulk-insurance", {"registrations": PLATES}).json()
    many = service.post("/v1/compliance/bulk", {"registrations": PLATES}).json()
    held = [each["name"] for each in service.get("/api/domains").json()["domains"]]
    policy = insured["policy"]
    return {
        "created": [domain, "active", int(insured["lastUpdated"][:4])],
        "domains": sorted([*held, domain]),
        "domain": True,
        "duplicate": [409, "domain_already_exists"],
        "deleted": 204,
        "gone": [404, "domain_not_found"],
        "missing": [404, "domain_not_found"],
        "insured": [True, policy["number"], policy["validFrom"]],
        "day": "2026-12-31",
        "unknown": [404, "vehicle_not_found"],
        "malformed": [400, "invalid_registration"],
        "compliance": [False, False, "sorn"],
        "bulk": [
            [item["registration"], item["insured"], item.get("code") or item["policy"]["number"]]
            for item in bulk["results"]
        ],
        "counts": [4, 2, 2],
        "detailed": "Ford",
        "bulk_compliance": [
            [
                item["registration"],
                item["compliant"],
                item.get("code") or item["checks"]["motValid"],
            ]
            for item in many["results"]
        ],
        "account": ["demo", 1000, "demo", None],
        "usage": ["2020-12-31", []],
        "watch": ["AB12CDE", [28, 14], "2099-12-31", True, True],
        "reference": "FLEET",
        "changed": [
            ["SO15RNN", "created"],
            ["?", "invalid_registration"],
            ["LP63SED", "watch_not_found"],
        ],
        "watches": ["AB12CDE", "SO15RNN"],
        "events": [False, True],
        "old_events": [410, "events_gone"],
        "unwatched": [204, 204],
        "no_watch": [404, "watch_not_found"],
        "health": "ok",
        "ready": "ready",
        "document": "3.1.0",
        "metrics": True,
        "start": "verifyd",
        "pages": [True, True, True],
        "stranger": [401, "unauthorized"],
        "limited": [429, "rate_limit_exceeded"],
        "waits": True,
    }


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.name)
def test_values_and_errors_arrive_as_typed_objects(row, demo, tmp_path):
    """A strictly compiled client calls every operation: values, a mixed bulk, typed errors.

    The answers have members that the client does not know, as those of a later release (D95).
    """
    generate(row, demo.document, tmp_path)
    command = CHECKS[row.name](tmp_path)
    name = re.sub(r"\W+", "-", row.name).lower()
    wanted = expected(demo.service, f"{name}.example.com") | UNREAD.get(row.name, {})
    logged = len(demo.service.lines("stdout"))
    env = {
        "SERVICE_URL": f"http://{demo.bind}",
        "KEY": demo.service.key,
        "HURRIED_KEY": demo.hurried_key(name),
        "DOMAIN": f"{name}.example.com",
        "PYTHONWARNINGS": "error",
    }
    ended = ran(command, tmp_path, {**tools_environment(), **env})
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout) == wanted
    lines = demo.service.lines("stdout")[logged:]
    # A request that is refused for its key has no route.
    called = {(line["route"], line["method"].lower()) for line in lines if line["route"]}
    assert called == {
        (path, method) for path, item in document()["paths"].items() for method in item
    }


def test_openapi_python_generator_does_not_work(demo, tmp_path):
    """The page tells why: headers that are None, and classes that no text fits."""
    assert "openapi-python-generator" in documentation_section("clients")
    words = ["openapi-python-generator", demo.document, tmp_path / "verifyd"]
    require_done(ran(words, tmp_path, tools_environment()))
    program = """if True:
        from verifyd.models import Day
        from verifyd.services.Vehicles_service import checkVehicleInsurance
        assert not Day.model_fields
        try:
            checkVehicleInsurance(registration="AB12CDE")
        except TypeError as error:
            print(error)
    """
    ended = ran([python_tools(), "-c", program], tmp_path)
    assert "None" in ended.stdout, ended.stderr


def test_the_tag_of_probes_and_metrics_can_be_left_out(demo, tmp_path):
    """The page's filter leaves exactly the operations for clients, and a valid document."""
    text = html.unescape(documentation_section("clients"))
    (words,) = re.findall(r"<code>(jq .*?)</code>", text)
    if shutil.which("jq") is None:
        pytest.skip("jq missing on this machine")
    shutil.copy(demo.document, tmp_path)
    require_done(ran(["sh", "-c", words], tmp_path))
    filtered = json.loads((tmp_path / "clients.json").read_bytes())
    openapi_spec_validator.validate(filtered)
    assert filtered["paths"] == {
        path: item
        for path, item in json.loads(demo.document.read_bytes())["paths"].items()
        if all("Operations" not in node["tags"] for node in item.values())
    }


def require_done(ended: subprocess.CompletedProcess[str]) -> None:
    """Fail unless a program succeeded."""
    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.mark.parametrize("row", [row for row in rows() if "npx " in row.command], ids=str)
def test_a_line_works_in_an_empty_folder(row, demo, tmp_path):
    """It names its packages and their versions, which npm fetches where it reaches an index."""
    shutil.copy(demo.document, tmp_path)
    assert row.package in row.command
    ended = ran(["sh", "-c", row.command], tmp_path, {"npm_config_fetch_retries": "0"})
    said = ended.stdout + ended.stderr
    if re.search("ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ETIMEDOUT|ENOTCACHED", said):
        pytest.skip("the index of npm cannot be reached")
    assert ended.returncode == 0, said
    assert list(tmp_path.glob("verifyd*")), said


def test_linters_find_nothing(demo, tmp_path):
    """Spectral's and Redocly's recommended rules have nothing to warn of."""
    tools = node_tools()
    (tmp_path / "spectral.yaml").write_text("extends: spectral:oas\n")
    spectral = [tools / "spectral", "lint", "--ruleset", tmp_path / "spectral.yaml"]
    ended = ran([*spectral, "--fail-severity", "hint", demo.document], tmp_path)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    redocly = [tools / "redocly", "lint", "--extends", "recommended-strict", demo.document]
    ended = ran(redocly, tmp_path, {"REDOCLY_TELEMETRY": "off"})
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_owasps_rules_find_only_what_is_deliberate(demo, tmp_path):
    """The table for a review lists each rule with findings, and the places where it has some."""
    (tmp_path / "owasp.yaml").write_text("extends: '@stoplight/spectral-owasp-ruleset'\n")
    link_node_modules(tmp_path)
    words = [node_tools() / "spectral", "lint", "--ruleset", "owasp.yaml", "--format", "json"]
    ended = ran([*words, "--output", "found.json", demo.document], tmp_path)
    assert ended.returncode == 1, ended.stdout + ended.stderr
    found = {
        (each["code"].removeprefix("owasp:"), reviewed_part(each["path"]))
        for each in json.loads((tmp_path / "found.json").read_bytes())
    }
    assert found == {
        (rule.strip("`"), part)
        for rule, parts, _ in table("OWASP rule")
        for part in parts.split(", ")
    }


def reviewed_part(path: list[str]) -> str:
    """Return the part of the document with a finding, as the table for a review calls it."""
    sent = {name.partition(".")[0] for name, _ in request_schemas()}
    match path:
        case ["servers", *_]:
            return "server"
        case ["paths", address, _, "security" | "responses"]:
            return "open paths" if address in OPEN_PATHS else address
        case ["paths", _, _, "parameters" | "requestBody", *_]:
            return "requests"
        case ["components", "schemas", name, *_] if name in sent:
            return "requests"
        case _:
            return "answers"


@pytest.mark.parametrize("program", ["postman", "bruno"])
def test_an_imported_collection_has_the_right_address(program, demo, tmp_path):
    """The base URL of the import is that of the service, without editing."""
    link_node_modules(tmp_path)
    shutil.copy(PROGRAMS / "imported.mjs", tmp_path)
    ended = ran(["node", "imported.mjs", demo.document], tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout)[program] == f"http://{demo.bind}"
