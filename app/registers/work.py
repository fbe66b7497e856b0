"""The state of a running load, which its steps share."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from app.registers.applying.apply_changes import Outcome, apply_changes
from app.registers.applying.counts import Counts
from app.registers.applying.table import Table
from app.registers.current import count_known
from app.registers.formats import FileFault
from app.registers.formats.changes import Columns, are_complete
from app.registers.generations import Generations
from app.registers.history import REPLACE, History, json_text
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
from app.storage.registers import Entry

# Compares what a load has read with what the register holds.


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


class Work:
    """A running load: what it reads, its register, and what it has counted so far.

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
        self.generations = Generations(engine, register)
        self.history = History(engine, register)
        self.load_id = 0
        """The load's number in the history; 0 for a dry run."""
        self.entry: Entry | None = None
        """The register's entry; nobody else changes it while this load holds the lock."""
        self.counts = Counts(intake.kind, 0)
        """What the load changes; complete once all rows are compared."""

    @property
    def is_replace(self) -> bool:
        """Whether the load replaces all rows of its kind; otherwise it merges."""
        return self.request.mode == REPLACE

    def __str__(self) -> str:
        return f"load {self.load_id}, {self.request.mode} of {self.register} {self.kind}"

    def complete_counts(self) -> None:
        """Complete the counts of a replace, once all rows are compared."""
        if self.is_replace:
            self.counts.end_replace()
            self.counts.known_held = count_known(self.generations, self.entry, self.counts)

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
        ]


# Sums up how a load ended, for the operator and for the history.


class _Totals(NamedTuple):
    """The members that `LoadResult` and the history share; see `LoadResult`."""

    rows: int
    loaded: int
    changed: int
    rejected: int
    skipped: int
    checksum: str


def result_of(intake: Intake, load_id: int | None, register: str, counts: Counts) -> LoadResult:
    """Return the result of a load.

    Args:
        load_id: the number in the history; None for a dry run.
    """
    rejects = intake.rejects
    return LoadResult(
        load=load_id,
        register=register,
        kind=intake.kind.value,
        mode=intake.request.mode,
        format=intake.format.name,
        dry_run=intake.request.dry_run,
        held_before=counts.held_before,
        held=counts.held,
        rejects=str(rejects.path) if rejects.path and rejects.written else None,
        reasons=rejects.reasons,
        notes=rejects.notes,
        **_totals(intake, counts)._asdict(),
    )


def columns_of_success(intake: Intake, counts: Counts) -> dict[str, Any]:
    """Return the columns of the history line of a load that is done."""
    after = {"held": counts.held, "known": json_text(counts.known.document())}
    return _totals(intake, counts)._asdict() | _columns_of_files(intake) | after


def columns_of_reading(intake: Intake) -> dict[str, Any]:
    """Return the columns of the history line that say what a load has read so far."""
    rejected, skipped = intake.rejects.rejected, intake.rejects.skipped
    rows = intake.loaded + rejected + skipped
    return {"rows": rows, "rejected": rejected, "skipped": skipped} | _columns_of_files(intake)


def _columns_of_files(intake: Intake) -> dict[str, Any]:
    """Return the columns that say what was found in the files."""
    return {
        "is_terminated": intake.is_terminated,
        "reasons": json_text(intake.rejects.reasons),
        "notes": json_text(intake.rejects.notes),
    }


def _totals(intake: Intake, counts: Counts) -> _Totals:
    # The comparison finds further records to skip: deletions that match no row.
    loaded = intake.loaded - counts.skipped
    skipped = intake.rejects.skipped + counts.skipped
    return _Totals(
        rows=loaded + intake.rejects.rejected + skipped,
        loaded=loaded,
        changed=counts.changed,
        rejected=intake.rejects.rejected,
        skipped=skipped,
        checksum=intake.checksum,
    )
