"""The code samples on the page /docs run as they are shown (D97)."""

import ast
import html
import json
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.contract.answers import document
from tests.system.client_tools import node_tools
from tests.system.processes import Service, free_port, run_command, send, until

COMPILE = (
    "--strict --noUnusedLocals --target es2022 --module nodenext --types node "
    "--rewriteRelativeImportExtensions --outDir out"
).split()
_LONG = pytest.mark.system_long
OPERATIONS = [
    node["operationId"]
    for item in document()["paths"].values()
    for node in item.values()
    if "Operations" not in node["tags"]
]
# In an order in which each finds what it needs: a domain is deleted last.
OPERATIONS.sort(key=lambda name: name == "deleteDomain")

needs_curl = pytest.mark.skipif(not shutil.which("curl"), reason="curl is not there")


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
    """Return the documentation page of a service."""
    return send(service.bind, "GET", "/docs", headers={"Host": service.bind}).body.decode()


def section(page: str, name: str) -> str:
    """Return a section of the page."""
    (found,) = re.findall(rf'(?s)<section[^>]* id="{name}">.*?</section>', page)
    return found


def samples(text: str, language: str) -> list[tuple[str | None, str]]:
    """Return the samples in one language: the file name that is shown, and the code."""
    shown = re.findall(
        rf'(?s)<div class="sample {language}">\s*(?:<p class="file">(\S+)</p>\s*)?'
        r'<pre tabindex="0"><code>(.*?)</code></pre>',
        text,
    )
    return [(name or None, html.unescape(code)) for name, code in shown]


def example(text: str) -> Any:
    """Return the answer that a section shows; None if it shows none."""
    shown = re.search(r'(?s)<pre class="answer"[^>]*><code>(.*?)</code>', text)
    return json.loads(html.unescape(shown[1])) if shown else None


def save_client(page: str, language: str, directory: Path) -> None:
    """Save the small client under the name that the page gives it."""
    (name, code), *_ = samples(section(page, "start"), language)
    assert name
    (directory / name).write_text(code)


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
    """A shell runs each sample of each operation; the answer has the members shown."""
    page = page_of(demo)
    for name in OPERATIONS:
        text = section(page, name)
        ((_, code),) = samples(text, "curl")
        ended = run(["sh", "-c", code], tmp_path, KEY=demo.key)
        assert ended.returncode == 0, ended.stderr
        require_alike(name, json.loads(ended.stdout or "null"), example(text))
    ((_, code),) = samples(section(page, "errors"), "curl")
    ended = run(["sh", "-c", code], tmp_path, KEY=demo.key)
    head, _, body = ended.stdout.partition("\n\n")
    assert head.startswith("HTTP/1.1 404 ")
    require_alike("errors", json.loads(body), example(section(page, "errors")))


@pytest.mark.system_long
def test_each_python_sample_gets_the_answer_beside_it(demo, tmp_path):
    """Python runs each sample beside the small client; the answer has the members shown."""
    page = page_of(demo)
    save_client(page, "python", tmp_path)
    for name in OPERATIONS:
        text = section(page, name)
        ((_, code),) = samples(text, "python")
        ended = run([sys.executable, "-c", code], tmp_path, KEY=demo.key)
        assert ended.returncode == 0, ended.stderr
        require_alike(name, ast.literal_eval(ended.stdout), example(text))
    ((_, code),) = samples(section(page, "errors"), "python")
    ended = run([sys.executable, "-c", code], tmp_path, KEY=demo.key)
    assert ended.stdout == "no register knows this vehicle\n", ended.stderr


def test_the_python_client_asks_for_the_key(demo, tmp_path):
    """Without KEY a sample says in one line what to do, and shows no traceback."""
    page = page_of(demo)
    save_client(page, "python", tmp_path)
    ((_, code),) = samples(section(page, OPERATIONS[0]), "python")
    ended = run([sys.executable, "-c", code], tmp_path)
    assert ended.returncode == 1
    assert ended.stderr == "KEY is not set. Run: export KEY=vfd_...\n"


@pytest.mark.system_long
def test_each_typescript_sample_gets_the_answer_beside_it(demo, tmp_path):
    """The compiler takes each sample strictly, and Node gets an answer with the members shown."""
    page = page_of(demo)
    save_client(page, "typescript", tmp_path)
    for name in OPERATIONS:
        ((_, code),) = samples(section(page, name), "typescript")
        (tmp_path / f"{name}.ts").write_text(code)
    ((_, code),) = samples(section(page, "errors"), "typescript")
    (tmp_path / "errors.ts").write_text(code)
    compile_all(tmp_path)
    # Without an item the answer about usage is too short for a line of each member.
    until(lambda: demo.get("/v1/usage").json()["usage"], "usage to be written")
    for name in OPERATIONS:
        ended = run(["node", f"out/{name}.js"], tmp_path, KEY=demo.key)
        assert ended.returncode == 0, ended.stderr
        shown = example(section(page, name))
        printed = re.findall(r"(?m)^(?:\{|  )[ ]?(\w+):", ended.stdout)
        assert printed == list(shown) if shown else ended.stdout == "undefined\n", ended.stdout
    ended = run(["node", "out/errors.js"], tmp_path, KEY=demo.key)
    assert ended.stdout == "no register knows this vehicle\n", ended.stderr
    ended = run(["node", "out/errors.js"], tmp_path)
    assert "Error: KEY is not set. Run: export KEY=vfd_..." in ended.stderr


@pytest.mark.system_long
def test_a_typescript_sample_runs_as_the_page_says(demo, tmp_path):
    """Node 22.18 runs a sample as it is; an older one needs tsx and the type `module`."""
    page = page_of(demo)
    text = html.unescape(re.sub(r"<[^>]+>", "", section(page, "start"))).replace("\xa0", " ")
    for promised in ("node FILE.ts", '{"type": "module"}', "npx tsx FILE.ts"):
        assert promised in text
    save_client(page, "typescript", tmp_path)
    ((_, code),) = samples(section(page, "errors"), "typescript")
    (tmp_path / "sample.ts").write_text(code)
    tools = node_tools()
    version = run(["node", "--version"], tmp_path).stdout
    if tuple(map(int, version.strip("v\n").split("."))) >= (22, 18):
        ended = run(["node", "sample.ts"], tmp_path, KEY=demo.key)
        assert ended.stdout == "no register knows this vehicle\n", ended.stderr
    (tmp_path / "package.json").write_text('{"type": "module"}')
    ended = run([tools / "tsx", "sample.ts"], tmp_path, KEY=demo.key)
    assert ended.stdout == "no register knows this vehicle\n", ended.stderr


def compile_all(directory: Path) -> None:
    """Compile every file of a directory; skip where there is no compiler, fail on any error."""
    tools = node_tools()
    (directory / "node_modules").symlink_to(tools.parent)
    (directory / "package.json").write_text('{"type": "module"}')
    files = sorted(path.name for path in directory.glob("*.ts"))
    ended = run([tools / "tsc", *COMPILE, *files], directory)
    assert ended.returncode == 0, ended.stdout


class Busy(HTTPServer):
    """A service that refuses the first requests, and records when each arrived."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Refusing)
        self.script: list[tuple[int, str | None]] = [(502, None), (503, "1"), (429, "2"), (200, "")]
        self.seen: list[tuple[str, float]] = []


class Refusing(BaseHTTPRequestHandler):
    """Answers with the next status of the script."""

    server: Busy

    def answer(self) -> None:
        """Read the body, and answer."""
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        status, retry_after = self.server.script[len(self.server.seen)]
        self.server.seen.append((self.command, time.monotonic()))
        body = b'{"code": "refused", "detail": "Not now."}'
        self.send_response(status)
        if retry_after:
            self.send_header("Retry-After", retry_after)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = do_DELETE = answer  # noqa: N815 - named by http.server

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


@contextmanager
def busy() -> Iterator[Busy]:
    """Run a service that refuses the first three requests."""
    with Busy() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def require_waited(server: Busy, method: str) -> None:
    """Fail unless each refused request was repeated, and not before its time."""
    assert [seen for seen, _ in server.seen] == [method] * 4
    times = [moment for _, moment in server.seen]
    assert times[2] - times[1] >= 1
    assert times[3] - times[2] >= 2


@pytest.mark.system_long
@pytest.mark.parametrize(
    "method", ["GET", *(pytest.param(method, marks=_LONG) for method in ("POST", "DELETE"))]
)
def test_the_python_client_waits_as_long_as_it_is_told(demo, tmp_path, method):
    """After 429 and 503 the client waits for Retry-After, then sends the request again."""
    save_client(page_of(demo), "python", tmp_path)
    with busy() as server:
        client = tmp_path / "verifyd.py"
        client.write_text(client.read_text().replace(demo.bind, f"127.0.0.1:{server.server_port}"))
        code = f'from verifyd import ask\nask("{method}", "/", json={{}})'
        ended = run([sys.executable, "-c", code], tmp_path, KEY="k")
        assert ended.returncode == 0, ended.stderr
        require_waited(server, method)


@pytest.mark.system_long
@pytest.mark.parametrize("method", ["POST"])
def test_the_typescript_client_waits_as_long_as_it_is_told(demo, tmp_path, method):
    """After 429 and 503 the client waits for Retry-After, then sends the request again."""
    save_client(page_of(demo), "typescript", tmp_path)
    with busy() as server:
        client = tmp_path / "verifyd.ts"
        client.write_text(client.read_text().replace(demo.bind, f"127.0.0.1:{server.server_port}"))
        code = f'import {{ ask }} from "./verifyd.ts";\nawait ask("{method}", "/", {{}});\n'
        (tmp_path / "waits.ts").write_text(code)
        compile_all(tmp_path)
        ended = run(["node", "out/waits.js"], tmp_path, KEY="k")
        assert ended.returncode == 0, ended.stderr
        require_waited(server, method)


@pytest.mark.system_long
def test_the_python_client_stays_within_the_limit(demo, tmp_path):
    """With one request per second, a client that sends three in a row gets three answers."""
    settings = {"database_url": f"sqlite:///{tmp_path / 'demo.db'}"}
    limits = ("--requests", 1, "--window", 1, "--bulk-max", 10, "--domains-max", 10)
    assert run_command("plans", "set", "standard", *limits, **settings).returncode == 0
    save_client(page_of(demo), "python", tmp_path)
    code = (
        'from verifyd import ask\nprint([ask("GET", "/v1/account")["name"] for _ in "three"[:3]])'
    )
    ended = run([sys.executable, "-c", code], tmp_path, KEY=demo.key)
    assert ended.stdout == "['demo', 'demo', 'demo']\n", ended.stderr
