"""`verifyd copy`: copies everything to Postgres unchanged, or nothing (D46)."""

import json
import re
from contextlib import suppress
from datetime import date

import pytest
from webtest import TestResponse

from app.accounts.administration import create_account, set_account_plan, set_plan
from app.accounts.lifecycle import delete_account
from app.actions import list_actions
from app.config import Config
from app.domains.repository import DomainExists, Domains
from app.main import create_app
from app.operations.copy import MAIN_TABLES, copy_database
from app.registers.demo import write_files
from app.registers.history import list_loads
from app.registers.lock import locked
from app.registers.models import RegisterLoad
from app.storage.engine import Engine, close_quietly, open_engine
from app.storage.schema import migrate
from app.storage.sqlite import SqliteEngine
from app.storage.versions import Installation
from tests.conftest import Client, World
from tests.enquiry import set_enquiry

CAR = {"registration": "AB12CDE", "make": "FORD"}
DAY = date(2026, 6, 1)
HOSTILE = ("\\N", "\\", "a\\nb", "a\tb", "a\nb\r\n", "Škoda 🚗", '"', "'; --", "\x7f\b\f\v", "")


@pytest.fixture
def database_kind() -> str:
    """SQLite: the copy is always from it."""
    return "sqlite"


@pytest.fixture
def copy(world, bare_cli, empty_postgres):
    """`copy("--json")` copies the world to an empty Postgres, and returns how that ended."""

    def run(*words: str):
        return bare_cli.run("copy", "--from", world.store.url, "--to", empty_postgres, *words)

    return run


@pytest.fixture
def target(empty_postgres):
    """The Postgres database."""
    engine = open_engine(empty_postgres)
    yield engine
    close_quietly(engine)


def client_of(world: World, engine: Engine, url: str) -> Client:
    """Return a client of the service on the copy, with alice's key."""
    config = Config(database_url=url, state_dir=world.config.state_dir, access_log=False)
    return Client(create_app(config, engine), world.alice_key)


def require_alike(answers: list[TestResponse]) -> None:
    """Fail if two answers differ in any byte."""
    now = rb'"lastChecked":"[^"]+"'  # The time of the request (D21).
    first, second = ((each.status, re.sub(now, b"", each.body)) for each in answers)
    assert first == second


def require_empty(target: Engine) -> None:
    """Fail if the target holds more than the plans of a new database."""
    counts = {table: len(held(target, table)) for table in MAIN_TABLES}
    assert counts == dict.fromkeys(MAIN_TABLES, 0) | {"plan": 3}


def held(engine: Engine, table: str) -> list[tuple[object, ...]]:
    """Return all rows of a table of the main database."""
    rows: list[tuple[object, ...]] = engine.execute_sql(f'SELECT * FROM "{table}"').fetchall()
    return sorted(rows, key=str)


class TestContent:
    def test_the_demo_answers_alike(self, world, copy, target, empty_postgres, tmp_path):
        """Both databases answer every demo vehicle and domain with the same bytes (D46)."""
        for path in write_files(tmp_path, DAY):
            world.load_files(path, register="demo")
        for number in range(3):
            Domains(world.engine).create_domain(1, f"d{number}.example.com", 10)
        set_account_plan(world.engine, "alice", "enterprise")
        assert copy().status == 0
        clients = world.client(world.alice_key), client_of(world, target, empty_postgres)
        query = "SELECT registration FROM {0}.vehicle UNION SELECT registration FROM {0}.policy"
        plates: list[str] = [
            plate for (plate,) in target.execute_sql(query.format("register_demo"))
        ]
        assert len(plates) == 300
        sent = {"registrations": sorted(plates), "asOf": DAY.isoformat()}
        require_alike([client.post("/v1/vehicle/bulk-insurance", sent) for client in clients])
        for plate in plates:
            address = f"/v1/compliance/{plate}?asOf={DAY}"
            require_alike([client.get(address) for client in clients])
        for name in ("", "/d0.example.com", "/d1.example.com", "/d2.example.com"):
            require_alike([client.get(f"/api/domains{name}") for client in clients])

    def test_the_target_is_the_setting_by_default(self, world, bare_cli, target, monkeypatch):
        """By default the target is the setting: users of the machine can read a command's words."""
        monkeypatch.setenv("VERIFYD_DATABASE_URL", target.database)
        assert bare_cli.run("copy", "--from", world.store.url).status == 0
        assert held(target, "account") == held(world.engine, "account")

    def test_every_row_of_the_main_database_arrives(self, world, copy, target):
        """Plans, accounts, key hashes, domains, registers and history keep their numbers."""
        world.load([CAR])
        set_plan(world.engine, "own", requests=7, window_seconds=9, bulk_max=5, domains_max=1)
        set_enquiry(world.engine, "own", "required", "THEFT,COLLISION")
        world.key_of("carol", "own", label="\u00fc")
        assert copy().status == 0
        for table in MAIN_TABLES:
            assert held(target, table) == held(world.engine, table), table

    @pytest.mark.parametrize("text", HOSTILE)
    def test_texts_arrive_as_they_are(self, world, copy, target, text):
        """Backslashes, line ends and texts that look like a null arrive unchanged."""
        RegisterLoad.insert(
            register="native",
            kind="vehicles",
            mode="merge",
            format="x",
            files=text,
            reason=text,
            status="failed",
            loaded_by="x",
            started_at=0,
        ).execute(world.engine)
        assert copy().status == 0
        (load,) = list_loads(target)
        assert (load.files, load.reason) == (text, text)

    def test_new_accounts_and_loads_get_the_next_numbers(self, world, copy, target):
        """New numbers continue after the source's: a number is an account's bucket (D11)."""
        world.load([CAR])
        assert copy().status == 0
        assert create_account(target, "carol").id == 3
        assert [each.id for each in list_actions(target)] == [5, 4, 3, 2, 1]
        assert (
            RegisterLoad.insert(
                register="x",
                kind="x",
                mode="x",
                format="x",
                files="",
                status="failed",
                loaded_by="x",
                started_at=0,
            ).execute(target)
            == 2
        )

    def test_it_prints_what_was_copied(self, world, copy):
        """The output has a line per table, with its number of rows and their checksum."""
        world.load([CAR])
        told = {each["table"]: each for each in json.loads(copy("--json").stdout)}
        assert told["account"]["rows"] == 2
        assert told["register_native.vehicle"]["rows"] == 1
        assert len(told["account"]["sha256"]) == 64
        assert len(told) == 16


class TestAgain:
    def test_a_second_run_compares_and_changes_nothing(self, world, copy, target):
        """The second run prints the same as the first."""
        world.load([CAR])
        assert copy("--json") == copy("--json")

    @pytest.mark.parametrize("change", ["domain", "plan", "account"])
    def test_other_data_is_left_alone(self, world, copy, target, change):
        """A target with other data is refused and stays unchanged."""
        assert copy().status == 0
        if change == "domain":
            Domains(target).create_domain(1, "a.example.com", 10)
        elif change == "plan":
            set_plan(target, "free", requests=7, window_seconds=9, bulk_max=5, domains_max=1)
        else:
            create_account(target, "carol")
        before = [held(target, table) for table in MAIN_TABLES]
        ended = copy()
        assert ended.status == 1
        assert f"the target holds other data ({change}); copy into an empty" in ended.stderr
        assert [held(target, table) for table in MAIN_TABLES] == before

    def test_rows_of_a_register_are_compared_too(self, world, copy, target):
        """The comparison finds a changed vehicle."""
        world.load([CAR])
        assert copy().status == 0
        target.execute_sql("UPDATE register_native.vehicle SET make = 'OPEL'")
        assert "other data (register_native.vehicle)" in copy().stderr


class TestRefused:
    def test_a_target_that_stores_something_else_is_refused(self, world, copy, target):
        """A target that stores something else is detected, and emptied."""
        migrate(target)
        target.execute_sql(
            "CREATE FUNCTION shout() RETURNS trigger LANGUAGE plpgsql AS "
            "$$BEGIN NEW.name := upper(NEW.name); RETURN NEW; END$$"
        )
        target.execute_sql(
            "CREATE TRIGGER shout BEFORE INSERT ON account FOR EACH ROW EXECUTE FUNCTION shout()"
        )
        ended = copy()
        assert ended.status == 1
        assert "account: the rows that were read back differ from those written" in ended.stderr
        require_empty(target)

    def test_a_newer_target_is_left_alone(self, world, copy, target):
        """A target of a newer program is refused and stays unchanged (D29)."""
        migrate(target)
        Installation.update(schema_version=99, oldest_program=98).execute(target)
        assert "upgrade verifyd" in copy().stderr
        require_empty(target)

    def test_another_programs_database_is_left_alone(self, copy, target):
        """Another program's tables stay unchanged (D27)."""
        target.execute_sql("CREATE TABLE theirs (a integer)")
        assert "another program" in copy().stderr
        assert target.get_tables() == ["theirs"]

    def test_a_load_in_the_source_is_not_cut_in_two(self, world, copy, target):
        """While a register is being loaded, the copy is refused."""
        world.load([CAR])
        with locked(world.engine, "native"):
            assert "another load of the register native is running" in copy().stderr
        require_empty(target)

    def test_only_from_sqlite_to_postgres(self, world, bare_cli, empty_postgres):
        """Other directions are refused and change nothing: they have tools of their own."""
        for source, target in (
            (world.store.url, world.store.url),
            (empty_postgres, world.store.url),
        ):
            ended = bare_cli.run("copy", "--from", source, "--to", target)
            assert ended.status == 1
        assert "does not exist; run " in bare_cli.refusal(
            "copy", "--from", f"sqlite:///{world.directory}/none.db", "--to", empty_postgres
        )

    def test_a_wrong_url_is_a_usage_error_and_not_repeated(self, bare_cli):
        """The URL can hold a password, so the message leaves it out."""
        told = bare_cli.misuse("copy", "--from", "sqlite:///x", "--to", "mysql://u:hunter2@db/x")
        assert "must be sqlite:///PATH or postgresql://" in told
        assert "hunter2" not in told


def test_domains_are_created_while_it_runs(world, target, empty_postgres):
    """The source keeps serving; domains created while the copy runs are not included."""

    def meanwhile(table: str, rows: int) -> None:
        if table == "plan":
            other = open_engine(world.store.url)
            with suppress(DomainExists):
                Domains(other).create_domain(1, "late.example.com", 10)
            close_quietly(other)

    Domains(world.engine).create_domain(1, "early.example.com", 10)
    source = SqliteEngine(world.database)
    copy_database(source, target, meanwhile)
    close_quietly(source)
    assert [row[2] for row in held(target, "domain")] == ["early.example.com"]
    assert len(held(world.engine, "domain")) == 2


def test_the_numbers_of_deleted_accounts_are_not_given_again(world, copy, target):
    """The copy continues the source's account numbers (D81)."""
    number = create_account(world.engine, "carol").id
    delete_account(world.engine, "carol", lambda _: 0)
    assert copy().status == 0
    assert create_account(target, "dave").id == number + 1
