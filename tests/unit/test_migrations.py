"""Migrations of a database with data (D29)."""

import shutil
from collections.abc import Iterator
from datetime import UTC
from pathlib import Path

import pytest

from app.accounts.administration import create_account, create_key
from app.accounts.authentication import Authenticator
from app.registers.generations import Generations
from app.storage import scripts, versions
from app.storage.engine import Engine, close_quietly, open_engine
from app.storage.postgres import PostgresEngine
from app.storage.registers import KeptRegister, Register
from app.storage.schema import migrate
from app.storage.stores import store_of
from app.usage.counts import Counts
from app.usage.report import By, usage_of_hours
from app.usage.writer import UsageWriter


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
        shutil.copytree(scripts.SCRIPTS, tmp_path / "migrations")
        for script in (tmp_path / "migrations" / "main").glob("[0-9]*.py"):
            if int(script.name[:4]) > number:
                script.unlink()
        with monkeypatch.context() as patched:
            for module in (scripts, versions):
                patched.setattr(module, "SCRIPTS", tmp_path / "migrations")
            migrate(engine)

    return migrate_to


def test_kept_states_can_still_be_rolled_back_to(engine, at_schema):
    """A kept state keeps its entry, and on Postgres its schema gets its number (D71)."""
    at_schema(3)
    entry = {"name": "native", "kinds": "v", "vehicles": 1, "loaded_at": 1_900_000_000}
    for model, generation in ((KeptRegister, 1), (Register, 2)):
        model.insert(**entry, generation=generation).execute(engine)
        with store_of(engine, "native").opened(generation) as (register, name):
            scripts.migrate_register(register, name)
        if isinstance(engine, PostgresEngine) and model is KeptRegister:
            engine.execute_sql("ALTER SCHEMA register_native RENAME TO kept_register_native")
    assert "0004_snapshots" in migrate(engine)
    generations = Generations(engine, "native")
    (kept,) = generations.list_kept()
    assert (kept.generation, kept.vehicles) == (1, 1)
    assert generations.store.has_waiting(1)
    assert generations.store.has_current(2)


def test_usage_is_counted_after_a_migration(engine, at_schema):
    """A database with accounts gets empty tables of usage; the release before can use it (D29)."""
    at_schema(6)
    create_account(engine, "acme", "standard")
    key = create_key(engine, "acme")[1].text
    assert "0007_usage" in migrate(engine)
    caller = Authenticator(engine).find_caller(key)
    assert caller
    assert usage_of_hours(engine, (By.KEY,)) == []
    counts = Counts({})
    counts.add(caller, "", "GET", 404, 0)
    UsageWriter(counts, engine, UTC).flush()
    (used,) = usage_of_hours(engine, (By.KEY,))
    assert (used.key, used.answers) == (caller.key_id, 1)
    assert versions.versions(engine)._replace(program=6).is_served
