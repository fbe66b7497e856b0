"""PgBouncer between verifyd and Postgres: what holds in session mode, and no other mode (D45)."""

import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest

from app.config import Config
from app.errors import OperatorError
from app.registers.generations import locked
from app.server import prepare_database
from app.storage import postgres_session
from app.storage.engine import Engine, close_quietly, open_engine
from app.storage.errors import connection_state
from app.storage.postgres import PostgresEngine
from app.storage.postgres_session import _ASKED_TIMES, begin_session, named_options
from tests.conftest import ON_POSTGRES
from tests.pgbouncer import Pooler, hold_sessions
from tests.postgres import changed_url, connect
from tests.rows import each_row

NOT_KEPT = "does not keep sessions"
NOT_SESSION = pytest.mark.parametrize("mode", ["transaction", "statement"])
ROW = "registration,make\nAB12CDE,FORD\n"


@pytest.fixture
def pooled(cli, store, monkeypatch) -> Iterator[Callable[..., Pooler]]:
    """`pooled(pool_mode=...)` lets commands use the database through a pooler."""
    with ExitStack() as stack:

        def start(**settings: object) -> Pooler:
            pooler = stack.enter_context(Pooler(store.url, **settings))
            monkeypatch.setenv("VERIFYD_DATABASE_URL", pooler.url)
            return pooler

        yield start


@pytest.fixture
def opened() -> Iterator[Callable[..., Engine]]:
    """`opened(url)` opens a database."""
    engines: list[Engine] = []

    def open_it(url: str, *, is_serving: bool = False) -> Engine:
        engines.append(open_engine(url, is_serving=is_serving))
        return engines[-1]

    yield open_it
    for engine in engines:
        close_quietly(engine)


def setting(engine: Engine, name: str) -> str:
    """Return the value of a setting in the server's session."""
    (text,) = engine.execute_sql("SELECT current_setting(%s)", (name,)).fetchone()
    return str(text)


def server_setting(pooler: Pooler, name: str) -> str:
    """Return what another client of the pooler finds."""
    with connect(pooler.url) as client:
        row = client.execute("SELECT current_setting(%s)", (name,), prepare=False).fetchone()
    assert row
    return str(row[0])


@ON_POSTGRES
class TestSessionMode:
    def test_limits_hold_without_settings_of_the_pooler(self, pooled, opened):
        """PgBouncer refuses connections with libpq's options by default, so none are sent."""
        engine = opened(pooled(pool_mode="session").url, is_serving=True)
        assert setting(engine, "statement_timeout") == "10s"
        assert setting(engine, "lock_timeout") == "5s"
        assert setting(engine, "idle_in_transaction_session_timeout") == "10s"
        assert setting(engine, "client_connection_check_interval") == "1s"

    def test_options_of_the_url_hold_if_the_pooler_drops_them(self, pooled, opened):
        """The URL has the last word, although this pooler passes no options on."""
        pooler = pooled(pool_mode="session", ignore_startup_parameters="options")
        url = changed_url(pooler.url, options="-c statement_timeout=3s -c work_mem=5MB")
        engine = opened(url, is_serving=True)
        assert setting(engine, "statement_timeout") == "3s"
        assert setting(engine, "work_mem") == "5MB"
        assert setting(engine, "lock_timeout") == "5s"

    def test_commands_load_and_check(self, cli, pooled):
        """Everything works through a session pool."""
        pooled(pool_mode="session")
        file = cli.file("rows.csv", ROW)
        cli.run("import", file)
        assert "all settings are right" in cli.run("check").stdout

    def test_an_exhausted_pool_is_named_soon(self, cli, pooled, monkeypatch):
        """PgBouncer itself lets clients wait for two minutes."""
        monkeypatch.setattr(postgres_session, "ANSWER_SECONDS", 1)
        pooler = pooled(pool_mode="session", default_pool_size=2)
        held = hold_sessions(pooler, 2)
        assert "has no free connection; raise its pool size" in cli.refusal("check")
        held.pop().close()
        # The second session that a look at the mode needs is missing.
        assert "has no free connection" in cli.refusal("check")
        held.pop().close()
        cli.run("check")

    def test_a_pool_that_is_too_small_for_a_load_changes_nothing(self, cli, pooled, monkeypatch):
        """A load needs up to four connections, and says that it gets no more."""
        pooled(pool_mode="session")
        cli.run("import", cli.file("rows.csv", ROW))
        monkeypatch.setattr(postgres_session, "ANSWER_SECONDS", 1)
        pooled(pool_mode="session", default_pool_size=2)
        assert "all settings are right" in cli.run("check").stdout
        changed = cli.file("rows.csv", ROW.replace("FORD", "SEAT"))
        assert "has no free connection" in cli.refusal("import", "--mode", "replace", changed)
        assert "FORD" in cli.run("lookup", "AB12CDE").stdout


@ON_POSTGRES
class TestOtherModes:
    @NOT_SESSION
    def test_every_command_refuses(self, cli, pooled, mode):
        """Nothing would protect a load, although all statements succeed in these modes."""
        pooled(pool_mode=mode)
        for words in ("check", "accounts list", "migrate"):
            assert NOT_KEPT in cli.refusal(*words.split()), words
        refusal = cli.refusal("import", cli.file("rows.csv", ROW))
        assert "set pool_mode = session for this database" in refusal

    @NOT_SESSION
    def test_nothing_is_set_for_other_clients(self, pooled, opened, mode):
        """Other clients use the same backend next, so it must not keep our limits."""
        pooler = pooled(pool_mode=mode)
        with pytest.raises(OperatorError, match=NOT_KEPT):
            opened(pooler.url, is_serving=True).execute_sql("SELECT 1")
        assert server_setting(pooler, "statement_timeout") == "0"

    def test_backends_that_are_given_out_alternately_are_found(self, cli, pooled):
        """With two of them in turn, each of two sessions could seem to have its own."""
        pooler = pooled(pool_mode="transaction", server_round_robin=1, min_pool_size=2)
        with ExitStack() as stack:
            for held in hold_sessions(pooler, 2):
                stack.enter_context(held)
                held.execute("BEGIN")
                held.execute("SELECT 1")
        assert NOT_KEPT in cli.refusal("check")

    def test_a_backend_that_only_one_session_keeps_is_found(self, cli, pooled, monkeypatch):
        """Another client may hold the shared backend until one session has seen only another."""
        pooler = pooled(pool_mode="transaction")
        asked: list[str] = []

        def first(connection: Any, sql: str, *values: str) -> list[str | None]:
            asked.append(sql)
            if len(asked) == 2:  # The first statement was about the settings.
                holder.execute("BEGIN")
                holder.execute("SELECT 1")
            if len(asked) == 3 * _ASKED_TIMES // 2:
                holder.execute("COMMIT")
            return real(connection, sql, *values)

        real = postgres_session._first
        monkeypatch.setattr(postgres_session, "_first", first)
        monkeypatch.setattr(random, "sample", lambda numbers, _: sorted(numbers))
        with connect(pooler.url) as holder:
            assert NOT_KEPT in cli.refusal("check")

    def test_a_mode_that_was_changed_since_a_check_is_found(self, cli, pooled):
        """Each command looks again."""
        pooler = pooled(pool_mode="session")
        cli.run("check")
        pooler.change(pool_mode="transaction")
        assert NOT_KEPT in cli.refusal("import", cli.file("rows.csv", ROW))


@ON_POSTGRES
class TestLock:
    """Locks of registers, if a pooler stops keeping sessions while a load runs."""

    def test_a_backend_that_holds_it_for_another_client_refuses(self, store, opened):
        """Postgres gives the same lock to the same backend twice."""
        one, other = opened(store.url), opened(store.url)
        connection_state(other).set_connection(one.connection())
        with (
            locked(one, "native"),
            pytest.raises(OperatorError, match="another load of the register"),
            locked(other, "native"),
        ):
            pass
        connection_state(other).reset()

    def test_a_lock_that_cannot_be_released_is_logged(self, store, opened, caplog):
        """It stays, and refuses the register to everybody."""
        engine = opened(store.url)
        with locked(engine, "native"):
            engine.execute_sql("SELECT pg_advisory_unlock_all()")
        assert "the lock of native was lost" in caplog.text

    def test_a_session_that_does_nothing_with_it_is_named(self, cli, store, monkeypatch):
        """An operator whose loads are refused learns which session to end."""
        monkeypatch.setattr("app.storage.register_schemas.IDLE_SECONDS", 0)
        cli.run("import", cli.file("rows.csv", ROW))
        with connect(store.url) as leaked:
            leaked.execute("SELECT pg_advisory_lock(hashtext('verifyd register native'))")
            (warning,) = cli.json("check")["warnings"]
            pid = leaked.info.backend_pid
        assert f"The lock of the register native is held by session {pid}" in warning
        assert f"SELECT pg_terminate_backend({pid})" in warning
        assert cli.json("check")["warnings"] == []

    def test_a_command_that_waits_for_its_load_is_not_named(self, cli, store, monkeypatch):
        """The lock of the drop directory is idle while a process of its own loads."""
        monkeypatch.setattr("app.storage.register_schemas.IDLE_SECONDS", 0)
        cli.run("import", cli.file("rows.csv", ROW))
        query = "SELECT pg_advisory_lock(hashtext(%s))"
        with connect(store.url) as command, connect(store.url) as load:
            command.execute(query, ["verifyd register .drop"])
            load.execute("BEGIN")
            load.execute(query, ["verifyd register native"])
            assert cli.json("check")["warnings"] == []
            load.execute("COMMIT")
            registers, drop = cli.json("check")["warnings"]
        assert "of the register native is held" in registers
        assert "of the drop directory is held" in drop


@ON_POSTGRES
def test_a_limit_that_holds_no_more_is_named(store, opened):
    """A pooler can reset what was set."""
    engine = opened(store.url, is_serving=True)
    assert engine.lost_settings() == []
    engine.execute_sql("SET statement_timeout = '5min'")
    (fault,) = engine.lost_settings()
    assert fault.startswith("statement_timeout is 5min and not 10s")


@ON_POSTGRES
def test_check_and_the_start_name_what_holds_no_more(cli, store, monkeypatch, caplog):
    """An operator learns of it before a statement lasts for ever."""
    held = PostgresEngine.lost_settings

    def changed(engine: PostgresEngine) -> list[str]:
        engine.execute_sql("SET client_connection_check_interval = '5s'")
        return held(engine)

    monkeypatch.setattr(PostgresEngine, "lost_settings", changed)
    fault = "client_connection_check_interval is 5s and not 1s"
    assert f"VERIFYD_DATABASE_URL: {fault}" in cli.refusal("check")
    prepare_database(Config(database_url=store.url))
    assert fault in caplog.text


def test_an_old_server_is_refused_by_its_version():
    """Its own error is about a parameter that nobody has set."""
    info = SimpleNamespace(server_version=130012)
    connection: psycopg.Connection = SimpleNamespace(info=info)  # type: ignore[assignment]
    with pytest.raises(OperatorError, match="the server is Postgres 13: verifyd needs 14"):
        begin_session(connection, "", {}, lambda: None)


@each_row(
    ("options", "named"),
    [
        ("", {}),
        ("-c statement_timeout=3s", {"statement_timeout": "3s"}),
        ("-cLock_Timeout=1 --search-path=a", {"lock_timeout": "1", "search_path": "a"}),
        (r"-c search_path=a\ b,c\\d -e", {"search_path": r"a b,c\d"}),
        ("-c", {}),
        ("-c =1 -c x", {}),
    ],
)
def test_options_are_read_as_the_server_reads_them(options, named):
    """Words are divided by spaces, and a backslash escapes the next character."""
    assert named_options(options) == named
