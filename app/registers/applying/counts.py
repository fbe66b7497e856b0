"""Counts the effects of a load on a register."""

from typing import Any

from app.registers.applying.apply_changes import Outcome
from app.registers.applying.tally import Tally
from app.storage.tables import Kind


class Counts:
    """The effects of a load on the rows of one kind.

    Args:
        held_before: how many rows of this kind the register has before the load.
    """

    def __init__(self, kind: Kind, held_before: int) -> None:
        self.kind = kind
        self.held_before = held_before
        self.removed = 0
        self.skipped = 0
        """The number of deletions and cancellations that had no effect."""
        self.known_held: Tally | None = None
        """The tally of all rows before the load. None if most of their keys were in the files."""
        # PERF: each row is counted once, and the row that it replaces only if that is different.
        self.added, self.unchanged = Tally(kind), Tally(kind)
        self.updated, self.replaced = Tally(kind), Tally(kind)
        """The tallies of the rows that `Outcome` gives these names."""

    @property
    def repeated(self) -> int:
        """The number of rows whose keys the register already had."""
        return self.unchanged.rows + self.updated.rows

    @property
    def held(self) -> int:
        """The number of rows in the register after the load."""
        return self.held_before + self.added.rows - self.removed

    @property
    def changed(self) -> int:
        """The number of rows that were added, updated or removed."""
        return self.added.rows + self.updated.rows + self.removed

    def add(self, outcome: Outcome) -> None:
        """Count the outcome of a batch."""
        self.removed += len(outcome.removed)
        self.skipped += outcome.skipped
        self.added.add(outcome.added)
        self.unchanged.add(outcome.unchanged)
        self.updated.add(outcome.updated)
        self.replaced.add(outcome.replaced)

    @property
    def known(self) -> Tally:
        """The tally of all rows of the load."""
        return self.added + self.known_after

    @property
    def known_before(self) -> Tally:
        """The tally of the old rows whose keys the load has too (D67)."""
        return self.unchanged + self.replaced

    @property
    def known_after(self) -> Tally:
        """The tally of the new rows with the same keys."""
        return self.unchanged + self.updated

    def end_replace(self) -> None:
        """Count all rows that were not in the files as removed, after the last batch."""
        self.removed = self.held_before - self.repeated

    def to_tuple(self) -> tuple[Any, ...]:
        """Return all counts as a tuple, for `add_tuple` in another process."""
        tallies = (self.added, self.unchanged, self.updated, self.replaced)
        return self.removed, self.skipped, *(tally.to_tuple() for tally in tallies)

    def add_tuple(self, counts: tuple[Any, ...]) -> None:
        """Add the counts of another process for the same load."""
        removed, skipped, *tallies = counts
        added, unchanged, updated, replaced = (Tally(self.kind, each) for each in tallies)
        self.removed += removed
        self.skipped += skipped
        self.added, self.unchanged = self.added + added, self.unchanged + unchanged
        self.updated, self.replaced = self.updated + updated, self.replaced + replaced
