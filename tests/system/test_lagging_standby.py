"""A standby that lags answers nobody, and clients notice what it lost when it is promoted."""

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.system.postgres_pair import PostgresServer, primary_alone, url_of
from tests.system.processes import Service, free_port, run_command, until

pytestmark = pytest.mark.system_long

PLATE = "AB12CDE"
INSURANCE = f"/v1/vehicle/{PLATE}/insurance"
SERVICES, ASKED_TIMES = 4, 10  # pgpool chooses a server for each session at random.
PLAN = ("--requests", 1000, "--window", 60, "--bulk-max", 10, "--domains-max", 10)


class Installed:
    """An installation on a primary with an asynchronous standby."""

    def __init__(self, directory: Path, primary: PostgresServer, standby: PostgresServer) -> None:
        self.primary, self.standby = primary, standby
        self.settings: dict[str, Any] = {"data_dir": directory, "state_dir": directory / "state"}
        self.directory = directory
        self.url = url_of(primary, standby)
        self.run("migrate")
        self.run("plans", "set", "fleet", *PLAN, "--watches-max", 10)
        self.run("accounts", "create", "acme", "--plan", "fleet")
        self.key = self.run("keys", "create", "acme")
        self.load("true")

    def run(self, *words: object) -> dict[str, str]:
        """Run a command that must succeed, and return the document that it prints."""
        ended = run_command(*words, "--json", database_url=self.url, **self.settings)
        assert ended.returncode == 0, ended.stderr
        document: dict[str, str] = json.loads(ended.stdout)
        return document

    def load(self, insured: str) -> None:
        """Load the vehicle; the sweep that follows tells its watch."""
        file = self.directory / "cars.csv"
        file.write_text(f"registration,insured\n{PLATE},{insured}\n")
        self.run("import", file)

    def serve(self, url: str) -> Service:
        """Return a service on this database, which answers with the key of the account."""
        bind = f"127.0.0.1:{free_port()}"
        service = Service(self.directory, bind, database_url=url, **self.settings)
        service.key = self.key["key"]
        return service

    def let_the_standby_lag(self) -> None:
        """Let the standby receive nothing more, once it has everything."""
        has_all = "SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn"
        ((now,),) = self.primary.sql("SELECT pg_current_wal_lsn()::text")
        until(lambda: self.standby.sql(has_all % f"'{now}'") == [(True,)], "the standby to follow")
        self.standby.sql("ALTER SYSTEM SET primary_conninfo = ''", "SELECT pg_reload_conf()")
        senders = "SELECT count(*) FROM pg_stat_replication"
        until(lambda: self.primary.sql(senders) == [(0,)], "the standby to receive nothing")


@contextmanager
def balanced(primary: PostgresServer, standby: PostgresServer) -> Iterator[str]:
    """Run pgpool, which sends half of the sessions' reads to the standby; yield the URL."""
    program = shutil.which("pgpool", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        pytest.skip("pgpool is not installed: apt-get install pgpool2")
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="verifyd-pgpool-") as directory:
        settings = {
            "backend_clustering_mode": "'streaming_replication'",
            "load_balance_mode": "on",
            "sr_check_user": "'postgres'",
            "port": port,
            "pcp_port": free_port(),
            "unix_socket_directories": f"'{directory}'",
            "pcp_socket_dir": f"'{directory}'",
            "pid_file_name": f"'{directory}/pid'",
            "logdir": f"'{directory}'",
        }
        for number, server in enumerate((primary, standby)):
            settings[f"backend_hostname{number}"] = "'127.0.0.1'"
            settings[f"backend_port{number}"] = server.port
            settings[f"backend_weight{number}"] = 1
        file = Path(directory) / "pgpool.conf"
        file.write_text("".join(f"{name} = {value}\n" for name, value in settings.items()))
        with open(f"{directory}/log", "wb") as log:
            process = subprocess.Popen([program, "-n", "-f", file], stdout=log, stderr=log)
        try:
            url = f"postgresql://postgres@127.0.0.1:{port}/verifyd"
            until(lambda: takes_connections(url), "pgpool to take connections")
            yield url
        finally:
            process.terminate()
            process.wait()


def takes_connections(url: str) -> bool:
    """Tell whether a server can be connected to."""
    with suppress(psycopg.OperationalError), psycopg.connect(url):
        return True
    return False


def answers(service: Service) -> bool:
    """Tell whether a service answers, ready or not."""
    assert service.process.poll() is None, service.output("stderr")
    with suppress(OSError):
        return service.get("/healthz").status == 200
    return False


@pytest.fixture
def installed(tmp_path) -> Iterator[Installed]:
    """An installation with one vehicle."""
    with (
        primary_alone() as primary,
        primary_alone() as standby,
    ):
        standby.kill()
        standby.follow(primary).start()
        yield Installed(tmp_path, primary, standby)


def test_look_ups_are_not_answered_from_a_standby(installed):
    """A key that was revoked still works on a standby that lags, so nothing is answered there."""
    url = f"postgresql://postgres@127.0.0.1:{installed.standby.port}/verifyd"
    with installed.serve(installed.url) as service:
        assert service.wait_ready().get(INSURANCE).status == 200
        installed.let_the_standby_lag()
        installed.run("keys", "revoke", installed.key["id"])
        assert service.get(INSURANCE).status == 401
    with installed.serve(url) as service:
        until(lambda: answers(service), "the service to answer")
        refused = service.get(INSURANCE)
        assert (refused.status, refused.json()["code"]) == (503, "database_unavailable")
        assert int(refused.headers["retry-after"]) >= 1
        ready = service.get("/readyz")
        assert (ready.status, ready.json()["detail"]) == (503, "The database is a standby.")


def test_reads_that_pgpool_would_balance_are_of_the_primary(installed):
    """Answers are those of the last load, however far the standby lags."""
    primary, standby = installed.primary, installed.standby
    with balanced(primary, standby) as url:
        for _ in range(SERVICES):
            checked = run_command("check", database_url=url, **installed.settings)
            assert checked.returncode == 0, checked.stderr
        installed.let_the_standby_lag()
        installed.load("false")
        for _ in range(SERVICES):
            with installed.serve(url) as service:
                service.wait_ready()
                found = {service.get(INSURANCE).json()["insured"] for _ in range(ASKED_TIMES)}
                assert found == {False}


def test_a_cursor_of_a_lost_event_is_refused(installed):
    """After a failover that lost commits, another event has the number of the lost one."""
    with installed.serve(installed.url) as service:
        service.wait_ready()
        asked = service.post("/v1/watches/bulk", {"add": [{"registration": PLATE}]})
        assert asked.status == 200, asked.body
        before = service.get("/v1/events").json()["next"]
        installed.let_the_standby_lag()
        installed.load("false")
        lost = service.get(f"/v1/events?after={before}").json()
        assert len(lost["events"]) == 1
        installed.primary.kill()
        installed.standby.sql("SELECT pg_promote()")
        installed.load("")
        assert service.get(f"/v1/events?after={lost['next']}").status == 410
        found = service.get(f"/v1/events?after={before}").json()
        assert [event["after"] for event in found["events"]] != [lost["events"][0]["after"]]
