"""What readers see of a register, opened for a load (D28)."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import peewee

from app.errors import OperatorError
from app.registers.applying.counts import Counts
from app.registers.applying.table import Applied, Table, find_applied
from app.registers.formats import Kind
from app.registers.history import History
from app.storage import reserve
from app.storage.engine import Engine
from app.storage.schema import migrate_register, opened_register


@contextmanager
def opened_table(engine: Engine, entry: Any, kind: Kind, counts: Counts) -> Iterator[Table | None]:
    """Open what readers see of a register, by its entry, and count it; None if there is none."""
    if entry is None:
        yield None
        return
    with opened_register(engine, entry.name, entry.generation) as (register, schema):
        migrate_register(register, schema)
        yield _counted(Table(register, schema, kind), entry, kind, counts)


@contextmanager
def opened_current(
    engine: Engine, history: History, kind: Kind, counts: Counts
) -> Iterator[Table | None]:
    """Open what readers see of a register now; raises OperatorError if its data is missing."""
    history.generations.require_there()
    with opened_table(engine, history.generations.find_current(), kind, counts) as table:
        yield table


@contextmanager
def opened_unchanged(
    engine: Engine, history: History, kind: Kind, counts: Counts
) -> Iterator[Table | None]:
    """Open what readers see of a register, as it is: nothing is made and nothing is migrated.

    None also if a killed first load left an entry without tables.
    """
    history.generations.require_there()
    entry = history.generations.find_current()
    if entry is None or not history.generations.is_current_there():
        yield None
        return
    with opened_register(engine, entry.name, entry.generation, create=False) as (register, schema):
        table = Table(register, schema, kind)
        yield _counted(table, entry, kind, counts) if table.exists() else None


def _counted(table: Table, entry: Any, kind: Kind, counts: Counts) -> Table:
    counts.held_before = getattr(entry, kind.value) or table.count()
    return table


def count_known(engine: Engine, history: History, counts: Counts) -> None:
    """Count what all rows held know, if less than half of them come again in a replace (D67)."""
    if counts.repeated * 2 < counts.held_before:
        with opened_unchanged(engine, history, counts.kind, Counts(counts.kind)) as current:
            counts.known_held = current.tally() if current else None


def settle(engine: Engine, history: History, load_id: int) -> None:
    """Find out what became of killed loads before this one, and remove what they left."""
    with opened_current(engine, history, Kind.VEHICLES, Counts(Kind.VEHICLES)) as current:
        history.settle_interrupted(load_id, lambda number: _find_applied(current, number))
    history.generations.remove_unused()


def is_applied(engine: Engine, history: History, load_id: int) -> bool:
    """Tell whether a merge that was cut short is in the register all the same."""

    def find() -> Applied | None:
        with opened_unchanged(engine, history, Kind.VEHICLES, Counts(Kind.VEHICLES)) as current:
            return _find_applied(current, load_id)

    with suppress(OSError, peewee.PeeweeException, OperatorError):
        return reserve.written(engine, find) is not None
    return False


def _find_applied(table: Table | None, load_id: int) -> Applied | None:
    return find_applied(table.register, table.schema, load_id) if table else None
