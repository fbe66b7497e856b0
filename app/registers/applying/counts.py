"""Counts what a load does to a register."""

from typing import Any

from app.registers.applying.apply_changes import Outcome
from app.registers.applying.tally import Tally
from app.storage.tables import Kind


class Counts:
    """What a load does to the rows of one kind.

    Args:
        held_before: how many of them the register holds before the load.
    """

    def __init__(self, kind: Kind, held_before: int) -> None:
        self.kind = kind
        self.held_before = held_before
        self.removed = 0
        self.skipped = 0
        """Deletions and cancellations that found nothing to change."""
        self.known_held: Tally | None = None
        """What is known about all rows held before, if few of their keys were in the files."""
        # PERF: each row is tallied once, and the row it replaces only if that differs.
        self.added, self.unchanged = Tally(kind), Tally(kind)
        self.updated, self.replaced = Tally(kind), Tally(kind)
        """The rows as `Outcome` has them."""

    @property
    def repeated(self) -> int:
        """Rows in the files whose keys the register held."""
        return self.unchanged.rows + self.updated.rows

    @property
    def held(self) -> int:
        """Rows that the register holds afterwards."""
        return self.held_before + self.added.rows - self.removed

    @property
    def changed(self) -> int:
        """Rows of the register that were added, updated or removed."""
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
        """What is known about all rows that the load brought."""
        return self.added + self.known_after

    @property
    def known_before(self) -> Tally:
        """What was known about those of the rows whose keys were held (D67)."""
        return self.unchanged + self.replaced

    @property
    def known_after(self) -> Tally:
        """What is known about the same rows now."""
        return self.unchanged + self.updated

    def end_replace(self) -> None:
        """Count all rows that were not in the files as removed, once everything is counted."""
        self.removed = self.held_before - self.repeated

    def to_tuple(self) -> tuple[Any, ...]:
        """Return all counts, for `add_tuple` in another process."""
        tallies = (self.added, self.unchanged, self.updated, self.replaced)
        return self.removed, self.skipped, *(tally.to_tuple() for tally in tallies)

    def add_tuple(self, counts: tuple[Any, ...]) -> None:
        """Add what another process counted for the same load."""
        removed, skipped, *tallies = counts
        added, unchanged, updated, replaced = (Tally(self.kind, each) for each in tallies)
        self.removed += removed
        self.skipped += skipped
        self.added, self.unchanged = self.added + added, self.unchanged + unchanged
        self.updated, self.replaced = self.updated + updated, self.replaced + replaced
