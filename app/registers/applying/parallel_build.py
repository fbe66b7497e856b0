"""Builds the next generation of a register in two processes, each for half of the keys (D54)."""

from collections.abc import Callable
from functools import partial
from typing import BinaryIO, Protocol

from app.registers.applying.counts import Counts
from app.registers.forked_worker import CORES, ForkedWorker
from app.registers.reading.dumping import dump, undump
from app.registers.reading.intake import Intake
from app.storage.register_store import NextGeneration, OpenRegister


class Fill(Protocol):
    """Writes what was read into a generation that is being made."""

    def __call__(self, opened: OpenRegister, counts: Counts, **span: str | None) -> None:
        """Write, and count; `span` is `after` and `until` of `outcomes`."""


def build(made: NextGeneration, intake: Intake, fill: Fill, counts: Counts) -> None:
    """Write all that was read into the next generation.

    Where there are cores and rows enough, a forked worker writes the upper half of the key range.
    What it cannot do is done here, and fails here if it must.
    """
    middle = intake.runs.middle() if CORES > 1 else None
    if middle is None:
        fill(made.opened, counts)
        return
    result = intake.runs.new_file()
    part_counts = Counts(counts.kind, counts.held_before)
    work = partial(_build_part, made, part_counts, partial(fill, after=middle), result)
    worker = ForkedWorker(work, [result, *intake.runs.files])
    try:
        fill(made.opened, counts, until=middle)
        is_done = worker.wait()
        if is_done:
            made.add_part(intake.kind)
            counts.add_tuple(undump(result)[0])
    finally:
        worker.end()
        result.close()
        made.remove_part()
    if not is_done:
        fill(made.opened, counts)


def _build_part(
    made: NextGeneration,
    counts: Counts,
    fill: Callable[[OpenRegister, Counts], None],
    result: BinaryIO,
) -> None:
    with made.opened_part() as part:
        fill(part, counts)
        # Before the end of the part: once that is there, nothing is left that could fail.
        dump(counts.to_tuple(), result)
        result.flush()
