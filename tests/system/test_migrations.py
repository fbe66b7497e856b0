"""Migrations by real processes: two at once, killed ones, and `--status` (D29)."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from app.storage.engine import close_quietly, open_engine
from app.storage.registers import Register
from app.storage.versions import SCRIPTS, Installation, program_schema, tells_unknown
from tests.conftest import STORAGE
from tests.stores import PostgresTemplate, Template
from tests.system.processes import DEADLINE_SECONDS, environment, run_command, until

WAITS = """
    import os, time
    if not os.path.exists({flag!r}):
        open({flag!r}, "w").close()
        time.sleep(60)
"""
BOTH = ["sqlite", "postgres"]
NEXT = f"{program_schema() + 1:04}_further"


@pytest.fixture(params=BOTH)
def database_kind(request) -> str:
    """Both engines, because each has its own lock for migrations."""
    kind: str = request.param
    return kind


@pytest.fixture
def postgres_template(postgres_server) -> Iterator[Template]:
    """A database that no other test uses, because its tables change."""
    template = PostgresTemplate(postgres_server)
    yield template
    template.close()


@pytest.fixture
def empty_url(request, database_kind, tmp_path) -> str:
    """The URL of an empty database."""
    if database_kind == "sqlite":
        return f"sqlite:///{tmp_path / 'new.db'}"
    url: str = request.getfixturevalue("empty_postgres")
    return url


def started(url: str, **options) -> subprocess.Popen[str]:
    """Start `verifyd migrate --json`."""
    return subprocess.Popen(
        [sys.executable, "-m", "app", "migrate", "--json"],
        env=environment(database_url=url, **options),
        cwd=options.get("root"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def applied_by_two(url: str, **options) -> list[list[str]]:
    """Return what each of two migrations, started at once, has applied."""
    processes = [started(url, **options) for _ in range(2)]
    told = [process.communicate(timeout=DEADLINE_SECONDS) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], told
    return sorted(json.loads(stdout)["applied"] for stdout, _ in told)


def test_two_hosts_that_start_at_once_make_one_database(empty_url):
    """One of them applies everything, and the other finds it done."""
    scripts = sorted(script.stem for script in (SCRIPTS / "main").glob("[0-9]*.py"))
    assert applied_by_two(empty_url) == [[], scripts]


@STORAGE
def test_two_hosts_that_start_at_once_upgrade_once(world, next_program):
    """The database is upgraded once, and keeps its data."""
    applied = applied_by_two(world.store.url, **next_program())
    assert applied == [[], [NEXT]]
    assert Installation.select().get(world.engine).schema_version == program_schema() + 1
    assert run_command("keys", "list", "alice", database_url=world.store.url).returncode == 0


def test_a_killed_migration_leaves_nothing_half(world, next_program, tmp_path):
    """The old schema and program still work, and the next run migrates."""
    flag = tmp_path / "flag"
    program = next_program(WAITS.format(flag=str(flag)))
    process = started(world.store.url, **program)
    until(flag.exists, "the migration to be under way")
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert Installation.select().get(world.engine).schema_version == program_schema()
    assert "further" not in world.engine.get_tables()
    status = run_command("migrate", "--status", "--json", database_url=world.store.url, **program)
    assert json.loads(status.stdout) == {
        "database": program_schema(),
        "oldest_program": 1,
        "program": program_schema() + 1,
        "unknown": tells_unknown(world.engine),
        "pending": [NEXT],
    }
    assert applied_by_two(world.store.url, **program) == [
        [],
        [NEXT],
    ]


def test_status_of_an_empty_database_creates_nothing(empty_url, tmp_path):
    """In an empty database everything is pending; a missing file is not created."""
    told = run_command("migrate", "--status", database_url=empty_url)
    if empty_url.startswith("sqlite"):
        assert (told.returncode, told.stdout) == (1, "")
        assert list(tmp_path.glob("*.db")) == []
        return
    assert "the database is at schema 0" in told.stdout
    assert "pending 0001_tables" in told.stdout
    engine = open_engine(empty_url)
    assert engine.get_tables() == []
    close_quietly(engine)


def test_status_shows_that_nothing_is_pending(world):
    """Registers are checked, too, except ones that were never filled."""
    world.load([{"registration": "AB12CDE", "make": "FORD"}])
    Register.insert(name="rdw", generation=9, kinds="").execute(world.engine)
    told = run_command("migrate", "--status", database_url=world.store.url)
    at = program_schema()
    tells = "tell" if tells_unknown(world.engine) else "do not tell"
    assert told.stdout.splitlines() == [
        f"the database is at schema {at}, this program at {at}",
        f"answers {tells} what is not known",
        "nothing is pending",
    ]


def test_status_shows_what_a_register_lacks(world):
    """A register of an older program is named with its missing migrations."""
    world.load([{"registration": "AB12CDE", "make": "FORD"}])
    before = run_command("migrate", "--status", "--json", database_url=world.store.url)
    assert json.loads(before.stdout)["pending"] == []
    table = '"register_native"."schema_migration"'
    if world.store.url.startswith("sqlite"):
        (file,) = world.directory.glob("*.register_native.*.db")
        engine, table = open_engine(f"sqlite:///{file}"), '"schema_migration"'
    else:
        engine = open_engine(world.store.url)
    engine.execute_sql(f"DELETE FROM {table}")
    close_quietly(engine)
    after = run_command("migrate", "--status", "--json", database_url=world.store.url)
    scripts = ["0001_tables", "0002_identity", "0003_identity_key"]
    assert json.loads(after.stdout)["pending"] == [f"native: {name}" for name in scripts]
