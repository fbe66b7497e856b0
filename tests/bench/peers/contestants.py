"""The contestants: each is started on loopback with the same number of processes.

The others are written as their documentation teaches, Fastify with the fastest statements that were
found, so that nobody loses by being written badly. They read one SQLite file, and their limiters
count in each process alone: what is not equal is to the advantage of the others.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from tests.bench.peers.data import Data
from tests.bench.peers.environments import (
    APPS,
    commit_tree,
    node_modules,
    python_programs,
    require_program,
    verifyd_python,
)
from tests.bench.postgres import copy_into
from tests.bench.processes import end, tree
from tests.postgres import Cluster
from tests.system.nginx import pid_of
from tests.system.processes import ROOT, SERVE, Service, connected, free_port, until
from tests.system.site import behind_site


class Setting(NamedTuple):
    """Where and with what contestants are started."""

    directory: Path
    data: Data
    plain_database: Path
    """One SQLite file with the same data, for the others."""
    processes: int
    python: str = ""
    """The interpreter of verifyd; by default the one that runs this."""
    before: str = ""
    """The commit to compare with; empty for none."""


class Contestant(NamedTuple):
    """A contestant that runs."""

    name: str
    bind: str
    """`ADDRESS:PORT`, after `tls:` if it speaks TLS."""
    pids: Sequence[int]
    """Its first processes: the others descend from these."""

    @property
    def title(self) -> str:
        """Its name in tables."""
        return KNOWN[self.name].title

    @property
    def url(self) -> str:
        """Its address, for wrk."""
        if self.bind.startswith("tls:"):
            return f"https://{self.bind.removeprefix('tls:')}"
        return f"http://{self.bind}"


@contextmanager
def started(name: str, setting: Setting) -> Iterator[Contestant]:
    """Run a contestant to the end of the `with`. Raises MissingError if it cannot run here."""
    directory = setting.directory / name
    directory.mkdir()
    with KNOWN[name].start(setting._replace(directory=directory)) as (bind, pids):
        yield Contestant(name, bind, pids)


_Started = tuple[str, Sequence[int]]
"""The address, and the first processes."""
_Running = Iterator[_Started]


@contextmanager
def serving(
    data: Data,
    directory: Path,
    processes: int,
    *,
    bind: str = "",
    url: str = "",
    command: Sequence[str] = SERVE,
) -> Iterator[Service]:
    """Run `verifyd serve` as in production: everything on, and its state in memory.

    Args:
        bind: where it listens; a free port by default.
        url: of its database; the SQLite database of the installation by default.
    """
    memory = Path("/dev/shm")
    with TemporaryDirectory(dir=memory if memory.is_dir() else None) as state:
        settings = data.installation.settings | {"state_dir": state, "workers": processes}
        if url:
            settings["database_url"] = url
        address = bind or f"127.0.0.1:{free_port()}"
        with Service(directory, address, command, **settings) as service:
            service.key = data.key
            yield service


def _command(setting: Setting, *, is_before: bool) -> Sequence[str]:
    """Return what starts verifyd, or the commit before. Raises MissingError."""
    if not is_before and not setting.python:
        return SERVE
    python = verifyd_python(setting.python) if setting.python else sys.executable
    tree = commit_tree(setting.before, setting.directory / "tree") if is_before else ROOT
    return ("env", f"PYTHONPATH={tree}", python, "-P", *SERVE[1:])


@contextmanager
def _verifyd(setting: Setting, *, is_before: bool = False) -> _Running:
    command = _command(setting, is_before=is_before)
    own = (setting.data, setting.directory, setting.processes)
    with serving(*own, command=command) as service:
        service.wait_ready()
        yield service.bind, [service.process.pid]


@contextmanager
def _verifyd_behind_nginx(setting: Setting, *, is_before: bool = False) -> _Running:
    require_program("openssl", "openssl")
    command = _command(setting, is_before=is_before)
    own = (setting.data, setting.directory, setting.processes)
    # The path of a socket has at most 107 bytes.
    with TemporaryDirectory() as short:
        bind = f"unix:{short}/verifyd.sock"
        with serving(*own, bind=bind, command=command) as service:
            service.wait_ready()
            with behind_site(bind, setting.directory) as address:
                nginx = pid_of(setting.directory)
                yield address, [service.process.pid, nginx]


@contextmanager
def _verifyd_on_postgres(setting: Setting, *, is_before: bool = False) -> _Running:
    command = _command(setting, is_before=is_before)
    cluster = Cluster(setting.directory / "postgres.log")
    cluster.configure()
    try:
        copy_into(cluster, setting.data.installation.config)
        own = (setting.data, setting.directory, setting.processes)
        with serving(*own, url=cluster.url, command=command) as service:
            service.wait_ready()
            yield service.bind, [service.process.pid, cluster.pid]
    finally:
        cluster.stop("immediate")


@contextmanager
def _gunicorn(setting: Setting, app: str, *options: str) -> _Running:
    port = free_port()
    words = [python_programs() / "gunicorn", "--worker-class", "sync"]
    words += ["--workers", setting.processes, "--bind", f"127.0.0.1:{port}", "--chdir", APPS]
    with _running([*words, *options, app], setting, port) as pid:
        yield f"127.0.0.1:{port}", [pid]


def _bare(setting: Setting) -> AbstractContextManager[_Started]:
    return _gunicorn(setting, "bare:app")


def _flask(setting: Setting) -> AbstractContextManager[_Started]:
    return _gunicorn(setting, "flask_app:app", "--access-logfile", "-")


@contextmanager
def _fastapi(setting: Setting) -> _Running:
    port = free_port()
    words = [python_programs() / "uvicorn", "fastapi_app:app", "--app-dir", APPS]
    words += ["--host", "127.0.0.1", "--port", port, "--workers", setting.processes]
    with _running(words, setting, port) as pid:
        yield f"127.0.0.1:{port}", [pid]


@contextmanager
def _fastify(setting: Setting, log: str = "on", bulk: str = "one") -> _Running:
    port = free_port()
    modules = node_modules()
    environment = {
        "NODE_PATH": str(modules),
        "NODE_ENV": "production",
        "PEERS_BULK": bulk,
        "PEERS_LOG": log,
        "PEERS_PORT": str(port),
        "PEERS_PROCESSES": str(setting.processes),
    }
    with _running(["node", APPS / "fastify_app.js"], setting, port, environment) as pid:
        yield f"127.0.0.1:{port}", [pid]


@contextmanager
def _running(
    words: Sequence[object], setting: Setting, port: int, environment: Mapping[str, str] = {}
) -> Iterator[int]:
    """Run a command in whose output nobody is interested unless it fails; yield its process id."""
    output = setting.directory / "output"
    given = {"PEERS_DATABASE": str(setting.plain_database), **environment}
    kept = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    with output.open("wb") as file:
        process = subprocess.Popen(
            [str(word) for word in words],
            env=kept | given,
            cwd=setting.directory,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:

        def listens() -> bool:
            if process.poll() is not None:
                raise RuntimeError(f"{words[0]} ended: {output.read_text()}")
            try:
                connected(f"127.0.0.1:{port}").close()
            except OSError:
                return False
            return True

        until(listens, f"{words[0]} to listen")
        yield process.pid
    finally:
        end(tree([process.pid]))
        process.wait()


class Known(NamedTuple):
    """How a contestant is named and started."""

    title: str
    start: Callable[[Setting], AbstractContextManager[_Started]]
    is_bare: bool = False
    """It answers every path with the same text, and looks nothing up."""
    only: str = ""
    """The one part in which it takes part; all by default."""

    def takes_part(self, part: str) -> bool:
        """Tell whether it is measured in a part."""
        if self.is_bare:
            return part in ("lookup", "rate")
        return self.only in ("", part)


KNOWN: Mapping[str, Known] = {
    "verifyd": Known("verifyd", _verifyd),
    "nginx": Known("verifyd behind nginx, TLS", _verifyd_behind_nginx),
    "postgres": Known("verifyd on Postgres", _verifyd_on_postgres),
    "before": Known("verifyd before", partial(_verifyd, is_before=True)),
    "before-nginx": Known(
        "verifyd before, behind nginx, TLS",
        partial(_verifyd_behind_nginx, is_before=True),
        only="lookup",
    ),
    "before-postgres": Known(
        "verifyd before, on Postgres",
        partial(_verifyd_on_postgres, is_before=True),
        only="lookup",
    ),
    "bare": Known("bare WSGI function, gunicorn sync worker", _bare, is_bare=True),
    "fastify": Known("Fastify + better-sqlite3, log off", partial(_fastify, log="off")),
    "fastify-log": Known("Fastify + better-sqlite3, log on", _fastify),
    "fastify-each": Known(
        "Fastify, log off, a query for each plate",
        partial(_fastify, log="off", bulk="each"),
        only="bulk",
    ),
    "flask": Known("Flask + SQLAlchemy + Flask-Limiter", _flask),
    "fastapi": Known("FastAPI + SQLAlchemy + slowapi", _fastapi),
}
"""All contestants, by the names of the command line."""
