"""Clients that generators write from the served OpenAPI document reach the service (D94, D95)."""

import html
import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.contract.answers import document
from tests.system.client_tools import (
    PROGRAMS,
    node_tools,
    openapi_generator,
    python_tools,
    ran,
)
from tests.system.processes import Service, free_port, run_command

pytestmark = pytest.mark.system_long

PLATES = ["AB12CDE", "lp63 sed", "ZZ99ZZZ", "?"]
# openapi-generator says these of every document, also of one with a single member.
ALWAYS_SAID = ("OpenAPI 3.1 support is still in beta", "Failed to get the schema name: null")
# Of the parameter `from`, which gets no model. In the client it is called `var_from`.
RENAMED = "From (reserved word) cannot be used as model name"


class Demo(NamedTuple):
    """The service on the demo's data, with the document that it served."""

    service: Service
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
    """The service, run as `make run` runs it."""
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
    with Service(directory, **settings) as service:
        service.wait_ready()
        service.key = key
        path = directory / "openapi.json"
        path.write_bytes(service.get("/openapi.json", Host=service.bind).body)
        yield Demo(service, path, run)


def openapi_python_client(document: Path, directory: Path) -> list[object]:
    """Generate and check a client; return the command of the program that uses it."""
    python = python_tools()
    words = ["generate", "--path", document, "--meta", "none", "--fail-on-warning"]
    path = {"PATH": f"{python.parent}:/usr/bin:/bin"}  # It formats with ruff.
    output = ["--output-path", directory / "verifyd_client"]
    require_quiet(ran([python, "-m", "openapi_python_client", *words, *output], directory, path))
    program = copied("with_openapi_python_client.py", directory)
    copied("mypy.ini", directory)
    require_quiet(ran([python, "-m", "mypy", "--no-incremental", directory], directory))
    return [python, program]


def openapi_generator_python(document: Path, directory: Path) -> list[object]:
    """Generate and check a client; return the command of the program that uses it."""
    words = ["generate", "-i", document, "-g", "python", "-o", directory / "generated"]
    ended = ran([*openapi_generator(), *words, "--package-name", "verifyd_client"], directory)
    said = ended.stdout + ended.stderr
    assert ended.returncode == 0, said
    faults = [line for line in said.splitlines() if "WARN" in line or "ERROR" in line]
    assert [
        line for line in faults if not any(each in line for each in (*ALWAYS_SAID, RENAMED))
    ] == []
    shutil.move(directory / "generated" / "verifyd_client", directory)
    python = python_tools()
    program = copied("with_openapi_generator.py", directory)
    copied("mypy.ini", directory)
    # Its own template is not strict; what the program uses of it is checked.
    lenient = ["--follow-imports", "silent", "--allow-untyped-calls"]
    require_quiet(ran([python, "-m", "mypy", "--no-incremental", *lenient, program], directory))
    return [python, program]


def openapi_fetch(document: Path, directory: Path) -> list[object]:
    """Generate and compile a client; return the command of the program that uses it."""
    tools = node_tools()
    types = directory / "client" / "schema.d.ts"
    require_quiet(ran([tools / "openapi-typescript", document, "-o", types], directory))
    return compiled(tools, directory, "with_openapi_fetch")


def hey_api(document: Path, directory: Path) -> list[object]:
    """Generate and compile a client; return the command of the program that uses it."""
    tools = node_tools()
    shutil.copy(document, directory)
    settings = copied("hey-api.config.mjs", directory)
    require_quiet(ran([tools / "openapi-ts", "-f", settings], directory))
    return compiled(tools, directory, "with_hey_api")


def compiled(tools: Path, directory: Path, program: str) -> list[object]:
    """Compile a program in TypeScript, all of it strictly; return the command that runs it."""
    (directory / "node_modules").symlink_to(tools.parent)
    for name in ("package.json", "tsconfig.json", f"{program}.ts"):
        copied(name, directory)
    require_quiet(ran([tools / "tsc", "--project", directory], directory))
    return ["node", directory / "build" / f"{program}.js"]


def copied(name: str, directory: Path) -> Path:
    """Copy a file of the programs; return the copy."""
    return Path(shutil.copy(PROGRAMS / name, directory))


def require_quiet(ended: subprocess.CompletedProcess[str]) -> None:
    """Fail unless a program succeeded, and warned of nothing."""
    said = ended.stdout + ended.stderr
    assert ended.returncode == 0, said
    assert "warning" not in said.lower(), said


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


@pytest.mark.parametrize(
    "make", [openapi_python_client, openapi_generator_python, openapi_fetch, hey_api]
)
def test_values_and_errors_arrive_as_typed_objects(make, demo, tmp_path):
    """A strictly compiled client calls every operation: values, a mixed bulk, typed errors."""
    name = make.__name__.replace("_", "-")
    command = make(demo.document, tmp_path)
    wanted = expected(demo.service, f"{name}.example.com")
    logged = len(demo.service.lines("stdout"))
    env = {
        "SERVICE_URL": f"http://{demo.service.bind}",
        "KEY": demo.service.key,
        "HURRIED_KEY": demo.hurried_key(name),
        "DOMAIN": f"{name}.example.com",
        "PYTHONWARNINGS": "error",
    }
    ended = ran(command, tmp_path, env)
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout) == wanted
    lines = demo.service.lines("stdout")[logged:]
    # A request that is refused for its key has no route.
    called = {(line["route"], line["method"].lower()) for line in lines if line["route"]}
    assert called == {
        (path, method) for path, item in document()["paths"].items() for method in item
    }


def without_operations(page: str, document: Path, directory: Path) -> dict[str, list[str]]:
    """Leave out the tag Operations as the page /docs says; return what is left, by generator."""
    (text,) = re.findall(r'(?s)<section id="clients">.*?</section>', page)
    told = re.findall(r"(?s)<dt>(\S+)</dt>\s*<dd>(.*?)</dd>", text)
    codes = {name: re.findall("<code>(.*?)</code>", html.unescape(dd)) for name, dd in told}
    left = {}

    (option,) = codes.pop("openapi-generator")
    words = [*openapi_generator(), "generate", "-i", document, "-g", "python", "-o", "generated"]
    require_done(ran([*words, *shlex.split(option)], directory))
    left["openapi-generator"] = names(
        directory / "generated" / "openapi_client" / "api", "*_api.py"
    )

    (folder,) = codes.pop("openapi-python-client")
    python = python_tools()
    words = [python, "-m", "openapi_python_client", "generate", "--path", document]
    path = {"PATH": f"{python.parent}:/usr/bin:/bin"}
    require_done(ran([*words, "--meta", "none", "--output-path", "verifyd"], directory, path))
    shutil.rmtree(directory / "verifyd" / folder)
    modules = (directory / "verifyd").rglob("*.py")
    imported = ".".join(["import verifyd", *folder.split("/")])
    assert not [each for each in modules if imported in each.read_text()]
    require_done(ran([python, "-m", "compileall", "-q", "verifyd"], directory))
    left["openapi-python-client"] = names(directory / "verifyd" / "api", "[a-z]*")

    setting, name, harmless = codes.pop("@hey-api/openapi-ts")
    config = f"export default {{ input: {json.dumps(str(document))}, output: 'hey', {setting} }};"
    (directory / name).write_text(config)
    tools = node_tools()
    (directory / "node_modules").symlink_to(tools.parent)
    ended = ran([tools / "openapi-ts"], directory)
    require_done(ended)
    assert {line.partition(":")[0] for line in ended.stderr.splitlines()} <= {harmless}
    calls = re.findall(r"(?m)^export const (\w+)", (directory / "hey" / "sdk.gen.ts").read_text())
    left["@hey-api/openapi-ts"] = sorted(calls)

    filtering, _ = codes.pop("openapi-typescript")
    assert codes == {}
    if shutil.which("jq") is None:
        pytest.skip("jq missing on this machine")
    shutil.copy(document, directory / "openapi.json")
    require_done(ran(["sh", "-c", filtering], directory))
    require_done(ran([tools / "openapi-typescript", "clients.json", "-o", "types.ts"], directory))
    paths = re.findall(r'(?m)^    "(/.*)": \{$', (directory / "types.ts").read_text())
    left["openapi-typescript"] = sorted(paths)
    return left


def names(directory: Path, pattern: str) -> list[str]:
    """Return the names of the files of a directory, in order."""
    return sorted(path.name for path in directory.glob(pattern))


def require_done(ended: subprocess.CompletedProcess[str]) -> None:
    """Fail unless a program succeeded."""
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_the_tag_of_probes_and_metrics_can_be_left_out(demo, tmp_path):
    """What the page /docs says for each generator leaves exactly the operations for clients."""
    page = demo.service.get("/docs").body.decode()
    kept = [
        (path, node["operationId"])
        for path, item in document()["paths"].items()
        for node in item.values()
        if "Operations" not in node["tags"]
    ]
    assert without_operations(page, demo.document, tmp_path) == {
        "openapi-generator": ["account_api.py", "domains_api.py", "vehicles_api.py"],
        "openapi-python-client": ["account", "domains", "vehicles"],
        "@hey-api/openapi-ts": sorted(name for _, name in kept),
        "openapi-typescript": sorted({path for path, _ in kept}),
    }


def test_the_package_of_a_client_has_a_short_name(demo, tmp_path):
    """A generator that names its package after the title of the document names it verifyd."""
    python = python_tools()
    words = [python, "-m", "openapi_python_client", "generate", "--path", demo.document]
    require_done(ran(words, tmp_path, {"PATH": f"{python.parent}:/usr/bin:/bin"}))
    assert names(tmp_path / "verifyd-client", "verifyd*") == ["verifyd_client"]


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


@pytest.mark.parametrize("program", ["postman", "bruno"])
def test_an_imported_collection_has_the_right_address(program, demo, tmp_path):
    """The base URL of the import is that of the service, without editing."""
    tools = node_tools()
    (tmp_path / "node_modules").symlink_to(tools.parent)
    copied("imported.mjs", tmp_path)
    ended = ran(["node", "imported.mjs", demo.document], tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout)[program] == f"http://{demo.service.bind}"
