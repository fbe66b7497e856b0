"""Keys that were found valid are known until the database changes, and no longer (D3, D109)."""

import os
from contextlib import closing

import apsw
import peewee
import pytest

from app import clock
from app.accounts import authentication
from app.accounts.administration import (
    create_account,
    create_key,
    list_keys,
    resume_account,
    revoke_key,
    set_plan,
    suspend_account,
)
from app.accounts.authentication import Authenticator
from app.accounts.tokens import new_token, parse_token
from app.backup import sqlite
from app.storage.engine import close_quietly, open_engine
from tests.conftest import ON_POSTGRES, ON_SQLITE, STORAGE

pytestmark = STORAGE

LIMITS = {"requests": 7, "window_seconds": 60, "bulk_max": 1, "domains_max": 1}


@pytest.fixture
def engine(world):
    """A connection of its own, like that of a worker."""
    engine = open_engine(world.config.database_url, is_serving=True)
    yield engine
    close_quietly(engine)


@pytest.fixture
def authenticator(engine):
    return Authenticator(engine)


@ON_SQLITE
class TestHold:
    """What a worker sees while it answers requests together (D170)."""

    def test_a_commit_is_seen_after_it(self, world, engine):
        """One version counts for all requests of a unit."""
        engine.version()
        engine.hold()
        before = engine.version()
        set_plan(world.engine, "other", LIMITS)
        assert engine.version() == before
        engine.release()
        assert engine.version() != before

    def test_it_ends_with_the_connection(self, world, engine):
        """What is asked after an error is asked of the files again."""
        engine.version()
        engine.hold()
        before = engine.version()
        set_plan(world.engine, "other", LIMITS)
        engine.recover(peewee.OperationalError("disk I/O error"))
        assert engine.version() != before


@pytest.fixture
def key(world, authenticator):
    """A key that the worker knows."""
    assert authenticator.find_caller(world.alice_key)
    return world.alice_key


def id_of(key: str) -> str:
    """Return the id of a key."""
    token = parse_token(key)
    assert token
    return token.key_id


@ON_SQLITE
def test_a_known_key_is_not_asked_for(authenticator, key, statements):
    """As long as nobody commits, the database is asked only for its version."""
    with statements() as seen:
        first, second = authenticator.find_caller(key), authenticator.find_caller(key)
    assert first == second
    assert seen == []


@pytest.mark.parametrize("is_own", [False, True], ids=["another process", "this process"])
class TestChange:
    @pytest.fixture
    def writer(self, world, engine, is_own):
        """The connection that changes something."""
        return engine if is_own else world.engine

    def test_a_revoked_key_is_refused(self, authenticator, key, writer):
        """A revocation counts from the next request on."""
        revoke_key(writer, id_of(key))
        assert authenticator.find_caller(key) is None

    def test_a_suspended_account_is_refused(self, authenticator, key, writer):
        """So do a suspension and its end."""
        suspend_account(writer, "alice")
        assert authenticator.find_caller(key) is None
        resume_account(writer, "alice")
        assert authenticator.find_caller(key)

    def test_a_changed_plan_counts(self, authenticator, key, writer):
        """So does a changed plan."""
        set_plan(writer, "standard", LIMITS)
        assert authenticator.find_caller(key).requests == 7

    def test_a_change_that_is_rolled_back_is_not_kept(self, authenticator, key, writer):
        """What a transaction sees is not kept for those after it."""
        before = authenticator.find_caller(key)
        with writer.atomic() as transaction:
            set_plan(writer, "standard", LIMITS)
            authenticator.find_caller(key)
            transaction.rollback()
        assert authenticator.find_caller(key) == before


def test_a_new_register_is_seen(authenticator, key, world):
    """A load changes the state that comes with the key."""
    before = authenticator.find_caller(key).registers
    world.load([{"registration": "AB12CDE", "make": "FORD"}])
    assert before == ""
    assert authenticator.find_caller(key).registers.startswith("native/")


def test_a_key_expires_without_a_change(world, authenticator, monkeypatch):
    """The expiry of a known key is compared with the time of each request."""
    ends_at = clock.now() + 1_000
    key = create_key(world.engine, "alice", expires_at=ends_at)[1].text
    assert authenticator.find_caller(key)
    monkeypatch.setattr(clock, "now", lambda: ends_at - 1)
    assert authenticator.find_caller(key)
    monkeypatch.setattr(clock, "now", lambda: ends_at)
    assert authenticator.find_caller(key) is None


@ON_SQLITE
def test_a_replaced_file_is_noticed(world, authenticator, key, engine):
    """The keys of another file count as soon as it has the path (D27)."""
    copy = world.directory / "copy.db"
    sqlite.copy(world.database, copy)
    with closing(apsw.Connection(str(copy))) as connection:
        connection.execute("UPDATE api_key SET revoked_at = 1 WHERE id = ?", (id_of(key),))
    close_quietly(world.engine)
    os.replace(copy, world.database)
    assert authenticator.find_caller(key) is None
    assert {each.id: each.revoked_at for each in list_keys(engine, "alice")}[id_of(key)] == 1


def test_only_valid_keys_are_kept(world, authenticator, statements):
    """An unknown key is asked for each time: it may be valid with the next request."""
    unknown = new_token("abcdef").text
    for key in (unknown, "vfd_mistyped", "", "\u20ac"):
        assert authenticator.find_caller(key) is None
    assert authenticator._known.keys == {}
    with statements() as seen:
        authenticator.find_caller(unknown)
    assert any("api_key" in each for each in seen)


def test_there_is_a_limit(world, authenticator, monkeypatch):
    """However many keys there are, a process keeps at most so many."""
    monkeypatch.setattr(authentication, "KEYS_KNOWN_MAX", 3)
    create_account(world.engine, "many", "standard")
    keys = [create_key(world.engine, "many")[1].text for _ in range(10)]
    for key in keys * 2:
        assert authenticator.find_caller(key)
        assert len(authenticator._known.keys) <= 3


def test_the_process_does_not_hold_the_keys(authenticator, key):
    """What is kept leads to no key: neither its text nor its secret is in it."""
    kept = repr(authenticator._known)
    token = parse_token(key)
    assert token
    assert not any(each in kept for each in (key, token.secret, token.secret_hash))


@ON_POSTGRES
def test_postgres_is_always_asked(world, authenticator, key, statements):
    """On Postgres every request asks for its key."""
    with statements() as seen:
        authenticator.find_caller(key)
    assert len(seen) == 1
    assert "api_key" in seen[0]
