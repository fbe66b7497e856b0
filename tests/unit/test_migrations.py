"""Migrations of a database with data (D29)."""

import hmac
import shutil
from collections.abc import Iterator
from datetime import UTC
from pathlib import Path

import peewee
import pytest

from app.accounts.administration import (
    create_account,
    create_key,
    list_accounts,
    list_plans,
    migrate_installation,
    require_plan,
    revoke_key,
    rotate_key,
)
from app.accounts.authentication import Authenticator
from app.accounts.models import Plan
from app.accounts.restrictions import Restrictions
from app.accounts.tokens import new_token
from app.accounts.usage.counts import Counts
from app.accounts.usage.report import By, usage_of_hours
from app.accounts.usage.store import UsageWriter
from app.actions import list_actions
from app.people.plates import PersonDay
from app.registers.generations import Generations
from app.registers.history import find_load
from app.storage import versions
from app.storage.engine import Engine, close_quietly, open_engine
from app.storage.postgres import PostgresEngine
from app.storage.registers import KeptRegister, Register
from app.storage.stores import migrate, store_of
from app.watches.repository import Watches
from app.watches.tables import WatchFeed
from tests.conftest import ON_SQLITE, STORAGE

pytestmark = STORAGE

FORMER = (
    "INSERT INTO account (tag, name, plan_id, created_at) VALUES ('aaaaaa', 'acme', 'free', 1)",
    "INSERT INTO api_key (id, account_id, secret_hash, label, created_at) "
    "VALUES ('abcdefgh', 1, 'x', '', 1)",
    "INSERT INTO register_load (register, kind, mode, format, files, status, rows, loaded, "
    "changed, rejected, skipped, loaded_by, started_at) "
    "VALUES ('native', 'vehicles', 'merge', 'x', 'x', 'done', 1, 1, 1, 0, 0, 'x', 1)",
)
"""What a program of schema 6 writes: an account, a key and a load."""


@pytest.fixture
def engine(request: pytest.FixtureRequest, database_kind: str, tmp_path: Path) -> Iterator[Engine]:
    """An empty database."""
    if database_kind == "sqlite":
        engine = open_engine(f"sqlite:///{tmp_path / 'verifyd.db'}", create=True)
    else:
        engine = open_engine(request.getfixturevalue("empty_postgres"))
    yield engine
    close_quietly(engine)


@pytest.fixture
def at_schema(engine, tmp_path, monkeypatch):
    """`at_schema(N)` migrates like a program of schema N."""

    def migrate_to(number: int) -> None:
        shutil.copytree(versions.SCRIPTS, tmp_path / "migrations")
        for script in (tmp_path / "migrations" / "main").glob("[0-9]*.py"):
            if int(script.name[:4]) > number:
                script.unlink()
        with monkeypatch.context() as patched:
            for module in (versions, versions):
                patched.setattr(module, "SCRIPTS", tmp_path / "migrations")
            migrate(engine)

    return migrate_to


def test_kept_states_can_still_be_rolled_back_to(engine, at_schema):
    """A kept state keeps its entry, and on Postgres its schema gets its number."""
    at_schema(3)
    entry = {"name": "native", "kinds": "v", "vehicles": 1, "loaded_at": 1_900_000_000}
    for model, generation in ((KeptRegister, 1), (Register, 2)):
        model.insert(**entry, generation=generation).execute(engine)
        with store_of(engine, "native").opened(generation) as (register, name):
            versions.migrate_register(register, name)
        if isinstance(engine, PostgresEngine) and model is KeptRegister:
            engine.execute_sql("ALTER SCHEMA register_native RENAME TO kept_register_native")
    assert "0004_snapshots" in migrate(engine)
    generations = Generations(engine, "native")
    (kept,) = generations.list_kept()
    assert (kept.generation, kept.vehicles) == (1, 1)
    assert generations.store.has_waiting(1)
    assert generations.store.has_current(2)


@ON_SQLITE
def test_rows_of_registers_stay_in_the_tree_of_their_key(engine):
    """Peewee's migrator builds a new table for a new type or default, without WITHOUT ROWID."""
    migrate(engine)
    with store_of(engine, "native").opened(1) as (register, name):
        versions.migrate_register(register, name)
        in_tree = register.execute_sql("SELECT name FROM pragma_table_list WHERE wr").fetchall()
    assert {("vehicle",), ("policy",), ("fine",)} <= set(in_tree)


def test_the_record_of_actions_begins_empty(engine, at_schema):
    """What was done before the migration is in no record, and its loads are nobody's (D130)."""
    at_schema(6)
    for statement in FORMER:
        engine.execute_sql(statement)
    assert migrate(engine)[0] == "0007_actions"
    assert list_actions(engine) == []
    assert find_load(engine, 1).actor is None
    revoke_key(engine, "abcdefgh")
    assert [each.action for each in list_actions(engine)] == ["keys.revoke"]


def test_the_former_program_writes_beside_the_record(engine, at_schema):
    """A program of schema 6 adds accounts and loads, and they stay out of the record (D29)."""
    at_schema(6)
    migrate(engine)
    for statement in FORMER:
        engine.execute_sql(statement)
    assert versions.versions(engine).oldest_program == 1
    assert find_load(engine, 1).status == "done"
    create_account(engine, "new")
    assert [each.subject for each in list_actions(engine)] == ["new"]


def test_usage_is_counted_after_a_migration(engine, at_schema, tmp_path):
    """A database with accounts gets empty tables of usage; the release before can use it (D29)."""
    at_schema(7)
    engine.execute_sql(FORMER[0])
    assert "0008_usage" in migrate(engine)
    key = create_key(engine, "acme")[1].text
    caller = Authenticator(engine).find_caller(key)
    assert caller
    assert usage_of_hours(engine, (By.KEY,)) == []
    counts = Counts({})
    counts.add(caller, "", "GET", 404, 0)
    UsageWriter(counts, engine, UTC, tmp_path).flush()
    (used,) = usage_of_hours(engine, (By.KEY,))
    assert (used.key, used.answers) == (caller.key_id, 1)
    assert versions.versions(engine)._replace(program=7).is_served


def test_the_first_release_is_upgraded_and_can_come_back(engine, at_schema):
    """0.1.0 had schema 2. Its data stays, and it can still write to the database (D194)."""
    at_schema(2)
    for statement in FORMER:
        engine.execute_sql(statement)
    migrate(engine)
    assert find_load(engine, 1).status == "done"
    revoke_key(engine, "abcdefgh")
    assert versions.versions(engine)._replace(program=2).is_served
    further = (("aaaaaa", "bbbbbb"), ("acme", "new"), ("abcdefgh", "ijklmnop"))
    for statement in FORMER:
        for before, after in further:
            statement = statement.replace(f"'{before}'", f"'{after}'")
        engine.execute_sql(statement)
    assert [each.name for each in list_accounts(engine)] == ["acme", "new"]
    assert find_load(engine, 2).status == "done"


KEY_OF_FORMER = (
    "SELECT secret_hash, label, expires_at, revoked_at, replaced_by FROM api_key WHERE id = '{}'"
)
"""What a program of schema 15 reads of a key: it compares the hash, and accepts the key."""


def test_the_former_program_refuses_restricted_keys(engine, at_schema):
    """It would ignore their restrictions (D178). Keys without any work in both programs."""
    at_schema(15)
    engine.execute_sql(FORMER[0])
    columns = "id, account_id, secret_hash, label, created_at"
    old = new_token("aaaaaa")
    insert = f"INSERT INTO api_key ({columns}) VALUES ('{{}}', 1, '{{}}', '', 1)"
    engine.execute_sql(insert.format(old.key_id, old.secret_hash))
    assert "0017_restricted_keys" in migrate(engine)
    later = new_token("aaaaaa")
    engine.execute_sql(insert.format(later.key_id, later.secret_hash))
    plain = create_key(engine, "acme")[1]
    restricted = [
        create_key(engine, "acme", restrictions=each)[1]
        for each in (Restrictions("domains", []), Restrictions(None, ["::/0"]))
    ]
    restricted.append(rotate_key(engine, restricted[0].key_id)[1])
    authenticator = Authenticator(engine)
    for token in (old, later, plain, *restricted):
        caller = authenticator.find_caller(token.text)
        assert caller
        assert bool(caller.only or caller.networks) == (token in restricted)
        secret_hash, *_ = engine.execute_sql(KEY_OF_FORMER.format(token.key_id)).fetchone()
        is_right = hmac.compare_digest(secret_hash, token.secret_hash)
        assert is_right == (token not in restricted)
    assert versions.versions(engine)._replace(program=15).is_served


def test_plans_ask_for_nothing_and_suggest_nothing_until_they_are_told_to(engine, at_schema):
    """So do plans that the former program creates in the new database (D175)."""
    at_schema(9)
    former = {"requests": 7, "window_seconds": 60, "bulk_max": 5, "domains_max": 1}
    columns = f"name, {', '.join(former)}"
    values = ", ".join(map(str, former.values()))
    insert = f"INSERT INTO plan ({columns}) VALUES"
    engine.execute_sql(f"{insert} ('own', {values})")
    assert {"0011_enquiry", "0016_suggest"} <= set(migrate(engine))
    engine.execute_sql(f"{insert} ('later', {values})")
    for name in ("standard", "own", "later"):
        plan = require_plan(engine, name)
        assert (plan.enquiry, plan.enquiry_reasons, plan.suggest) == ("off", "", "off")
    assert require_plan(engine, "own").requests == 7
    assert versions.versions(engine)._replace(program=15).is_served


def test_no_plan_becomes_a_sandbox(engine, at_schema):
    """Nor does one that the former program creates, and keys stay valid (D180)."""
    at_schema(15)
    insert = "INSERT INTO plan (name, requests, window_seconds, bulk_max, domains_max) VALUES"
    engine.execute_sql(f"{insert} ('own', 7, 60, 5, 1)")
    engine.execute_sql(FORMER[0])
    token = new_token("aaaaaa")
    engine.execute_sql(
        "INSERT INTO api_key (id, account_id, secret_hash, label, created_at) "
        f"VALUES ('{token.key_id}', 1, '{token.secret_hash}', '', 1)"
    )
    assert "0018_sandbox" in migrate(engine)
    engine.execute_sql(f"{insert} ('later', 7, 60, 5, 1)")
    assert not any(plan.is_sandbox for plan in list_plans(engine))
    assert Authenticator(engine).find_caller(token.text)
    assert versions.versions(engine)._replace(program=15).is_served


def test_no_plan_allows_watches_until_it_is_told_to(engine, at_schema):
    """Nor does one that the former program creates; what it deletes takes its watches with it."""
    at_schema(18)
    engine.execute_sql(FORMER[0])
    assert "0019_watches" in migrate(engine)
    insert = "INSERT INTO plan (name, requests, window_seconds, bulk_max, domains_max) VALUES"
    engine.execute_sql(f"{insert} ('later', 7, 60, 5, 1)")
    assert not any(plan.watches_max for plan in list_plans(engine))
    engine.close()  # A migration switches foreign keys off for its connection.
    WatchFeed.insert(account=1, feed="0123abcd").execute(engine)
    engine.execute_sql("DELETE FROM account WHERE id = 1")
    assert WatchFeed.select().count(engine) == 0
    assert versions.versions(engine)._replace(program=18).is_served


class TestTheDefaultPlan:
    """It allows watches in databases that this program created, and in no other (D12)."""

    def allowed(self, engine: Engine) -> dict[str, int]:
        """Return how many watches each plan allows."""
        return {plan.name: plan.watches_max for plan in list_plans(engine)}

    def test_a_new_database_allows_watches(self, engine):
        """What an operator has set stays, however often the database is migrated."""
        migrate_installation(engine)
        assert self.allowed(engine) == {"free": 0, "standard": 1000, "enterprise": 0}
        Plan.update(watches_max=0).execute(engine)
        assert migrate_installation(engine) == []
        assert not any(self.allowed(engine).values())

    def test_one_of_a_former_program_stays_as_it_is(self, engine, at_schema):
        """No upgrade lets accounts do what nobody has decided."""
        at_schema(20)
        assert "0021_recorded_states" in migrate_installation(engine)
        assert not any(self.allowed(engine).values())

    def test_a_killed_creation_leaves_nothing(self, engine, monkeypatch):
        """Otherwise the next one would take the database for one of a former program."""

        def killed(*_: object, **__: object) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setattr(Plan, "update", killed)
            with pytest.raises(KeyboardInterrupt):
                migrate_installation(engine)
        migrate_installation(engine)
        assert self.allowed(engine)["standard"] == 1000


def test_no_watch_counts_as_recorded_until_its_state_is(engine, at_schema):
    """Nor one that the former program creates: it records no last day that a load moves (D187)."""
    at_schema(20)
    engine.execute_sql(FORMER[0])
    insert = "INSERT INTO watch (account_id, registration, lead_days, created_at, day, told) VALUES"
    engine.execute_sql(f"{insert} (1, 'A1', '', 1, '2026-11-28', 'null')")
    assert "0021_recorded_states" in migrate(engine)
    engine.execute_sql(f"{insert} (1, 'A2', '', 1, '2026-11-28', 'null')")
    found = Watches(engine).list_watches(1, limit=9)
    assert [each.is_recorded for each in found] == [False, False]
    assert versions.versions(engine)._replace(program=20).is_served


def test_plates_of_people_begin_at_nothing(engine, at_schema):
    """A person has one row a day; the former program can still serve."""
    at_schema(19)
    assert "0020_person_days" in migrate(engine)
    row = {"day": "2026-11-25", "person": "ann", "role": "clerk", "plates": 7}
    PersonDay.insert(row).execute(engine)
    with pytest.raises(peewee.IntegrityError):
        PersonDay.insert(row).execute(engine)
    assert versions.versions(engine)._replace(program=19).is_served
