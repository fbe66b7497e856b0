"""A running load: its files, its changes and its result."""

from collections.abc import Iterable, Iterator
from typing import Any

from app.registers.applying.apply_changes import Outcome, apply_changes
from app.registers.applying.counts import Counts
from app.registers.applying.table import Table
from app.registers.formats import FileFault
from app.registers.formats.changes import Columns, are_complete
from app.registers.generations import Generations
from app.registers.history import REPLACE, History, json_text, repeated_notes
from app.registers.intake import NO_SNAPSHOT, Intake
from app.registers.losses import (
    exchange_notes,
    repeat_notes,
    require_few_removed,
    require_no_loss,
    require_no_shrink,
    shared_date_notes,
    uniform_notes,
)
from app.registers.reading.reader import Progress
from app.registers.request import LoadResult
from app.storage.engine import Engine
from app.storage.register_store import OpenRegister
from app.storage.registers import Entry
from app.storage.tables import Kind


class Work:
    """A running load, which its steps share.

    Args:
        register: the name of the register.
        intake: the files, opened and recognised.
    """

    def __init__(self, engine: Engine, register: str, intake: Intake) -> None:
        self.engine = engine
        self.register = register
        self.intake = intake
        self.request = intake.request
        self.kind = intake.kind
        self.is_replace = self.request.mode == REPLACE
        """Whether the load replaces all rows of its kind; otherwise it merges."""
        self.generations = Generations(engine, register)
        self.history = History(engine, register)
        self.load_id = 0
        """The load's number in the history; 0 for a dry run."""
        self.entry: Entry | None = None
        """The register's entry; nobody else changes it while this load holds the lock."""
        self.counts = Counts(intake.kind, 0)
        """The changes of the load; complete once all rows are compared."""

    def __str__(self) -> str:
        return f"load {self.load_id}, {self.request.mode} of {self.register} {self.kind}"

    def begin_counts(self, opened: OpenRegister | None, *, is_recovered: bool = True) -> None:
        """Begin to count the changes in a register, which is None if the register is new."""
        held = count_held(opened, self.entry, self.kind, is_recovered=is_recovered)
        self.counts = Counts(self.kind, held)

    def outcomes(
        self,
        table: Table | None,
        counts: Counts,
        *,
        after: str | None = None,
        until: str | None = None,
    ) -> Iterator[Outcome]:
        """Yield the changes of the load, in key order, and count them.

        `after` and `until` limit the key range, so that two processes can share the work.

        Args:
            table: the rows that the register holds; None if there are none.
            counts: is updated with each outcome.
            after: skip the groups up to and including this one.
            until: stop after this group; the next call continues there.
        """
        intake, written = self.intake, 0
        for batch in intake.runs.batches(after, until):
            held: Iterable[Columns] = ()
            if self.is_replace and not are_complete(batch):
                raise FileFault(NO_SNAPSHOT)
            if table is not None and counts.held_before:
                find = table.rows_between if self.is_replace else table.rows_of_groups
                held = find(batch)
            outcome = apply_changes(self.kind, intake.narrowed(batch), held, intake.read_at)
            counts.add(outcome)
            yield outcome
            # The process of the lower half shows the progress of both, so it counts rows twice.
            if after is None:
                written += len(batch) * (1 if until is None else 2)
                done = min(written, intake.loaded)
                intake.show(Progress(None, done, intake.loaded, done))

    def complete_counts(self) -> None:
        """Complete the counts of a replace, once all rows are compared."""
        if not self.is_replace:
            return
        counts = self.counts
        # A replace removes all rows whose keys were not in the files.
        counts.removed = counts.held_before - counts.repeated
        # If most keys are repeated, comparing these rows is enough.
        if counts.repeated * 2 < counts.held_before:
            with self.generations.opened_unchanged(self.entry) as opened:
                counts.known_held = Table(opened, self.kind).tally() if opened else None

    def check_losses(self) -> None:
        """Refuse a load that loses rows or content, and note suspicious changes (D67).

        Call this once the counts are complete, before anything is committed. Raises OperatorError.
        """
        require_few_lost(self.intake, self.counts)
        require_no_loss(self.engine, self.register, self.request, self.counts)
        known, counts = self.intake.format.known_columns(self.kind), self.counts
        files = len(self.request.files)
        self.intake.rejects.notes += [
            *exchange_notes(self.request, counts),
            *uniform_notes(self.request, counts),
            *repeat_notes(self.kind, known, self.intake.loaded, counts.known.rows, files),
            *shared_date_notes(known),
            *repeated_notes(
                self.engine, self.register, self.kind, self.intake.format.name, self.intake.checksum
            ),
        ]

    def result(self) -> LoadResult:
        """Return how the load ended."""
        rejects = self.intake.rejects
        return LoadResult(
            load=self.load_id or None,
            register=self.register,
            kind=self.kind.value,
            mode=self.request.mode,
            format=self.intake.format.name,
            dry_run=self.request.dry_run,
            held_before=self.counts.held_before,
            held=self.counts.held,
            rejects=str(rejects.path) if rejects.path and rejects.written else None,
            reasons=rejects.reasons,
            notes=rejects.notes,
            **self._totals(),
        )

    def columns_of_success(self) -> dict[str, Any]:
        """Return the columns of the history line of a load that is done."""
        known = json_text(self.counts.known.document())
        return (
            self._totals() | self._columns_of_files() | {"held": self.counts.held, "known": known}
        )

    def columns_of_reading(self) -> dict[str, object]:
        """Return the columns of the history line with the counts of records read so far."""
        rejected, skipped = self.intake.rejects.rejected, self.intake.rejects.skipped
        rows = self.intake.loaded + rejected + skipped
        read = {"rows": rows, "rejected": rejected, "skipped": skipped}
        return read | self._columns_of_files()

    def _columns_of_files(self) -> dict[str, object]:
        return {
            "is_terminated": self.intake.is_terminated,
            "reasons": json_text(self.intake.rejects.reasons),
            "notes": json_text(self.intake.rejects.notes),
        }

    def _totals(self) -> dict[str, Any]:
        """Return the members that the result and the history share; see `LoadResult`."""
        rejected, counts = self.intake.rejects.rejected, self.counts
        # The comparison finds further records to skip: deletions that match no row.
        loaded = self.intake.loaded - counts.skipped
        skipped = self.intake.rejects.skipped + counts.skipped
        return {
            "rows": loaded + rejected + skipped,
            "loaded": loaded,
            "changed": counts.changed,
            "rejected": rejected,
            "skipped": skipped,
            "checksum": self.intake.checksum,
        }


def count_held(
    opened: OpenRegister | None, entry: Entry | None, kind: Kind, *, is_recovered: bool = True
) -> int:
    """Return how many rows of a kind the register holds.

    The entry says so, unless it says 0: a killed merge may have added rows. Then they are counted.

    Args:
        is_recovered: whether it is recorded how killed loads ended. If not, the rows are counted,
            because a merge may have committed some that the entry does not know of.
    """
    if opened is None or entry is None:
        return 0
    known = entry.rows(kind) if is_recovered else 0
    return known or Table(opened, kind).count()


def require_few_lost(intake: Intake, counts: Counts) -> None:
    """Raise OperatorError if the register would hold far fewer rows, unless that is allowed."""
    if intake.baseline is None or intake.request.allow_shrink:
        return
    if intake.request.mode == REPLACE:
        require_no_shrink(intake.kind, counts, intake.baseline)
    else:
        require_few_removed(intake.kind, counts)
