"""What changes make of the rows that a register holds: which to write, which to remove (D21)."""

from collections.abc import Iterable
from operator import itemgetter
from typing import Any, NamedTuple

from app.registers.formats.interface import Kind
from app.registers.knowledge import Tally
from app.registers.rows import (
    FineRow,
    PolicyCancellation,
    PolicyDeletion,
    PolicyRow,
    VehicleDeletion,
)
from app.registers.sorting import Columns, Order

_DELETIONS = (len(VehicleDeletion._fields), len(PolicyDeletion._fields))
_CANCELLATION = len(PolicyCancellation._fields)
_CANCELLED_ON = PolicyRow._fields.index("cancelled_on")
_NARROW_FINE = len(FineRow._fields) + 1
_AMOUNT, _SETTLED = FineRow._fields.index("amount_cents"), FineRow._fields.index("settled")

_TIME = itemgetter(-1)
Keyed = dict[Any, Columns]
"""Rows by their keys."""


class Outcome(NamedTuple):
    """What became of a batch of changes; rows are complete, with their time."""

    rows: list[Columns]
    """All rows of the batch's keys that are to be held."""
    changed: list[Columns]
    """Those among them that the register does not hold just so."""
    removed: list[Columns]
    """Rows held that are to be held no more."""
    added: int
    """How many of the rows have keys that are not held."""
    skipped: int
    """Deletions and cancellations of what was not there."""
    compared: tuple[list[Columns], list[Columns]] = ([], [])
    """The rows whose keys were held already, as they were held; and what is compared with them:
    the same rows as they are to be held, of a replace all rows (D67)."""


class Counts:
    """What a load does to the rows of one kind."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.held_before = 0
        self.added = 0
        """Rows of keys that were not held."""
        self.repeated = 0
        """Rows of keys that were."""
        self.differing = 0
        """Rows of either that were not held just so."""
        self.removed = 0
        self.skipped = 0
        """Deletions and cancellations of what was not there."""
        self.known = Tally(kind)
        """Of all rows that the load has brought, as they are held afterwards."""
        self.before, self.after = Tally(kind), Tally(kind)
        """Of the rows that were held already, and of what is compared with them (D67)."""

    @property
    def held(self) -> int:
        """Rows that the register holds afterwards."""
        return self.held_before + self.added - self.removed

    @property
    def changed(self) -> int:
        """Rows of the register that were added, changed or removed."""
        return self.differing + self.removed

    def add(self, outcome: Outcome) -> None:
        """Count what became of a batch."""
        self.added += outcome.added
        self.repeated += len(outcome.rows) - outcome.added
        self.differing += len(outcome.changed)
        self.removed += len(outcome.removed)
        self.skipped += outcome.skipped
        self.known.add(outcome.rows)
        before, after = outcome.compared
        self.before.add(before)
        self.after.add(after)

    def add_part(self, told: tuple[Any, ...]) -> None:
        """Count what another process did, of the same rows held before."""
        numbers, tallies = told
        self.added += numbers[0]
        self.repeated += numbers[1]
        self.differing += numbers[2]
        self.skipped += numbers[3]
        for mine, other in zip(self._tallies, tallies, strict=True):
            mine.add_tally(Tally(self.kind, other))

    def told(self) -> tuple[Any, ...]:
        """Return what `add_part` takes."""
        numbers = (self.added, self.repeated, self.differing, self.skipped)
        return numbers, tuple(tally.told() for tally in self._tallies)

    @property
    def _tallies(self) -> tuple[Tally, ...]:
        return self.known, self.before, self.after

    def end_replace(self) -> None:
        """Count what is held no more, once all that was read has been counted."""
        self.removed = self.held_before - self.repeated


def compare(
    changes: list[Columns],
    held: Iterable[Columns],
    order: Order,
    loaded_at: int,
    *,
    is_replace: bool = False,
) -> Outcome:
    """Apply changes to rows held, in the order of the changes.

    A row that comes again unchanged keeps its time, unless its source gives another; one that
    changes without a time of its own gets that of the load (D21).

    Args:
        changes: sorted by group, in each group in the order of the file.
        held: all rows held of these groups, or of these keys if all changes are rows.
        loaded_at: Unix seconds.
        is_replace: the changes are all there is to be held.
    """
    key_of = order.key_of()
    before = {key_of(row): row for row in held}
    skipped = 0
    gone: list[Columns] = []
    if set(map(len, changes)) == {order.row_columns}:
        after = dict(zip(map(key_of, changes), changes, strict=True))
    else:
        after, gone, skipped = _applied(changes, before, order)
    if not before:
        rows = list(after.values())
        if None in map(_TIME, rows):
            rows = [row if row[-1] is not None else (*row[:-1], loaded_at) for row in rows]
        return Outcome(rows, rows, gone, len(rows), skipped)
    rows = [_timed(row, before.get(key), loaded_at) for key, row in after.items()]
    changed = [row for key, row in zip(after, rows, strict=True) if row != before.get(key)]
    repeated = [before[key] for key in after if key in before]
    successors = rows
    if not is_replace and len(repeated) < len(rows):
        successors = [row for key, row in zip(after, rows, strict=True) if key in before]
    return Outcome(rows, changed, gone, len(rows) - len(repeated), skipped, (repeated, successors))


def _timed(row: Columns, held: Columns | None, loaded_at: int) -> Columns:
    if row[-1] is not None:
        return row
    is_unchanged = held is not None and held[:-1] == row[:-1]
    return held if held is not None and is_unchanged else (*row[:-1], loaded_at)


def _applied(
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
