"""The tests of storage on the Postgres of each Debian that is supported, and of the next one."""

import os
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest

from tests.system.machine import debian_root
from tests.system.processes import KEPT, ROOT, free_port, until

pytestmark = pytest.mark.system_long

SUITES = ["bookworm", "trixie", "sid"]
ENTER = Path(__file__).with_name("enter.sh")
KEPT_LINES = 100
SECONDS_MAX = 120
# It does not run as root. NOTE: the shell must stay: it ends with this process. What runs as
# another user does not.
RUN = (
    "run='setpriv --reuid=postgres --regid=postgres --clear-groups'; "
    "bin=$(echo /usr/lib/postgresql/*/bin); cd /; "
    "$run $bin/initdb -D /tmp/data -A trust -E UTF8 -U postgres && "
    "$run $bin/postgres -D /tmp/data -k /tmp -h 127.0.0.1 -p {port} -F & wait"
)


@pytest.mark.parametrize("suite", SUITES)
def test_what_is_stored_works_with_this_server(suite):
    """The tests of what is stored and how pass with the server that Debian has."""
    root = debian_root(f"postgres-{suite}", suite, "postgresql")
    port = free_port()
    url = f"postgresql://postgres@127.0.0.1:{port}/postgres"
    with tempfile.TemporaryDirectory(dir=KEPT) as directory:
        server = subprocess.Popen(
            [ENTER, root, directory, RUN.format(port=port)],
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            until(lambda: is_up(url, server), "Postgres to take connections", SECONDS_MAX)
            # The long models, an hour for each server, run on one of them.
            marks = "storage and not hypothesis and not system_long"
            tests = ["tests/unit", "-m", marks, "-k", "postgres"]
            ended = subprocess.run(
                [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests],
                env=os.environ | {"TEST_DATABASE_URL": url},
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
            )
        finally:
            server.kill()
            server.wait()
    assert ended.returncode == 0, "\n".join(ended.stdout.splitlines()[-KEPT_LINES:])


def is_up(url: str, server: subprocess.Popen[bytes]) -> bool:
    """Tell whether the server takes connections."""
    assert server.poll() is None, "Postgres ended"
    with suppress(psycopg.OperationalError), psycopg.connect(url, connect_timeout=2):
        return True
    return False
