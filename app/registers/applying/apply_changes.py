"""Decides which rows of a register to add, update and remove.

Most loads have only complete rows. Each of them replaces the row with the same key. Narrow rows,
deletions and cancellations are applied one by one, in the order of the file.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import compress, count
from operator import itemgetter, ne, not_
from typing import Any, NamedTuple

from app.registers.formats.changes import (
    Columns,
    NarrowRow,
    Order,
    PolicyCancellation,
    PolicyDeletion,
    RowDeletion,
    VehicleDeletion,
    are_complete,
    order_of,
    time_of,
    with_time,
    without_time,
)
from app.storage.tables import COLUMNS, FineRow, Kind, PolicyRow

Keyed = dict[str, Columns]
"""Rows by key."""


class Effect(NamedTuple):
    """The effect of a batch of changes on a register. All rows are complete and have a time."""

    rows: Sequence[Columns] = ()
    """The new rows of the register for the keys in the batch, sorted by key."""
    added: Sequence[Columns] = ()
    """The rows among them with new keys."""
    unchanged: Sequence[Columns] = ()
    """The rows among them that were stored with the same values."""
    updated: Sequence[Columns] = ()
    """The rows among them that were stored with other values."""
    replaced: Sequence[Columns] = ()
    """The rows of `updated` with their old values."""
    removed: Sequence[Columns] = ()
    """The stored rows to remove."""
    skipped: int = 0
    """How many deletions and cancellations had no effect."""
    beside: Sequence[Columns] = ()
    """The stored rows of the groups in which a merge has new keys, and none of those stored."""

    @property
    def changed(self) -> Sequence[Columns]:
        """The rows to write to a register that already has rows."""
        if not (self.added and self.updated):
            return self.added or self.updated
        return [*self.added, *self.updated]


def apply_changes(
    kind: Kind,
    changes: list[Columns],
    held: Iterable[Columns],
    loaded_at: int,
    *,
    is_replace: bool = False,
    dates_values: bool = False,
) -> Effect:
    """Apply changes, in their order, to the stored rows of a register.

    A row without a time of its own gets the time of the load if its values are new. If its values
    are unchanged, it keeps its stored time (D21).

    Args:
        changes: a batch of `Runs.batches`, which never splits a group.
        held: all stored rows of these groups; of a replace, those with the same keys are enough.
        loaded_at: the time of the load, in Unix seconds.
        is_replace: remove all other rows of `held`.
        dates_values: make the time of a vehicle's row tell since when its values are known (D198).
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
    old_rows = list(map(before.get, after))
    if is_replace and len(old_rows) - old_rows.count(None) < len(before):
        removed = [row for key, row in before.items() if key not in after]
    if None in map(time_of, rows):
        rows = [_timed(row, old, loaded_at) for row, old in zip(rows, old_rows, strict=True)]
    if not before:
        return Effect(rows, added=rows, removed=removed, skipped=skipped)
    # PERF: most rows of a replace are unchanged, which costs 0.1 us each.
    differ = list(map(ne, rows, old_rows))
    if dates_values and kind == Kind.VEHICLES:
        for at in compress(count(), differ):
            rows[at] = _dated(rows[at], old_rows[at], loaded_at)
            differ[at] = rows[at] != old_rows[at]
    effect = _parted(rows, old_rows, differ)._replace(removed=removed, skipped=skipped)
    if is_replace or not effect.added:
        return effect
    return effect._replace(beside=_beside(order_of(kind), effect, before))


def _parted(
    rows: Sequence[Columns], old_rows: Sequence[Columns | None], differ: Sequence[bool]
) -> Effect:
    """Part the rows by whether there was one with the key, and whether it differs."""
    added, updated, replaced = [], [], []
    for row, old in compress(zip(rows, old_rows, strict=True), differ):
        if old is None:
            added.append(row)
        else:
            updated.append(row)
            replaced.append(old)
    return Effect(rows, added, list(compress(rows, map(not_, differ))), updated, replaced)


def _beside(order: Order, effect: Effect, before: Keyed) -> list[Columns]:
    """Return what `Effect.beside` says; a group of vehicles or fines has no other rows."""
    kept = (*effect.unchanged, *effect.replaced, *effect.removed)
    if len(kept) == len(before):
        return []
    group_of = order.group_of()
    new = set(map(group_of, effect.added)).difference(map(group_of, kept))
    return [row for row in before.values() if group_of(row) in new]


def _timed(row: Columns, old: Columns | None, loaded_at: int) -> Columns:
    """Return a row with its own time, the time of an equal stored row, or the time of the load."""
    if time_of(row) is not None:
        return row
    if old is not None and without_time(old) == without_time(row):
        return old
    return with_time(row, loaded_at)


JUDGED: Mapping[Kind, Callable[[Columns], Any]] = {
    Kind.VEHICLES: itemgetter(*(each.position for each in COLUMNS[Kind.VEHICLES] if each.check)),
    Kind.POLICIES: itemgetter(*map(PolicyRow._fields.index, ("valid_to", "cancelled_on"))),
    Kind.FINES: itemgetter(FineRow._fields.index("settled")),
}
"""Return the values of a row on which answers depend, besides its key."""


def _dated(row: Columns, old: Columns | None, loaded_at: int) -> Columns:
    """Return a vehicle's row whose time is not before that of the change of its values.

    Files keep the time of a row whose values they change. Taken as it is, it would say that the new
    values were known for years.
    """
    if old is None or time_of(row) > time_of(old):
        return row
    judged = JUDGED[Kind.VEHICLES]
    if judged(row) != judged(old):
        return with_time(row, loaded_at)
    # A file can correct a time in the future. Others may be those of loads.
    return row if time_of(old) > loaded_at else with_time(row, time_of(old))


def _applied_one_by_one(
    kind: Kind, changes: Iterable[Columns], before: Keyed
) -> tuple[Keyed, list[Columns], int]:
    """Apply changes of any type to the stored rows.

    Return the new state of all affected rows, the rows to remove, and the number of changes that
    affect no row.
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
            case RowDeletion() | VehicleDeletion() | PolicyDeletion():
                keys = _keys_of_deleted(change, group, order)
                for key in keys:
                    del group[key]
            case NarrowRow():
                keys = _keys_of_narrow(change, group, order)
                for key in keys:
                    group[key] = complete(change, group.get(key))
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


def _keys_of_deleted(
    deletion: RowDeletion | VehicleDeletion | PolicyDeletion, group: Keyed, order: Order
) -> list[str]:
    """Return the keys of the stored rows that a deletion removes."""
    if isinstance(deletion, RowDeletion):
        return [key for key in _keys_of_narrow(deletion, group, order) if key in group]
    return _keys_that_begin(deletion, group)


def _keys_that_begin(start: Columns, group: Keyed) -> list[str]:
    """Return the keys of the rows that begin with these values."""
    return [key for key, row in group.items() if row[: len(start)] == start]


def _keys_of_narrow(narrow: NarrowRow, group: Keyed, order: Order) -> list[str]:
    """Return the keys of the stored rows that a narrow row means, or its own key if it is new.

    If the file has no column for the insurer, a row means the policies of all insurers with its
    number and first day.
    """
    own_key = order.key_of()(narrow)
    given = set(range(order.key_columns)).difference(narrow.absent)
    if len(given) == order.key_columns:
        return [own_key]
    keys = [key for key, row in group.items() if all(row[at] == narrow[at] for at in given)]
    return keys or [own_key]


def _completed(narrow: NarrowRow, old: Columns | None) -> Columns:
    """Return a narrow row, completed with the values of the stored row if there is one.

    It does not get the time of the stored row, because that is the time of an earlier change.
    """
    *values, absent = narrow
    if old is None:
        return tuple(values)
    time = time_of(values)
    for position in absent:
        values[position] = old[position]
    return with_time(values, time)


def _completed_fine(narrow: NarrowRow, old: Columns | None) -> Columns:
    """Return a narrow fine, completed with the values of the stored fine if there is one.

    If the file has no column settledOn, the fine is settled if nothing is owed. It is also settled
    if the stored fine was settled although an amount was owed: then it had a day of settlement.
    """
    fine = FineRow._make(_completed(narrow, old))
    if old is None or FineRow._fields.index("settled") not in narrow.absent:
        return tuple(fine)
    before = FineRow._make(old)
    had_day = bool(before.settled and before.amount_cents > 0)
    return tuple(fine._replace(settled=fine.amount_cents <= 0 or had_day))


def _cancelled(row: Columns, day: str) -> Columns:
    """Return a policy that is cancelled on a day. Its time is set after all changes are applied."""
    policy = PolicyRow._make(row)
    if policy.cancelled_on == day:
        return row
    return tuple(policy._replace(cancelled_on=day, updated=None))
