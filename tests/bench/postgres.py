"""Requests on Postgres compared with SQLite, and the server's own part of them.

The Postgres is a throw-away cluster on this machine, reached over a Unix socket; it holds a copy of
the SQLite installation. `make bench` prints it with the rest.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from app.backup.copy import copy_database
from app.config import Config
from app.storage.engine import close_quietly, open_engine
from tests.postgres import Cluster, connect

Call = Callable[[], object]
_SAMPLE_SECONDS = 2
_SERVER_TIME = "SELECT sum(total_plan_time + total_exec_time) FROM pg_stat_statements"


class CopyOnPostgres(NamedTuple):
    """A cluster that measures its own time, with a copy of an installation."""

    cluster: Cluster
    config: Config

    def share_in_server(self, call: Call) -> float:
        """Return the part of a call, 0 to 1, that the server plans and executes."""
        call()
        with connect(self.cluster.url) as operator:
            operator.execute("SELECT pg_stat_statements_reset()")
            started = time.perf_counter()
            while time.perf_counter() - started < _SAMPLE_SECONDS:
                call()
            passed_ms = (time.perf_counter() - started) * 1_000
            row = operator.execute(_SERVER_TIME).fetchone()
        assert row is not None
        return float(row[0]) / passed_ms


def copied(directory: Path, config: Config) -> CopyOnPostgres:
    """Start a cluster and copy the SQLite installation of these settings into it."""
    cluster = Cluster(directory / "postgres.log")
    cluster.configure(
        "shared_preload_libraries = pg_stat_statements", "pg_stat_statements.track_planning = on"
    )
    copy_into(cluster, config)
    with connect(cluster.url) as operator:
        operator.execute("CREATE EXTENSION pg_stat_statements")
    state = directory / "state-postgres"
    return CopyOnPostgres(cluster, Config(cluster.url, state_dir=state, access_log=False))


def copy_into(cluster: Cluster, config: Config) -> None:
    """Copy the installation of these settings into an empty cluster."""
    source, target = open_engine(config.database_url), open_engine(cluster.url)
    copy_database(source, target, lambda *_: None, is_rehearsal=True)
    close_quietly(source)
    close_quietly(target)
