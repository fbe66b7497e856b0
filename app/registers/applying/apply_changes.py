"""Applies changes to the rows that a register holds: which rows to write, which to remove (D21).

Most loads have complete rows only; each of these replaces the row with its key. Narrow rows,
deletions and cancellations are applied one by one, in the order of the file (formats 2, 4; D66).
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from app.registers.applying.table import order_of
from app.registers.formats.changes import (
    Columns,
    FineRow,
    NarrowRow,
    PolicyCancellation,
    PolicyDeletion,
    PolicyRow,
    VehicleDeletion,
    are_complete,
    time_of,
    with_time,
    without_time,
)
from app.registers.reading.sorted_runs import Order
from app.storage.tables import Kind

Keyed = dict[str, Columns]
"""Rows by their keys."""


class Outcome(NamedTuple):
    """What a batch of changes does to a register. All rows are complete, with their time."""

    rows: Sequence[Columns]
    """All rows that the register holds afterwards for the keys in the batch, sorted by key."""
    added: Sequence[Columns]
    """Those whose keys the register did not hold."""
    unchanged: Sequence[Columns]
    """Those that the register already held with the same values."""
    updated: Sequence[Columns]
    """Those that the register held with other values."""
    replaced: Sequence[Columns]
    """The same rows as in `updated`, with the values that the register held."""
    removed: Sequence[Columns]
    """Rows that the register held and is to hold no longer."""
    skipped: int
    """How many deletions and cancellations found nothing to change."""

    @property
    def changed(self) -> Sequence[Columns]:
        """The rows to write into a register that already has rows."""
        if not (self.added and self.updated):
            return self.added or self.updated
        return [*self.added, *self.updated]


def apply_changes(
    kind: Kind, changes: list[Columns], held: Iterable[Columns], loaded_at: int
) -> Outcome:
    """Apply changes to the rows that a register holds, in the order of the changes.

    A row with the same values as the row held keeps that row's time, unless its source gives
    another. A row with new values and no time of its own gets the time of the load (D21).

    Args:
        changes: sorted as `Runs.batches` returns them, never part of a group.
        held: all rows of these groups; if all changes are rows, those with their keys will do.
        loaded_at: Unix seconds.
    """
    key_of = order_of(kind).key_of()
    before = {key_of(row): row for row in held}
    removed: list[Columns] = []
    skipped = 0
    if are_complete(changes):
        after = dict(zip(map(key_of, changes), changes, strict=True))
    else:
        after, removed, skipped = _applied_one_by_one(kind, changes, before)
    rows = list(after.values())
    rows_before = list(map(before.get, after))
    if None in map(time_of, rows):
        rows = [_timed(row, was, loaded_at) for row, was in zip(rows, rows_before, strict=True)]
    if not before:
        return Outcome(rows, rows, (), (), (), removed, skipped)
    if rows == rows_before:
        return Outcome(rows, (), rows, (), (), removed, skipped)
    return _compared(rows, rows_before, removed, skipped)


def _compared(
    rows: Sequence[Columns],
    rows_before: Sequence[Columns | None],
    removed: Sequence[Columns],
    skipped: int,
) -> Outcome:
    """Return the outcome for rows, each compared with the row held before under its key."""
    added, unchanged, updated, replaced = [], [], [], []
    for row, was in zip(rows, rows_before, strict=True):
        if was is None:
            added.append(row)
        elif was == row:
            unchanged.append(row)
        else:
            updated.append(row)
            replaced.append(was)
    return Outcome(rows, added, unchanged, updated, replaced, removed, skipped)


def _timed(row: Columns, was: Columns | None, loaded_at: int) -> Columns:
    """Return a row with its time: its own, that of the same row held, or that of the load."""
    if time_of(row) is not None:
        return row
    if was is not None and without_time(was) == without_time(row):
        return was
    return with_time(row, loaded_at)


def _applied_one_by_one(
    kind: Kind, changes: Iterable[Columns], before: Keyed
) -> tuple[Keyed, list[Columns], int]:
    """Apply changes of any type to the rows held.

    Returns the rows left of all that a change affected, the rows removed, and the number of
    changes that affected none.
    """
    order = order_of(kind)
    group_of, key_of = order.group_of(), order.key_of()
    complete = _completed_fine if kind == Kind.FINES else _completed
    groups: dict[str, Keyed] = {}
    for key, row in before.items():
        groups.setdefault(group_of(row), {})[key] = row
    affected: dict[str, Keyed] = {}
    skipped = 0
    for change in changes:
        group = groups.setdefault(group_of(change), {})
        match change:
            case NarrowRow():
                keys = _keys_meant(change, group, order)
                for key in keys:
                    group[key] = complete(change, group.get(key))
            case VehicleDeletion() | PolicyDeletion():
                keys = _keys_that_begin(change, group)
                for key in keys:
                    del group[key]
            case PolicyCancellation():
                policy = (change.registration, change.insurer, change.number)
                keys = _keys_that_begin(policy, group)
                for key in keys:
                    group[key] = _cancelled(group[key], change.cancelled_on)
            case _:
                keys = [key_of(change)]
                group[keys[0]] = change
        affected.update(dict.fromkeys(keys, group))
        skipped += not keys
    after = {key: group[key] for key, group in affected.items() if key in group}
    removed = [before[key] for key in affected if key in before and key not in after]
    return after, removed, skipped


def _keys_that_begin(start: Columns, group: Keyed) -> list[str]:
    """Return the keys of the rows whose first columns are these."""
    return [key for key, row in group.items() if row[: len(start)] == start]


def _keys_meant(narrow: NarrowRow, group: Keyed, order: Order) -> list[str]:
    """Return the keys of the rows that a narrow row means; its own if it means a new one.

    A file without a column for the insurer means the policy with that number and first day,
    whoever the insurer is.
    """
    own_key = order.key_of()(narrow)
    given = set(range(order.key_columns)).difference(narrow.absent)
    if len(given) == order.key_columns:
        return [own_key]
    meant = [key for key, row in group.items() if all(row[at] == narrow[at] for at in given)]
    return meant or [own_key]


def _completed(narrow: NarrowRow, was: Columns | None) -> Columns:
    """Return a narrow row with the absent values of the row held, if there is one (D66).

    The time is never taken from the row held: it is the time of the change (D21).
    """
    *values, absent = narrow
    if was is None:
        return tuple(values)
    time = time_of(values)
    for place in absent:
        values[place] = was[place]
    return with_time(values, time)


def _completed_fine(narrow: NarrowRow, was: Columns | None) -> Columns:
    """Complete a fine: without a day of settlement in the file, it is settled by its amount.

    A fine held as settled although an amount was owed had such a day, and stays settled.
    """
    fine = FineRow._make(_completed(narrow, was))
    if was is None or FineRow._fields.index("settled") not in narrow.absent:
        return tuple(fine)
    before = FineRow._make(was)
    had_day = bool(before.settled and before.amount_cents > 0)
    return tuple(fine._replace(settled=fine.amount_cents <= 0 or had_day))


def _cancelled(row: Columns, day: str) -> Columns:
    """Return a policy that ends on a day. Its time is set when all changes are applied."""
    policy = PolicyRow._make(row)
    if policy.cancelled_on == day:
        return row
    return tuple(policy._replace(cancelled_on=day, updated=None))
