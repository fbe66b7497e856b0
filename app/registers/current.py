"""Opens the current generation of a register, which readers see, and counts its rows."""

from collections.abc import Iterator
from contextlib import contextmanager

from app.registers.applying.counts import Counts, Tally
from app.registers.applying.table import Table
from app.registers.generations import Generations
from app.storage.register_store import OpenRegister
from app.storage.registers import Entry
from app.storage.tables import Kind


@contextmanager
def opened_current(generations: Generations, entry: Entry | None) -> Iterator[OpenRegister | None]:
    """Open the current generation for writing, and migrate it if its schema is old.

    The connection is a new one, so that a forked worker can call this as well.

    Args:
        entry: the register's entry; None if it has none.

    Yields None if there is no register.
    """
    if entry is None:
        yield None
        return
    with generations.store.opened(entry.generation) as opened:
        opened.migrate()
        yield opened


@contextmanager
def opened_unchanged(
    generations: Generations, entry: Entry | None
) -> Iterator[OpenRegister | None]:
    """Open the current generation without creating or migrating anything.

    Yields None if there is no register, or if a killed first load left an entry without tables.
    """
    if entry is None or not generations.store.has_current(entry.generation):
        yield None
        return
    with generations.store.opened(entry.generation, create=False) as opened:
        yield opened if Table(opened, Kind.VEHICLES).exists() else None


def count_held(
    opened: OpenRegister | None, entry: Entry | None, kind: Kind, *, is_recovered: bool = True
) -> int:
    """Return how many rows of a kind the register holds.

    The entry says so, unless it says 0: a killed merge may have added rows. Then they are counted.

    Args:
        is_recovered: whether it is recorded how killed loads ended. If not, the rows are counted,
            because a merge may have committed some that the entry does not know of.
    """
    if opened is None or entry is None:
        return 0
    known = entry.rows(kind) if is_recovered else 0
    return known or Table(opened, kind).count()


def count_known(generations: Generations, entry: Entry | None, counts: Counts) -> Tally | None:
    """Return the tally of all rows held, if a replace repeats less than half of their keys (D67).

    Returns None if it repeats more, or if there are no rows.
    """
    if counts.repeated * 2 >= counts.held_before:
        return None
    with opened_unchanged(generations, entry) as opened:
        return Table(opened, counts.kind).tally() if opened else None
