"""Opens the engine that a URL names, and compiles queries.

Models are not bound to an engine. Each query gets the engine that it runs on, as in
`Account.select().get(engine)`, so that a process can use several databases.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple, TypeVar

import peewee

from app.settings.values import sqlite_path
from app.storage.interface import Engine, Row
from app.storage.postgres import COMMAND_LIMITS, SERVING_LIMITS, PostgresEngine
from app.storage.postgres_session import forget_pooler
from app.storage.sqlite import SqliteEngine

__all__ = [
    "Engine",
    "OnStandby",
    "Prepared",
    "PreparedOnPrimary",
    "Row",
    "close_quietly",
    "closed_afterwards",
    "open_engine",
    "parameter",
    "require_primary",
]


E = TypeVar("E", bound=Engine)


def open_engine(database_url: str, *, create: bool = False, is_serving: bool = False) -> Engine:
    """Return the engine that a checked URL names. The first query opens the database.

    Args:
        create: create the SQLite file if it is missing. Only `migrate` and `demo` do that.
        is_serving: limit the time of statements on Postgres to that of a request.

    Raises OperatorError if the URL of a Postgres database is invalid.
    """
    path = sqlite_path(database_url)
    if path:
        return SqliteEngine(path, create=create)
    if is_serving:
        return PostgresEngine(database_url, SERVING_LIMITS)
    forget_pooler(database_url)
    return PostgresEngine(database_url, COMMAND_LIMITS)


class _Placeholder(NamedTuple):
    name: str


_Places = Sequence[tuple[str, object]]
"""For each value of a statement the name of its parameter, or an empty name and a constant."""


def parameter(name: str) -> peewee.Value:
    """Return a named placeholder for a query. It gets its value when the query runs."""
    return peewee.Value(_Placeholder(name), converter=False, unpack=False)


class Prepared:
    """A query that is built and compiled once, on its first use.

    PERF: building a Peewee query takes 250 to 450 us, running a compiled one 15 us.

    Args:
        build: returns the query, with `parameter(NAME)` for each value that changes.
    """

    def __init__(self, engine: Engine, build: Callable[[], peewee.Query]) -> None:
        self._engine = engine
        self._build = build
        self._compiled: tuple[str, _Places] | None = None

    def rows(self, **values: object) -> list[Row]:
        """Run the query and return its rows as the driver returns them.

        Raises peewee.PeeweeException if the database cannot answer.
        """
        sql, places = self._compiled or self._compile()
        bound = [values[name] if name else constant for name, constant in places]
        return self._engine.rows(sql, bound)

    def row(self, **values: object) -> Row | None:
        """Run the query and return its first row; None if it has no rows."""
        rows = self.rows(**values)
        return rows[0] if rows else None

    def _compile(self) -> tuple[str, _Places]:
        sql, values = self._engine.get_sql_context().sql(self._build()).query()
        places = [(v.name, None) if isinstance(v, _Placeholder) else ("", v) for v in values]
        self._compiled = sql, places
        return self._compiled


class OnStandby(peewee.OperationalError):
    """The server is a standby, whose data may be old: nothing may be answered from it."""

    def __init__(self) -> None:
        super().__init__(
            "the server is a standby, whose data may be old: name the primary in the URL, or all "
            "servers with target_session_attrs=read-write"
        )


class PreparedOnPrimary(Prepared):
    """A query whose answer decides who may do what, so that it must not be an old one.

    A URL, or a pooler that balances reads, can lead to a standby.
    """

    def __init__(self, engine: Engine, build: Callable[[], "peewee.ModelSelect[Any]"]) -> None:
        is_standby = engine.is_standby()
        self._has_standbys = is_standby is not None
        super().__init__(
            engine, lambda: build().select_extend(is_standby) if self._has_standbys else build()
        )

    def row(self, **values: object) -> Row | None:
        """Run the query as `Prepared.row` does. Raises OnStandby."""
        row = super().row(**values)
        if row is None:
            require_primary(self._engine)
            return None
        if not self._has_standbys:
            return row
        if row[-1]:
            raise OnStandby
        return row[:-1]


def require_primary(engine: Engine) -> None:
    """Raise OnStandby if this thread's connection leads to a standby."""
    is_standby = engine.is_standby()
    if is_standby is not None and peewee.Select(None, [is_standby]).scalar(engine):
        raise OnStandby


@contextmanager
def closed_afterwards(engine: E) -> Iterator[E]:
    """Close this thread's connection when the context ends, and ignore errors of closing it."""
    try:
        yield engine
    finally:
        close_quietly(engine)


def close_quietly(engine: Engine) -> None:
    """Close this thread's connection, if it has one, and ignore errors."""
    with suppress(peewee.PeeweeException):
        engine.close()
