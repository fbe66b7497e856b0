"""Compares what a load has read with what the register holds."""

from collections.abc import Iterable, Iterator

from app.registers.applying.apply_changes import Outcome, apply_changes
from app.registers.applying.counts import Counts
from app.registers.applying.table import Table
from app.registers.baseline import require_few_removed, require_no_shrink
from app.registers.formats import FileFault
from app.registers.formats.changes import Columns, are_complete
from app.registers.history import REPLACE
from app.registers.reading.intake import NO_SNAPSHOT, Intake
from app.registers.reading.reader import Progress


def outcomes(
    intake: Intake,
    table: Table | None,
    counts: Counts,
    *,
    after: str | None = None,
    until: str | None = None,
) -> Iterator[Outcome]:
    """Yield what a load changes, in the order of the keys, and count it.

    Args:
        table: what the register holds; None if nothing.
        after: leave out the groups up to this one.
        until: the last group. Called again, this continues after it.
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
        if after is None:  # Otherwise another process shows the progress, of both halves.
            written += len(batch) * (1 if until is None else 2)
            done = min(written, intake.loaded)
            intake.show(Progress(None, done, intake.loaded, done))


def require_few_lost(intake: Intake, counts: Counts) -> None:
    """Raise OperatorError if a load leaves far fewer rows than there were, unless allowed."""
    if intake.baseline is None or intake.request.allow_shrink:
        return
    if intake.request.mode == REPLACE:
        require_no_shrink(intake.kind, counts, intake.baseline)
    else:
        require_few_removed(intake.kind, counts)


def _require_rows(changes: list[Columns]) -> None:
    """Raise FileFault if there are deletions or cancellations: nothing says of which rows."""
    if not are_complete(changes):
        raise FileFault(NO_SNAPSHOT)
