"""The Postgres engine: how a connection is opened, how long it waits, and when it was lost.

Everything a URL can say of a connection (TLS, several hosts with `target_session_attrs`,
timeouts) is libpq's, and passed through; what it does not say has defaults of ours.
"""

import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import peewee

from app.errors import OperatorError
from app.storage.errors import sqlstate
from app.storage.postgres_dialect import PostgresDialect
from app.storage.tables import RegisterRef

SERVING_OPTIONS = (
    "-c statement_timeout=10s -c lock_timeout=5s -c idle_in_transaction_session_timeout=10s"
)
"""How long a statement of the service may run and wait: less than gunicorn lets a worker hang."""
COMMAND_OPTIONS = (
    "-c statement_timeout=0 -c lock_timeout=0 "
    "-c idle_in_transaction_session_timeout=0 -c idle_session_timeout=0"
)
"""Commands take their time, whatever the server or the role has for others, as `pg_dump` does."""

# Dates are ISO texts, as on SQLite. A statement of a process that was killed ends soon, and
# with it the locks of its migration or load.
_ALWAYS_OPTIONS = "-c datestyle=ISO -c client_connection_check_interval=1s"
_DEFAULTS = {
    "application_name": "verifyd",
    "client_encoding": "utf8",
    "connect_timeout": "2",  # seconds, for each host
    # A peer that is gone without a word is noticed within 5 s or so, in the midst of a statement
    # (milliseconds) as between packets (seconds).
    "tcp_user_timeout": "5000",
    "keepalives_idle": "5",
    "keepalives_interval": "2",
    "keepalives_count": "2",
}
_READS = ("SELECT", "WITH")
# What a new connection mends: it was lost or ended (08, 57P), a pooler or a change of the schema
# took away what had been prepared on it (26, 42P05, 0A).
_MENDED_BY_CONNECTING = ("08", "57P", "26", "42P05", "0A")
# The table or the schema is not there: a register that was dropped or replaced a moment ago.
_GONE = ("42P01", "3F000")
_DEADLOCK = "40P01"


class PostgresEngine(PostgresDialect, peewee.PostgresqlDatabase):
    """A Postgres database; dates come and go as ISO texts, as on SQLite.

    A lost connection is noticed by the statement that meets it. A statement that only reads,
    outside of a transaction, is run once more on a new connection; any other fails, since what
    became of it is not known.

    Args:
        options: settings of the session, as libpq's `options`; those of the URL come on top.

    Raises OperatorError if the URL is none that libpq understands, and on connecting if the
    database does not take every character.
    """

    def __init__(self, database_url: str, options: str = COMMAND_OPTIONS) -> None:
        try:
            import psycopg  # noqa: PLC0415 - an extra, only needed here
        except ImportError:
            need = "Postgres needs the extra: pip install 'verifyd[postgres]'"
            raise OperatorError(need) from None
        try:
            given = psycopg.conninfo.conninfo_to_dict(database_url)
        except psycopg.Error:
            # SEC: what it says quotes the URL, which may hold a password.
            raise OperatorError(
                "the database URL is none that Postgres understands: look at the names of its "
                "parameters, and write special characters of a password as %XX"
            ) from None
        parameters: dict[str, Any] = {
            name: text for name, text in _DEFAULTS.items() if name not in given
        }
        parameters["options"] = f"{_ALWAYS_OPTIONS} {options} {given.get('options') or ''}".strip()
        self._unused = threading.local()
        # PERF: prepared on the first use: the server parses and plans a hot query once.
        super().__init__(database_url, prefer_psycopg3=True, prepare_threshold=0, **parameters)

    def _connect(self) -> Any:
        connection = super()._connect()  # type: ignore[misc]
        encoding = connection.info.parameter_status("server_encoding")
        if encoding != "UTF8":
            connection.close()
            raise OperatorError(
                f"the database is encoded as {encoding}, and not every name or plate could be "
                "asked for: create one with ENCODING 'UTF8' TEMPLATE template0"
            )
        return connection

    def _initialize_connection(self, conn: Any) -> None:
        from psycopg.types.string import TextLoader  # noqa: PLC0415

        conn.adapters.register_loader("date", TextLoader)

    def rows(self, sql: str, params: Sequence[object]) -> list[tuple[Any, ...]]:
        """Run a hot query and return all its rows.

        PERF: its cursor serves the next statement as well: what psycopg finds out about types
        stays with a cursor, and takes a fourth to a third of a look-up anew.

        Raises as execute_sql does.
        """
        cursor = self.execute_sql(sql, params)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
        self._unused.cursor = cursor
        return rows

    def cursor(self, named_cursor: None = None) -> Any:
        """Give the cursor that was read to its end on this thread's connection, or a new one."""
        unused = self._unused.__dict__.pop("cursor", None)
        if unused and not self.is_closed() and unused.connection is self.connection():
            return unused
        return super().cursor(named_cursor)

    def execute_sql(self, sql: str, params: Any = None) -> Any:
        """Run a statement; one that only reads runs again if its connection proves to be lost.

        Raises peewee.PeeweeException; OperationalError, as SQLite does, if a table is gone.
        """
        may_repeat = not self.is_closed() and not self.in_transaction() and sql.startswith(_READS)
        try:
            return self._execute_once(sql, params)
        except peewee.DatabaseError as error:
            is_mendable = self._is_lost() or sqlstate(error).startswith(_MENDED_BY_CONNECTING)
            if not (may_repeat and is_mendable):
                raise
        self.close()
        return self._execute_once(sql, params)

    def _execute_once(self, sql: str, params: Any) -> Any:
        try:
            return super().execute_sql(sql, params)
        except peewee.DatabaseError as error:
            if sqlstate(error).startswith(_GONE):
                raise peewee.OperationalError(getattr(error, "orig", None), *error.args) from error
            raise

    def rollback(self) -> None:
        """Roll back, unless the connection was lost: why must not be lost as well.

        Where Ctrl-C came in the midst of a statement, the connection takes no other: it is closed.
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
        """Make this thread's connection fit for the next query: it is closed."""
        try:
            self.close()
        except (peewee.PeeweeException, OSError):
            self.dispose()

    def may_be_gone(self, error: Exception) -> bool:
        """Tell whether a table is not there, or is just being removed."""
        return sqlstate(error).startswith((*_GONE, _DEADLOCK))

    @property
    def scratch_directory(self) -> Path:
        """The system's temporary directory: the data is on the server's disk."""
        return Path(tempfile.gettempdir())

    def write_refusal(self) -> str | None:
        """Return why the database takes no writes, None if it takes them."""
        query = "SELECT current_setting('transaction_read_only') = 'on'"
        (is_read_only,) = self.execute_sql(query).fetchone()
        return "the server may only be read" if is_read_only else None

    def missing_rights(self) -> list[str]:
        """Return what this role may not do here, a sentence each."""
        query = (
            "SELECT current_setting('transaction_read_only') = 'on', "
            "has_database_privilege(current_database(), 'CREATE'), current_user"
        )
        is_read_only, may_create, role = self.execute_sql(query).fetchone()
        missing = []
        if is_read_only:
            missing.append(
                "the server may only be read: name the primary, or all servers with "
                "target_session_attrs=read-write"
            )
        if not may_create:
            missing.append(
                f"no register can be loaded: {role} may not create schemas in the database, "
                "GRANT CREATE ON DATABASE lets it"
            )
        return missing

    def attach_registers(self, registers: tuple[RegisterRef, ...]) -> None:
        """Do nothing: every connection reads all schemas."""

    def can_attach(self, registers: tuple[RegisterRef, ...]) -> bool:
        """Tell that every connection reads all schemas."""
        return True
