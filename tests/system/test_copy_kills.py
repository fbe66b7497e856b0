"""`verifyd copy` killed while it works leaves an empty target; the next run succeeds (D46)."""

import json
import signal
import subprocess
import sys

import pytest

from app.operations.copy import MAIN_TABLES
from tests.postgres import connect, require_superuser
from tests.system.processes import environment, run_command, until

WAITING = "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep'"


def words(world, target: str) -> list[str]:
    return ["copy", "--from", world.store.url, "--to", target, "--json"]


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
    world.load([{"registration": "AB12CDE", "make": "FORD"}])
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
        operator.execute(remove)
        for name in set(MAIN_TABLES) - {"plan"}:
            assert operator.execute(f"SELECT * FROM {name}").fetchall() == []
        schemas = "SELECT nspname FROM pg_namespace WHERE nspname LIKE 'register%'"
        assert operator.execute(schemas).fetchall() == []
    ended = run_command(*words(world, empty_postgres))
    assert ended.returncode == 0, ended.stderr
    assert {each["table"]: each["rows"] for each in json.loads(ended.stdout)}["account"] == 2
