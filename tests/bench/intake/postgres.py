"""`replace` on Postgres compared with a bare COPY of the same file and the same key."""

import time
from functools import partial
from pathlib import Path

from app.storage.tables import TABLES, Kind
from tests.bench.intake.cost import Cost
from tests.bench.intake.files import write_file
from tests.bench.intake.installation import Installation
from tests.bench.intake.sqlite import KINDS, print_alternating
from tests.bench.processes import cpu_seconds
from tests.postgres import Cluster, connect, database_url

TARGET = 0.6
_COPIED_BYTES = 1024 * 1024


def print_beside_copy(directory: Path, rows: int, runs: int) -> None:
    """Load vehicles and policies alternately with `verifyd import` and with COPY."""
    server = Server(directory)
    for kind in KINDS:
        file = directory / f"{kind}.csv"
        write_file(file, kind, rows)
        print_alternating(
            f"{rows:,} {kind}, Postgres",
            runs,
            {
                "verifyd import": partial(server.replaced, file),
                "COPY, then the key": partial(server.copied, file, kind),
            },
            TARGET,
        )
        file.unlink()
    server.cluster.stop("immediate")


class Server:
    """A throw-away cluster with Postgres' default settings, which measures its CPU time."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.cluster = Cluster(directory / "postgres.log")
        self.cluster.configure()

    def replaced(self, file: Path) -> Cost:
        """Load a file into an empty installation, which exists until the next one."""
        with connect(self.cluster.url) as operator:
            operator.execute("DROP DATABASE IF EXISTS bench WITH (FORCE)")
            operator.execute("CREATE DATABASE bench")
            operator.execute("CHECKPOINT")
        installation = Installation(self._directory, database_url(self.cluster.url, "bench"))
        cpu_before = self._cpu_seconds()
        cost = installation.load(file)
        used = self._cpu_seconds() - cpu_before
        return cost._replace(cpu_seconds=cost.cpu_seconds + used)

    def copied(self, file: Path, kind: Kind) -> Cost:
        """Copy a file into an empty table like the register's, and make its primary key."""
        meta = TABLES[kind]._meta
        key = ", ".join(f'"{field.column_name}"' for field in meta.get_primary_keys())
        with connect(database_url(self.cluster.url, "bench")) as client:
            client.execute(f"CREATE TABLE bare (LIKE register_native.{meta.table_name})")
            # The file has a time, and the register has seconds.
            client.execute("ALTER TABLE bare DROP updated, ADD updated timestamptz NOT NULL")
            client.execute("CHECKPOINT")
            started, cpu_before = time.monotonic(), self._cpu_seconds() + time.process_time()
            copy = "COPY bare FROM STDIN (FORMAT csv, HEADER)"
            with open(file, "rb") as source, client.cursor().copy(copy) as target:
                while data := source.read(_COPIED_BYTES):
                    target.write(data)
            client.execute(f"ALTER TABLE bare ADD PRIMARY KEY ({key})")
            wall_seconds = time.monotonic() - started
            cpu_seconds = self._cpu_seconds() + time.process_time() - cpu_before
            client.execute("DROP TABLE bare")
        return Cost(wall_seconds, cpu_seconds, 0)

    def _cpu_seconds(self) -> float:
        return cpu_seconds(self.cluster.pid)
