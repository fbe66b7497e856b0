"""What changes make of the rows that a register holds: which to write, which to remove (D21)."""

from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

from app.registers.applying.changes import applied
from app.registers.applying.knowledge import Tally
from app.registers.reading.sorted_runs import Columns, Order
from app.storage.tables import Kind

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
    fresh: Sequence[Columns] = ()
    """Rows of keys that are not held."""
    same: Sequence[Columns] = ()
    """Rows that are held just so."""
    renewed: Sequence[Columns] = ()
    """Rows of keys that are held otherwise; and as they are held."""
    former: Sequence[Columns] = ()


class Counts:
    """What a load does to the rows of one kind.

    Args:
        held_before: how many of them the register holds before the load.
    """

    def __init__(self, kind: Kind, held_before: int) -> None:
        self.kind = kind
        self.held_before = held_before
        self.added = 0
        """Rows of keys that were not held."""
        self.repeated = 0
        """Rows of keys that were."""
        self.differing = 0
        """Rows of either that were not held just so."""
        self.removed = 0
        self.skipped = 0
        """Deletions and cancellations of what was not there."""
        self.known_held: Tally | None = None
        """What is known of all rows held before, where too few of them come again to tell."""
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
        after, gone, skipped = applied(changes, before, order)
    rows = list(after.values())
    held_rows = list(map(before.get, after))
    if None in map(_TIME, rows):
        rows = [_timed(row, was, loaded_at) for row, was in zip(rows, held_rows, strict=True)]
    if not before:
        return Outcome(rows, rows, gone, len(rows), skipped, fresh=rows)
    if rows == held_rows:
        return Outcome(rows, [], gone, 0, skipped, same=rows)
    changed = [row for row, was in zip(rows, held_rows, strict=True) if row != was]
    fresh, same, renewed, former = _parted(rows, held_rows)
    return Outcome(rows, changed, gone, len(fresh), skipped, fresh, same, renewed, former)


def _parted(
    rows: Iterable[Columns], held_rows: Iterable[Columns | None]
) -> tuple[list[Columns], list[Columns], list[Columns], list[Columns]]:
    """Return rows of keys not held, as held, and held otherwise; and how these are held."""
    fresh, same, renewed, former = [], [], [], []
    for row, was in zip(rows, held_rows, strict=True):
        if was is None:
            fresh.append(row)
        elif was == row:
            same.append(row)
        else:
            renewed.append(row)
            former.append(was)
    return fresh, same, renewed, former


def _timed(row: Columns, held: Columns | None, loaded_at: int) -> Columns:
    if row[-1] is not None:
        return row
    is_unchanged = held is not None and held[:-1] == row[:-1]
    return held if held is not None and is_unchanged else (*row[:-1], loaded_at)
