"""`verifyd copy` that ends while it works leaves an empty target; the next run succeeds (D46)."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import apsw
import psycopg
import pytest

from app.backup.copy import MAIN_TABLES
from tests.postgres import connect, require_superuser
from tests.system.full_disk import Disk
from tests.system.processes import environment, run_command, until

CAR = {"registration": "AB12CDE", "make": "FORD"}
POLICY = {"registration": "AB12CDE", "number": "1", "insurer": "Acme"}
DAYS = {"validFrom": "2026-01-01", "validTo": "2026-12-31"}
LOCKED = (
    "SELECT 1 FROM pg_locks JOIN pg_database ON pg_locks.database = pg_database.oid "
    "WHERE locktype = 'advisory' AND datname = current_database()"
)
"""Returns a row while a process holds the lock of a register, on a connection of its own."""
WAITING = "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep'"


def words(world, target: str) -> list[str]:
    return ["copy", "--from", world.store.url, "--to", target, "--json"]


@pytest.fixture
def postgres(world, empty_postgres) -> str:
    """The URL of a Postgres database with a car, its policy and two accounts."""
    world.load([CAR])
    world.load([POLICY | DAYS])
    world.engine.close()
    assert run_command(*words(world, empty_postgres)).returncode == 0
    return empty_postgres


@pytest.fixture
def target(world) -> Path:
    """A SQLite file that does not exist, beside the world's."""
    return world.directory / "copied.db"


@contextmanager
def half_copied(postgres: str, target: Path) -> Iterator[subprocess.Popen[str]]:
    """Copy from Postgres to a file; yield when all but the fines has been read."""
    with connect(postgres) as operator, operator.transaction():
        operator.execute("LOCK TABLE register_native.fine IN ACCESS EXCLUSIVE MODE")
        process = subprocess.Popen(
            [sys.executable, "-m", "app", *from_postgres(postgres, target)],
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        until(lambda: waiting(operator), "the copy to wait")
        yield process


def waiting(operator: psycopg.Connection) -> list[int]:
    """Return the process ids of the server that wait for the lock of a table."""
    query = "SELECT pid FROM pg_locks WHERE NOT granted AND relation = %s::regclass"
    return [pid for (pid,) in operator.execute(query, ["register_native.fine"]).fetchall()]


def from_postgres(postgres: str, target: Path) -> list[str]:
    return ["copy", "--from", postgres, "--to", f"sqlite:///{target}", "--json"]


def accounts(target: Path) -> list[str]:
    """Return the names of the accounts in a file, as somebody sees them who opens it now."""
    with closing(apsw.Connection(str(target))) as connection:
        return [name for (name,) in connection.execute("SELECT name FROM account")]


def register_files(target: Path) -> list[str]:
    return sorted(path.name for path in target.parent.glob("copied.register_*.db"))


def require_copied(postgres: str, target: Path) -> None:
    """Copy once more, and fail unless everything has arrived."""
    ended = run_command(*from_postgres(postgres, target))
    assert ended.returncode == 0, ended.stderr
    rows = {each["table"]: each["rows"] for each in json.loads(ended.stdout)}
    assert (rows["account"], rows["register_native.policy"]) == (2, 1)
    assert accounts(target) == ["alice", "bob"]
    assert len(register_files(target)) == 1


@pytest.mark.sample
@pytest.mark.system_long
def test_a_copy_to_a_file_that_is_killed_is_run_again(postgres, target):
    """The main database stays empty, and the next run removes what is left of registers."""
    with half_copied(postgres, target) as process:
        process.kill()
        process.communicate()
        assert accounts(target) == []
        assert len(register_files(target)) == 1
    require_copied(postgres, target)


@pytest.mark.system_long
def test_a_copy_that_loses_its_source_leaves_nothing(postgres, target):
    """If Postgres ends the connection, the copy says so and removes what it wrote."""
    with half_copied(postgres, target) as process, connect(postgres) as operator:
        for pid in waiting(operator):
            operator.execute("SELECT pg_terminate_backend(%s)", [pid])
        told = process.communicate()[1]
    assert process.returncode == 1
    assert "terminating connection due to administrator command" in told
    assert accounts(target) == []
    assert register_files(target) == []
    require_copied(postgres, target)


@pytest.mark.system_long
def test_two_copies_to_one_file_do_not_mix(postgres, target):
    """The second one is refused while the first one works, which goes on."""
    with half_copied(postgres, target) as process:
        refused = run_command(*from_postgres(postgres, target), "--rehearsal")
        assert refused.returncode == 1
        assert "another load of the register native is running" in refused.stderr
    assert process.communicate()[1] == ""
    assert process.returncode == 0
    require_copied(postgres, target)


@pytest.mark.system_long
def test_a_copy_that_fills_the_disk_gives_it_back(postgres, make_disk):
    """On a full disk the copy fails; with enough space it succeeds."""
    disk = Disk(make_disk(3))
    target = disk.path / "copied.db"
    assert run_command("migrate", database_url=f"sqlite:///{target}").returncode == 0
    disk.fill(leave_bytes=80_000)
    free_bytes = disk.free_bytes
    ended = run_command(*from_postgres(postgres, target))
    assert ended.returncode == 1
    assert ended.stderr == "the target cannot be used: database or disk is full\n"
    assert free_bytes - disk.free_bytes < 50_000
    assert register_files(target) == []
    disk.empty()
    require_copied(postgres, target)


@pytest.mark.system_long
def test_a_served_file_can_be_filled(postgres, target, serve):
    """A service on the empty target answers from the copy as soon as it is complete."""
    url = f"sqlite:///{target}"
    assert run_command("migrate", database_url=url).returncode == 0
    service = serve(database_url=url)
    assert service.get("/v1/compliance/AB12CDE").status == 401
    require_copied(postgres, target)
    assert service.get("/v1/compliance/AB12CDE").status == 200


@pytest.mark.parametrize(
    "table",
    [
        pytest.param("account", marks=pytest.mark.system_long),
        pytest.param("register_load", marks=pytest.mark.system_long),
        "register_native.vehicle",
    ],
)
def test_a_killed_copy_leaves_nothing_and_is_run_again(world, empty_postgres, table):
    """Whatever was written is gone with the process, without any cleaning up."""
    world.load([CAR])
    world.engine.close()
    assert run_command("migrate", database_url=empty_postgres).returncode == 0
    with connect(empty_postgres) as operator:
        # The copy creates a register's tables, so it waits there; otherwise it waits at rows.
        if table.startswith("register_native"):
            require_superuser(operator)
            operator.execute(
                "CREATE FUNCTION wait() RETURNS event_trigger LANGUAGE plpgsql AS "
                "$$BEGIN PERFORM pg_sleep(60); END$$"
            )
            operator.execute("CREATE EVENT TRIGGER wait ON ddl_command_end EXECUTE FUNCTION wait()")
            remove = "DROP EVENT TRIGGER wait"
        else:
            operator.execute(
                "CREATE FUNCTION wait_for_row() RETURNS trigger LANGUAGE plpgsql AS "
                "$$BEGIN PERFORM pg_sleep(60); RETURN NEW; END$$"
            )
            operator.execute(
                f"CREATE TRIGGER wait BEFORE INSERT ON {table} "
                "FOR EACH ROW EXECUTE FUNCTION wait_for_row()"
            )
            remove = f"DROP TRIGGER wait ON {table}"
        process = subprocess.Popen(
            [sys.executable, "-m", "app", *words(world, empty_postgres)],
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        until(lambda: operator.execute(WAITING).fetchone(), "the copy to be under way")
        process.send_signal(signal.SIGKILL)
        process.communicate()
        until(lambda: not operator.execute(WAITING).fetchone(), "its transaction to end")
        until(lambda: not operator.execute(LOCKED).fetchone(), "its lock to end")
        operator.execute(remove)
        for name in set(MAIN_TABLES) - {"plan"}:
            assert operator.execute(f"SELECT * FROM {name}").fetchall() == []
        schemas = "SELECT nspname FROM pg_namespace WHERE nspname LIKE 'register%'"
        assert operator.execute(schemas).fetchall() == []
    ended = run_command(*words(world, empty_postgres))
    assert ended.returncode == 0, ended.stderr
    assert {each["table"]: each["rows"] for each in json.loads(ended.stdout)}["account"] == 2
