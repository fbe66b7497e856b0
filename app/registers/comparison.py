"""What changes make of the rows that a register holds: which to write, which to remove (D21)."""

from collections.abc import Iterable
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, NamedTuple

from app.registers.rows import PolicyCancellation, PolicyDeletion, PolicyRow, VehicleDeletion
from app.registers.sorting import Columns, Order

_DELETIONS = (len(VehicleDeletion._fields), len(PolicyDeletion._fields))
_CANCELLATION = len(PolicyCancellation._fields)
_CANCELLED_ON = PolicyRow._fields.index("cancelled_on")

_TIME = itemgetter(-1)


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


@dataclass(slots=True)
class Counts:
    """What a load does to the rows of one kind."""

    held_before: int = 0
    added: int = 0
    """Rows of keys that were not held."""
    repeated: int = 0
    """Rows of keys that were."""
    differing: int = 0
    """Rows of either that were not held just so."""
    removed: int = 0
    skipped: int = 0
    """Deletions and cancellations of what was not there."""

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

    def add_part(self, part: "Counts") -> None:
        """Count what another process did, of the same rows held before."""
        self.added += part.added
        self.repeated += part.repeated
        self.differing += part.differing
        self.skipped += part.skipped

    def end_replace(self) -> None:
        """Count what is held no more, once all that was read has been counted."""
        self.removed = self.held_before - self.repeated


def compare(
    changes: list[Columns], held: Iterable[Columns], order: Order, loaded_at: int
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
    after: dict[Any, Columns] = {}
    skipped = 0
    if set(map(len, changes)) == {order.row_columns}:
        after = dict(zip(map(key_of, changes), changes, strict=True))
        gone: list[Columns] = []
    else:
        after, skipped = _applied(changes, before, order)
        gone = [row for key, row in before.items() if key not in after]
    if not before:
        rows = list(after.values())
        if None in map(_TIME, rows):
            rows = [row if row[-1] is not None else (*row[:-1], loaded_at) for row in rows]
        return Outcome(rows, rows, gone, len(rows), skipped)
    rows = [_timed(row, before.get(key), loaded_at) for key, row in after.items()]
    changed = [row for key, row in zip(after, rows, strict=True) if row != before.get(key)]
    added = len(rows) - len(before.keys() & after.keys())
    return Outcome(rows, changed, gone, added, skipped)


def _timed(row: Columns, held: Columns | None, loaded_at: int) -> Columns:
    if row[-1] is not None:
        return row
    is_unchanged = held is not None and held[:-1] == row[:-1]
    return held if held is not None and is_unchanged else (*row[:-1], loaded_at)


def _applied(
    changes: Iterable[Columns], before: dict[Any, Columns], order: Order
) -> tuple[dict[Any, Columns], int]:
    """Return all rows of the groups as they are after the changes, and what was skipped."""
    group_of, key_of = order.group_of(), order.key_of()
    groups: dict[Any, dict[Any, Columns]] = {}
    for key, row in before.items():
        groups.setdefault(group_of(row), {})[key] = row
    skipped = 0
    for change in changes:
        group = groups.setdefault(group_of(change), {})
        if len(change) == order.row_columns:
            group[key_of(change)] = change
        elif not group:
            skipped += 1
        elif len(change) in _DELETIONS:
            group.clear()
        elif len(change) == _CANCELLATION:
            for key, row in group.items():
                group[key] = _cancelled(row, change[-1])
    return {key: row for group in groups.values() for key, row in group.items()}, skipped


def _cancelled(row: Columns, day: str) -> Columns:
    """Return a policy that ends on a day; when that changed is judged once all is applied."""
    if row[_CANCELLED_ON] == day:
        return row
    return (*row[:_CANCELLED_ON], day, *row[_CANCELLED_ON + 1 : -1], None)
