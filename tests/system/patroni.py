"""Two Postgres under Patroni, with etcd, as the page for several hosts sets them up."""

import json
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.system.processes import ROOT, descendants, free_port, until

_PAGE = ROOT / "deploy" / "docs" / "several-hosts.md"
_USER = "postgres"
SECONDS_MAX = 120
"""A busy machine may take longer than the page promises."""


class Node:
    """A Postgres and its Patroni."""

    def __init__(self, name: str, directory: Path, etcd: str, settings: str) -> None:
        self.name = name
        self.port, self.api = free_port(), free_port()
        self._directory = directory
        self._log = directory / f"{name}.log"
        self._file = directory / f"{name}.yml"
        self._file.write_text(
            f"""
scope: verifyd
name: {name}
restapi: {{listen: '127.0.0.1:{self.api}', connect_address: '127.0.0.1:{self.api}'}}
etcd3: {{hosts: '{etcd}'}}
bootstrap:
  dcs: {settings}
  initdb: [{{encoding: UTF8}}, {{locale: C}}]
  pg_hba: ['host all all 127.0.0.1/32 trust', 'host replication all 127.0.0.1/32 trust']
postgresql:
  listen: '127.0.0.1:{self.port}'
  connect_address: '127.0.0.1:{self.port}'
  data_dir: {directory}/{name}
  bin_dir: {_programs()}
  basebackup: [{{checkpoint: fast}}]
  pgpass: {directory}/{name}.pgpass
  authentication:
    superuser: {{username: postgres, password: none}}
    replication: {{username: replicator, password: none}}
    rewind: {{username: postgres, password: none}}
  parameters: {{unix_socket_directories: '{directory}', fsync: 'off', max_connections: 100}}
"""
        )
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start Patroni, which makes or follows the cluster."""
        self._process = _started(["patroni", str(self._file)], self._log)

    def kill(self) -> None:
        """End Patroni and Postgres at once, like a power failure."""
        if self._process is not None:
            pids = [self._process.pid, *descendants(self._process.pid)]
            # NOTE: Postgres is a process of its own, so that it survives Patroni.
            with suppress(OSError):
                own = (self._directory / self.name / "postmaster.pid").read_text().split()[0]
                pids += [int(own), *descendants(int(own))]
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def crash_postgres(self) -> None:
        """End Postgres alone at once; Patroni starts it again, or gives up the lead."""
        own = int((self._directory / self.name / "postmaster.pid").read_text().split()[0])
        for pid in [own, *descendants(own)]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def is_leader(self) -> bool:
        """Tell whether this node is the primary."""
        with suppress(psycopg.OperationalError), self._connected() as connection:
            return connection.execute("SELECT pg_is_in_recovery()").fetchone() == (False,)
        return False

    def is_followed(self) -> bool:
        """Tell whether commits of this primary wait for a standby that is connected."""
        synchronous = "SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'"
        with suppress(psycopg.OperationalError), self._connected() as connection:
            return connection.execute(synchronous).fetchone() is not None
        return False

    def is_synchronous(self) -> bool:
        """Tell whether Patroni may promote this node, because it has every commit."""
        # `/sync` tells what the node read up to `loop_wait` ago, `/cluster` reads etcd again.
        with (
            suppress(OSError),
            urllib.request.urlopen(self._url("cluster"), timeout=SECONDS_MAX) as answer,
        ):
            roles = {each["name"]: each["role"] for each in json.load(answer)["members"]}
            return roles.get(self.name) == "sync_standby"
        return False

    def create_database(self) -> None:
        """Create the empty database `verifyd`."""
        with self._connected() as connection:
            connection.execute("CREATE DATABASE verifyd")

    def switch_over(self, to: "Node") -> None:
        """Let another node become the primary, as `patronictl switchover` does."""
        body = json.dumps({"leader": self.name, "candidate": to.name}).encode()
        with urllib.request.urlopen(self._url("switchover"), body, SECONDS_MAX) as answer:
            assert answer.status == 200

    def _url(self, path: str) -> str:
        """Return an address of Patroni's own API."""
        return f"http://127.0.0.1:{self.api}/{path}"

    def _connected(self) -> psycopg.Connection:
        url = f"postgresql://postgres@127.0.0.1:{self.port}/postgres?connect_timeout=2"
        return psycopg.connect(url, autocommit=True, application_name="tests")


class Cluster:
    """Two nodes, of which one is the primary, and the other one its synchronous standby."""

    def __init__(self, nodes: tuple[Node, Node]) -> None:
        self.nodes = nodes
        hosts = ",".join(f"127.0.0.1:{node.port}" for node in nodes)
        self.url = f"postgresql://postgres@{hosts}/verifyd?target_session_attrs=read-write"

    def roles(self) -> tuple[Node, Node]:
        """Wait until one node is the primary and the other one its standby; return them."""
        one, other = self.nodes

        def found() -> tuple[Node, Node] | None:
            orders = ((one, other), (other, one))
            return next((each for each in orders if _are_pair(*each)), None)

        roles = until(found, "a primary with a synchronous standby", SECONDS_MAX)
        assert roles
        return roles


def _are_pair(primary: Node, standby: Node) -> bool:
    # Both: while a standby is away, commits wait until Patroni has taken its right to lead.
    return primary.is_leader() and primary.is_followed() and standby.is_synchronous()


@contextmanager
def cluster() -> Iterator[Cluster]:
    """Run etcd and two nodes."""
    for program, package in {"etcd": "etcd-server", "patroni": "patroni"}.items():
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed: apt-get install {package}")
    if not _programs():
        pytest.skip("Postgres of the system is not installed: apt-get install postgresql")
    directory = Path(tempfile.mkdtemp(prefix="verifyd-patroni-"))
    if os.geteuid() == 0:
        shutil.chown(directory, _USER)
    client, peer = (f"127.0.0.1:{free_port()}" for _ in range(2))
    etcd = _started(
        [
            "etcd",
            *("--data-dir", str(directory / "etcd")),
            *("--listen-client-urls", f"http://{client}"),
            *("--advertise-client-urls", f"http://{client}"),
            *("--listen-peer-urls", f"http://{peer}"),
        ],
        directory / "etcd.log",
    )
    nodes = [Node(name, directory, client, _settings_of_page()) for name in ("one", "two")]
    try:
        nodes[0].start()
        until(nodes[0].is_leader, "the first node to lead", SECONDS_MAX)
        nodes[0].create_database()
        nodes[1].start()
        made = Cluster((nodes[0], nodes[1]))
        made.roles()
        yield made
    finally:
        for node in nodes:
            node.kill()
        etcd.kill()
        etcd.wait()
        shutil.rmtree(directory, ignore_errors=True)


def _settings_of_page() -> str:
    """Return what the page puts into Patroni's `bootstrap: dcs`."""
    text = _PAGE.read_text().partition("  dcs:\n")[2].partition("```")[0]
    pairs = [line.strip() for line in text.splitlines() if line.startswith("    ")]
    assert pairs
    return "{" + ", ".join(pairs) + "}"


def _programs() -> str:
    """Return the directory of the newest Postgres of the system; empty if there is none."""
    found = Path("/usr/lib/postgresql").glob("*/bin/postgres")
    return str(max((each.parent for each in found), key=lambda each: each.parent, default=""))


def _started(command: list[str], log: Path) -> subprocess.Popen[bytes]:
    """Start a program as the owner of the cluster's files."""
    run_as: dict[str, Any] = {}
    if os.geteuid() == 0:
        entry = pwd.getpwnam(_USER)
        run_as = {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": ()}
    with open(log, "ab") as output:
        return subprocess.Popen(
            command,
            # Patroni runs on the system's Python.
            env={"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "LANG": "C.UTF-8"},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd="/",
            start_new_session=True,
            **run_as,
        )
