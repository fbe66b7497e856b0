"""Merges a load: changes the rows of a register in one transaction (D28).

The main database records it in a second transaction. If the load is killed between the two, the
next load of the register records it (`recovery.py`).
"""

from collections.abc import Callable
from functools import partial

from app.registers.applying.counts import Counts
from app.registers.applying.table import Applied, Table, note_applied
from app.registers.comparing import outcomes
from app.registers.current import count_held, opened_current
from app.registers.recovery import finish_merge
from app.registers.results import columns_of_reading, columns_of_success
from app.registers.work import Work
from app.storage import reserve


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
