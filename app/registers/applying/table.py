"""Reads and writes one kind of rows in one register."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import peewee
from peewee import fn

from app.registers.applying.counts import Member, Tally
from app.registers.formats.changes import Columns, order_of
from app.storage.errors import driver_errors_translated
from app.storage.register_store import OpenRegister
from app.storage.tables import TABLES, AppliedLoad, Kind, column_names, in_schema, qualified


class Applied(NamedTuple):
    """How many rows a load read and changed, and how many the register has after it (`held`)."""

    loaded: int
    changed: int
    held: int


def find_applied(opened: OpenRegister | None, load_id: int) -> Applied | None:
    """Return the row counts of a load from the register, or None if it was not committed.

    Args:
        opened: None if there is no register.
    """
    if opened is None:
        return None
    model = _in_schema(opened.schema, AppliedLoad)
    found = model.select().where(model.load_id == load_id).first(opened.engine)
    return Applied(found.loaded, found.changed, found.held) if found else None


def note_applied(opened: OpenRegister, load_id: int, applied: Applied) -> None:
    """Record in the register that it contains a load. Call this in the load's transaction."""
    model = _in_schema(opened.schema, AppliedLoad)
    model.insert(load_id=load_id, **applied._asdict()).execute(opened.engine)


class Table:
    """The table for one kind of rows in an open register."""

    def __init__(self, opened: OpenRegister, kind: Kind) -> None:
        self._order = order_of(kind)
        self._kind = kind
        self._engine, self._schema = opened
        self._model = _in_schema(self._schema, TABLES[kind])
        self._name = qualified(self._schema, TABLES[kind]._meta.table_name)
        self._columns = column_names(self._model)

    def count(self) -> int:
        """Return the number of rows."""
        return int(self._model.select().count(self._engine))

    def tally(self) -> Tally:
        """Return the tally of all rows, without the values of watched members."""
        tally = Tally(self._kind)
        fields = self._model._meta.sorted_fields
        counted = [_known(fields[member.position], member) for member in tally.members]
        query = self._model.select(fn.COUNT(peewee.SQL("*")), *counted).tuples()
        ((rows, *known),) = query.execute(self._engine)
        return Tally(tally.kind, (rows, known, tally.values))

    def rows_of_groups(self, changes: Iterable[Columns]) -> Iterator[Columns]:
        """Yield all rows in the groups of these changes, each once and in any order."""
        size = self._order.group_columns
        groups = dict.fromkeys(change[:size] for change in changes)
        return self._engine.select_by_key(self._select(), self._names(size), groups)

    def rows_between(self, rows: Sequence[Columns]) -> list[Columns]:
        """Return all stored rows between the keys of the first and of the last of these rows."""
        size = self._order.key_columns
        key = f"({', '.join([self._engine.param] * size)})"
        sql = f"{self._select()} WHERE ({', '.join(self._names(size))}) BETWEEN {key} AND {key}"
        cursor = self._engine.execute_sql(sql, [*rows[0][:size], *rows[-1][:size]])
        with driver_errors_translated():
            found: list[Columns] = cursor.fetchall()
        return found

    def upsert(self, rows: Sequence[Columns]) -> None:
        """Insert rows, or replace those with the same keys. Call this in a transaction."""
        if rows:
            meta = self._model._meta
            keys = meta.get_primary_keys()
            # A row begins with its key. `field in keys` would build SQL instead of comparing.
            others = meta.sorted_fields[len(keys) :]
            insert = self._model.insert(dict.fromkeys(meta.sorted_fields))
            query = insert.on_conflict(conflict_target=keys, preserve=others)
            sql, _ = self._engine.get_sql_context().sql(query).query()
            self._engine.run_many(sql, rows)

    def remove(self, rows: Sequence[Columns]) -> None:
        """Delete the rows with these keys. Call this in a transaction."""
        size = self._order.key_columns
        if rows:
            key = " AND ".join(f"{name} = {self._engine.param}" for name in self._names(size))
            sql = f"DELETE FROM {self._name} WHERE {key}"  # noqa: S608 - our own names
            self._engine.run_many(sql, [row[:size] for row in rows])

    def fill(self, batches: Iterable[Sequence[Columns]]) -> None:
        """Write rows to the empty table. They must be sorted by key, with each key once."""
        self._engine.fill(self._name, self._names(len(self._columns)), batches)

    def analyse(self) -> None:
        """Update the statistics of the query planner."""
        self._engine.analyse(self._name)

    def _select(self) -> str:
        names = ", ".join(self._names(len(self._columns)))
        return f"SELECT {names} FROM {self._name}"  # noqa: S608 - our own names

    def _names(self, size: int) -> list[str]:
        return [f'"{name}"' for name in self._columns[:size]]


def _known(field: Any, member: Member) -> Any:
    """Return an SQL expression that counts the rows with a value, as `Tally.add` does."""
    if isinstance(field, peewee.BooleanField) and not member.is_flag:
        return fn.COUNT(peewee.Case(None, [(field, 1)]))
    return fn.COUNT(field)


def _in_schema(schema: str | None, model: Any) -> Any:
    return in_schema(model, schema) if schema else model
