"""Builds the next generation of a register in two processes, one for each half of it (D54)."""

from collections.abc import Callable
from functools import partial
from typing import BinaryIO, Protocol

from app.registers.applying.counts import Counts
from app.registers.forked_worker import CORES, ForkedWorker
from app.registers.reading.serialization import read_value, write_value
from app.registers.reading.sorted_runs import Runs
from app.storage.register_store import NextGeneration, OpenRegister


class Fill(Protocol):
    """Writes the rows of a load to the next generation of a register."""

    def __call__(self, opened: OpenRegister, counts: Counts, **span: str | None) -> None:
        """Write and count the rows of a key range.

        Args:
            span: the arguments `after` and `until` of `outcomes`.
        """


def build(made: NextGeneration, runs: Runs, fill: Fill, counts: Counts) -> None:
    """Write all rows of a load to the next generation.

    With two cores and enough rows, a forked worker writes the upper half of the key range. If the
    worker fails, this process writes that half too, and raises the error if it fails as well.
    """
    middle = runs.middle() if CORES > 1 else None
    if middle is None:
        fill(made.opened, counts)
        return
    result = runs.new_file()
    part_counts = Counts(counts.kind, counts.held_before)
    work = partial(_build_part, made, part_counts, partial(fill, after=middle), result)
    worker = ForkedWorker(work, [result, *runs.files])
    try:
        fill(made.opened, counts, until=middle)
        is_done = worker.wait()
        if is_done:
            made.add_part(counts.kind)
            counts.add_tuple(read_value(result)[0])
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
        # This is written before the part is closed, so that nothing can fail after that.
        write_value(counts.to_tuple(), result)
        result.flush()
