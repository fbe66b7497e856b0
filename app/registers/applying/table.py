"""Reads and writes one kind of rows in one register (D25)."""

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

import peewee
from peewee import fn

from app.registers.applying.tally import Member, Tally
from app.registers.formats.changes import Columns
from app.registers.reading.sorted_runs import Order
from app.storage.engine import Engine
from app.storage.errors import driver_errors_translated
from app.storage.tables import TABLES, AppliedLoad, Kind, column_names, in_schema, qualified


@cache
def order_of(kind: Kind) -> Order:
    """Return the order of the rows and changes of a kind. One change affects one group."""
    key_columns = len(TABLES[kind]._meta.get_primary_keys())
    # A deletion affects all periods of a policy. If the file has no column for the insurer, a row
    # can affect any policy of its vehicle.
    group_columns = 1 if kind == Kind.POLICIES else key_columns
    return Order(group_columns, key_columns)


class Applied(NamedTuple):
    """How many rows a load read and changed, and how many the register has after it (`held`)."""

    loaded: int
    changed: int
    held: int


def find_applied(register: Engine, schema: str | None, load_id: int) -> Applied | None:
    """Return the row counts of a load from the register, or None if it was not committed."""
    model = _in_schema(schema, AppliedLoad)
    found = model.select().where(model.load_id == load_id).first(register)
    return Applied(found.loaded, found.changed, found.held) if found else None


def note_applied(register: Engine, schema: str | None, load_id: int, applied: Applied) -> None:
    """Record in the register that it contains a load. Call this in the load's transaction."""
    model = _in_schema(schema, AppliedLoad)
    model.insert(load_id=load_id, **applied._asdict()).execute(register)


class Table:
    """The table for one kind of rows in an open register.

    Args:
        register: the engine of an `OpenRegister`.
        schema: its schema.
    """

    def __init__(self, register: Engine, schema: str | None, kind: Kind) -> None:
        self.order = order_of(kind)
        self._kind = kind
        self.register = register
        self.schema = schema
        self._model = _in_schema(schema, TABLES[kind])
        self.name = qualified(schema, TABLES[kind]._meta.table_name)
        self._columns = column_names(self._model)

    def exists(self) -> bool:
        """Return whether the register has this table."""
        return bool(self.register.table_exists(self._model._meta.table_name, schema=self.schema))

    def count(self) -> int:
        """Return the number of rows."""
        return int(self._model.select().count(self.register))

    def tally(self) -> Tally:
        """Return the tally of all rows, without the values of watched members."""
        tally = Tally(self._kind)
        fields = self._model._meta.sorted_fields
        counted = [_known(fields[member.position], member) for member in tally.members]
        query = self._model.select(fn.COUNT(peewee.SQL("*")), *counted).tuples()
        ((rows, *known),) = query.execute(self.register)
        return Tally(tally.kind, (rows, known, tally.values))

    def rows_of_groups(self, changes: Iterable[Columns]) -> Iterator[Columns]:
        """Yield all rows in the groups of these changes, each once and in any order."""
        size = self.order.group_columns
        groups = dict.fromkeys(change[:size] for change in changes)
        return self.register.select_by_key(self._select(), self._names(size), groups)

    def rows_between(self, rows: Sequence[Columns]) -> list[Columns]:
        """Return all stored rows from the key of the first of these rows to that of the last."""
        size = self.order.key_columns
        key = f"({', '.join([self.register.param] * size)})"
        sql = f"{self._select()} WHERE ({', '.join(self._names(size))}) BETWEEN {key} AND {key}"
        return self._rows(sql, [*rows[0][:size], *rows[-1][:size]])

    def upsert(self, rows: Sequence[Columns]) -> None:
        """Insert rows, or replace those with the same keys. Call this in a transaction."""
        if rows:
            meta = self._model._meta
            keys = meta.get_primary_keys()
            # A row begins with its key. `field in keys` would build SQL instead of comparing.
            others = meta.sorted_fields[len(keys) :]
            insert = self._model.insert(dict.fromkeys(meta.sorted_fields))
            query = insert.on_conflict(conflict_target=keys, preserve=others)
            sql, _ = self.register.get_sql_context().sql(query).query()
            self.register.run_many(sql, rows)

    def remove(self, rows: Sequence[Columns]) -> None:
        """Delete the rows with these keys. Call this in a transaction."""
        size = self.order.key_columns
        if rows:
            key = " AND ".join(f'"{name}" = {self.register.param}' for name in self._key)
            sql = f"DELETE FROM {self.name} WHERE {key}"  # noqa: S608 - our own names
            self.register.run_many(sql, [row[:size] for row in rows])

    def fill(self, batches: Iterable[Sequence[Columns]]) -> None:
        """Write rows to the empty table. They must be sorted by key, with each key once."""
        self.register.fill(self.name, self._names(len(self._columns)), batches)

    def analyse(self) -> None:
        """Update the statistics of the query planner."""
        self.register.analyse(self.name)

    @property
    def _key(self) -> tuple[str, ...]:
        return self._columns[: self.order.key_columns]

    def _select(self) -> str:
        names = ", ".join(self._names(len(self._columns)))
        return f"SELECT {names} FROM {self.name}"  # noqa: S608 - our own names

    def _names(self, size: int) -> list[str]:
        return [f'"{name}"' for name in self._columns[:size]]

    def _rows(self, sql: str, values: list[Any]) -> list[Columns]:
        cursor = self.register.execute_sql(sql, values)
        with driver_errors_translated():
            rows: list[Columns] = cursor.fetchall()
        return rows


def _known(field: Any, member: Member) -> Any:
    """Return an SQL expression that counts the rows with a value, as `Tally.add` does."""
    if isinstance(field, peewee.BooleanField) and not member.is_flag:
        return fn.COUNT(peewee.Case(None, [(field, 1)]))
    return fn.COUNT(field)


def _in_schema(schema: str | None, model: Any) -> Any:
    return in_schema(model, schema) if schema else model
