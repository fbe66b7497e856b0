"""Writes what a version of the program prints, answers, logs, sends and records.

    python -m tests.transcript OUTPUT [--tree TREE] [--python PYTHON]

One installation lives through the commands and requests of the text files beside this module. Each
becomes a file in OUTPUT. Times, identifiers and keys are replaced by their kind, so that two
directories can be compared with `diff -r`.
"""

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import parse_qsl, urlencode

from bs4 import BeautifulSoup

from tests.system.processes import free_port
from tests.transcript.files import write_files
from tests.transcript.same import Same

_HERE = Path(__file__).parent
_READY_SECONDS = 30
_LINK = ["console", "link", "--as", "ann", "--role", "operator"]


class Transcript:
    """What one installation said.

    Args:
        program: the words that start the program.
        tree: the checkout of the program.
        output: the directory for the files.
        files: the installation's directory.
    """

    def __init__(self, program: list[str], tree: Path, output: Path, files: Path) -> None:
        self._program, self._tree, self._output, self._files = program, tree, output, files
        self._count = 0
        self._kept: dict[str, dict[str, str]] = {}
        self._same = Same({str(files): "{files}"})
        self.bind = f"127.0.0.1:{free_port()}"
        (files / "notify").write_text(f"#!/bin/sh\ncat >>{files}/alerts.ndjson\n")
        (files / "notify").chmod(0o755)
        self._environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(files),
            "LOGNAME": "ann",
            "COLUMNS": "100",
            "PYTHONPATH": str(tree),
            "VERIFYD_DATABASE_URL": f"sqlite:///{files}/verifyd.db",
            "VERIFYD_BIND": self.bind,
            "VERIFYD_WORKERS": "1",
            "VERIFYD_AUDIT": "on",
            "VERIFYD_CONSOLE": "on",
            "VERIFYD_DROP_WAIT": "done",
            "VERIFYD_MOT_FIRST_YEARS": "3",
            "VERIFYD_NOTIFY": f"exec:{files}/notify",
        }

    def write(self, title: str, text: str) -> None:
        """Write one file. Its name begins with its number."""
        self._count += 1
        title = self._same.text(title)
        name = "".join(each if each.isalnum() or each in "-._{}" else " " for each in title)
        path = self._output / f"{self._count:03} {' '.join(name.split())[:80]}"
        path.write_text(self._same.text(f"{title}\n{text}"))

    def help(self, *words: str) -> None:
        """Write the help of a command and of all below it."""
        self._run([*words, "--help"])
        shown = self._call([*words, "--help"]).stdout
        below = shown.partition("\ncommands:\n")[2].splitlines()
        for line in below:
            # Commands are indented by four, the rest of their texts by more.
            if line.startswith("    ") and line[4:5].strip():
                self.help(*words, line.split()[0])

    def commands(self, script: str) -> None:
        """Run the commands of a file."""
        for line in _lines(script):
            line, _, kept_as = line.partition(" > ")
            result = self._run([self._value(word) for word in shlex.split(line)])
            if kept_as and result.stdout.startswith("{"):
                self._keep(kept_as, json.loads(result.stdout))
            elif kept_as:
                self._keep(kept_as, {"text": result.stdout})

    def requests(self, script: str) -> None:
        """Send the requests of a file."""
        for line in _lines(script):
            method, path, *rest = line.split(" ", 2)
            headers, body = {}, None
            words = shlex.split(rest[0]) if rest and "body=" not in rest[0] else []
            if rest and not words:
                before, _, body = rest[0].partition("body=")
                words = shlex.split(before)
                if " header=" in body:
                    body, _, header = body.partition(" header=")
                    words.append(f"header={header}")
                headers["Content-Type"] = "application/json"
            for word in words:
                name, _, value = word.partition("=")
                if name == "key":
                    headers["X-API-Key"] = self._kept.get(value, {}).get("key", value)
                else:
                    header, _, value = value.partition(":")
                    headers[header] = value.replace("_", " ")
            self._send(method, path, headers, body)

    def pages(self, script: str) -> None:
        """Sign in to the console, ask for the pages of a file, and send its forms."""
        self._keep("link", {"text": self._run(_LINK).stdout})
        link = next(word for word in self._kept["link"]["text"].split() if "/sign-in/" in word)
        path = link[link.index("/console") :]
        cookie = self._send("POST", path, {"Origin": f"http://{self.bind}"}, "")
        headers = {"Cookie": cookie.partition(";")[0], "Sec-Fetch-Site": "same-origin"}
        for line in _lines(script):
            method, path, *fields = line.split(" ", 2)
            if method == "POST":
                given = dict(parse_qsl(fields[0], keep_blank_values=True)) if fields else {}
                body = urlencode(self._hidden(path, headers) | given)
                form = {"Content-Type": "application/x-www-form-urlencoded"}
                self._send(method, path, headers | form, body)
            else:
                self._send(method, path, headers, None)

    @contextmanager
    def serving(self) -> Iterator[None]:
        """Serve, and write both logs at the end."""
        logs = [self._files / "stdout.log", self._files / "stderr.log"]
        with logs[0].open("w") as stdout, logs[1].open("w") as stderr:
            words = [*self._program, "serve"]
            service = subprocess.Popen(
                words, env=self._environment, cwd=self._files, stdout=stdout, stderr=stderr
            )
        try:
            self._wait_ready(service)
            yield
        finally:
            service.terminate()
            service.wait()
        for log in logs:
            self.write(log.name, log.read_text())

    def stored(self) -> None:
        """Write the alerts that were sent and the records of the audit trail."""
        alerts = self._files / "alerts.ndjson"
        self.write("alerts", alerts.read_text() if alerts.exists() else "")
        for path in sorted((self._files / "audit").rglob("*.ndjson")):
            self.write("records of the audit trail", path.read_text())
        names = sorted(str(path.relative_to(self._files)) for path in self._files.rglob("*"))
        self.write("names of all files", "\n".join(names))

    def _wait_ready(self, service: "subprocess.Popen[bytes]") -> None:
        until = time.monotonic() + _READY_SECONDS
        while time.monotonic() < until and service.poll() is None:
            connection = HTTPConnection(self.bind)
            try:
                connection.request("GET", "/healthz")
                connection.getresponse().read()
            except ConnectionRefusedError:
                time.sleep(0.05)
            else:
                return
            finally:
                connection.close()
        sys.exit(f"the service does not answer: {(self._files / 'stderr.log').read_text()}")

    def _value(self, word: str) -> str:
        word = word.replace("{files}", str(self._files))
        for name, members in self._kept.items():
            for member, value in members.items():
                word = word.replace(f"{{{name}.{member}}}", value)
        return word

    def _keep(self, name: str, members: Mapping[str, object]) -> None:
        self._kept[name] = {member: str(value) for member, value in members.items()}
        if key_id := self._kept[name].get("id"):
            self._same.known[key_id] = f"{{{name}.id}}"

    def _call(self, words: list[str]) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [*self._program, *words],
            env=self._environment,
            cwd=self._files,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def _run(self, words: list[str]) -> "subprocess.CompletedProcess[str]":
        result = self._call(words)
        self.write(
            shlex.join(["verifyd", *words]),
            f"status {result.returncode}\n--- stdout\n{result.stdout}--- stderr\n{result.stderr}",
        )
        return result

    def _send(self, method: str, path: str, headers: Mapping[str, str], body: str | None) -> str:
        """Send a request, write its answer, and return its cookie."""
        connection = HTTPConnection(self.bind)
        try:
            connection.request(method, path, body, dict(headers))
            answer = connection.getresponse()
            text = answer.read().decode("utf-8", "replace")
        finally:
            connection.close()
        lines = [f"{name}: {value}" for name, value in sorted(answer.getheaders())]
        if path == "/metrics":
            lines = [line.rpartition(" ")[0] or line for line in sorted(text.splitlines())]
        else:
            lines += ["", text]
        self.write(f"{method} {path} {body or ''}", "\n".join([str(answer.status), *lines]))
        return answer.getheader("Set-Cookie") or ""

    def _hidden(self, path: str, headers: Mapping[str, str]) -> dict[str, str]:
        """Return the hidden fields of the form on a page."""
        connection = HTTPConnection(self.bind)
        connection.request("GET", path, headers=dict(headers))
        page = BeautifulSoup(connection.getresponse().read(), "html.parser")
        connection.close()
        fields = page.select("main form input[type=hidden]")
        return {str(field["name"]): str(field.get("value", "")) for field in fields}


def _lines(script: str) -> list[str]:
    lines = (_HERE / script).read_text("utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def main() -> None:
    """Write the transcript of a tree."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", type=Path)
    parser.add_argument("--tree", type=Path, default=_HERE.parents[1])
    parser.add_argument("--python", default=sys.executable)
    options = parser.parse_args()
    options.output.mkdir(parents=True)
    # NOTE: a name of fixed length, because tables are as wide as the paths in them.
    with tempfile.TemporaryDirectory(prefix="verifyd-") as directory:
        files = Path(directory)
        write_files(files)
        program = [options.python, "-m", "app"]
        transcript = Transcript(program, options.tree.resolve(), options.output, files)
        transcript.help()
        transcript.commands("commands.txt")
        with transcript.serving():
            transcript.requests("requests.txt")
            transcript.pages("pages.txt")
            transcript.commands("recorded_commands.txt")
        transcript.stored()


if __name__ == "__main__":
    main()
