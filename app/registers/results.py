"""Sums up how a load ended, for the operator and for the history."""

from typing import Any, NamedTuple

from app.registers.applying.counts import Counts
from app.registers.intake import Intake
from app.registers.models import json_text
from app.registers.request import LoadResult


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
