"""The database: an engine from a URL, a connection per thread, writes, compiled queries.

Models are bound to no engine; a query is given the one it runs on, so that several
databases can be open in one process (`Account.select().get(engine)`).
"""

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import peewee

from app.config import sqlite_path
from app.postgres import COMMAND_OPTIONS, SERVING_OPTIONS, PostgresEngine

BUSY_TIMEOUT_SECONDS = 5
"""How long a statement waits for somebody else's write before it fails (D27)."""
_STATEMENTS_CACHED_MAX = 256

Row = tuple[Any, ...]


class SqliteEngine(peewee.SqliteDatabase):
    """A SQLite file, and registers attached to it for reading (D25).

    Every transaction begins IMMEDIATE: one that reads first and writes later would fail at
    once when another has written in between, whatever the timeout (D27).
    """

    def __init__(self, path: Path, *, create: bool = False) -> None:
        self.path = path
        self._name = os.fspath(path.absolute())
        self._registers = threading.local()
        pragmas: dict[str, object] = {"foreign_keys": 1, "synchronous": "full"}
        if create and not (path.exists() and path.stat().st_size):
            # NOTE: a file that is there already may be somebody else's (D27).
            pragmas["journal_mode"] = "wal"
        super().__init__(
            file_uri(path, "rwc" if create else "rw"),
            pragmas=pragmas,
            timeout=BUSY_TIMEOUT_SECONDS,
            lock_type="IMMEDIATE",
            uri=True,
            cached_statements=_STATEMENTS_CACHED_MAX,
        )

    def _connect(self) -> Any:
        self._registers.files = {}
        before = self._inode()
        connection = super()._connect()  # type: ignore[misc]
        self._registers.inode = before or self._inode()  # It may have been made just now.
        return connection

    def cursor(self, named_cursor: None = None) -> Any:
        """Give a cursor on the file that is there now, not on one deleted or replaced since.

        SQLite would write on into a file without a name, and what it was told would be lost
        with the process (D27). PERF: 2 to 5 us a statement.
        """
        # NOTE: Peewee's own in_transaction() is false already when it commits.
        is_idle = not self.is_closed() and not self.connection().in_transaction
        if is_idle and self._inode() != self._registers.inode:
            self.close()
        return super().cursor(named_cursor)

    def rows(self, sql: str, params: Sequence[object]) -> list[Row]:
        """Run a hot query and return all its rows.

        Raises peewee.PeeweeException if the database cannot answer.
        """
        cursor = self.execute_sql(sql, params)
        with driver_errors_translated():
            rows: list[Row] = cursor.fetchall()
        return rows

    def rollback(self) -> None:
        """Roll back, unless SQLite did so by itself, as on a full disk: why must not be lost."""
        if not self.is_closed() and self.connection().in_transaction:
            super().rollback()

    def _inode(self) -> tuple[int, int] | None:
        try:
            found = os.stat(self._name)
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def attach_only(self, files: Mapping[str, Path]) -> None:
        """Make `files` (schema name to file) the attached schemas of this thread's connection.

        Raises OperationalError if a file is missing; the connection should then be dropped.
        """
        self.cursor()
        attached: dict[str, Path] = self._registers.files
        if attached == files:
            return
        for schema in [name for name, file in attached.items() if files.get(name) != file]:
            self.execute_sql("DETACH DATABASE ?", (schema,))
            del attached[schema]
        for schema in files.keys() - attached.keys():
            # NOTE: read-only, because BEGIN IMMEDIATE locks every attached file that can be
            # written: a domain could not be created while a register is loaded.
            uri = file_uri(files[schema], "ro")
            self.execute_sql("ATTACH DATABASE ? AS ?", (uri, schema))
            attached[schema] = files[schema]


Engine = SqliteEngine | PostgresEngine


def open_engine(database_url: str, *, create: bool = False, is_serving: bool = False) -> Engine:
    """Return the engine a checked URL names; nothing is opened before the first query.

    Args:
        create: make the SQLite file if it is missing; only `migrate` and `demo` may (D27).
        is_serving: let Postgres end statements that take longer than a request may.

    Raises OperatorError if Postgres does not understand the URL.
    """
    path = sqlite_path(database_url)
    if path:
        return SqliteEngine(path, create=create)
    return PostgresEngine(database_url, SERVING_OPTIONS if is_serving else COMMAND_OPTIONS)


def file_uri(path: Path, mode: str) -> str:
    """Return the SQLite URI of a file, opened `ro`, `rw` or `rwc`."""
    return f"file:{quote(str(path.absolute()))}?mode={mode}"


def drop_connection(engine: Engine) -> None:
    """Give up this thread's connection after an error; the next query connects anew."""
    try:
        engine.close()
    except (peewee.PeeweeException, OSError):
        engine.dispose()


def driver_errors_translated() -> AbstractContextManager[None]:
    """Return a context in which the driver's own errors become Peewee's.

    Peewee itself translates those of a statement's first step; later ones can fail as well.
    """
    translated: AbstractContextManager[None] = vars(peewee)["__exception_wrapper__"]
    return translated


def message_of(error: Exception) -> str:
    """Return what the database says is wrong: it names files and tables, never a value.

    What Postgres adds to it, as detail and context, can quote what was asked for.
    """
    diagnosis = getattr(getattr(error, "orig", None), "diag", None)
    return (diagnosis and diagnosis.message_primary) or str(error)


class _Placeholder(NamedTuple):
    name: str


def parameter(name: str) -> peewee.Value:
    """Return the place in a query that a value of this name takes when it is run."""
    return peewee.Value(_Placeholder(name), converter=False, unpack=False)


class Prepared:
    """A query that is built and compiled on first use, and afterwards only bound to values.

    PERF: building a Peewee query costs 250 to 450 us, running it compiled 15 us (DESIGN 2).

    Args:
        build: returns the query; values that change stand in it as `parameter(NAME)`.
    """

    def __init__(self, engine: Engine, build: Callable[[], peewee.Query]) -> None:
        self._engine = engine
        self._build = build
        self._compiled: tuple[str, tuple[Any, ...]] | None = None

    def rows(self, **values: object) -> list[Row]:
        """Run the query and return its rows as they come from the driver.

        Raises peewee.PeeweeException if the database cannot answer.
        """
        sql, places = self._compiled or self._compile()
        bound = tuple(
            values[place.name] if isinstance(place, _Placeholder) else place for place in places
        )
        return self._engine.rows(sql, bound)

    def row(self, **values: object) -> Row | None:
        """Run the query and return its first row, or None."""
        rows = self.rows(**values)
        return rows[0] if rows else None

    def _compile(self) -> tuple[str, tuple[Any, ...]]:
        sql, places = self._engine.get_sql_context().sql(self._build()).query()
        self._compiled = sql, tuple(places)
        return self._compiled


def greatest(engine: Engine, columns: Sequence[peewee.Node], null: str) -> Any:
    """Return an expression for the greatest of `columns`, or null if all of them are.

    Args:
        null: an SQL literal of the columns' type, below every real value, to stand for null.
    """
    if not columns:
        return peewee.SQL("NULL")
    if len(columns) == 1:  # SQLite's MAX of one argument is the aggregate.
        return columns[0]
    if not isinstance(engine, SqliteEngine):
        return peewee.fn.GREATEST(*columns)
    # Unlike GREATEST, SQLite's MAX is null if any of its arguments is.
    lowest = peewee.SQL(null)
    filled = [peewee.fn.COALESCE(column, lowest) for column in columns]
    return peewee.fn.NULLIF(peewee.fn.MAX(*filled), lowest)


def close_quietly(engine: Engine) -> None:
    """Close this thread's connection if there is one, whatever its state."""
    with suppress(peewee.PeeweeException):
        engine.close()


def sync(path: Path) -> None:
    """See that a file, or the names in a directory, survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
