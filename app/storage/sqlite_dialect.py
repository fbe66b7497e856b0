"""What statements look like on SQLite."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any

import msgspec
import peewee
from peewee import fn

from app.storage.errors import driver_errors_translated
from app.storage.interface import Engine, Row

_KEYS_ASKED_FOR = 1_000
# PERF: the driver looks for a way to adapt each null and each flag, and finds none. With these two
# adapters a row of twelve columns is bound in 1.4 us instead of 6.4 us; as JSON, which would need
# no adapters, in 2.3 us. The driver knows adapters of the process only, not of a connection.
_driver: Any = vars(peewee)["sqlite3"]
_driver.register_adapter(type(None), {}.get)
_driver.register_adapter(bool, int)


class SqliteDialect(Engine):
    """The SQL of SQLite."""

    dialect = "sqlite"
    has_lateral = False

    def consistent_read(self) -> Any:
        """Return a transaction that only reads, and sees the data of one moment."""
        # NOTE: another kind would take the lock that domains are written under (D27).
        return self.atomic("DEFERRED")

    @contextmanager
    def migration(self) -> Iterator[None]:
        """Begin a transaction in which nobody else migrates: write transactions run one by one."""
        self.execute_sql("PRAGMA foreign_keys = 0")  # A rebuilt table must not cascade into others.
        with self.atomic():
            yield

    def take_turn(self, *numbers: int) -> None:
        """Do nothing: write transactions run one by one (D27)."""

    def lock_rows(self, query: Any) -> None:
        """Do nothing: write transactions run one by one (D27)."""

    def _greatest(self, columns: Sequence[peewee.Node], null: str) -> Any:
        # Unlike GREATEST, SQLite's MAX is null if any of its arguments is.
        lowest = peewee.SQL(null)
        filled = [fn.COALESCE(column, lowest) for column in columns]
        return fn.NULLIF(fn.MAX(*filled), lowest)

    def each_of(self, texts: peewee.Value, column: str) -> peewee.Select:
        """Return a query with one row for each text of a list."""
        each: Any = fn.json_each(texts).alias("listed")
        return peewee.Select((each,), (each.c.value.alias(column),))

    def listed(self, texts: Sequence[str]) -> object:
        """Return a list of texts as JSON."""
        # NOTE: as text; SQLite might take a blob for JSON in its own binary form.
        return msgspec.json.encode(texts).decode()

    def select_by_key(
        self, select: str, columns: Sequence[str], keys: Iterable[Row]
    ) -> Iterator[Row]:
        """Yield the rows whose first columns are one of these keys."""
        asked = list(keys)
        # All questions are of one length, so that the statement is compiled once.
        asked += asked[-1:] * (-len(asked) % _KEYS_ASKED_FOR)
        place = f"({', '.join('?' * len(columns))})"
        places = ", ".join([place] * _KEYS_ASKED_FOR)
        sql = f"{select} WHERE ({', '.join(columns)}) IN (VALUES {places})"
        for start in range(0, len(asked), _KEYS_ASKED_FOR):
            some = asked[start : start + _KEYS_ASKED_FOR]
            cursor = self.execute_sql(sql, list(chain.from_iterable(some)))
            with driver_errors_translated():
                found: list[Row] = cursor.fetchall()
            yield from found

    def fill(self, table: str, columns: Sequence[str], batches: Iterable[Sequence[Row]]) -> None:
        """Write rows into an empty table."""
        names, places = ", ".join(columns), ", ".join("?" * len(columns))
        sql = f"INSERT INTO {table} ({names}) VALUES ({places})"  # noqa: S608 - our own names
        for batch in batches:
            self.run_many(sql, batch)

    def analyse(self, table: str) -> None:
        """Do nothing: every look-up is by key."""
