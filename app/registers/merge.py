"""A merge: the rows of a register change in one transaction of its own (D28).

The main database learns of it afterwards. A load killed between the two is settled by the next
one, from what the register itself knows.
"""

from collections.abc import Callable
from functools import partial

from app.registers.applying.counts import Counts
from app.registers.applying.table import Applied, Table, note_applied
from app.registers.comparing import outcomes
from app.registers.current import count_held, finish_merge, opened_current
from app.registers.results import columns_of_success
from app.registers.work import Work
from app.storage import reserve


def merge(work: Work, require_alone: Callable[[], None]) -> None:
    """Change the rows of the register."""
    if work.entry is None and work.intake.loaded:
        work.entry = work.generations.add(work.load_id)
    work.generations.require_there(work.entry)
    with opened_current(work.generations, work.entry) as opened:
        if opened is None or work.entry is None:
            return  # Nothing was read, and there is no register.
        work.counts = counts = Counts(work.kind, count_held(opened, work.entry, work.kind))
        work.entry = work.generations.announce(work.entry, work.kind)
        with opened.engine.atomic():
            table = Table(*opened, work.kind)
            _write(work, table)
            work.judge()
            table.analyse()
            applied = Applied(work.intake.loaded - counts.skipped, counts.changed, counts.held)
            note_applied(*opened, work.load_id, applied)
            require_alone()


def _write(work: Work, table: Table) -> None:
    compared = outcomes(work.intake, table, work.counts)
    if work.counts.held_before:
        for outcome in compared:
            table.upsert(outcome.changed)
            table.remove(outcome.removed)
    else:
        table.fill(outcome.rows for outcome in compared)


def finish(work: Work) -> None:
    """Tell the main database that the rows are in the register."""
    if not work.counts.changed:  # A load that changes nothing makes no register either.
        reserve.written(work.engine, partial(work.generations.remove_made, work.load_id))
    finished = partial(
        finish_merge,
        work.engine,
        work.generations,
        work.load_id,
        work.kind,
        columns_of_success(work.intake, work.counts),
        is_fresh=work.intake.is_fresh,
    )
    reserve.written(work.engine, finished)
