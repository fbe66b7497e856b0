"""`verifyd copy`: copies everything unchanged, or nothing, in both directions (D46)."""

import json
import re
from contextlib import suppress
from datetime import UTC, date
from itertools import chain

import peewee
import pytest
from playhouse.migrations import Runner
from webtest import TestResponse

from app.accounts.administration import (
    create_account,
    create_key,
    delete_account,
    require_key,
    set_account_plan,
    set_plan,
)
from app.accounts.authentication import Authenticator
from app.accounts.restrictions import Restrictions
from app.accounts.usage.report import By, usage_of_days
from app.accounts.usage.store import add_events
from app.actions import list_actions
from app.audit.hosts import note_on, off_fault
from app.backup.copy import MAIN_TABLES, copy_database
from app.config import Config
from app.domains.repository import DomainExists, Domains
from app.errors import OperatorError
from app.main import create_app
from app.people.plates import PersonDay
from app.people.sessions import create_link
from app.registers.applying.table import RegisterTable
from app.registers.demo import write_files
from app.registers.generations import locked
from app.registers.history import RegisterLoad, list_loads
from app.settings.roles import Role
from app.storage.engine import Engine, close_quietly, open_engine
from app.storage.registers import in_precedence, read_state
from app.storage.stores import migrate, store_of
from app.storage.tables import Kind, qualified
from app.storage.versions import (
    SCRIPTS,
    Installation,
    program_schema,
    set_tells_unknown,
    tells_unknown,
    versions,
)
from app.vehicles.records import basis_of
from app.watches.feed import CursorGone, Feed, id_of
from app.watches.tables import Watch, WatchEvent, WatchFeed
from tests.conftest import ON_POSTGRES, ON_SQLITE, STORAGE, Client, World
from tests.enquiry import set_enquiry, set_suggest
from tests.postgres import changed_url, connect

pytestmark = STORAGE

CAR = {"registration": "AB12CDE", "make": "FORD"}
POLICY = {
    "registration": "AB12CDE",
    "number": "1",
    "insurer": "Acme",
    "validFrom": "2026-01-01",
    "validTo": "2026-12-31",
}
DAY = date(2026, 6, 1)
TINY = {"requests": 7, "window_seconds": 9, "bulk_max": 5, "domains_max": 1}
HOSTILE = ("\\N", "\\", "a\\nb", "a\tb", "a\nb\r\n", "Škoda 🚗", '"', "'; --", "\x7f\b\f\v", "")


TEXTS_CHANGED = {
    "postgres": (
        "CREATE FUNCTION shout() RETURNS trigger LANGUAGE plpgsql AS "
        "$$BEGIN NEW.name := upper(NEW.name); RETURN NEW; END$$",
        "CREATE TRIGGER shout BEFORE INSERT ON account FOR EACH ROW EXECUTE FUNCTION shout()",
    ),
    "sqlite": (
        "CREATE TRIGGER shout AFTER INSERT ON account BEGIN "
        "UPDATE account SET name = upper(name) WHERE id = NEW.id; END",
    ),
}


@pytest.fixture
def target_url(request, world) -> str:
    """The URL of an empty database of the other kind than the world's."""
    if world.engine.dialect == "sqlite":
        url: str = request.getfixturevalue("empty_postgres")
        return url
    return f"sqlite:///{world.directory / 'copied.db'}"


@pytest.fixture
def copy(world, bare_cli, target_url):
    """`copy("--json")` copies the world to the other database, and returns how that ended."""

    def run(*words: str):
        world.engine.close()
        return bare_cli.run("copy", "--from", world.store.url, "--to", target_url, *words)

    return run


@pytest.fixture
def target(target_url):
    """The other database."""
    engine = open_engine(target_url, create=True)
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
    assert registers_stored(target) == []


def registers_stored(engine: Engine) -> list[str]:
    """Return the names of the schemas or files in which registers are stored."""
    if engine.file:
        return [path.name for path in engine.file.parent.glob("copied.register_*.db*")]
    query = "SELECT nspname FROM pg_namespace WHERE nspname ~ 'register'"
    return [name for (name,) in engine.execute_sql(query).fetchall()]


def held(engine: Engine, table: str) -> list[tuple[object, ...]]:
    """Return all rows of a table of the main database."""
    rows: list[tuple[object, ...]] = engine.execute_sql(f'SELECT * FROM "{table}"').fetchall()
    return sorted(rows, key=str)


def watched(engine: Engine) -> None:
    """Let the first account watch a plate, of which it was told something."""
    about = {"account": 1, "registration": "AB12CDE"}
    WatchFeed.insert(account=1, feed="0123abcd", last_event=1).execute(engine)
    Watch.insert(**about, lead_days="28,14", created_at=1, day="2026-11-25", told="null").execute(
        engine
    )
    event = {"number": 1, "at": 1, "type": "vehicle.unknown", "before": "null", "after": "null"}
    WatchEvent.insert(**about, **event).execute(engine)


class TestContent:
    def test_the_demo_answers_alike(self, world, copy, target, target_url, tmp_path):
        """Both databases answer every demo vehicle and domain with the same bytes (D46)."""
        for path in write_files(tmp_path, DAY):
            world.load_files(path, register="demo")
        for number in range(3):
            Domains(world.engine).create_domain(1, f"d{number}.example.com", 10)
        set_account_plan(world.engine, "alice", "enterprise")
        assert copy().status == 0
        clients = world.client(world.alice_key), client_of(world, target, target_url)
        target.attach_registers(in_precedence(read_state(target), ()))
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

    @pytest.mark.parametrize("tells", [True, False])
    def test_answers_tell_the_same(self, world, copy, target, tells):
        """The copy has the source's rule for what is not known, whatever it had before (D198)."""
        world.load([CAR])
        set_tells_unknown(world.engine, tells)
        migrate(target)
        set_tells_unknown(target, not tells)
        for _ in range(2):
            assert copy().status == 0
            assert tells_unknown(target) == tells
            assert (basis_of(read_state(target), world.config) is not None) == tells

    @pytest.mark.parametrize("given", ["--from", "--to"])
    def test_the_other_database_is_the_setting(
        self, world, bare_cli, target, target_url, given, monkeypatch
    ):
        """The option that is not given is the setting: anybody can read a command's words."""
        urls = {"--from": world.store.url, "--to": target_url}
        (setting,) = urls.keys() - {given}
        monkeypatch.setenv("VERIFYD_DATABASE_URL", urls[setting])
        world.engine.close()
        assert bare_cli.run("copy", given, urls[given]).status == 0
        assert held(target, "account") == held(world.engine, "account")

    def test_every_row_of_the_main_database_arrives(self, world, copy, target):
        """Plans, accounts, key hashes, domains, registers and history keep their numbers."""
        world.load([CAR])
        set_plan(
            world.engine,
            "own",
            {"requests": 7, "window_seconds": 9, "bulk_max": 5, "domains_max": 1},
        )
        set_enquiry(world.engine, "own", "required", "THEFT,COLLISION")
        set_suggest(world.engine, "own", "on")
        world.key_of("carol", "own", label="\u00fc")
        set_plan(world.engine, "trial", TINY, sandbox="on")
        world.key_of("tester", "trial")
        watched(world.engine)
        for person in ("\u00e9va", "zo\u00eb", "ann"):
            row = {"day": "2026-11-25", "person": person, "role": "clerk", "plates": 7}
            PersonDay.insert(row).execute(world.engine)
        assert copy().status == 0
        for table in MAIN_TABLES:
            assert held(target, table) == held(world.engine, table), table

    def test_events_that_no_key_has_caused_stay_counted(self, world, copy, target):
        """Postgres stores their empty key as spaces, which nobody sees."""
        add_events(world.engine, 1, "alice", 3, UTC)
        assert copy().status == 0
        add_events(target, 1, "alice", 4, UTC)
        for engine, events in ((world.engine, 3), (target, 7)):
            (used,) = usage_of_days(engine, date.min, date.max, [By.KEY])
            assert (used.key, used.answers, used.events) == ("", 0, events)

    def test_a_restricted_key_stays_restricted(self, world, copy, target):
        """It works in the copy, and only as before; programs without restrictions refuse it."""
        restrictions = Restrictions("domains", ["192.0.2.0/24"])
        key = create_key(world.engine, "alice", restrictions=restrictions)[1]
        assert copy().status == 0
        caller = Authenticator(target).find_caller(key.text)
        assert caller
        assert (caller.only, caller.networks) == ("domains", "192.0.2.0/24")
        assert require_key(target, key.key_id).secret_hash != key.secret_hash

    def test_texts_arrive_as_they_are(self, world, copy, target):
        """Backslashes, line ends and texts that look like a null arrive unchanged."""
        for text in HOSTILE:
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
        assert [(each.files, each.reason) for each in reversed(list_loads(target))] == [
            (text, text) for text in HOSTILE
        ]

    def test_links_and_sessions_stay_behind(self, world, copy, target):
        """Nobody who signed in to one service is signed in to the other (D132)."""
        create_link(world.engine, "ann", Role.VIEWER)
        assert copy().status == 0
        assert held(target, "console_link") == []

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

    def test_a_host_that_records_must_do_so_in_the_copy(self, world, copy, target):
        """The switch to the other database does not switch the trail off (D166)."""
        note_on(world.engine)
        assert copy().status == 0
        assert "the audit trail of this host is on" in off_fault(target)

    def test_it_prints_what_was_copied(self, world, copy):
        """The output has a line per table, with its number of rows and their checksum."""
        world.load([CAR])
        told = {each["table"]: each for each in json.loads(copy("--json").stdout)}
        assert told["account"]["rows"] == 2
        assert told["register_native.vehicle"]["rows"] == 1
        assert len(told["account"]["sha256"]) == 64
        assert len(told) == 21


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
            set_plan(
                target,
                "free",
                {"requests": 7, "window_seconds": 9, "bulk_max": 5, "domains_max": 1},
            )
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
        (register,) = in_precedence(read_state(target), ())
        with store_of(target, "native").opened(register.generation) as opened:
            table = qualified(opened.schema, "vehicle")
            opened.engine.execute_sql(f"UPDATE {table} SET make = 'OPEL'")
        assert "other data (register_native.vehicle)" in copy().stderr


class TestInUse:
    """Nobody may use the source, because both databases would go on."""

    def test_a_source_in_use_is_refused(self, world, bare_cli, target, target_url):
        """A service that does nothing at this moment uses it, too."""
        world.engine.execute_sql("SELECT 1 FROM account")
        told = bare_cli.refusal("copy", "--from", world.store.url, "--to", target_url)
        assert told.startswith("the source is in use: ")
        assert "stop the service on all hosts first" in told
        require_empty(target)

    @ON_SQLITE
    def test_nobody_can_use_a_file_meanwhile(self, world, target):
        """Whoever comes while the copy runs is refused; afterwards the file is free again."""

        def meanwhile(table: str, rows: int) -> None:
            other = open_engine(world.store.url)
            with pytest.raises(peewee.OperationalError, match="locked"), other.without_waiting():
                other.execute_sql("SELECT 1 FROM account")
            close_quietly(other)

        copy_database(world.engine, target, meanwhile)
        other = open_engine(world.store.url)
        Domains(other).create_domain(1, "a.example.com", 10)
        close_quietly(other)

    @ON_POSTGRES
    def test_a_service_that_starts_meanwhile_is_found(self, world, target):
        """Then the copy is not committed; the reason names where the sessions come from."""
        other = open_engine(world.store.url, is_serving=True)

        def meanwhile(table: str, rows: int) -> None:
            other.execute_sql("SELECT 1 FROM account")

        with pytest.raises(
            OperatorError, match=r"verifyd has sessions from (a Unix socket|127\.0\.0\.1); stop"
        ):
            copy_database(world.engine, target, meanwhile)
        close_quietly(other)
        require_empty(target)

    @ON_POSTGRES
    def test_other_programs_may_use_postgres(self, world, copy, target):
        """Those that read the data, or watch the server, need not be stopped."""
        with connect(world.store.url) as reader:
            reader.execute("SELECT 1 FROM account")
            assert copy().status == 0

    @ON_POSTGRES
    def test_a_name_of_the_url_is_looked_for(self, world, bare_cli, target_url):
        """A service whose URL names its sessions otherwise is found by the same URL."""
        url = changed_url(world.store.url, application_name="other")
        service = open_engine(url, is_serving=True)
        service.execute_sql("SELECT 1")
        world.engine.close()
        assert "in use" in bare_cli.refusal("copy", "--from", url, "--to", target_url)
        close_quietly(service)


class TestRehearsal:
    def test_only_a_rehearsal_renews_feeds(self, world, bare_cli, target, target_url):
        """It copies what is in use, and a cursor of the source is gone in its copy."""
        watched(world.engine)
        (event,) = Feed(world.engine).list_events(1, None, 1).events
        cursor = id_of("0123abcd", event)
        words = ("copy", "--from", world.store.url, "--to", target_url)
        ended = bare_cli.run(*words, "--rehearsal")
        assert ended.status == 0
        assert "are the same in both databases; this was a rehearsal" in ended.stdout
        with pytest.raises(CursorGone):
            Feed(target).list_events(1, cursor, 1)
        assert Feed(world.engine).list_events(1, cursor, 1).next == cursor
        close_quietly(world.engine)
        assert "the target holds other data (watch_feed)" in bare_cli.refusal(*words)

    def test_a_copy_continues_the_feeds(self, world, copy, target):
        """A cursor of the source leads to the same events in the copy."""
        watched(world.engine)
        (event,) = Feed(world.engine).list_events(1, None, 1).events
        cursor = id_of("0123abcd", event)
        assert copy().status == 0
        assert Feed(target).list_events(1, None, 1).next == cursor
        assert Feed(target).list_events(1, cursor, 1).events == []

    def test_a_target_with_data_is_not_rehearsed(self, copy, target):
        """Its feeds would stay those of the source."""
        assert copy().status == 0
        ended = copy("--rehearsal")
        assert ended.stderr == "the target holds data; rehearse with an empty database\n"


class TestRefused:
    def test_a_target_that_stores_something_else_is_refused(self, world, copy, target):
        """A target that stores something else is detected, and emptied."""
        migrate(target)
        for statement in TEXTS_CHANGED[target.dialect]:
            target.execute_sql(statement)
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

    def test_a_load_in_the_source_is_not_cut_in_two(self, world, bare_cli, target, target_url):
        """While a register is being loaded, even a rehearsal is refused."""
        world.load([CAR])
        words = ("copy", "--from", world.store.url, "--to", target_url, "--rehearsal")
        with locked(world.engine, "native"):
            assert "another load of the register native is running" in bare_cli.refusal(*words)
        require_empty(target)

    def test_an_older_target_with_data_is_not_migrated(self, world, copy, target):
        """Only an empty database is migrated: another one may belong to an older program."""
        with target.migration():
            Runner(target, str(SCRIPTS / "main")).up("0011_enquiry")
        told = f"the target is at schema 11, this program at {program_schema()}; run"
        assert f'{told} "verifyd migrate" on it' in copy().stderr
        assert versions(target).database == 11

    def test_a_register_whose_data_is_missing_is_named(self, world, copy, target):
        """The refusal says which register the source has lost."""
        world.load([CAR])
        store_of(world.engine, "native").remove_unused(set())
        if world.engine.dialect == "postgres":
            world.engine.execute_sql("DROP SCHEMA register_native CASCADE")
        assert "the data of the register native is missing" in copy().stderr
        require_empty(target)

    def test_a_database_is_not_copied_to_itself(self, world, bare_cli):
        """Source and target that are one database are refused."""
        refusal = bare_cli.refusal("copy", "--from", world.store.url, "--to", world.store.url)
        assert "are the same database" in refusal

    @ON_SQLITE
    def test_a_missing_source_is_named_with_its_option(self, world, bare_cli, empty_postgres):
        """The reason names what was given, not a setting that was not used."""
        words = ("copy", "--from", f"sqlite:///{world.directory}/none.db", "--to", empty_postgres)
        assert bare_cli.refusal(*words).endswith("none.db does not exist; check --from\n")
        assert not (world.directory / "none.db").exists()

    @ON_SQLITE
    def test_an_empty_source_is_refused(self, world, bare_cli, empty_postgres):
        """A source without tables is a mistyped URL; nothing is created for it."""
        path = world.directory / "copied.db"
        refusal = bare_cli.refusal("copy", "--from", empty_postgres, "--to", f"sqlite:///{path}")
        assert "the source is not a database of verifyd, or is empty" in refusal
        assert not path.exists()

    def test_one_of_both_options_is_required(self, bare_cli):
        """Without any option it says which ones there are."""
        assert "required: --from or --to" in bare_cli.misuse("copy")

    def test_the_option_that_is_left_out_must_be_set(self, world, bare_cli, monkeypatch, tmp_path):
        """A forgotten setting must not become a database in the current directory."""
        (tmp_path / "here").mkdir()
        monkeypatch.chdir(tmp_path / "here")
        monkeypatch.delenv("VERIFYD_DATABASE_URL")
        told = bare_cli.misuse("copy", "--from", world.store.url)
        assert "VERIFYD_DATABASE_URL is not set; give both --from and --to" in told
        assert not list((tmp_path / "here").iterdir())

    @pytest.mark.parametrize(("given", "name"), [("--from", "source"), ("--to", "target")])
    def test_a_database_that_cannot_be_used_is_named(self, world, bare_cli, tmp_path, given, name):
        """The reason says which of both databases it concerns."""
        (tmp_path / "notes.txt").write_text("This is not a database. " * 50)
        urls = dict.fromkeys(("--from", "--to"), world.store.url)
        urls[given] = f"sqlite:///{tmp_path / 'notes.txt'}"
        refusal = bare_cli.refusal("copy", *chain.from_iterable(urls.items()))
        assert refusal == f"the {name} cannot be used: file is not a database\n"

    def test_a_wrong_url_is_a_usage_error_and_not_repeated(self, bare_cli):
        """The URL can hold a password, so the message leaves it out."""
        told = bare_cli.misuse("copy", "--from", "sqlite:///x", "--to", "mysql://u:hunter2@db/x")
        assert "must be sqlite:///PATH or postgresql://" in told
        assert "hunter2" not in told


def test_a_copy_that_fails_leaves_nothing(world, copy, target):
    """What a failed copy wrote of registers is removed at once, and the next one succeeds."""

    def fail(table: str, rows: int) -> None:
        if table == "register_native.policy":
            raise KeyboardInterrupt

    world.load([CAR])
    world.load([POLICY])
    migrate(target)
    with pytest.raises(KeyboardInterrupt):
        copy_database(world.engine, target, fail)
    world.engine.close()
    require_empty(target)
    assert copy().status == 0
    assert len(registers_stored(target)) == 1


def test_what_a_killed_copy_left_is_removed(world, copy, target):
    """Rows of a register that were written, but never published, do not hinder the next copy."""
    world.load([CAR])
    migrate(target)
    with store_of(target, "native").opened_next(1) as made, made.opened.engine.atomic():
        RegisterTable(made.opened, Kind.VEHICLES).fill([[("AB12CDE", *[None] * 10, 1)]])
    assert copy().status == 0


def test_domains_are_created_while_it_is_rehearsed(world, target):
    """The source keeps serving; domains created while the copy runs are not included."""

    def meanwhile(table: str, rows: int) -> None:
        if table == "plan":
            other = open_engine(world.store.url)
            with suppress(DomainExists):
                Domains(other).create_domain(1, "late.example.com", 10)
            close_quietly(other)

    Domains(world.engine).create_domain(1, "early.example.com", 10)
    source = open_engine(world.store.url)
    copy_database(source, target, meanwhile, is_rehearsal=True)
    close_quietly(source)
    assert [row[2] for row in held(target, "domain")] == ["early.example.com"]
    assert len(held(world.engine, "domain")) == 2


def test_the_numbers_of_deleted_accounts_are_not_given_again(world, copy, target):
    """The copy continues the source's account numbers (D81)."""
    number = create_account(world.engine, "carol").id
    delete_account(world.engine, "carol", lambda _: 0)
    assert copy().status == 0
    assert create_account(target, "dave").id == number + 1


@ON_SQLITE
def test_a_database_without_accounts_is_copied(cli, empty_postgres):
    """Before the first account there is no number to continue after."""
    assert cli.run("copy", "--to", empty_postgres).status == 0
