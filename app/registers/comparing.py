"""Compares what a load has read with what the register holds."""

from collections.abc import Iterable, Iterator

from app.registers.applying.apply_changes import Outcome, apply_changes
from app.registers.applying.counts import Counts
from app.registers.applying.table import Table
from app.registers.baseline import require_few_removed, require_no_shrink
from app.registers.formats import FileFault
from app.registers.formats.changes import Columns, are_complete
from app.registers.history import REPLACE
from app.registers.intake import NO_SNAPSHOT, Intake
from app.registers.reading.reader import Progress


def outcomes(
    intake: Intake,
    table: Table | None,
    counts: Counts,
    *,
    after: str | None = None,
    until: str | None = None,
) -> Iterator[Outcome]:
    """Yield what a load changes, in key order, and count it.

    `after` and `until` limit the key range, so that two processes can share the work (D54).

    Args:
        table: the rows that the register holds; None if there are none.
        counts: is updated with each outcome.
        after: skip the groups up to and including this one.
        until: stop after this group; the next call continues there.
    """
    is_replace = intake.request.mode == REPLACE
    written = 0
    for batch in intake.runs.batches(after, until):
        held: Iterable[Columns] = ()
        if is_replace:
            _require_rows(batch)
        if table is not None and counts.held_before:
            find = table.rows_between if is_replace else table.rows_of_groups
            held = find(batch)
        outcome = apply_changes(intake.kind, intake.narrowed(batch), held, intake.read_at)
        counts.add(outcome)
        yield outcome
        # The process of the lower half shows the progress of both, so it counts its rows twice.
        if after is None:
            written += len(batch) * (1 if until is None else 2)
            done = min(written, intake.loaded)
            intake.show(Progress(None, done, intake.loaded, done))


def require_few_lost(intake: Intake, counts: Counts) -> None:
    """Raise OperatorError if a load leaves far fewer rows than before, unless that is allowed."""
    if intake.baseline is None or intake.request.allow_shrink:
        return
    if intake.request.mode == REPLACE:
        require_no_shrink(intake.kind, counts, intake.baseline)
    else:
        require_few_removed(intake.kind, counts)


def _require_rows(changes: list[Columns]) -> None:
    """Raise FileFault if a replace reads a deletion or a cancellation instead of a row."""
    if not are_complete(changes):
        raise FileFault(NO_SNAPSHOT)
