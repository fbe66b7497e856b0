"""Real processes: the service as an operator starts it, and HTTP as a client uses it.

Servers listen on loopback or on a Unix socket, and are ended by their process id.
"""

import http.client
import json
import os
import secrets
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from email.message import Message
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar

from app.config import SETTINGS
from app.registers.rules import RULES
from tests.system.warm import WarmProcess

ROOT = Path(__file__).parents[2]
KEPT = ROOT / ".system-tests"
"""What long tests make once: `make clean` removes it."""
PROGRAM = (sys.executable, "-m", "app")
SERVE = (*PROGRAM, "serve")
GUNICORN = (sys.executable, "-m", "gunicorn", "-c", "python:app.server", "app.main:create_app()")
# The file that is open as 0 becomes the first socket that systemd would hand over.
_ACTIVATED = ("sh", "-c", 'LISTEN_FDS=1 LISTEN_PID=$$ exec "$@" 3<&0 0</dev/null', "sh")
DEADLINE_SECONDS = 120
"""What takes longer hangs. Commands that load run at a low priority, also beside busy programs."""
# Longer than nginx waits for an answer, so that nginx reports failures.
_ANSWER_SECONDS = 70
_PAUSE_SECONDS = 0.01
_NUMBERS = count(1)


def _speaking(protocol: str) -> ssl.SSLContext:
    # On loopback, with a throw-away certificate, there is no identity to check.
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols([protocol])
    return context


_TLS = {protocol: _speaking(protocol) for protocol in ("http/1.1", "h2")}

_T = TypeVar("_T")


def until(condition: Callable[[], _T], what: str, seconds: float = DEADLINE_SECONDS) -> _T:
    """Return the condition's value once it is true; fail at the deadline."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {seconds} s in vain for {what}")
        time.sleep(_PAUSE_SECONDS)
    return found


def free_port() -> int:
    """Return a free port of the loopback interface.

    It is below those that the system gives to connections, which could take it meanwhile; and it is
    not one of `random`, which is the same in each process of the tests.
    """
    while True:
        port = 10_000 + secrets.randbelow(20_000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def environment(*, root: Path = ROOT, **settings: object) -> dict[str, str]:
    """Return an environment for the program: this one's, with only these settings.

    Args:
        root: the directory of the program.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith("VERIFYD_")}
    given = {f"VERIFYD_{name.upper()}": str(value) for name, value in settings.items()}
    return kept | given | {"PYTHONPATH": str(root)}


EVERY_RULE_ACCEPTED = [word for rule in RULES for word in ("--accept", rule)]
"""Options of `verifyd import` for tests whose files differ more than those of a normal day."""


def run_command(
    *words: object, before: Sequence[str] = (), **settings: Any
) -> subprocess.CompletedProcess[str]:
    """Run `verifyd WORDS` to its end, under another command if one is given.

    The program is warm, except under another command and if it is that of another directory.
    """
    command, env = list(map(str, words)), environment(**settings)
    if not before and "root" not in settings:
        return _run_warm(command, env)
    return subprocess.run(
        [*before, *PROGRAM, *command],
        env=env,
        cwd=settings.get("root"),  # The first directory in which modules are searched.
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
        check=False,
    )


def _run_warm(words: list[str], env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    with (
        open(os.devnull) as stdin,
        tempfile.TemporaryFile("w+") as stdout,
        tempfile.TemporaryFile("w+") as stderr,
    ):
        streams = [stdin.fileno(), stdout.fileno(), stderr.fileno()]
        process = WarmProcess(words, streams, env=env)
        try:
            status = process.wait(DEADLINE_SECONDS)
        finally:
            process.kill()
        stdout.seek(0)
        stderr.seek(0)
        return subprocess.CompletedProcess(words, status, stdout.read(), stderr.read())


class Answer(NamedTuple):
    """One HTTP answer, read to its end."""

    status: int
    headers: Message
    body: bytes

    def json(self) -> Any:
        """Return the body, which must be JSON."""
        return json.loads(self.body)

    @property
    def media_type(self) -> str:
        """The media type of the body."""
        return self.headers.get_content_type()


def connected(bind: str, *, source: str = "", protocol: str = "http/1.1") -> socket.socket:
    """Return a connection to `ADDRESS:PORT`, `tls:ADDRESS:PORT` or `unix:/PATH`.

    Args:
        source: the address it comes from; the system's choice by default.
        protocol: the protocol over TLS, `http/1.1` or `h2`.
    """
    if bind.startswith("tls:"):
        plain = connected(bind.removeprefix("tls:"), source=source)
        return _TLS[protocol].wrap_socket(plain, server_hostname="localhost")
    if bind.startswith("unix:"):
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(_ANSWER_SECONDS)
        try:
            connection.connect(bind.removeprefix("unix:"))
        except OSError:
            connection.close()
            raise
        return connection
    host, _, port = bind.rpartition(":")
    # NOTE: a socket that is bound before it connects can reach itself if nothing listens yet.
    bound = (source, 0) if source else None
    return socket.create_connection((host, int(port)), _ANSWER_SECONDS, source_address=bound)


def send(
    bind: str,
    method: str,
    path: str,
    *,
    body: bytes | str | None = None,
    headers: Mapping[str, str] | None = None,
) -> Answer:
    """Send one request on a connection of its own."""
    connection = http.client.HTTPConnection("localhost")
    connection.sock = connected(bind)
    try:
        connection.request(method, path, body=body, headers=dict(headers or {}))
        return read_answer(connection.sock, method)
    finally:
        connection.close()


def read_answer(connection: socket.socket, method: str = "GET") -> Answer:
    """Read the answer to a request that was sent by hand."""
    response = http.client.HTTPResponse(connection, method=method)
    with response:
        response.begin()
        body = response.read()
    return Answer(response.status, response.headers, body)


class Service:
    """A running server; `with` ends it.

    Args:
        bind: the address that it is given.
        listener: a listening socket, handed over like systemd's.
        is_warm: start the program from a warm interpreter.
        settings: the `VERIFYD_` variables, without prefix, in lower case.
    """

    def __init__(
        self,
        directory: Path,
        bind: str,
        command: Sequence[str] = SERVE,
        listener: socket.socket | None = None,
        *,
        is_warm: bool = False,
        **settings: Any,
    ) -> None:
        self.bind = bind
        self.key = ""
        self._workers_asked_for = settings.get("workers", SETTINGS["workers"].default)
        number = next(_NUMBERS)
        self._outputs = {
            name: directory / f"serve-{number}.{name}" for name in ("stdout", "stderr")
        }
        with (
            open(self._outputs["stdout"], "wb") as stdout,
            open(self._outputs["stderr"], "wb") as stderr,
        ):
            env = environment(bind=bind, **settings)
            self.process: subprocess.Popen[bytes] | WarmProcess
            if is_warm:
                with open(os.devnull) as stdin:
                    self.process = WarmProcess(
                        command[len(PROGRAM) :],
                        [stdin.fileno(), stdout.fileno(), stderr.fileno()],
                        env=env,
                        cwd=directory,
                        is_leader=True,
                    )
                return
            self.process = subprocess.Popen(
                [*_ACTIVATED, *command] if listener else command,
                env=env,
                cwd=directory,
                stdin=listener.fileno() if listener else subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        # PERF: a graceful stop takes half a second, and tests of it have stopped the server
        # already.
        self.kill()

    def stop(self) -> int:
        """Stop the server, and return its exit status."""
        self.process.terminate()
        return self.wait()

    def wait(self) -> int:
        """Wait for the server's end, and return its exit status."""
        return self.process.wait(DEADLINE_SECONDS)

    def kill(self) -> None:
        """End it at once, with all its workers."""
        others = list(descendants(self.process.pid))
        self.process.kill()
        self.process.wait()
        for pid in others:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def wait_ready(self) -> Self:
        """Wait until /readyz answers 200 and every worker runs."""
        until(self._is_ready, "the service to be ready")
        return self

    def _is_ready(self) -> bool:
        ended = self.process.poll()
        if ended is not None:
            raise AssertionError(f"the service ended with {ended}: {self.output('stderr')}")
        if len(self.workers()) < int(self._workers_asked_for):
            return False
        try:
            return send(self.bind, "GET", "/readyz").status == 200
        except (OSError, http.client.HTTPException):
            return False

    def workers(self) -> list[int]:
        """Return the process ids of the workers, which have no children."""
        return [pid for pid in descendants(self.process.pid) if not _children(pid)]

    def output(self, name: str) -> str:
        """Return the text written so far to `stdout` or `stderr`."""
        return self._outputs[name].read_text()

    def lines(self, name: str) -> list[dict[str, Any]]:
        """Return the JSON lines written so far to `stdout` or `stderr`."""
        return [json.loads(line) for line in self.output(name).splitlines()]

    def get(self, path: str, **headers: str) -> Answer:
        """Send a GET with the service's key."""
        return send(self.bind, "GET", path, headers=self._headers(headers))

    def post(self, path: str, document: object, **headers: str) -> Answer:
        """Send a document as JSON, with the service's key."""
        headers = {"Content-Type": "application/json", **headers}
        return send(
            self.bind, "POST", path, body=json.dumps(document), headers=self._headers(headers)
        )

    def _headers(self, further: Mapping[str, str]) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.key}", **further}


def descendants(pid: int) -> Iterator[int]:
    """Yield the process ids of all descendants of a process, parents first."""
    for child in _children(pid):
        yield child
        yield from descendants(child)


def lives(pid: int) -> bool:
    """Tell whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def _children(pid: int) -> list[int]:
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except (FileNotFoundError, ProcessLookupError):  # It has ended.
        return []
    return [int(child) for child in text.split()]
