"""The Postgres engine: its connections, their time limits, and what its role may do.

The URL goes to libpq unchanged, so it can set everything that libpq knows: TLS, several hosts with
`target_session_attrs`, timeouts. What it does not set gets the defaults of this module.
"""

import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import peewee
from peewee import fn

from app import clock
from app.errors import OperatorError
from app.storage.errors import is_forbidden, sqlstate
from app.storage.identity import NotOwn, require_own
from app.storage.interface import InUse, Row
from app.storage.postgres_dialect import PostgresDialect
from app.storage.postgres_session import ON_PRIMARY, begin_session
from app.storage.tables import RegisterRef

COMMAND_LIMITS: Mapping[str, str] = dict.fromkeys(
    (
        "statement_timeout",
        "lock_timeout",
        "idle_in_transaction_session_timeout",
        "idle_session_timeout",
        "transaction_timeout",  # of Postgres 17 and newer
    ),
    "0",
)
"""Commands have no time limits, even if the server or the role sets some; nor has `pg_dump`."""
SERVING_LIMITS: Mapping[str, str] = {
    **COMMAND_LIMITS,
    "statement_timeout": "10s",
    "lock_timeout": "5s",
    "idle_in_transaction_session_timeout": "10s",
}
"""Time limits of the service's statements, shorter than the time limit of a request."""

# Dates are ISO texts, as on SQLite. The server notices within a second that a client process was
# killed, and ends its statement. Then the locks of its migration or load are free.
_ALWAYS = {"datestyle": "ISO", "client_connection_check_interval": "1s"}
_DEFAULTS = {
    "application_name": "verifyd",
    "client_encoding": "utf8",
    "connect_timeout": "2",  # seconds per host
    # These notice within about 5 s that the server has vanished, even during a statement. The
    # first is in milliseconds, the others in seconds.
    "tcp_user_timeout": "5000",
    "keepalives_idle": "5",
    "keepalives_interval": "2",
    "keepalives_count": "2",
}
_READS = ("SELECT", "WITH")
# A pooler gave this session's backend to others, so a prepared statement is unknown, or known.
_NOT_KEPT = ("26", "42P05")
# Errors that a new connection does not have: the connection was lost or ended (08, 57P), or a
# change of the schema made its prepared statements unusable (0A).
_CURED_BY_RECONNECTING = ("08", "57P", *_NOT_KEPT, "0A")
# The table or schema does not exist: its register was dropped or replaced a moment ago.
_GONE = ("42P01", "3F000")
_DEADLOCK = "40P01"
_OTHERS = (
    "SELECT DISTINCT coalesce(host(client_addr), 'a Unix socket') FROM pg_stat_activity "
    "WHERE datname = current_database() AND pid <> pg_backend_pid() "
    "AND application_name IN (%s, current_setting('application_name')) ORDER BY 1"
)
"""Where other sessions of verifyd in this database come from. Everybody may see that."""
_SCHEMAS_OF_OTHERS = (
    "SELECT quote_ident(pg_get_userbyid(nspowner)), string_agg(nspname, ', ' ORDER BY nspname) "
    "FROM pg_namespace WHERE nspname ~ '^(next_|kept_)?register_' "
    "AND NOT pg_has_role(nspowner, 'USAGE') GROUP BY nspowner ORDER BY 1"
)
_SCHEMA_WANTED = (
    "SELECT name FROM (SELECT trim(each, ' \"') AS name FROM "
    "unnest(string_to_array(current_setting('search_path'), ',')) AS each) AS path "
    "WHERE name <> '$user' LIMIT 1"
)
_FORBIDDEN_TABLES = (
    "SELECT quote_ident(nspname), string_agg(quote_ident(relname), ', ' ORDER BY relname) "
    "FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE relkind = 'r' AND "
    # Other programs may have tables in the same schema.
    "CASE nspname WHEN current_schema() "
    "THEN relowner = (SELECT relowner FROM pg_class WHERE oid = to_regclass('installation')) "
    "ELSE nspname ~ '^register_' AND pg_has_role(nspowner, 'USAGE') END AND EXISTS (SELECT FROM "
    "unnest('{SELECT,INSERT,UPDATE,DELETE}'::text[]) AS needed "
    "WHERE NOT has_table_privilege(c.oid, needed)) GROUP BY nspname ORDER BY nspname"
)
_ENDING_SECONDS = 2
"""How long a session of a process that has ended may be seen."""
_PAUSE_SECONDS = 0.05


class PostgresEngine(PostgresDialect):
    """A Postgres database. Dates are ISO texts in both directions, as on SQLite.

    The first statement after the connection was lost fails. If it only reads, and is not in a
    transaction, it runs once more on a new connection. Any other statement raises its error,
    because it may have taken effect.

    Args:
        limits: the time limits of the session. The URL's `options` override them.

    Raises OperatorError if the URL is invalid, or, while connecting, if the database is not
    encoded as UTF-8, the server is too old, or a pooler does not keep sessions.
    """

    def __init__(self, database_url: str, limits: Mapping[str, str] = COMMAND_LIMITS) -> None:
        try:
            import psycopg  # noqa: PLC0415 - an extra that only this engine needs
        except ImportError:
            need = "psycopg is not installed: run pip install 'verifyd[postgres]'"
            raise OperatorError(need) from None
        try:
            given = psycopg.conninfo.conninfo_to_dict(database_url)
        except psycopg.Error:
            # SEC: the message of the error quotes the URL, which may hold a password.
            raise OperatorError(
                "invalid PostgreSQL URL: check the names of its parameters, and write special "
                "characters of the password as %XX"
            ) from None
        parameters: dict[str, Any] = {
            name: text for name, text in _DEFAULTS.items() if name not in given
        }
        self._settings = {**_ALWAYS, **limits}
        self.locks: dict[str, int] = {}
        """The locks of registers that this engine took, each with the server's session (its pid)
        that holds it."""
        self._session = threading.local()
        self._unused = threading.local()
        self._compared = threading.local()
        # PERF: a threshold of 0 prepares each statement on its first use, so that the server parses
        # and plans a query of the hot path only once per connection.
        super().__init__(database_url, prefer_psycopg3=True, prepare_threshold=0, **parameters)

    def _connect(self) -> Any:
        connect = super()._connect  # type: ignore[misc]
        connection = connect()
        try:
            encoding = connection.info.parameter_status("server_encoding")
            if encoding != "UTF8":
                raise OperatorError(
                    f"the database is encoded as {encoding}, which lacks characters of some names "
                    "and plates: create one with ENCODING 'UTF8' TEMPLATE template0"
                )
            self._session.held = begin_session(connection, self.database, self._settings, connect)
        except BaseException:
            connection.close()
            raise
        return connection

    def _initialize_connection(self, conn: Any) -> None:
        from psycopg.types.string import TextLoader  # noqa: PLC0415

        conn.adapters.register_loader("date", TextLoader)

    def rows(self, sql: str, params: Sequence[object]) -> list[Row]:
        """Run a query of the hot path and return all its rows.

        PERF: the next statement uses the same cursor, because psycopg keeps what it finds out
        about types in the cursor. Finding it out again takes a fourth to a third of a look-up.

        Raises the same errors as execute_sql.
        """
        cursor = self.execute_sql(sql, params)
        rows: list[Row] = cursor.fetchall()
        self._unused.cursor = cursor
        return rows

    def version(self) -> None:
        """Return None: only the server knows, and asking it costs as much as a query."""

    def cursor(self, named_cursor: None = None) -> Any:
        """Return a cursor of this thread that was read to its end, or a new one."""
        unused, self._unused.cursor = getattr(self._unused, "cursor", None), None
        if unused and not self.is_closed() and unused.connection is self.connection():
            return unused
        return super().cursor(named_cursor)

    def execute_sql(self, sql: str, params: Any = None) -> Any:
        """Run a statement. If it only reads and the connection was lost, run it once more.

        Raises peewee.PeeweeException. It is OperationalError if no statement is wrong: a table is
        missing, as on SQLite, the role may not use it, or a pooler does not keep sessions.
        """
        may_repeat = not self.is_closed() and not self.in_transaction() and sql.startswith(_READS)
        try:
            return self._execute_once(sql, params)
        except peewee.DatabaseError as error:
            is_curable = self._is_lost() or sqlstate(error).startswith(_CURED_BY_RECONNECTING)
            if not (may_repeat and is_curable):
                raise
        self.close()
        return self._execute_once(sql, params)

    def _execute_once(self, sql: str, params: Any) -> Any:
        try:
            return super().execute_sql(ON_PRIMARY + sql, params)
        except peewee.DatabaseError as error:
            if sqlstate(error).startswith((*_GONE, *_NOT_KEPT)) or is_forbidden(error):
                raise peewee.OperationalError(getattr(error, "orig", None), *error.args) from error
            raise

    def rollback(self) -> None:
        """Roll back, unless the connection was lost: that would hide the error that says why.

        If Ctrl-C interrupted a statement, the connection accepts no other, so this closes it.
        """
        if self._is_lost():
            return
        if self.connection().info.transaction_status.name == "ACTIVE":
            self.connection().close()
        else:
            super().rollback()

    def _is_lost(self) -> bool:
        return self.is_closed() or bool(self.connection().closed)

    def recover(self, error: Exception) -> None:
        """Close this thread's connection, so that the next query opens a new one."""
        try:
            self.close()
        except (peewee.PeeweeException, OSError):
            self.dispose()

    def may_be_gone(self, error: Exception) -> bool:
        """Tell whether a schema is missing, is being removed (a deadlock), or is another one."""
        return isinstance(error, NotOwn) or sqlstate(error).startswith((*_GONE, _DEADLOCK))

    @property
    def scratch_directory(self) -> Path:
        """The temporary directory of the system: the data is on the disk of the server."""
        return Path(tempfile.gettempdir())

    def write_refusal(self) -> str | None:
        query = "SELECT current_setting('transaction_read_only') = 'on'"
        (is_read_only,) = self.execute_sql(query).fetchone()
        return "the server is read-only" if is_read_only else None

    def missing_rights(self) -> list[str]:
        query = (
            "SELECT current_setting('transaction_read_only') = 'on', "
            "has_database_privilege(current_database(), 'CREATE'), "
            "coalesce(has_schema_privilege(current_schema(), 'CREATE'), false), "
            "quote_ident(current_user), quote_ident(current_database()), "
            f"quote_ident(coalesce(current_schema(), ({_SCHEMA_WANTED}), current_user))"
        )
        row = self.execute_sql(query).fetchone()
        is_read_only, may_create, may_create_tables, role, database, schema = row
        missing = []
        if is_read_only:
            missing.append(
                "the server is read-only: name the primary in the URL, or all servers with "
                "target_session_attrs=read-write"
            )
        if not may_create:
            missing.append(
                f"no register can be loaded: the role {role} may not create schemas in the "
                f"database; run GRANT CREATE ON DATABASE {database} TO {role}"
            )
        if not may_create_tables:
            missing.append(
                f"no database can be created or upgraded: the role {role} may not create tables in "
                f"the schema {schema}; run CREATE SCHEMA IF NOT EXISTS {schema}; "
                f"GRANT USAGE, CREATE ON SCHEMA {schema} TO {role}"
            )
        missing += [
            f"the role {role} may not read and write in the schema {where}: {tables}; run "
            f"GRANT ALL ON ALL TABLES IN SCHEMA {where} TO {role}; "
            f"GRANT ALL ON ALL SEQUENCES IN SCHEMA {where} TO {role}"
            for where, tables in self.execute_sql(_FORBIDDEN_TABLES).fetchall()
        ]
        missing += [
            f"the role {role} may not use what belongs to the role {owner}: {schemas}; to let both "
            f"use everything, run GRANT {role} TO {owner}; ALTER ROLE {owner} SET role = {role}; "
            f"REASSIGN OWNED BY {owner} TO {role}"
            for owner, schemas in self.execute_sql(_SCHEMAS_OF_OTHERS).fetchall()
        ]
        return missing

    def lost_settings(self) -> list[str]:
        self.connection()
        names = list(self._session.held)
        query = "SELECT name, current_setting(name) FROM unnest(%s::text[]) AS asked(name)"
        return [
            f"{name} is {text} and not {self._session.held[name]}: a pooler in front of Postgres "
            "has changed it"
            for name, text in self.execute_sql(query, (names,)).fetchall()
            if text != self._session.held[name]
        ]

    def attach_registers(
        self, registers: tuple[RegisterRef, ...], *, is_thorough: bool = False
    ) -> None:
        """Compare the identities of these registers, once for each connection of this thread."""
        compared = self.connection(), registers
        if is_thorough or getattr(self._compared, "registers", None) != compared:
            for ref in registers:
                require_own(self, ref)
            self._compared.registers = compared

    def data_number(self, schema: peewee.ColumnBase) -> peewee.Node:
        """Return the number of a table, which each table keeps for its life."""
        # PERF: 3 us per register. The server looks the table up in its cache, without a lock.
        table = fn.to_regclass(schema.concat(".vehicle"))
        return fn.COALESCE(table.cast("oid").cast("text"), "")

    def is_standby(self) -> peewee.Node:
        return fn.pg_is_in_recovery()

    def can_attach(self, registers: tuple[RegisterRef, ...]) -> bool:
        """Return True: every connection can read all schemas."""
        return True

    @contextmanager
    def alone(self) -> Iterator[Callable[[], None]]:
        """Look for other sessions of verifyd, now and whenever the caller wants it.

        NOTE: a service that has lost its connections is not found before its next request.
        """
        self._require_alone()
        yield self._require_alone

    def _require_alone(self) -> None:
        deadline_ns = clock.monotonic_ns() + _ENDING_SECONDS * 1_000_000_000
        while True:
            # Within a transaction, the server would show the same sessions again.
            self.execute_sql("SELECT pg_stat_clear_snapshot()")
            others = self.execute_sql(_OTHERS, (_DEFAULTS["application_name"],)).fetchall()
            if not others:
                return
            if clock.monotonic_ns() > deadline_ns:
                addresses = ", ".join(address for (address,) in others)
                raise InUse(f"verifyd has sessions from {addresses}")
            time.sleep(_PAUSE_SECONDS)
