"""Reads and writes one kind of rows in one register."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from peewee import SQL, BooleanField, fn

from app.registers.applying.counts import MEMBERS
from app.registers.formats.changes import Columns, order_of
from app.storage.errors import driver_errors_translated
from app.storage.register_store import OpenRegister
from app.storage.tables import TABLES, AppliedLoad, Kind, column_names, in_schema, qualified

_PAGE_ROWS = 10_000


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


class RegisterTable:
    """The table for one kind of rows in an open register."""

    def __init__(self, opened: OpenRegister, kind: Kind) -> None:
        self._order = order_of(kind)
        self._kind = kind
        self._engine, self._schema = opened
        self._model = _in_schema(self._schema, TABLES[kind])
        self._name = qualified(self._schema, kind.table)
        self._columns = column_names(kind)

    def count(self) -> int:
        return int(self._model.select().count(self._engine))

    def count_known(self, member: str) -> int:
        """Return how many rows have a value for a member."""
        position = next(each.position for each in MEMBERS[self._kind] if each.name == member)
        field: Any = self._model._meta.sorted_fields[position]
        has_value = field == True if isinstance(field, BooleanField) else field.is_null(False)  # noqa: E712
        return int(self._model.select().where(has_value).count(self._engine))

    def count_insurers(self, names: Sequence[str], day: str) -> Mapping[str, int]:
        """Return how many policies of each of these insurers are in force on a day, or later."""
        policy = self._model
        goes_on = policy.cancelled_on.is_null() | (policy.cancelled_on > day)
        counted = policy.select(policy.insurer, fn.COUNT(SQL("*"))).where(
            policy.insurer.in_(list(names)) & (policy.valid_to >= day) & goes_on
        )
        return dict(counted.group_by(policy.insurer).tuples().execute(self._engine))

    def rows_of_groups(self, changes: Iterable[Columns]) -> Iterator[Columns]:
        """Yield all rows in the groups of these changes, each once and in any order."""
        size = self._order.group_columns
        groups = dict.fromkeys(change[:size] for change in changes)
        return self._engine.select_by_key(self._select(), self._names(size), groups)

    def pages(self, after: str | None = None, until: str | None = None) -> Iterator[list[Columns]]:
        """Yield all rows in the order of their keys, in lists of at most 10,000.

        Args:
            after: skip the groups up to and including this one.
            until: stop after this group.
        """
        start: Sequence[str] = () if after is None else after.split("\0")
        end: Sequence[str] = () if until is None else until.split("\0")
        order = ", ".join(self._names(self._order.key_columns))
        while True:
            bounds = filter(None, [self._bound(">", start), self._bound("<=", end)])
            where = " AND ".join(bounds) or "TRUE"
            sql = f"{self._select()} WHERE {where} ORDER BY {order} LIMIT {_PAGE_ROWS}"
            cursor = self._engine.execute_sql(sql, [*start, *end])
            with driver_errors_translated():
                rows: list[Columns] = cursor.fetchall()
            if not rows:
                return
            yield rows
            start = rows[-1][: self._order.key_columns]

    def _bound(self, operator: str, values: Sequence[str]) -> str:
        """Return a condition that the first columns are greater or less than values; or nothing."""
        names = ", ".join(self._names(len(values)))
        places = ", ".join([self._engine.param] * len(values))
        return f"({names}) {operator} ({places})" if values else ""

    def upsert(self, rows: Sequence[Columns]) -> None:
        """Insert rows, or replace those with the same keys. Call this in a transaction."""
        if rows:
            self._engine.run_many(self._upsert, rows)

    @cached_property
    def _upsert(self) -> str:
        meta = self._model._meta
        keys = meta.get_primary_keys()
        # A row begins with its key. `field in keys` would build SQL instead of comparing.
        others = meta.sorted_fields[len(keys) :]
        insert = self._model.insert(dict.fromkeys(meta.sorted_fields))
        query = insert.on_conflict(conflict_target=keys, preserve=others)
        sql, _ = self._engine.get_sql_context().sql(query).query()
        return str(sql)

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


def _in_schema(schema: str | None, model: Any) -> Any:
    return in_schema(model, schema) if schema else model


class StoredRows:
    """The rows that a register holds, taken in the order of their keys.

    Args:
        pages: all rows in this order, from `RegisterTable.pages`.
    """

    def __init__(self, kind: Kind, pages: Iterator[list[Columns]]) -> None:
        self._key_of = order_of(kind).key_of()
        self._pages = pages
        self._page: list[Columns] = []

    def take(self, last: str | None = None) -> Iterator[list[Columns]]:
        """Yield the rows up to a key that are left, in lists; all of them by default."""
        while page := self._page or next(self._pages, []):
            self._page = []
            if last is not None and self._key_of(page[-1]) > last:
                end = bisect_right(page, last, key=self._key_of)
                page, self._page = page[:end], page[end:]
            if page:
                yield page
            if self._page:
                return
