"""The data of the tests' worlds: one SQLite file each, or a Postgres database."""

import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import apsw
import psycopg

from app.accounts.administration import create_account, create_key
from app.storage.engine import Engine, close_quietly, open_engine
from app.storage.stores import migrate
from tests.postgres import connect, database_url

ACCOUNTS = ("alice", "bob")
_TABLES = (
    *("installation", "plan", "account", "api_key", "domain"),
    *("register", "register_kept", "register_dropped", "register_load", "job_run"),
    *("action", "register_task"),
    *("watch", "watch_event", "watch_feed", "person_day"),
    *("usage_account", "usage_hour", "usage_day"),
    *("console_link", "console_session", "audit_task", "audit_host"),
)
_WITHOUT_ACCOUNTS = ("installation", "plan")


class Store(Protocol):
    """A migrated database that belongs to one test."""

    name: str
    """Engine and version."""
    url: str
    is_lost: bool

    def lose(self) -> None:
        """Make the database unavailable, also on open connections."""

    def give_back(self) -> None:
        """Make the database available again, with all its data."""

    def lock_writes(self, engine: Engine) -> None:
        """Block other writers of domains until the current transaction ends."""

    def content(self) -> bytes:
        """Return all stored data."""


class Template(Protocol):
    """Stores made from a template, with a key of each account."""

    keys: tuple[str, ...]

    def store(self, directory: Path, *, accounts: bool = True) -> Store:
        """Return a fresh store, with or without the accounts, in the test's `directory`."""

    def take_back(self, store: Store) -> None:
        """Prepare a used store for the next test."""


def _filled(engine: Engine) -> tuple[str, ...]:
    """Create the accounts, and return a key of each."""
    keys = []
    for account in ACCOUNTS:
        create_account(engine, account)
        keys.append(create_key(engine, account)[1].text)
    return tuple(keys)


class SqliteStore:
    """A file for one test."""

    name = f"SQLite {apsw.sqlite_lib_version()}"

    def __init__(self, path: Path) -> None:
        self.path = path
        self.url = f"sqlite:///{path}"
        self.is_lost = False

    def lose(self) -> None:
        self.path.rename(self.path.with_suffix(".away"))
        self.is_lost = True

    def give_back(self) -> None:
        self.path.with_suffix(".away").rename(self.path)
        self.is_lost = False

    def lock_writes(self, engine: Engine) -> None:
        """Do nothing: every transaction blocks writers (D27)."""

    def content(self) -> bytes:
        return b"".join(path.read_bytes() for path in self.path.parent.glob("verifyd*.db*"))


class SqliteTemplate:
    """A template file for copies."""

    def __init__(self, directory: Path) -> None:
        self._files = {True: directory / "accounts.db", False: directory / "empty.db"}
        for has_accounts, path in self._files.items():
            engine = open_engine(f"sqlite:///{path}", create=True)
            migrate(engine)
            if has_accounts:
                self.keys = _filled(engine)
            close_quietly(engine)

    def store(self, directory: Path, *, accounts: bool = True) -> SqliteStore:
        shutil.copy(self._files[accounts], directory / "verifyd.db")
        return SqliteStore(directory / "verifyd.db")

    def take_back(self, store: Store) -> None:
        """Do nothing: the file is removed with the test's directory."""


class PostgresStore:
    """A database that the tests of one process use one after the other."""

    def __init__(self, server: str, database: str, name: str) -> None:
        self._server = server
        self._database = database
        self.url = database_url(server, database)
        self.name = name
        self.is_lost = False

    def lose(self) -> None:
        self._allow_connections(False)
        with connect(self._server) as connection:
            end_connections(connection, self._database)

    def give_back(self) -> None:
        self._allow_connections(True)

    def _allow_connections(self, are_allowed: bool) -> None:
        with connect(self._server) as connection:
            allow = f'ALTER DATABASE "{self._database}" ALLOW_CONNECTIONS {are_allowed}'
            connection.execute(allow)
        self.is_lost = not are_allowed

    def lock_writes(self, engine: Engine) -> None:
        engine.execute_sql("LOCK TABLE domain IN SHARE MODE")

    def content(self) -> bytes:
        with connect(self.url) as connection:
            tables = connection.execute(
                "SELECT format('%I.%I', schemaname, tablename) FROM pg_tables "
                "WHERE schemaname NOT IN ('pg_catalog', 'information_schema')"
            ).fetchall()
            return b"".join(_copied(connection, table) for (table,) in tables)


def _copied(connection: psycopg.Connection, table: str) -> bytes:
    with connection.cursor().copy(f"COPY {table} TO STDOUT") as rows:
        return b"".join(map(bytes, rows))


class PostgresTemplate:
    """One database, reset to its initial state after each use.

    PERF: a reset takes 3 ms; creating a database from a template and dropping it takes 150.
    """

    def __init__(self, server: str) -> None:
        self._server = server
        self._database = f"verifyd_test_{os.getpid()}_{secrets.token_hex(4)}"
        self._make()

    def _make(self) -> None:
        with connect(self._server) as connection:
            connection.execute(f'DROP DATABASE IF EXISTS "{self._database}" WITH (FORCE)')
            connection.execute(
                f"CREATE DATABASE \"{self._database}\" TEMPLATE template0 ENCODING 'UTF8' "
                + _other_order(connection)
            )
            version = connection.info.server_version
        self.name = f"Postgres {version // 10_000}.{version % 10_000}"
        engine = open_engine(database_url(self._server, self._database))
        migrate(engine)
        self.keys = _filled(engine)
        close_quietly(engine)
        self._own = connect(database_url(self._server, self._database))
        self._own.execute("CREATE SCHEMA kept")
        for table in _TABLES:
            self._own.execute(f"CREATE TABLE kept.{table} AS TABLE public.{table}")

    def store(self, directory: Path, *, accounts: bool = True) -> PostgresStore:
        self._fill(_TABLES if accounts else _WITHOUT_ACCOUNTS)
        return PostgresStore(self._server, self._database, self.name)

    def take_back(self, store: Store) -> None:
        if store.is_lost:
            store.give_back()
        end_connections(self._own, self._database)

    def _fill(self, tables: tuple[str, ...]) -> None:
        statements = [
            *(f'DROP SCHEMA "{schema}" CASCADE' for schema in self._register_schemas()),
            *(f"DELETE FROM {table}" for table in reversed(_TABLES)),
            *(f"INSERT INTO {table} TABLE kept.{table}" for table in tables),
            "SELECT setval('account_id_seq', greatest(1, max(id)), max(id) > 0) FROM account",
            "SELECT setval('register_load_id_seq', 1, false)",
            "SELECT setval('action_id_seq', greatest(1, max(id)), max(id) > 0) FROM action",
        ]
        try:
            self._own.execute(";".join(statements))
        except psycopg.Error:  # The test changed more than rows.
            self._own.close()
            self._make()
            if tables != _TABLES:
                self._fill(tables)

    def _register_schemas(self) -> Iterator[str]:
        query = "SELECT nspname FROM pg_namespace WHERE nspname LIKE '%register\\_%'"
        for (schema,) in self._own.execute(query).fetchall():
            yield schema

    def release(self) -> None:
        """Close the connection that is kept for the next store."""
        self._own.close()

    def close(self) -> None:
        """Drop the database."""
        self._own.close()
        with connect(self._server) as connection:
            connection.execute(f'DROP DATABASE "{self._database}" WITH (FORCE)')


def _other_order(connection: psycopg.Connection) -> str:
    """Return the locale of a database that does not sort by code point, if there is one.

    Otherwise, and on Postgres 14, whose databases cannot use ICU, return the server's.
    """
    query = "SELECT 1 FROM pg_collation WHERE collname = 'en-US-x-icu'"
    has_icu = connection.info.server_version >= 150_000 and connection.execute(query).fetchone()
    return "LOCALE_PROVIDER icu ICU_LOCALE 'en-US' LOCALE 'C.UTF-8'" if has_icu else ""


def end_connections(connection: psycopg.Connection, database: str) -> None:
    """End all connections to a database except this one and those of the tests.

    Only a superuser can end the server's own processes, such as a vacuum.
    """
    connection.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = current_user "
        "AND datname = %s AND pid <> pg_backend_pid() AND application_name <> 'tests'",
        (database,),
    )
