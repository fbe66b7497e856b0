"""Merges a load: changes the rows of a register in one transaction (D28).

The main database records it in a second transaction. If the load is killed between the two, the
next load of the register records it (`recovery.py`).
"""

from collections.abc import Callable
from functools import partial
from typing import BinaryIO, Protocol

from app import clock
from app.processes import CORES, ForkedWorker
from app.registers.applying.counts import Counts
from app.registers.applying.table import Applied, Table, note_applied
from app.registers.attempts import finish_merge, record_load
from app.registers.current import count_held, opened_current
from app.registers.reading.sorted_runs import Runs, read_value, write_value
from app.registers.work import Work, columns_of_reading, columns_of_success, outcomes
from app.storage import reserve
from app.storage.register_store import NextGeneration, OpenRegister
from app.storage.registers import Entry
from app.storage.tables import Kind


def merge(work: Work, require_lock: Callable[[], None]) -> None:
    """Change the rows of the register, and create the register if it is new.

    Args:
        require_lock: raises Hindered if the register's lock has been lost.
    """
    if work.entry is None and work.intake.loaded:
        work.entry = work.generations.add(work.load_id)
    work.generations.require_data(work.entry)
    with opened_current(work.generations, work.entry) as opened:
        if opened is None or work.entry is None:
            return  # Nothing was read, so there is no reason to create a register.
        work.counts = counts = Counts(work.kind, count_held(opened, work.entry, work.kind))
        work.entry = work.generations.announce(work.entry, work.kind)
        reserve.with_reserve(work.engine, partial(_note_read, work))
        with opened.engine.atomic():
            table = Table(opened, work.kind)
            _write(work, table)
            work.check_losses()
            table.analyse()
            applied = Applied(work.intake.loaded - counts.skipped, counts.changed, counts.held)
            note_applied(opened, work.load_id, applied)
            require_lock()


def _note_read(work: Work) -> None:
    """Note what was read, for whoever records the load if it is killed between its commits."""
    work.history.note_read(work.load_id, columns_of_reading(work.intake))


def _write(work: Work, table: Table) -> None:
    """Write what the merge changes; an empty table is filled in one go, which is faster."""
    compared = outcomes(work.intake, table, work.counts)
    if work.counts.held_before:
        for outcome in compared:
            table.upsert(outcome.changed)
            table.remove(outcome.removed)
    else:
        table.fill(outcome.rows for outcome in compared)


def record(work: Work) -> None:
    """Record in the main database that the merge is committed."""
    if not work.counts.changed:
        # A load that changes nothing must not leave a new, empty register.
        reserve.with_reserve(work.engine, partial(work.generations.remove_made_by, work.load_id))
    finish = partial(
        finish_merge,
        work.engine,
        work.generations,
        work.load_id,
        work.kind,
        columns_of_success(work.intake, work.counts),
        is_fresh=work.intake.is_fresh,
    )
    reserve.with_reserve(work.engine, finish)


# Builds the next generation of a register in two processes, one for each half of it (D54).


class Fill(Protocol):
    """Writes the rows of a load to the next generation of a register."""

    def __call__(self, opened: OpenRegister, counts: Counts, **span: str | None) -> None:
        """Write and count the rows of a key range.

        Args:
            span: the arguments `after` and `until` of `outcomes`.
        """


def build_in_parallel(made: NextGeneration, runs: Runs, fill: Fill, counts: Counts) -> None:
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


# Replaces a register: builds its next generation, then publishes it with one commit (D28).


def build(work: Work) -> None:
    """Build the register's next generation: the new rows, and the other kinds as they are."""
    kind, entry = work.kind, work.entry
    work.generations.require_data(entry)
    with opened_current(work.generations, entry) as opened:
        work.counts = Counts(kind, count_held(opened, entry, kind))
    with work.generations.store.opened_next(work.load_id) as made:
        if entry is not None:
            others = [each for each in Kind if each != kind and entry.holds(each)]
            made.copy_current(entry.generation, others)
        build_in_parallel(made, work.intake.runs, partial(_fill, work), work.counts)
        work.complete_counts()
        work.check_losses()


def _fill(work: Work, opened: OpenRegister, counts: Counts, **span: str | None) -> None:
    """Compare the rows read with the rows held, and write them into the next generation.

    Args:
        opened: the next generation, or a part of it.
        span: `after` and `until` of `outcomes`.
    """
    with opened_current(work.generations, work.entry) as held, opened.engine.atomic():
        current = Table(held, work.kind) if held else None
        compared = outcomes(work.intake, current, counts, **span)
        Table(opened, work.kind).fill(outcome.rows for outcome in compared)


def publish(work: Work) -> None:
    """Publish the next generation, and note that the load is done, in one commit."""
    now = clock.now()
    former = work.entry or Entry(work.register, work.load_id, "")
    published = former.with_rows(work.kind, work.counts.held)._replace(
        generation=work.load_id,
        loaded_at=now if work.intake.is_fresh else former.loaded_at,
    )
    columns = columns_of_success(work.intake, work.counts)
    with work.engine.atomic():
        work.generations.publish(work.entry, published)
        work.history.finish(work.load_id, now, columns)
        record_load(work.engine, work.load_id, work.kind, work.entry, columns)
    work.entry = published
