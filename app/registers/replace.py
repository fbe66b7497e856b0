"""Replaces a register: builds its next generation, then publishes it with one commit (D28)."""

from functools import partial

from app import clock
from app.registers.applying import parallel_build
from app.registers.applying.counts import Counts
from app.registers.applying.table import Table
from app.registers.comparing import outcomes
from app.registers.current import count_held, opened_current
from app.registers.recorded import record_load
from app.registers.results import columns_of_success
from app.registers.work import Work
from app.storage.register_store import OpenRegister
from app.storage.registers import Entry
from app.storage.tables import Kind


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
        parallel_build.build(made, work.intake.runs, partial(_fill, work), work.counts)
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
