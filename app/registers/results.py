"""How a load ended: its result for the operator, and its columns in the history."""

from typing import Any, NamedTuple

from app.registers.applying.counts import Counts
from app.registers.models import text_of
from app.registers.reading.intake import Intake
from app.registers.request import LoadResult


class _Totals(NamedTuple):
    """The numbers of records of a load, as `LoadResult` explains them."""

    rows: int
    loaded: int
    changed: int
    rejected: int
    skipped: int
    checksum: str


def result_of(intake: Intake, load_id: int | None, register: str, counts: Counts) -> LoadResult:
    """Return how a load ended."""
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
    """Return the history's columns of a load that is done."""
    after = {"held": counts.held, "known": text_of(counts.known.document())}
    return _totals(intake, counts)._asdict() | _columns_of_files(intake) | after


def columns_of_failure(intake: Intake) -> dict[str, Any]:
    """Return the history's columns of a load that failed: what it had read, none of it loaded."""
    rejected, skipped = intake.rejects.rejected, intake.rejects.skipped
    rows = intake.loaded + rejected + skipped
    return {"rows": rows, "rejected": rejected, "skipped": skipped} | _columns_of_files(intake)


def _columns_of_files(intake: Intake) -> dict[str, Any]:
    return {
        "is_terminated": intake.is_terminated,
        "reasons": text_of(intake.rejects.reasons),
        "notes": text_of(intake.rejects.notes),
    }


def _totals(intake: Intake, counts: Counts) -> _Totals:
    # Some changes turn out to have nothing to change only when they are compared.
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
