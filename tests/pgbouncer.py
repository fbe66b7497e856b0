"""A real PgBouncer in front of the tests' Postgres."""

import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.postgres import changed_url, connect

_PROGRAM = "pgbouncer"
_DEADLINE_SECONDS = 20
_PAUSE_SECONDS = 0.02


class Pooler:
    """PgBouncer on a Unix socket of its own; `with` ends it.

    Args:
        url: the database behind it.
        settings: its settings, such as `pool_mode`.
    """

    def __init__(self, url: str, **settings: object) -> None:
        program = shutil.which(_PROGRAM, path=f"{os.environ['PATH']}:/usr/sbin")
        if program is None:
            pytest.skip("PgBouncer is not installed: apt-get install pgbouncer")
        self._directory = Path(tempfile.mkdtemp(prefix="verifyd-pgbouncer-"))
        self._server = {name: str(value) for name, value in conninfo_to_dict(url).items()}
        self._write(settings)
        run_as: dict[str, Any] = {}
        if os.geteuid() == 0:  # It refuses to run as root.
            sockets = Path(self._server["host"])
            user = sockets.owner() if sockets.is_dir() else "nobody"
            shutil.chown(self._directory, user)
            run_as = {"user": user}
        with open(self._directory / "log", "wb") as log:
            self._process = subprocess.Popen(
                [program, str(self._file)], stdout=log, stderr=log, **run_as
            )
        self.url = changed_url(url, host=str(self._directory), port="6432", password="")
        self._admin_url = changed_url(self.url, dbname="pgbouncer", user="admin")
        deadline = time.monotonic() + _DEADLINE_SECONDS
        while not (self._directory / ".s.PGSQL.6432").exists():
            assert self._process.poll() is None, self.log
            assert time.monotonic() < deadline, self.log
            time.sleep(_PAUSE_SECONDS)

    @property
    def _file(self) -> Path:
        return self._directory / "pgbouncer.ini"

    @property
    def log(self) -> str:
        """What it has logged."""
        return (self._directory / "log").read_text()

    def _write(self, settings: dict[str, object]) -> None:
        names = {"host", "port", "user", "password"} & self._server.keys()
        server = " ".join(f"{name}={self._server[name]}" for name in sorted(names))
        own = {
            "listen_addr": "",
            "unix_socket_dir": self._directory,
            "listen_port": 6432,
            "auth_type": "any",
            "admin_users": "admin",
            **settings,
        }
        lines = (f"{name} = {value}" for name, value in own.items())
        text = "\n".join(["[databases]", f"* = {server}", "[pgbouncer]", *lines, ""])
        self._file.write_text(text)
        self._file.chmod(0o644)

    def change(self, **settings: object) -> None:
        """Change the settings while it runs, as an operator does with RELOAD."""
        self._write(settings)
        self.command("RELOAD")

    def command(self, text: str) -> None:
        """Run a command of its console, which speaks only the simple protocol."""
        with psycopg.connect(self._admin_url, autocommit=True) as console:
            console.pgconn.exec_(text.encode())

    def __enter__(self) -> "Pooler":
        return self

    def __exit__(self, *_error: object) -> None:
        self._process.kill()  # It would wait for its clients.
        self._process.wait()
        shutil.rmtree(self._directory, ignore_errors=True)


def hold_sessions(pooler: Pooler, count: int) -> list[psycopg.Connection]:
    """Open so many connections through a pooler, each of which uses one of the server."""
    held = [connect(pooler.url) for _ in range(count)]
    for each in held:
        each.execute("SELECT 1")
    return held
