"""A replace in two halves, each written by a process of its own."""

from collections.abc import Callable
from functools import partial
from typing import BinaryIO, Protocol

from app.registers.applying.counts import Counts
from app.registers.forked_worker import CORES, Child
from app.registers.formats import Kind
from app.registers.next_generation import NextGeneration
from app.registers.reading.dumping import dump, undump
from app.registers.reading.intake import Intake


class Fill(Protocol):
    """Writes what was read into a generation that is being made."""

    def __call__(self, made: NextGeneration, counts: Counts, **span: str | None) -> None:
        """Write, and count; `span` is `after` and `until` of `outcomes`."""


def fill_in_halves(made: NextGeneration, intake: Intake, fill: Fill, counts: Counts) -> None:
    """Write all that was read into the next generation.

    Where there are cores and rows enough, a child process does what is behind the middle of the
    keys. What it cannot do is done here, and fails here if it must.
    """
    middle = intake.runs.middle() if CORES > 1 else None
    if middle is None:
        fill(made, counts)
        return
    result = intake.runs.new_file()
    work = partial(_fill_part, made, intake.kind, partial(fill, after=middle), result)
    child = Child(work, [result, *intake.runs.files])
    try:
        fill(made, counts, until=middle)
        is_done = child.wait()
        if is_done:
            made.add_part(intake.kind)
            counts.add_tuple(undump(result)[0])
    finally:
        child.end()
        result.close()
        made.remove_part()
    if not is_done:
        fill(made, counts)


def _fill_part(
    made: NextGeneration,
    kind: Kind,
    fill: Callable[[NextGeneration, Counts], None],
    result: BinaryIO,
) -> None:
    counts = Counts(kind)
    with made.opened_part() as part:
        fill(part, counts)
        # Before the end of the part: once that is there, nothing is left that could fail.
        dump(counts.to_tuple(), result)
        result.flush()
