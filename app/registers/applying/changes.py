"""Applies what is no complete row: narrow rows, deletions and cancellations (formats 2, 4)."""

from collections.abc import Iterable
from typing import Any

from app.registers.formats.changes import (
    FineRow,
    PolicyCancellation,
    PolicyDeletion,
    PolicyRow,
    VehicleDeletion,
)
from app.registers.reading.sorted_runs import Columns, Order

_DELETIONS = (len(VehicleDeletion._fields), len(PolicyDeletion._fields))
_CANCELLATION = len(PolicyCancellation._fields)
_CANCELLED_ON = PolicyRow._fields.index("cancelled_on")
_NARROW_FINE = len(FineRow._fields) + 1
_AMOUNT, _SETTLED = FineRow._fields.index("amount_cents"), FineRow._fields.index("settled")

Keyed = dict[Any, Columns]
"""Rows by their keys."""


def applied(
    changes: Iterable[Columns], before: Keyed, order: Order
) -> tuple[Keyed, list[Columns], int]:
    """Apply changes that are not all complete rows.

    Returns the rows that they leave of what they touched, the rows held that they took away, and
    how many were skipped.
    """
    group_of = order.group_of()
    groups: dict[str, Keyed] = {}
    for key, row in before.items():
        groups.setdefault(group_of(row), {})[key] = row
    touched: dict[Any, Keyed] = {}
    skipped = 0
    for change in changes:
        group = groups.setdefault(group_of(change), {})
        keys = _apply(change, group, order)
        touched.update(dict.fromkeys(keys, group))
        skipped += not keys
    after = {key: group[key] for key, group in touched.items() if key in group}
    gone = [before[key] for key in touched if key in before and key not in after]
    return after, gone, skipped


def _apply(change: Columns, group: Keyed, order: Order) -> list[Any]:
    """Apply a change to the rows of its group; return the keys that it touched, if any."""
    key_of = order.key_of()
    if len(change) == order.row_columns:
        keys = [key_of(change)]
        group[keys[0]] = change
    elif len(change) > order.row_columns:
        keys = _described(change, group, order)
        for key in keys:
            group[key] = _completed(change, group.get(key))
    else:
        start = change[: order.met_columns]
        keys = [key for key, row in group.items() if row[: order.met_columns] == start]
        for key in keys:
            if len(change) in _DELETIONS:
                del group[key]
            elif len(change) == _CANCELLATION:
                group[key] = _cancelled(group[key], change[-1])
    return keys


def _described(narrow: Columns, group: Keyed, order: Order) -> list[Any]:
    """Return the keys of the rows that a narrow row means; its own if it means a new one.

    A file that does not tell the insurer means the policy of that number and first day, whoever
    insures it.
    """
    told = set(range(order.key_columns)).difference(narrow[-1])
    if len(told) == order.key_columns:
        return [order.key_of()(narrow)]
    met = [key for key, row in group.items() if all(row[at] == narrow[at] for at in told)]
    return met or [order.key_of()(narrow)]


def _completed(narrow: Columns, held: Columns | None) -> Columns:
    """Return the row that a narrow one makes of the row that is held (D66).

    The time is never kept: it is that of the change (D21).
    """
    *values, absent = narrow
    if held is None:
        return tuple(values)
    for place in absent:
        if place < len(values) - 1:
            values[place] = held[place]
    if len(narrow) == _NARROW_FINE and _SETTLED in absent:
        # It is settled by its amount, or by a day that was told before and is not told now.
        values[_SETTLED] = values[_AMOUNT] <= 0 or bool(held[_SETTLED] and held[_AMOUNT] > 0)
    return tuple(values)


def _cancelled(row: Columns, day: str) -> Columns:
    """Return a policy that ends on a day; when that changed is judged once all is applied."""
    if row[_CANCELLED_ON] == day:
        return row
    return (*row[:_CANCELLED_ON], day, *row[_CANCELLED_ON + 1 : -1], None)
