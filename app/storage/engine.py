"""The database: an engine from a URL, a connection per thread, writes, compiled queries.

Models are bound to no engine; a query is given the one it runs on, so that several
databases can be open in one process (`Account.select().get(engine)`).
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

import peewee

from app.setting_values import sqlite_path
from app.storage.interface import Engine, Row
from app.storage.postgres import COMMAND_OPTIONS, SERVING_OPTIONS, PostgresEngine
from app.storage.sqlite import SqliteEngine

__all__ = [
    "Engine",
    "Prepared",
    "Row",
    "close_quietly",
    "open_engine",
    "parameter",
]


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


def close_quietly(engine: Engine) -> None:
    """Close this thread's connection if there is one, whatever its state."""
    with suppress(peewee.PeeweeException):
        engine.close()
