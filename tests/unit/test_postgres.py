"""The connection to Postgres: its settings, its loss and recovery (D45)."""

import re
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import peewee
import pytest

from app.accounts.models import Account
from app.accounts.tokens import new_token
from app.config import Config
from app.errors import OperatorError
from app.monitoring.metrics import InstallationState
from app.people.sessions import TOKEN_CHARACTERS, Sessions
from app.server import prepare_state
from app.storage.engine import close_quietly, open_engine
from app.storage.errors import driver_errors_translated, message_of, sqlstate
from app.storage.postgres import PostgresEngine
from tests.conftest import ON_POSTGRES, STORAGE
from tests.postgres import changed_url, connect, database_url, require_superuser
from tests.stores import end_connections

pytestmark = STORAGE

DOMAINS = "/api/domains"


def end_all(world) -> None:
    """End every connection of the service, as a restart of the server does."""
    with connect(world.store.url) as operator:
        end_connections(operator, operator.info.dbname)


def rename_and_lose_connection(world) -> None:
    """Write and read in a transaction whose connection ends in between."""
    with world.engine.atomic():
        Account.update(name="carol").where(Account.name == "bob").execute(world.engine)
        end_all(world)
        Account.select().count(world.engine)


def setting(engine: PostgresEngine, name: str) -> str:
    """Return the value of a setting in the server's session."""
    (text,) = engine.execute_sql("SELECT current_setting(%s)", (name,)).fetchone()
    return str(text)


@contextmanager
def role_setting(world, name: str) -> Iterator[None]:
    """Limit the time of everything that the role does, if the server knows this limit."""
    with connect(world.store.url) as operator:
        if name == "transaction_timeout" and operator.info.server_version < 170_000:
            pytest.skip("Postgres 17 is the first that has this limit")
        operator.execute(f"ALTER ROLE CURRENT_USER SET {name} = '1h'")
        try:
            yield
        finally:
            operator.execute(f"ALTER ROLE CURRENT_USER RESET {name}")


@pytest.fixture
def opened(world) -> Iterator[Callable[..., PostgresEngine]]:
    """`opened(name="value")` opens the database with these parameters in its URL."""
    engines = []

    def open_it(*, is_serving: bool = False, **parameters: str) -> PostgresEngine:
        url = changed_url(world.store.url, **parameters)
        engine = open_engine(url, is_serving=is_serving)
        assert isinstance(engine, PostgresEngine)
        engines.append(engine)
        return engine

    yield open_it
    for engine in engines:
        close_quietly(engine)


@ON_POSTGRES
class TestSession:
    def test_the_service_waits_no_longer_than_a_request_may(self, opened):
        """Statements, locks and idle transactions end before gunicorn stops the worker."""
        engine = opened(is_serving=True)
        assert setting(engine, "statement_timeout") == "10s"
        assert setting(engine, "lock_timeout") == "5s"
        assert setting(engine, "idle_in_transaction_session_timeout") == "10s"
        assert setting(engine, "application_name") == "verifyd"

    @pytest.mark.parametrize(
        "name",
        ["statement_timeout", "lock_timeout", "idle_session_timeout", "transaction_timeout"],
    )
    def test_commands_take_their_time(self, world, opened, name):
        """Commands have no such limits: a load, with its lock's idle connection, can take hours."""
        with role_setting(world, name):
            assert setting(opened(), name) == "0"
            assert setting(opened(options=f"-c {name}=3s"), name) == "3s"

    @pytest.mark.parametrize("name", ["idle_session_timeout", "transaction_timeout"])
    def test_limits_of_the_role_end_no_connection_of_the_service(self, world, opened, name):
        """A worker may be idle, and its own limits end what takes too long."""
        with role_setting(world, name):
            assert setting(opened(is_serving=True), name) == "0"

    def test_the_url_has_the_last_word(self, opened):
        """A parameter in the URL overrides our default; our other defaults stay."""
        options = "-c statement_timeout=3s"
        engine = opened(is_serving=True, application_name="other", options=options)
        assert setting(engine, "application_name") == "other"
        assert setting(engine, "statement_timeout") == "3s"
        assert setting(engine, "lock_timeout") == "5s"

    def test_dates_are_iso_whatever_the_servers_default(self, world):
        """The date order that a role has set does not change an answer."""
        with connect(world.store.url) as operator:
            operator.execute("ALTER ROLE CURRENT_USER SET datestyle = 'SQL, DMY'")
            close_quietly(world.engine)
            try:
                row = world.engine.execute_sql("SELECT DATE '2026-06-15'").fetchone()
            finally:
                operator.execute("ALTER ROLE CURRENT_USER RESET datestyle")
        assert row == ("2026-06-15",)

    def test_of_several_hosts_the_one_that_can_be_written_is_found(self, world, opened, tmp_path):
        """A host that is down is skipped, as after a failover."""
        with connect(world.store.url) as operator:
            host = operator.info.host
        engine = opened(host=f"{tmp_path},{host}", target_session_attrs="read-write")
        assert Account.select().count(engine) == 2

    def test_hot_queries_are_prepared_by_the_server(self, world, alice):
        """The first request leaves the hot queries parsed and planned on the server."""
        world.load([{"registration": "AB12CDE", "make": "FORD"}])
        alice.get("/v1/vehicle/AB12CDE/insurance")
        query = "SELECT statement FROM pg_prepared_statements"
        prepared = [sql for (sql,) in world.app_engine.execute_sql(query).fetchall()]
        for table in ('"api_key"', '"register_native"."vehicle"'):
            assert [sql for sql in prepared if table in sql], table


@pytest.fixture
def roles(postgres_server) -> Iterator[Callable[[int], list[str]]]:
    """`roles(N)` creates roles; they and what they own are gone afterwards."""
    made: list[str] = []
    with connect(postgres_server) as operator:
        require_superuser(operator)

        def make(count: int) -> list[str]:
            for _ in range(count):
                made.append(f"verifyd_{secrets.token_hex(4)}")
                operator.execute(f"CREATE ROLE {made[-1]}")
            return made

        yield make
        query = (
            "SELECT DISTINCT datname FROM pg_database d JOIN pg_shdepend ON d.oid IN (dbid, objid) "
            "JOIN pg_roles r ON r.oid = refobjid WHERE rolname = ANY(%s)"
        )
        for (database,) in operator.execute(query, (made,)).fetchall():
            with connect(database_url(postgres_server, database)) as owner:
                owner.execute(f"DROP OWNED BY {', '.join(made)}")
        operator.execute(f"DROP ROLE {', '.join(made)}")


def use_role(store, operator, role):
    """Give a role what it needs in the main schema, and return a URL that uses it."""
    places = ("SCHEMA public", "ALL TABLES IN SCHEMA public", "ALL SEQUENCES IN SCHEMA public")
    for place in (f"DATABASE {operator.info.dbname}", *places):
        operator.execute(f"GRANT ALL ON {place} TO {role}")
    return changed_url(store.url, options=f"-c role={role}")


@ON_POSTGRES
class TestCheck:
    """`verifyd check` reports in advance what would fail later."""

    def test_a_server_that_may_only_be_read(self, cli, store, monkeypatch):
        """Nothing can be written there, and look-ups are answered by the primary only."""
        url = changed_url(store.url, options="-c default_transaction_read_only=on")
        monkeypatch.setenv("VERIFYD_DATABASE_URL", url)
        assert "the server is read-only: name the primary" in cli.refusal("check")

    def test_a_role_that_may_not_create_schemas(self, cli, store, monkeypatch):
        """Each register is a schema, so nothing could be loaded."""
        with connect(store.url) as operator:
            require_superuser(operator)
        url = changed_url(store.url, options="-c role=pg_read_all_data")
        monkeypatch.setenv("VERIFYD_DATABASE_URL", url)
        refusal = cli.refusal("check")
        assert "the role pg_read_all_data may not create schemas" in refusal
        assert "GRANT USAGE, CREATE ON SCHEMA public TO pg_read_all_data" in refusal

    def test_tables_that_may_not_be_written_or_read(self, cli, store, monkeypatch, roles):
        """`check` names them, and the lines that give the rights back."""
        (role,) = roles(1)
        with connect(store.url) as operator:
            monkeypatch.setenv("VERIFYD_DATABASE_URL", use_role(store, operator, role))
            operator.execute("CREATE ROLE other_program")
            operator.execute("CREATE TABLE of_other_program ()")
            operator.execute("ALTER TABLE of_other_program OWNER TO other_program")
            cli.run("import", cli.file("cars.csv", "registration,make", "AB12CDE,FORD"))
            assert "all settings are right" in cli.run("check").stdout
            operator.execute(f"REVOKE INSERT ON domain, watch FROM {role}")
            operator.execute(f"REVOKE SELECT ON register_native.vehicle FROM {role}")
            denied = "the register native cannot be read: the role of Postgres may not read it; "
            assert denied in cli.refusal("lookup", "AB12CDE")
            refusal = cli.refusal("check")
            assert f"{role} may not read and write in the schema public: domain, watch; " in refusal
            assert "in the schema register_native: vehicle; run GRANT" in refusal
            for remedy in re.findall(r"run (GRANT .+)", refusal):
                operator.execute(remedy)
            operator.execute("DROP TABLE of_other_program; DROP ROLE other_program")
            assert "all settings are right" in cli.run("check").stdout

    def test_what_another_login_owns(self, cli, store, monkeypatch, roles):
        """`check` names to each of two logins the line that lets both use everything."""
        roles_of_both = roles(2)
        one, other = roles_of_both
        with connect(store.url) as operator:
            for role in roles_of_both:
                operator.execute(f"GRANT ALL ON DATABASE {operator.info.dbname} TO {role}")
                operator.execute(f"GRANT ALL ON SCHEMA public TO {role}")
                operator.execute(f"GRANT ALL ON ALL TABLES IN SCHEMA public TO {role}")
                operator.execute(f"GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO {role}")

            def use(role: str) -> None:
                url = changed_url(store.url, options=f"-c role={role}")
                monkeypatch.setenv("VERIFYD_DATABASE_URL", url)

            use(other)
            cli.run("import", cli.file("cars.csv", "registration,make", "AB12CDE,FORD"))
            assert "all settings are right" in cli.run("check").stdout
            use(one)
            refusal = cli.refusal("check")
            told = f"the role {one} may not use what belongs to the role {other}: register_native"
            assert told in refusal
            (remedy,) = re.findall(r"run (GRANT .+)", refusal)
            operator.execute(remedy)
            assert "all settings are right" in cli.run("check").stdout
            assert cli.json("lookup", "AB12CDE")


@pytest.mark.parametrize(
    ("path", "schema"), [(" -c search_path=own", "own"), ("", "public")], ids=["own", "default"]
)
def test_an_empty_database_that_may_not_be_filled(
    bare_cli, empty_postgres, monkeypatch, roles, path, schema
):
    """The remedy works, also for a schema of its own that does not exist yet."""
    (role,) = roles(1)
    url = changed_url(empty_postgres, options=f"-c role={role}{path}")
    monkeypatch.setenv("VERIFYD_DATABASE_URL", url)
    with connect(empty_postgres) as operator:
        operator.execute("REVOKE ALL ON SCHEMA public FROM PUBLIC")
        refusal = bare_cli.refusal("check")
        assert f"CREATE SCHEMA IF NOT EXISTS {schema};" in refusal
        for remedy in re.findall("run (.+)", refusal)[:2]:
            operator.execute(remedy)
    bare_cli.run("migrate")
    assert "all settings are right" in bare_cli.run("check").stdout


@pytest.mark.parametrize("words", ["check", "migrate", "imports list"])
def test_a_database_of_another_encoding_is_refused(postgres_server, bare_cli, monkeypatch, words):
    """Another encoding could not even represent every plate in a query."""
    name = f"verifyd_latin_1_{secrets.token_hex(8)}"
    with connect(postgres_server) as operator:
        operator.execute(f"CREATE DATABASE {name} TEMPLATE template0 ENCODING LATIN1 LOCALE 'C'")
        try:
            url = database_url(postgres_server, name)
            monkeypatch.setenv("VERIFYD_DATABASE_URL", url)
            assert "encoded as LATIN1" in bare_cli.refusal(*words.split())
        finally:
            operator.execute(f"DROP DATABASE {name}")


class TestUrl:
    @pytest.mark.parametrize(
        "url",
        [
            "postgresql://verifyd:hunter2%@db/verifyd",
            "postgresql://verifyd:hunter2@db/verifyd?no_such_parameter=1",
            "postgresql://verifyd:hunter2@[db/verifyd",
        ],
    )
    def test_an_invalid_url_is_refused_without_being_repeated(self, url):
        """The refusal says what to check, and not the password."""
        with pytest.raises(OperatorError, match="invalid PostgreSQL URL") as refusal:
            PostgresEngine(url)
        assert "hunter2" not in str(refusal.value)

    def test_the_settings_do_not_show_it(self):
        """A logged Config has no password in it."""
        assert "hunter2" not in repr(Config(database_url="postgresql://verifyd:hunter2@db/verifyd"))

    @pytest.mark.parametrize("port", ["1", "port"])
    def test_a_refused_connection_does_not_show_it(self, port):
        """The error of a connection is logged, and has no password."""
        engine = PostgresEngine(f"postgresql://verifyd:hunter2@127.0.0.1:{port}/verifyd")
        with pytest.raises(peewee.OperationalError) as failure:
            engine.connect()
        assert "hunter2" not in str(failure.value)


@ON_POSTGRES
class TestLostConnection:
    def test_a_read_is_tried_again(self, world, alice):
        """A request that only reads succeeds on a new connection."""
        assert alice.get(DOMAINS).status_int == 200
        for _ in range(2):
            end_all(world)
            assert alice.get(DOMAINS).status_int == 200
            end_all(world)
            assert alice.get("/readyz").status_int == 200

    def test_a_write_succeeds_if_only_its_key_check_lost_the_connection(self, world, alice):
        """If only the key check lost its connection, it is repeated and the domain made."""
        assert alice.get(DOMAINS).status_int == 200
        end_all(world)
        assert alice.post(DOMAINS, {"name": "a.example"}).status_int == 201

    def test_nothing_is_tried_again_within_a_transaction(self, world):
        """A lost transaction fails, because its effect is unknown; the next one works."""
        engine = world.engine
        with pytest.raises(peewee.OperationalError):
            rename_and_lose_connection(world)
        close_quietly(engine)
        names = [account.name for account in Account.select().order_by(Account.id).execute(engine)]
        assert names == ["alice", "bob"]

    def test_a_write_is_never_sent_twice(self, world):
        """A write outside of a transaction is not repeated: it may have succeeded."""
        world.engine.execute_sql("SELECT 1")
        end_all(world)
        with pytest.raises(peewee.OperationalError):
            Account.update(name="carol").where(Account.name == "bob").execute(world.engine)

    def test_a_changed_table_is_read_again(self, world):
        """A statement that was prepared for an older form of a table is prepared again."""
        query = 'SELECT * FROM "plan" ORDER BY "name"'
        with connect(world.store.url) as operator:
            columns = len(world.engine.execute_sql(query).fetchone())
            operator.execute("ALTER TABLE plan ADD COLUMN further integer")
            try:
                assert len(world.engine.execute_sql(query).fetchone()) == columns + 1
            finally:
                operator.execute("ALTER TABLE plan DROP COLUMN further")


@ON_POSTGRES
def test_a_cursor_serves_again_but_never_while_it_is_read(world):
    """A hot query reuses an idle cursor, and never one that is still being read."""
    engine = world.engine
    engine.rows("SELECT 1", ())
    # The used cursor comes first, then a new one.
    assert [engine.cursor().rowcount for _ in range(2)] == [1, -1]
    engine.rows("SELECT 1", ())
    numbers = engine.execute_sql("SELECT * FROM generate_series(1, 3)")
    assert numbers.fetchone() == (1,)
    assert engine.rows("SELECT 9", ()) == [(9,)]
    assert numbers.fetchall() == [(2,), (3,)]
    close_quietly(engine)
    assert engine.rows("SELECT 2", ()) == [(2,)]


def interrupt(engine: PostgresEngine) -> None:
    """Press Ctrl-C in a transaction while the server runs a statement."""
    with engine.atomic():
        Account.update(name="carol").where(Account.name == "bob").execute(engine)
        engine.connection().pgconn.send_query(b"SELECT pg_sleep(60)")
        raise KeyboardInterrupt


@ON_POSTGRES
def test_an_interruption_during_a_statement_is_raised(world):
    """The error of the rollback on the busy connection does not hide Ctrl-C; nothing is written."""
    with pytest.raises(KeyboardInterrupt):
        interrupt(world.engine)
    assert {account.name for account in Account.select().execute(world.engine)} == {"alice", "bob"}


@ON_POSTGRES
def test_a_read_only_server_does_not_stick(world, alice, caplog):
    """After a failover the former primary gives 503, and the next request reconnects (D45)."""
    assert alice.get(DOMAINS).status_int == 200
    read_only = "SELECT set_config('default_transaction_read_only', 'on', false)"
    world.app_engine.execute_sql(read_only)
    refused = alice.post(DOMAINS, {"name": "a.example"})
    assert (refused.status_int, refused.json["code"]) == (503, "database_unavailable")
    assert int(refused.headers["Retry-After"]) >= 1
    assert alice.post(DOMAINS, {"name": "a.example"}).status_int == 201


@ON_POSTGRES
def test_a_role_without_rights_is_unavailable(world, alice, caplog, roles):
    """If an operator takes rights away, it is 503: the service goes on once they are back."""
    (role,) = roles(1)
    for ask in (lambda: alice.get(DOMAINS), lambda: alice.post(DOMAINS, {"name": "a.example"})):
        world.app_engine.execute_sql(f"SET ROLE {role}")
        refused = ask()
        assert (refused.status_int, refused.json["code"]) == (503, "database_unavailable")
        assert "permission denied for table" in caplog.text
        assert ask().status_int in (200, 201)


@ON_POSTGRES
def test_a_register_that_may_not_be_read_stops_look_ups_only(
    cli, store, monkeypatch, roles, caplog
):
    """The service starts with a warning, and other registers are loaded."""
    (role,) = roles(1)
    with connect(store.url) as operator:
        monkeypatch.setenv("VERIFYD_DATABASE_URL", use_role(store, operator, role))
        cars = cli.file("cars.csv", "registration,make", "AB12CDE,FORD")
        cli.run("import", cars)
        operator.execute(f"REVOKE SELECT ON register_native.vehicle FROM {role}")
    assert cli.run("import", "--register", "other", cars).status == 0
    config = Config.from_env()
    prepare_state(config)
    fault = "The register native cannot be read: the role of Postgres may not read it; "
    assert fault in caplog.text
    engine = open_engine(config.database_url)
    metrics = InstallationState(engine, config).collect()
    values = {each.name: [sample.value for sample in each.samples] for each in metrics}
    close_quietly(engine)
    assert values["verifyd_database_up"] == [1]
    assert values["verifyd_registers_readable"] == [0]


@ON_POSTGRES
def test_an_error_within_a_copy_is_known_for_what_it_is(world):
    """An error that Peewee has wrapped twice has its number, and its message no values."""
    with pytest.raises(peewee.IntegrityError) as failure, driver_errors_translated():
        Account.update(name="alice").execute(world.engine)
    assert sqlstate(failure.value) == "23505"
    assert "alice" not in message_of(failure.value)


@ON_POSTGRES
def test_a_standby_answers_nobody(world, monkeypatch, caplog):
    """Its data may be old: a key may have been revoked meanwhile, or made, or a session ended."""
    monkeypatch.setattr(PostgresEngine, "is_standby", lambda _: peewee.SQL("true"))
    for key in (world.alice_key, new_token("000000").text):
        refused = world.client(key).get(DOMAINS)
        assert (refused.status_int, refused.json["code"]) == (503, "database_unavailable")
    with pytest.raises(peewee.OperationalError, match="the server is a standby"):
        Sessions(world.engine, 0).find("x" * TOKEN_CHARACTERS)


@ON_POSTGRES
def test_a_statement_that_takes_too_long_is_unavailable(world, monkeypatch, caplog):
    """A statement over its time limit gives 503, not 500, and the next request succeeds."""
    monkeypatch.setattr("app.storage.engine.SERVING_LIMITS", {"statement_timeout": "50ms"})
    client = world.client(world.alice_key)
    assert client.get(DOMAINS).status_int == 200
    with connect(world.store.url) as operator, operator.transaction():
        operator.execute("LOCK TABLE domain IN ACCESS EXCLUSIVE MODE")
        refused = client.get(DOMAINS)
    assert (refused.status_int, refused.json["code"]) == (503, "database_unavailable")
    assert client.get(DOMAINS).status_int == 200


@ON_POSTGRES
def test_the_log_does_not_quote_what_was_sent(world, alice, caplog):
    """Postgres' details can hold a value, so the log has only the error itself."""
    with connect(world.store.url) as operator:
        operator.execute(
            "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN "
            "RAISE 'no space' USING ERRCODE = '53100', DETAIL = NEW.name; END$$"
        )
        operator.execute(
            "CREATE TRIGGER fail BEFORE INSERT ON domain FOR EACH ROW EXECUTE FUNCTION fail()"
        )
        try:
            assert alice.post(DOMAINS, {"name": "a.example"}).status_int == 503
        finally:
            operator.execute("DROP FUNCTION fail CASCADE")
    assert "no space" in caplog.text
    assert "a.example" not in caplog.text


@ON_POSTGRES
def test_every_key_sorts_by_code_point(world):
    """No key uses the database's collation, which a system upgrade can change."""
    world.load([{"registration": "AB12CDE", "make": "FORD"}])
    indexed = world.engine.execute_sql(
        "SELECT DISTINCT relation.relname, attname, collname FROM pg_index "
        "JOIN pg_attribute ON attrelid = indrelid AND attnum = ANY (indkey) "
        "JOIN pg_collation ON pg_collation.oid = attcollation "
        "JOIN pg_class relation ON relation.oid = indrelid "
        "WHERE indisunique AND relnamespace::regnamespace::text IN ('public', 'register_native')"
    ).fetchall()
    ours = {(table, column): order for table, column, order in indexed}
    del ours["schema_migration", "name"]  # Peewee's own, in ASCII, never sorted
    assert {("domain", "name"), ("vehicle", "registration")} <= ours.keys()
    assert set(ours.values()) == {"C"}
