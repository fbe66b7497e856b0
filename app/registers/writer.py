"""Writes rows into one register: its own transaction, all of them or none (D28)."""

from collections.abc import Iterable, Iterator
from functools import reduce
from itertools import islice
from operator import or_
from typing import Any, NamedTuple

import peewee
from peewee import EXCLUDED, Expression

from app.database import Engine, driver_errors_translated, parameter
from app.registers.formats import Kind
from app.registers.models import AppliedLoad
from app.registers.sorting import Columns
from app.vehicles.models import Fine, Policy, Vehicle, in_schema

_BATCH_ROWS = 5_000
TABLES: dict[Kind, type[peewee.Model]] = {
    Kind.VEHICLES: Vehicle,
    Kind.POLICIES: Policy,
    Kind.FINES: Fine,
}


class Applied(NamedTuple):
    """What a load did to a register, in rows; `held` is what the register holds after it."""

    loaded: int
    changed: int
    held: int


def find_applied(register: Engine, schema: str | None, load_id: int) -> Applied | None:
    """Return what a register knows of a load, or None if that never committed."""
    model = _in(schema, AppliedLoad)
    found = model.select().where(model.load_id == load_id).first(register)
    return Applied(found.loaded, found.changed, found.held) if found else None


class RegisterWriter:
    """One load's hand on a register that is open for writing.

    Args:
        register: engine and schema, as `app.schema.opened_register` gives them.
        loaded_at: Unix seconds; the time of rows whose source gives none (D21).
    """

    def __init__(self, register: Engine, schema: str | None, loaded_at: int, kind: Kind) -> None:
        self._register = register
        self._schema = schema
        self._loaded_at = loaded_at
        self._table = _in(schema, TABLES[kind])

    def merge(self, rows: Iterable[Columns]) -> int:
        """Insert rows, or replace those of the same key; return how many made a difference.

        A row that comes again unchanged keeps its time (D21). Each key may come once. Must run
        within a transaction of the register.
        """
        sql = self._upsert_sql()
        changed = 0
        with driver_errors_translated():
            cursor = self._register.cursor()
            for batch in _batches(rows):
                cursor.executemany(sql, [self._stamped(row) for row in batch])
                changed += cursor.rowcount
        return changed

    def note_applied(self, load_id: int, applied: Applied) -> None:
        """Note in the register itself that this load is in it; within the same transaction."""
        model = _in(self._schema, AppliedLoad)
        model.insert(load_id=load_id, **applied._asdict()).execute(self._register)

    @property
    def key_columns(self) -> int:
        """How many of a row's first columns are its key."""
        return len(self._table._meta.get_primary_keys())

    def count_rows(self) -> int:
        """Return how many rows of this kind the register holds."""
        return int(self._table.select().count(self._register))

    def _stamped(self, row: Columns) -> Columns:
        return row if row[-1] is not None else (*row[:-1], self._loaded_at)

    def _upsert_sql(self) -> str:
        fields = self._table._meta.sorted_fields
        key = self._table._meta.get_primary_keys()
        others = {field.name for field in fields} - {field.name for field in key} - {"updated"}
        data = [field for field in fields if field.name in others]
        time = self._table.updated
        # A time that is not that of this load came from the source, and counts as a change.
        of_load = peewee.SQL(str(self._loaded_at))
        time_given = (EXCLUDED.updated != of_load) & (EXCLUDED.updated != time)
        differs = [_is_distinct(field, getattr(EXCLUDED, field.column_name)) for field in data]
        query = self._table.insert({field: parameter(field.name) for field in fields}).on_conflict(
            conflict_target=key, preserve=[*data, time], where=reduce(or_, differs) | time_given
        )
        sql, _ = self._register.get_sql_context().sql(query).query()
        return str(sql)


def _is_distinct(left: peewee.Node, right: peewee.Node) -> Expression:
    return Expression(left, "IS DISTINCT FROM", right)


def _in(schema: str | None, model: Any) -> Any:
    return in_schema(model, schema) if schema else model


def _batches(rows: Iterable[Columns]) -> Iterator[list[Columns]]:
    iterator = iter(rows)
    while batch := list(islice(iterator, _BATCH_ROWS)):
        yield batch
