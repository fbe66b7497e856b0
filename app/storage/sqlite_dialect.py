"""What statements look like on SQLite, and what needs no statement there (D25)."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import chain, islice
from typing import Any

import msgspec
import peewee
from peewee import fn
from playhouse.apsw_ext import APSWDatabase

from app.storage.errors import driver_errors_translated
from app.storage.interface import Engine, Row

_KEYS_ASKED_FOR = 1_000


class SqliteDialect(Engine, APSWDatabase):  # type: ignore[misc]
    """The statements on a SQLite file; `Engine` says what each method does."""

    dialect = "sqlite"
    keeps_order = True

    def integrity_fault(self) -> str | None:
        """Return the first damage that SQLite finds in the file."""
        found: str = self.execute_sql("PRAGMA main.integrity_check(1)").fetchone()[0]
        return None if found == "ok" else found.splitlines()[-1]

    def begin_log(self) -> None:
        """Begin a log with the next number, as soon as no reader needs the former log."""
        self.execute_sql("PRAGMA wal_checkpoint(TRUNCATE)")
        self.pragma("user_version", self.pragma("user_version") + 1)

    def consistent_read(self) -> AbstractContextManager[object]:
        # NOTE: any other kind would take the lock for writing (D27).
        return self.atomic("DEFERRED")

    @contextmanager
    def migration(self) -> Iterator[None]:
        """Begin a transaction during which no other process can write, so none can migrate."""
        # Replacing a table must not delete the rows that refer to it.
        self.execute_sql("PRAGMA foreign_keys = 0")
        try:
            with self.atomic():
                yield
        finally:
            # Within another migration this does nothing: its transaction goes on.
            self.execute_sql("PRAGMA foreign_keys = 1")

    def take_advisory_lock(self, *numbers: int) -> None:
        """Do nothing: only one transaction at a time can write."""

    def lock_rows(self, query: "peewee.ModelSelect[Any]") -> None:
        """Do nothing: only one transaction at a time can write."""

    def each_of(self, texts: peewee.Value, column: str) -> peewee.Select:
        each: Any = fn.json_each(texts).alias("listed")
        return peewee.Select((each,), (each.c.value.alias(column),))

    def with_each(self, columns: peewee.Node, table: Any, listed: peewee.CTE) -> Any:
        """Return a query for columns of the rows of plates.

        PERF: CROSS keeps SQLite from reading the whole table, and looking each row up in the list.
        """
        is_listed = table.registration == listed.c.text
        return peewee.Select((peewee.Join(listed, table, "CROSS JOIN", is_listed),), (columns,))

    def listed(self, texts: Sequence[str]) -> object:
        """Return a list of texts as JSON."""
        # NOTE: as text, because SQLite could take a blob for JSON in its own binary form.
        return msgspec.json.encode(texts).decode()

    def select_by_key(
        self, select: str, columns: Sequence[str], keys: Iterable[Row]
    ) -> Iterator[Row]:
        asked = list(keys)
        # All batches have the same length, so that the statement is compiled once.
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
        names, places = ", ".join(columns), ", ".join("?" * len(columns))
        sql = f"INSERT INTO {table} ({names}) VALUES ({places})"  # noqa: S608 - names from our own models
        for batch in batches:
            self.run_many(sql, batch)

    def batches(self, sql: str, rows_max: int) -> Iterator[list[Row]]:
        with driver_errors_translated():
            cursor = self.execute_sql(sql)
            while rows := list(islice(cursor, rows_max)):
                yield rows

    def lock_tables(self, names: Iterable[str]) -> None:
        """Do nothing: only one transaction at a time can write."""

    def last_number(self, table: str) -> int:
        sql = (
            "SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = ?), max(id), 0) "  # noqa: S608 - names of our own
            f'FROM "{table}"'
        )
        return int(self.execute_sql(sql, (table,)).fetchone()[0])

    def continue_after(self, table: str, number: int) -> None:
        """Set the sequence of a table that has one; another table never loses its last row."""
        self.execute_sql("DELETE FROM sqlite_sequence WHERE name = ?", (table,))
        self.execute_sql(
            "INSERT INTO sqlite_sequence (name, seq) SELECT name, ? FROM sqlite_master "
            "WHERE type = 'table' AND name = ? AND sql LIKE '%AUTOINCREMENT%'",
            (number, table),
        )

    def analyse(self, table: str) -> None:
        """Do nothing: queries find rows by their keys, whatever the statistics say."""
