"""What changes make of the rows that a register holds: which to write, which to remove (D21)."""

from collections.abc import Iterable, Sequence
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
    fresh: Sequence[Columns] = ()
    """Rows of keys that are not held."""
    same: Sequence[Columns] = ()
    """Rows that are held just so."""
    renewed: Sequence[Columns] = ()
    """Rows of keys that are held otherwise; and as they are held."""
    former: Sequence[Columns] = ()


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
        # PERF: each row is counted once, and what was held in its place only if it differs.
        self._fresh, self._same = Tally(kind), Tally(kind)
        self._renewed, self._former = Tally(kind), Tally(kind)

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
        self._fresh.add(outcome.fresh)
        self._same.add(outcome.same)
        self._renewed.add(outcome.renewed)
        self._former.add(outcome.former)

    @property
    def known(self) -> Tally:
        """What is known of all rows that the load brought."""
        return self._fresh + self._same + self._renewed

    @property
    def known_before(self) -> Tally:
        """What was known of those among them whose keys were held (D67)."""
        return self._same + self._former

    @property
    def known_after(self) -> Tally:
        """What is known of the same rows now."""
        return self._same + self._renewed

    def add_part(self, told: tuple[Any, ...]) -> None:
        """Count what another process did, of the same rows held before."""
        numbers, tallies = told
        self.added += numbers[0]
        self.repeated += numbers[1]
        self.differing += numbers[2]
        self.skipped += numbers[3]
        of_parts = (Tally(self.kind, tally) for tally in tallies)
        fresh, same, renewed, former = of_parts
        self._fresh, self._same = self._fresh + fresh, self._same + same
        self._renewed, self._former = self._renewed + renewed, self._former + former

    def told(self) -> tuple[Any, ...]:
        """Return what `add_part` takes."""
        numbers = (self.added, self.repeated, self.differing, self.skipped)
        tallies = (self._fresh, self._same, self._renewed, self._former)
        return numbers, tuple(tally.told() for tally in tallies)

    def end_replace(self) -> None:
        """Count what is held no more, once all that was read has been counted."""
        self.removed = self.held_before - self.repeated


def compare(
    changes: list[Columns],
    held: Iterable[Columns],
    order: Order,
    loaded_at: int,
) -> Outcome:
    """Apply changes to rows held, in the order of the changes.

    A row that comes again unchanged keeps its time, unless its source gives another; one that
    changes without a time of its own gets that of the load (D21).

    Args:
        changes: sorted by group, in each group in the order of the file.
        held: all rows held of these groups, or of these keys if all changes are rows.
        loaded_at: Unix seconds.
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
        return Outcome(rows, rows, gone, len(rows), skipped, fresh=rows)
    rows = [_timed(row, before.get(key), loaded_at) for key, row in after.items()]
    changed = [row for key, row in zip(after, rows, strict=True) if row != before.get(key)]
    if not changed:
        return Outcome(rows, changed, gone, 0, skipped, same=rows)
    fresh, same, renewed, former = _parted(after, rows, before)
    return Outcome(rows, changed, gone, len(fresh), skipped, fresh, same, renewed, former)


def _parted(
    keys: Iterable[Any], rows: Iterable[Columns], before: Keyed
) -> tuple[list[Columns], list[Columns], list[Columns], list[Columns]]:
    """Return rows of keys not held, as held, and held otherwise; and how these are held."""
    fresh, same, renewed, former = [], [], [], []
    for key, row in zip(keys, rows, strict=True):
        held = before.get(key)
        if held is None:
            fresh.append(row)
        elif held == row:
            same.append(row)
        else:
            renewed.append(row)
            former.append(held)
    return fresh, same, renewed, former


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
