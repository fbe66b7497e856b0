"""Writes the rows of a load into its register: a merge or a replace."""

from collections.abc import Callable
from functools import partial
from typing import BinaryIO

from app import clock
from app.processes import CORES, ForkedWorker
from app.registers.applying.counts import Counts
from app.registers.applying.table import Applied, RegisterTable, note_applied
from app.registers.reading.sorted_runs import read_value, write_value
from app.registers.recovery import finish_merge, record_load
from app.registers.work import Work
from app.storage import reserve
from app.storage.engine import Engine
from app.storage.identity import write_identity
from app.storage.register_store import NextGeneration, OpenRegister
from app.storage.registers import Entry
from app.storage.tables import Kind

# A merge changes the rows of a register in one transaction. The main database records it in a
# second one. If the load is killed between the two, the next load of the register records it.


def merge(work: Work, require_lock: Callable[[Engine], None]) -> None:
    """Change the rows of the register, and create the register if it is new.

    Args:
        require_lock: as `locked` yields it.
    """
    if work.entry is None and work.intake.loaded:
        work.entry = work.generations.add(work.load_id)
    work.generations.require_data(work.entry)
    with work.generations.opened(work.entry) as opened:
        if opened is None or work.entry is None:
            return  # Nothing was read, so there is no reason to create a register.
        work.begin_counts(opened)
        work.entry = work.generations.announce(work.entry, work.kind)
        opened.engine.begin_log()
        with opened.engine.atomic():
            table = RegisterTable(opened, work.kind)
            _write(work, table)
            work.require_rules()
            table.analyse()
            counts = work.counts
            applied = Applied(work.loaded, counts.changed, counts.held)
            note_applied(opened, work.load_id, applied)
            require_lock(opened.engine)
            # If this load is killed between its commits, the load that records it needs this.
            columns = work.columns_of_reading()
            reserve.with_reserve(work.engine, work.history.update, work.load_id, **columns)


def _write(work: Work, table: RegisterTable) -> None:
    """Write the changed rows of a merge; fill an empty table in one go, which is faster."""
    effects = work.effects(table, work.counts)
    if work.counts.held_before:
        for effect in effects:
            table.upsert(effect.changed)
            table.remove(effect.removed)
    else:
        table.fill(effect.rows for effect in effects)


def record(work: Work) -> None:
    """Record in the main database that the merge is committed."""
    if not work.counts.changed:
        # A load that changes nothing must not create an empty register.
        reserve.with_reserve(work.engine, work.generations.remove_made_by, work.load_id)
    reserve.with_reserve(
        work.engine,
        finish_merge,
        work.generations,
        work.load_id,
        work.kind,
        work.columns_of_success(),
        is_fresh=work.intake.is_fresh,
    )


# A replace builds the register's next generation, then publishes it with one commit.


def build(work: Work) -> None:
    """Build the register's next generation: the new rows, and the other kinds as they are."""
    work.generations.require_data(work.entry)
    with work.generations.opened(work.entry) as opened:
        work.begin_counts(opened)
    with work.generations.store.opened_next(work.load_id) as made:
        write_identity(*made.opened, work.generations.identity(work.load_id, work.stamp))
        if work.entry is not None:
            others = [each for each in Kind if each != work.kind and work.entry.holds(each)]
            made.copy_current(work.entry.generation, others)
        _fill_in_parallel(work, made)
        work.require_rules()


def _fill_in_parallel(work: Work, made: NextGeneration) -> None:
    """Write all rows of the load to the next generation (D54).

    With two cores and enough rows, a forked worker writes the upper half of the key range. If the
    worker fails, this process writes that half too, and raises the error if it fails as well.
    """
    runs, counts = work.intake.runs, work.counts
    middle = runs.middle() if CORES > 1 else None
    if middle is None:
        _fill(work, made.opened, counts)
        return
    result = runs.new_file()
    work.engine.close_for_fork()
    worker = ForkedWorker(partial(_fill_part, work, made, middle, result), [result, *runs.files])
    try:
        _fill(work, made.opened, counts, until=middle)
        is_done = worker.wait()
        if is_done:
            made.add_part(work.kind)
            (their_counts, in_latin), _ = read_value(result)
            counts.add_others(their_counts)
            work.in_latin.update(in_latin)
    finally:
        worker.end()
        result.close()
        made.remove_part()
    if not is_done:
        _fill(work, made.opened, counts, after=middle)


def _fill_part(work: Work, made: NextGeneration, middle: str, result: BinaryIO) -> None:
    counts = Counts(work.kind, work.counts.held_before, work.counts.day)
    with made.opened_part() as part:
        _fill(work, part, counts, after=middle)
        # The counts are written before the part is closed, so that nothing can fail afterwards.
        write_value((counts.to_tuple(), sorted(work.in_latin)), result)
        result.flush()


def _fill(work: Work, opened: OpenRegister, counts: Counts, **span: str) -> None:
    """Compare the rows read with the rows held, and write them into the next generation.

    Args:
        opened: the next generation, or a part of it.
        span: `after` and `until` of `Work.effects`.
    """
    with work.generations.opened(work.entry) as held, opened.engine.atomic():
        effects = work.effects(RegisterTable(held, work.kind) if held else None, counts, **span)
        RegisterTable(opened, work.kind).fill(effect.rows for effect in effects)


def publish(work: Work, require_lock: Callable[[Engine], None]) -> None:
    """Publish the next generation, and note that the load is done, in one commit.

    Args:
        require_lock: as `locked` yields it.
    """
    now = clock.now()
    former = work.entry or Entry(work.register, work.load_id, "")
    published = former.with_rows(work.kind, work.counts.held)._replace(
        generation=work.load_id,
        stamp=work.stamp,
        last_load=work.load_id,
        loaded_at=now if work.intake.is_fresh else former.loaded_at,
    )
    columns = work.columns_of_success()
    with work.engine.atomic():
        work.generations.publish(work.entry, published)
        work.history.finish(work.load_id, now, columns)
        record_load(work.engine, work.load_id, work.kind, work.entry, columns)
        require_lock(work.engine)
    work.entry = published
