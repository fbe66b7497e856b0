"""What a format reads: rows for the tables of a register, and changes to rows.

A row has the columns of its table in `app.storage.tables`, in the same order. A complete row may be
a plain tuple. Every other change keeps its type until it is applied, also in the files of sorted
runs.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import islice
from operator import eq, itemgetter
from typing import Any, NamedTuple

from app.storage.tables import COLUMNS, Kind, Row

Columns = tuple[Any, ...]
"""A row, with its values in the order of the table's columns, or any other change."""


class NarrowRow(Columns):
    """A row of a file that lacks columns: its values, followed by `absent`.

    A merge keeps the stored values of the absent columns: a file of new periods must not revive
    cancelled policies.
    """

    __slots__ = ()

    @property
    def absent(self) -> tuple[int, ...]:
        """The positions of the columns that the file lacks."""
        positions: tuple[int, ...] = self[-1]
        return positions


class RowDeletion(NarrowRow):
    """The key of a row that a native or mapped file deletes, followed by `absent`."""

    __slots__ = ()


class VehicleDeletion(NamedTuple):
    """The source deletes a vehicle."""

    registration: str


class PolicyDeletion(NamedTuple):
    """The insurer deletes all periods of a policy of a vehicle."""

    registration: str
    insurer: str
    number: str


class PolicyCancellation(NamedTuple):
    """The insurer cancels all periods of a policy of a vehicle on one day."""

    registration: str
    insurer: str
    number: str
    cancelled_on: str


Change = Row | RowDeletion | VehicleDeletion | PolicyDeletion | PolicyCancellation
"""What a format reads: a row to store, or a change to stored rows."""

INCOMPLETE: frozenset[type[Columns]] = frozenset(
    {NarrowRow, RowDeletion, VehicleDeletion, PolicyDeletion, PolicyCancellation}
)
"""The types of all changes that are not complete rows."""


def are_complete(changes: Iterable[Columns]) -> bool:
    """Return whether all changes are complete rows, which can be stored as they are."""
    # PERF: 20 ns of the 9 us per row that a load takes.
    return INCOMPLETE.isdisjoint(map(type, changes))


_TIME = -1
"""The position of the time in a row of any table: the last."""

time_of = itemgetter(_TIME)
"""Return the time of a row, in Unix seconds."""


def without_time(row: Columns) -> Columns:
    """Return all values of a row except its time."""
    return row[:_TIME]


def with_time(row: Sequence[object], time: int | None) -> Columns:
    """Return a row with another time."""
    return (*row[:_TIME], time)


# The order in which changes are sorted and applied.


class Order(NamedTuple):
    """The order of changes. The first columns of a row are its key, and all of them are texts.

    A group is the set of rows that one change can affect. All of them have the same values in the
    first columns.
    """

    group_columns: int
    """The number of columns that all rows of a group share. Every change begins with them."""
    key_columns: int
    """The number of columns in the key of a row."""

    def group_of(self) -> Callable[[Columns], str]:
        """Return a function that returns the group of a change."""
        return _first(self.group_columns)

    def key_of(self) -> Callable[[Columns], str]:
        """Return a function that returns the key of a row."""
        return _first(self.key_columns)

    def sort(self, changes: list[Columns]) -> list[Columns]:
        """Return the changes of one run in order.

        If all are complete rows, they are sorted by key, and only the last row of each key is kept.
        Otherwise changes are sorted by group, and keep the order of the file within a group.
        """
        if are_complete(changes):
            key_of = self.key_of()
            changes.sort(key=key_of)
            keys = list(map(key_of, changes))
            if any(map(eq, keys, islice(keys, 1, None))):
                return list(dict(zip(keys, changes, strict=True)).values())
            return changes
        changes.sort(key=self.group_of())
        return changes

    def without_deleted(self, changes: Sequence[Columns]) -> list[Columns]:
        """Return the rows of a replace: of each key the last one, unless that is a deletion."""
        last = {self.key_of()(change): change for change in changes}
        return self.sort([each for each in last.values() if type(each) is not RowDeletion])


def _first(columns: int) -> Callable[[Columns], str]:
    """Return a function that joins the first columns of a change to one text to sort by."""
    if columns == 1:
        return itemgetter(0)
    # PERF: sorting texts is three times as fast as sorting tuples. No text of a row contains NUL.
    return lambda change: "\0".join(change[:columns])


@cache
def order_of(kind: Kind) -> Order:
    """Return the order of the rows and changes of a kind. One change affects one group."""
    key_columns = sum(member.is_key for member in COLUMNS[kind])
    # A deletion affects all periods of a policy. If the file has no column for the insurer, a row
    # can affect any policy of its vehicle.
    group_columns = 1 if kind == Kind.POLICIES else key_columns
    return Order(group_columns, key_columns)
