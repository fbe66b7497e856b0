"""Reads and writes one kind of rows in one register (D25)."""

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import chain
from operator import itemgetter, methodcaller
from typing import Any, NamedTuple

import peewee
from peewee import fn

from app.registers.applying.tally import Member, Tally
from app.registers.formats import Kind
from app.registers.formats.changes import Columns
from app.registers.models import AppliedLoad
from app.registers.reading.sorted_runs import Order
from app.storage.engine import Engine
from app.storage.postgres import PostgresEngine
from app.storage.sqlite import SqliteEngine, driver_errors_translated
from app.storage.tables import Fine, Policy, Vehicle, column_names, in_schema

TABLES: dict[Kind, type[Any]] = {
    Kind.VEHICLES: Vehicle,
    Kind.POLICIES: Policy,
    Kind.FINES: Fine,
}
_GROUPS_ASKED_FOR = 1_000
_NULL = str(None)
# PERF: without these, binding a null or a flag costs 2 us: the driver looks for a way to adapt it.
# A row of twelve columns goes in in 7 us instead of 12 us.
_sqlite3: Any = vars(peewee)["sqlite3"]
_sqlite3.register_adapter(type(None), {}.get)
_sqlite3.register_adapter(bool, int)


@cache
def order_of(kind: Kind) -> Order:
    """Return how rows and changes of a kind are sorted; a group is what one change can affect."""
    key_columns = len(TABLES[kind]._meta.get_primary_keys())
    # A deletion affects all periods of a policy. A row whose file does not give the insurer can
    # mean any policy of the vehicle.
    group_columns = 1 if kind == Kind.POLICIES else key_columns
    return Order(group_columns, key_columns)


class Applied(NamedTuple):
    """What a load did to a register, in rows; `held` is what the register holds after it."""

    loaded: int
    changed: int
    held: int


def find_applied(register: Engine, schema: str | None, load_id: int) -> Applied | None:
    """Return what a register knows about a load, or None if the load never committed."""
    model = _in(schema, AppliedLoad)
    found = model.select().where(model.load_id == load_id).first(register)
    return Applied(found.loaded, found.changed, found.held) if found else None


def note_applied(register: Engine, schema: str | None, load_id: int, applied: Applied) -> None:
    """Note in the register that it contains this load; within the load's own transaction."""
    model = _in(schema, AppliedLoad)
    model.insert(load_id=load_id, **applied._asdict()).execute(register)


class Table:
    """One kind of rows in a register that is open.

    Args:
        register: engine and schema, as `app.storage.schema.opened_register` gives them.
    """

    def __init__(self, register: Engine, schema: str | None, kind: Kind) -> None:
        self.order = order_of(kind)
        self._kind = kind
        self.register = register
        self.schema = schema
        self._model = _in(schema, TABLES[kind])
        self.name = qualified(schema, TABLES[kind]._meta.table_name)
        self._columns = column_names(self._model)

    def exists(self) -> bool:
        """Tell whether the register has this table."""
        return bool(self.register.table_exists(self._model._meta.table_name, schema=self.schema))

    def count(self) -> int:
        """Return how many rows there are."""
        return int(self._model.select().count(self.register))

    def tally(self) -> Tally:
        """Count how many of all rows know each member; their values are not looked at."""
        tally = Tally(self._kind)
        fields = self._model._meta.sorted_fields
        counted = [_known(fields[member.place], member) for member in tally.members]
        query = self._model.select(fn.COUNT(peewee.SQL("*")), *counted).tuples()
        ((rows, *known),) = query.execute(self.register)
        return Tally(tally.kind, (rows, known, tally.values))

    def find_of(self, changes: Iterable[Columns]) -> Iterator[Columns]:
        """Yield all rows of the groups of these changes; each once, in any order."""
        size = self.order.group_columns
        groups = dict.fromkeys(change[:size] for change in changes)
        if isinstance(self.register, PostgresEngine):
            # PERF: the planner's statistics lack what this transaction wrote. In a register that
            # was small it would read the whole table again and again.
            self.register.execute_sql("SET LOCAL enable_seqscan = off")
            sql = f"{self._select()} {self._names(1)} = ANY(%s)"
            plates = list(dict.fromkeys(map(itemgetter(0), groups)))
            yield from (row for row in self._rows(sql, [plates]) if row[:size] in groups)
            return
        asked = list(groups)
        # All queries have the same number of values, so that the statement is compiled once.
        asked += asked[-1:] * (-len(asked) % _GROUPS_ASKED_FOR)
        sql = f"{self._select()} ({self._names(size)}) IN (VALUES {self._places(size)})"
        for start in range(0, len(asked), _GROUPS_ASKED_FOR):
            some = asked[start : start + _GROUPS_ASKED_FOR]
            yield from self._rows(sql, list(chain.from_iterable(some)))

    def find_between(self, rows: Sequence[Columns]) -> list[Columns]:
        """Return all rows from the key of the first of these rows to that of the last one."""
        size = self.order.key_columns
        key = f"({', '.join([self.register.param] * size)})"
        sql = f"{self._select()} ({self._names(size)}) BETWEEN {key} AND {key}"
        return self._rows(sql, [*rows[0][:size], *rows[-1][:size]])

    def put(self, rows: Sequence[Columns]) -> None:
        """Insert rows, or replace those of the same key; within a transaction."""
        if rows:
            meta = self._model._meta
            keys = meta.get_primary_keys()
            # The key comes first; `in` would compare fields as SQL does.
            others = meta.sorted_fields[len(keys) :]
            insert = self._model.insert(dict.fromkeys(meta.sorted_fields))
            query = insert.on_conflict(conflict_target=keys, preserve=others)
            sql, _ = self.register.get_sql_context().sql(query).query()
            self._run_many(sql, rows)

    def remove(self, rows: Sequence[Columns]) -> None:
        """Delete the rows of these keys; within a transaction."""
        size = self.order.key_columns
        if rows:
            key = " AND ".join(f'"{name}" = {self.register.param}' for name in self._key)
            sql = f"DELETE FROM {self.name} WHERE {key}"  # noqa: S608 - names of ours
            self._run_many(sql, [row[:size] for row in rows])

    def fill(self, batches: Iterable[Sequence[Columns]]) -> None:
        """Write rows into the empty table, in the order of their keys, each key once."""
        if isinstance(self.register, SqliteEngine):
            places = ", ".join("?" * len(self._columns))
            sql = f"INSERT INTO {self.name} VALUES ({places})"  # noqa: S608 - names of ours
            for batch in batches:
                self._run_many(sql, batch)
            return
        with driver_errors_translated():
            cursor = self.register.cursor()
            line = "\t".join(["%s"] * len(self._columns)) + "\n"
            with cursor.copy(f"COPY {self.name} FROM STDIN (NULL '{_NULL}')") as copy:
                for batch in batches:
                    copy.write(_copy_text(batch, line))

    def analyse(self) -> None:
        """Update the statistics of Postgres' planner; SQLite needs none, it looks up by key."""
        if isinstance(self.register, PostgresEngine):
            self.register.execute_sql(f"ANALYZE {self.name}")

    @property
    def _key(self) -> tuple[str, ...]:
        return self._columns[: self.order.key_columns]

    def _select(self) -> str:
        return f"SELECT {self._names(len(self._columns))} FROM {self.name} WHERE"  # noqa: S608

    def _names(self, size: int) -> str:
        return ", ".join(f'"{name}"' for name in self._columns[:size])

    def _places(self, size: int) -> str:
        place = f"({', '.join([self.register.param] * size)})"
        return ", ".join([place] * _GROUPS_ASKED_FOR)

    def _rows(self, sql: str, values: list[Any]) -> list[Columns]:
        cursor = self.register.execute_sql(sql, values)
        with driver_errors_translated():
            rows: list[Columns] = cursor.fetchall()
        return rows

    def _run_many(self, sql: str, rows: Iterable[Columns]) -> None:
        with driver_errors_translated():
            self.register.cursor().executemany(sql, rows)


def qualified(schema: str | None, name: str) -> str:
    """Return a table's name as it stands in SQL; both parts are ours, and need no more quoting."""
    return f'"{schema}"."{name}"' if schema else f'"{name}"'


def _known(field: Any, member: Member) -> Any:
    """Return the count of the rows that know a member, as `Tally.add` counts them."""
    if isinstance(field, peewee.BooleanField) and not member.is_flag:
        return fn.COUNT(peewee.Case(None, [(field, 1)]))
    return fn.COUNT(field)


def _in(schema: str | None, model: Any) -> Any:
    return in_schema(model, schema) if schema else model


def _copy_text(rows: Sequence[Columns], line: str) -> str:
    """Return rows in the text format of COPY, with `None` for null.

    Args:
        line: what a row is put into by `%`.
    """
    # PERF: 3 us a row; value by value it takes 8 us, as much as all the rest of a load.
    text = "".join(map(line.__mod__, rows))
    nulls = sum(map(methodcaller("count", None), rows))
    # Control characters, which would need more, never get so far (formats 0.6).
    if "\\" in text or text.count(_NULL) != nulls:
        text = "".join([line % tuple(map(_escaped, row)) for row in rows])
    return text


def _escaped(value: object) -> object:
    """Return a value that stays what it is in COPY's text format."""
    if not isinstance(value, str):
        return value
    return value.replace("\\", r"\\") if value != _NULL else f"\\{_NULL}"
