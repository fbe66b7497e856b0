"""The code samples of /docs run as they are shown."""

import ast
import html
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.documentation.reference import LIBRARIES, TYPED_CLIENTS
from tests.contract.answers import document
from tests.programs import needs
from tests.system.client_tools import dotnet_version, node_tools, python_tools, spring_jars
from tests.system.processes import Service, environment, free_port, run_command, send, until

CLIENTS = Path(__file__).parent / "http_clients"
LIBRARY_PROGRAMS = Path(__file__).parent / "libraries"
COMPILE = (
    "--strict --noUnusedLocals --target es2022 --module nodenext --types node "
    "--allowImportingTsExtensions --noEmit"
).split()
OPERATIONS = [
    node["operationId"]
    for item in document()["paths"].values()
    for node in item.values()
    if "Operations" not in node["tags"]
]
# In an order in which each finds what it needs: a watch is created first, and deletions are last.
OPERATIONS.sort(key=lambda name: (name.startswith("delete"), name != "putWatch"))

FURTHER = {
    "errors": ["no register knows this vehicle"],
    "libraries": [
        *("ab12cde true", "so15rnn true", "zz99zzz none"),
        *("ab12cde true", "so15rnn false", "zz99zzz none"),
        *("['example.com']", "['fleet.example.org']"),
    ],
    "typed": ["ab12cde lg09677401 true", "1 1"],
}
"""What the samples of other sections print, in lower case."""

needs_curl = needs("curl", "curl")


@pytest.fixture
def demo(tmp_path) -> Iterator[Service]:
    """A running demo, as `make run` starts it."""
    settings: dict[str, Any] = {
        "database_url": f"sqlite:///{tmp_path / 'demo.db'}",
        "mot_first_years": 3,
    }
    bind = f"127.0.0.1:{free_port()}"
    key = json.loads(run_command("demo", "--json", bind=bind, **settings).stdout)["key"]
    with Service(tmp_path, bind, is_warm=True, workers=1, **settings) as service:
        service.key = key
        yield service.wait_ready()


def page_of(service: Service) -> str:
    """Return the documentation of a service: the guide, and the page of each operation."""
    paths = ["/docs", *(f"/docs/operations/{name}" for name in OPERATIONS)]
    host = {"Host": service.bind}
    return "".join(send(service.bind, "GET", path, headers=host).body.decode() for path in paths)


def section(page: str, name: str) -> str:
    """Return a section of the page."""
    (found,) = re.findall(rf'(?s)<section[^>]* id="{name}">.*?</section>', page)
    return found


def sample(text: str, language: str) -> str:
    """Return the code of the one sample in a language."""
    (code,) = re.findall(
        rf'(?s)<div class="sample {language}">\s*<pre tabindex="0"><code>(.*?)</code></pre>', text
    )
    return html.unescape(code)


def example(text: str) -> Any:
    """Return the answer that a section shows; None if it shows none."""
    shown = re.search(r'(?s)<pre class="answer"[^>]*><code>(.*?)</code>', text)
    return json.loads(html.unescape(shown[1])) if shown else None


def save_library(service: Service, name: str, directory: Path) -> None:
    """Download a client library and its typed client from the page."""
    ending = Path(name).suffix
    for place, each in (("libraries", name), ("typed", f"verifyd_typed{ending}")):
        assert f'<a href="docs/{each}">' in section(page_of(service), place)
        (directory / each).write_bytes(service.get(f"/docs/{each}", Host=service.bind).body)


def require_alike(name: str, answer: Any, shown: Any) -> None:
    """Fail unless an answer has the members of the one that the page shows."""
    if shown is None:
        assert answer is None, name
    else:
        assert list(answer) == list(shown), name


def run(words: list[Any], directory: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """Run a program to its end."""
    given = {"PATH": "/usr/local/bin:/usr/bin:/bin", "PYTHONWARNINGS": "ignore", **env}
    return subprocess.run(
        list(map(str, words)),
        cwd=directory,
        env=given,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@needs_curl
def test_each_curl_sample_gets_the_answer_beside_it(demo, tmp_path):
    """A shell runs each sample; the answer has the members shown. Libraries call this service."""
    page = page_of(demo)
    for name in OPERATIONS:
        text = section(page, name)
        code = sample(text, "curl")
        ended = run(["sh", "-c", code], tmp_path, KEY=demo.key)
        assert ended.returncode == 0, ended.stderr
        require_alike(name, json.loads(ended.stdout or "null"), example(text))
    code = sample(section(page, "errors"), "curl")
    ended = run(["sh", "-c", code], tmp_path, KEY=demo.key)
    head, _, body = ended.stdout.partition("\n\n")
    assert head.startswith("HTTP/1.1 404 ")
    require_alike("errors", json.loads(body), example(section(page, "errors")))
    for place in ("libraries", "typed"):
        ended = run(["sh", "-c", sample(section(page, place), "curl")], tmp_path)
        assert ended.returncode == 0, ended.stderr
    for name in LIBRARIES:
        assert f'"http://{demo.bind}"' in (tmp_path / name).read_text()
    for name in TYPED_CLIENTS:
        assert "class TypedClient" in (tmp_path / name).read_text()


@needs_curl
@pytest.mark.system_long
def test_the_page_leads_to_a_first_event(demo, tmp_path):
    """The commands watch a vehicle, load a fine, and show what that has changed."""
    code = sample(section(page_of(demo), "watching"), "curl")
    program = f"{sys.executable} -m app"
    settings = environment(database_url=f"sqlite:///{tmp_path / 'demo.db'}", mot_first_years=3)
    code = code.replace("\nverifyd ", f"\n{program} ")
    ended = run(["sh", "-e", "-c", code], tmp_path, KEY=demo.key, **settings)
    assert ended.returncode == 0, ended.stderr
    (event,) = json.loads(ended.stdout.splitlines()[-1])["events"]
    assert (event["type"], event["registration"]) == ("fines.changed", "AB12CDE")
    assert (event["before"]["valid"], event["after"]["valid"]) == (True, False)


@pytest.mark.system_long
def test_each_python_sample_gets_the_answer_beside_it(demo, tmp_path):
    """Python runs each sample beside the library; the answer has the members shown."""
    page = page_of(demo)
    save_library(demo, "verifyd.py", tmp_path)
    for name, wanted in FURTHER.items():
        code = sample(section(page, name), "python")
        ended = run([sys.executable, "-c", code], tmp_path, KEY=demo.key)
        assert ended.stdout.lower().splitlines() == wanted, ended.stderr
    for name in OPERATIONS:
        text = section(page, name)
        code = sample(text, "python")
        ended = run([sys.executable, "-c", code], tmp_path, KEY=demo.key)
        assert ended.returncode == 0, ended.stderr
        # The verdicts of a look-up follow.
        require_alike(name, ast.literal_eval(ended.stdout.splitlines()[0]), example(text))


def test_the_python_library_asks_for_the_key(demo, tmp_path):
    """Without KEY a sample ends with a line that says what to do."""
    page = page_of(demo)
    save_library(demo, "verifyd.py", tmp_path)
    code = sample(section(page, OPERATIONS[0]), "python")
    ended = run([sys.executable, "-c", code], tmp_path)
    assert ended.returncode == 1
    assert ended.stderr.endswith("ValueError: KEY is not set. Run: export KEY=vfd_...\n")


@pytest.mark.system_long
def test_each_typescript_sample_gets_the_answer_beside_it(demo, tmp_path):
    """The compiler takes each sample strictly, and Node gets an answer with the members shown."""
    page = page_of(demo)
    save_library(demo, "verifyd.ts", tmp_path)
    for name in [*OPERATIONS, *FURTHER]:
        (tmp_path / f"{name}.ts").write_text(sample(section(page, name), "typescript"))
    compile_all(tmp_path)
    for name, wanted in FURTHER.items():
        ended = run([node(), f"{name}.ts"], tmp_path, KEY=demo.key)
        lines = re.sub(r"\[ (.*) \]", r"[\1]", ended.stdout.lower()).replace("null", "none")
        assert lines.splitlines() == wanted, ended.stderr
    # Without an item the answer about usage is too short for a line of each member.
    until(lambda: demo.get("/v1/usage").json()["usage"], "usage to be written")
    for name in OPERATIONS:
        ended = run([node(), f"{name}.ts"], tmp_path, KEY=demo.key)
        assert ended.returncode == 0, ended.stderr
        shown = example(section(page, name))
        printed = re.findall(r"(?m)^(?:\{|  )[ ]?(\w+):", ended.stdout)
        assert printed == list(shown) if shown else ended.stdout == "undefined\n", ended.stdout
    ended = run([node(), "errors.ts"], tmp_path)
    assert "Error: KEY is not set. Run: export KEY=vfd_..." in ended.stderr


@pytest.mark.system_long
def test_a_typescript_sample_runs_as_the_page_says(demo, tmp_path):
    """Node 22.18 runs a sample as it is; an older one needs tsx and the type `module`."""
    page = page_of(demo)
    text = html.unescape(re.sub(r"<[^>]+>", "", section(page, "libraries"))).replace("\xa0", " ")
    for promised in ("node FILE.ts", '{"type": "module"}', "npx tsx FILE.ts"):
        assert promised in text
    save_library(demo, "verifyd.ts", tmp_path)
    (tmp_path / "sample.ts").write_text(sample(section(page, "errors"), "typescript"))
    ended = run([node(), "sample.ts"], tmp_path, KEY=demo.key)
    assert ended.stdout.splitlines() == FURTHER["errors"], ended.stderr
    (tmp_path / "package.json").write_text('{"type": "module"}')
    ended = run([node_tools() / "tsx", "sample.ts"], tmp_path, KEY=demo.key)
    assert ended.stdout.splitlines() == FURTHER["errors"], ended.stderr


def node() -> Path:
    """Return a Node that runs TypeScript; skip where it cannot be had."""
    return python_tools().parent / "node"


def compile_all(directory: Path) -> None:
    """Check the types in every file of a directory; skip where there is no compiler."""
    (directory / "node_modules").symlink_to(node_tools().parent)
    (directory / "package.json").write_text('{"type": "module"}')
    files = sorted(path.name for path in directory.glob("*.ts"))
    ended = run([node_tools() / "tsc", *COMPILE, *files], directory)
    assert ended.returncode == 0, ended.stdout


def send_with_and_without_length(words: list[Any], directory: Path, demo: Service) -> list[str]:
    """Run a program that sends a body by default and by the line of the page; return its output."""
    url = f"http://{demo.bind}/v1/vehicle/bulk-insurance"
    ended = run([*words, url], directory, KEY=demo.key, HOME=str(Path.home()))
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout.split()


def line_of(page: str, framework: str) -> str:
    """Return the line of the page that makes a framework send a length."""
    (line,) = re.findall(rf"<dt>{framework}</dt>\n<dd><code>(.*)</code></dd>", page)
    return html.unescape(line)


CALLED = [
    "active",
    ["typed.example"],
    "typed.example",
    1,
    "2026-12-31",
    "invalid_registration",
    "sorn",
    [True, False],
    [28, 14],
    ["created"],
    ["AB12CDE"],
    "A/B",
    False,
    1000,
    [],
    None,
    None,
]
"""What the programs with typed clients print."""


def test_the_typed_client_calls_each_operation_in_python(demo, tmp_path):
    """A program has the answers with their types; make check takes it strictly."""
    save_library(demo, "verifyd.py", tmp_path)
    shutil.copy(LIBRARY_PROGRAMS / "typed.py", tmp_path)
    ended = run([sys.executable, "typed.py"], tmp_path, KEY=demo.key)
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout) == CALLED


@pytest.mark.system_long
def test_mypy_takes_the_typed_client_strictly(demo, tmp_path):
    """Without the settings of this project too, and it refuses what the program ignores."""
    save_library(demo, "verifyd.py", tmp_path)
    shutil.copy(LIBRARY_PROGRAMS / "typed.py", tmp_path)
    ended = run([sys.executable, "-m", "mypy", "--strict", "--no-incremental", "."], tmp_path)
    assert ended.returncode == 0, ended.stdout


@pytest.mark.system_long
def test_the_typed_client_calls_each_operation_in_typescript(demo, tmp_path):
    """The compiler takes the program strictly, and Node gets the answers."""
    save_library(demo, "verifyd.ts", tmp_path)
    shutil.copy(LIBRARY_PROGRAMS / "typed.ts", tmp_path)
    compile_all(tmp_path)
    ended = run([node(), "typed.ts"], tmp_path, KEY=demo.key)
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout) == CALLED


@pytest.mark.system_long
def test_dotnet_sends_a_length_with_the_line_of_the_page(demo, tmp_path):
    """By default it sends chunks, and gets the 400 that names the cure."""
    version = dotnet_version()
    project = (CLIENTS / "WithDotnet.csproj").read_text().replace("VERSION", version)
    (tmp_path / "WithDotnet.csproj").write_text(project)
    program = (CLIENTS / "WithDotnet.cs").read_text()
    line = line_of(page_of(demo), ".NET")
    (tmp_path / "WithDotnet.cs").write_text(program.replace("/* the line of the page */", line))
    words = [shutil.which("dotnet"), "run", "--"]
    assert send_with_and_without_length(words, tmp_path, demo) == ["400", "200"]


@pytest.mark.system_long
def test_spring_sends_a_length_with_the_line_of_the_page(demo, tmp_path):
    """By default it sends chunks, and gets the 400 that names the cure."""
    jars = spring_jars()
    program = (CLIENTS / "WithSpring.java").read_text()
    line = line_of(page_of(demo), "Spring")
    path = tmp_path / "WithSpring.java"
    path.write_text(program.replace("/* the line of the page */", line))
    words = [shutil.which("java"), "-cp", jars, path]
    assert send_with_and_without_length(words, tmp_path, demo) == ["400", "200"]


@pytest.mark.system_long
def test_the_python_library_stays_within_the_limit(demo, tmp_path):
    """With one request per second, a client that sends three in a row gets three answers."""
    settings = {"database_url": f"sqlite:///{tmp_path / 'demo.db'}"}
    limits = ("--requests", 1, "--window", 1, "--bulk-max", 10, "--domains-max", 10)
    assert run_command("plans", "set", "standard", *limits, **settings).returncode == 0
    save_library(demo, "verifyd.py", tmp_path)
    code = """if True:
        from verifyd import Client
        client = Client()
        print([client.ask("GET", "/v1/account")["name"] for _ in "123"])
    """
    ended = run([sys.executable, "-c", code], tmp_path, KEY=demo.key)
    assert ended.stdout == "['demo', 'demo', 'demo']\n", ended.stderr
