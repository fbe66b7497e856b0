"""What statements look like on Postgres, and its COPY format (D25)."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from operator import itemgetter, methodcaller
from typing import Any

import peewee
from peewee import JOIN, fn

from app.storage.errors import driver_errors_translated
from app.storage.interface import Engine, Row

_MIGRATION_LOCK = 0x766664  # any number that no other lock uses
_NULL = str(None)
_CONTROLS = ("\b", "\f", "\r", "\v")
_ESCAPES = str.maketrans(
    {"\\": r"\\", "\b": r"\b", "\f": r"\f", "\n": r"\n", "\r": r"\r", "\t": r"\t", "\v": r"\v"}
)


class PostgresDialect(Engine, peewee.PostgresqlDatabase):
    """The statements on a Postgres server; `Engine` says what each method does."""

    dialect = "postgres"
    keeps_order = False

    def integrity_fault(self) -> None:
        """Return None: the server has tools of its own."""

    def consistent_read(self) -> AbstractContextManager[object]:
        return self.atomic("REPEATABLE READ")

    @contextmanager
    def migration(self) -> Iterator[None]:
        """Begin a transaction during which no other process, on any host, can migrate."""
        with self.atomic():
            self.take_advisory_lock(_MIGRATION_LOCK)
            yield

    def take_advisory_lock(self, *numbers: int) -> None:
        places = ", ".join(["%s"] * len(numbers))
        self.execute_sql(f"SELECT pg_advisory_xact_lock({places})", numbers)

    def lock_rows(self, query: "peewee.ModelSelect[Any]") -> None:
        list(query.for_update().execute(self))

    def null(self, field: type[peewee.Field]) -> str:
        """Return a null with its type, which the server takes for a text otherwise."""
        return f"NULL::{field.field_type}"

    def each_of(self, texts: peewee.Value, column: str) -> peewee.Select:
        return peewee.Select(columns=(fn.unnest(texts.cast("text[]")).alias(column),))

    def with_each(self, columns: peewee.Node, table: Any, listed: peewee.CTE) -> Any:
        """Return a query for columns of the rows of plates.

        PERF: OFFSET keeps the planner from reading the whole table for a list, whose length it does
        not know.
        """
        found = table.select(columns).where(table.registration == listed.c.text).offset(0)
        joined = peewee.Join(listed, found.alias("found"), JOIN.LATERAL, peewee.SQL("TRUE"))
        return peewee.Select((joined,), (peewee.SQL("found.*"),))

    def listed(self, texts: Sequence[str]) -> object:
        """Return the list unchanged: the driver converts it to an array."""
        return texts

    def select_by_key(
        self, select: str, columns: Sequence[str], keys: Iterable[Row]
    ) -> Iterator[Row]:
        # PERF: the statistics of the planner lack the rows that this transaction wrote. It may take
        # the table for small, and read all of it each time.
        self.execute_sql("SET LOCAL enable_seqscan = off")
        asked, size = set(keys), len(columns)
        first = list(dict.fromkeys(map(itemgetter(0), asked)))
        cursor = self.execute_sql(f"{select} WHERE {columns[0]} = ANY(%s)", [first])
        with driver_errors_translated():
            found: list[Row] = cursor.fetchall()
        yield from (row for row in found if row[:size] in asked)

    def fill(self, table: str, columns: Sequence[str], batches: Iterable[Sequence[Row]]) -> None:
        statement = f"COPY {table} ({', '.join(columns)}) FROM STDIN"
        with driver_errors_translated(), self.cursor().copy(statement) as copy:
            for batch in batches:
                copy.write(copy_text(batch))

    def batches(self, sql: str, rows_max: int) -> Iterator[list[Row]]:
        # With a cursor of its own, the server sends only the rows that are fetched.
        with driver_errors_translated(), self.connection().cursor("all") as cursor:
            cursor.execute(sql)
            while rows := cursor.fetchmany(rows_max):
                yield rows

    def lock_tables(self, names: Iterable[str]) -> None:
        tables = ", ".join(f'"{name}"' for name in names)
        self.execute_sql(f"LOCK TABLE {tables} IN EXCLUSIVE MODE")

    def last_number(self, table: str) -> int:
        last = "SELECT coalesce(pg_sequence_last_value(pg_get_serial_sequence(%s, 'id')), 0)"
        return int(self.execute_sql(last, (table,)).fetchone()[0])

    def continue_after(self, table: str, number: int) -> None:
        """Set the sequence of a table."""
        if number:
            query = "SELECT setval(pg_get_serial_sequence(%s, 'id'), %s)"
            self.execute_sql(query, (table, number))

    def analyse(self, table: str) -> None:
        self.execute_sql(f"ANALYZE {table}")


def copy_text(rows: Sequence[Row]) -> str:
    """Return rows in COPY's text format, as Postgres writes it except for flags.

    Flags become `True` and `False`, which COPY reads like the `t` and `f` that Postgres writes.

    Args:
        rows: tuples of texts, whole numbers, flags and None, all of the same length.
    """
    if not rows:
        return ""
    columns = len(rows[0])
    line = "\t".join(["%s"] * columns) + "\n"
    # PERF: formatting whole rows takes 0.8 us for twelve columns. Single values take 3.7 us.
    text = "".join(map(line.__mod__, rows))
    nulls = sum(map(methodcaller("count", None), rows))
    is_plain = (
        text.count(_NULL) == nulls
        and "\\" not in text
        and text.count("\n") == len(rows)
        and text.count("\t") == len(rows) * (columns - 1)
        and not any(control in text for control in _CONTROLS)
    )
    if is_plain:
        return text.replace(_NULL, r"\N")
    return "".join([line % tuple(map(_escaped, row)) for row in rows])


def _escaped(value: object) -> object:
    """Return a value in COPY's text format."""
    if isinstance(value, str):
        return value.translate(_ESCAPES)
    return r"\N" if value is None else value
