"""Reads all data and reports what is damaged (D153)."""

from collections.abc import Iterator

import peewee

from app.registers.applying.table import RegisterTable
from app.registers.generations import Generations
from app.storage.engine import Engine
from app.storage.errors import message_of
from app.storage.identity import StoredIdentity, read_identity
from app.storage.register_store import OpenRegister
from app.storage.registers import DroppedRegister, Entry, KeptRegister, Register, list_entries
from app.storage.tables import Kind

_AGAIN = "Restore it from a backup, or drop it and load it again."
_KEPT_AS = {
    Register: ("The register {name}", _AGAIN),
    KeptRegister: (
        "The snapshot of the register {name} that load {load} left",
        "Answers do not use it. Do not roll back to it; later loads remove it.",
    ),
    DroppedRegister: (
        "The dropped data of the register {name}",
        'Answers do not use it. Do not undrop it; free its space with "verifyd imports drop {name} '
        '--purge".',
    ),
}
"""By table of the index: what is damaged, and what to do."""


def deep_faults(engine: Engine) -> Iterator[str]:
    """Yield a sentence for each damage: in the main database, registers, snapshots, dropped ones.

    On SQLite this reads every page. On both engines it compares identities, and the numbers of
    rows with those of the register index. Loads and look-ups go on meanwhile.

    SEC: no sentence has a value of a row.

    Raises peewee.PeeweeException if the main database cannot be read.
    """
    if damage := engine.integrity_fault():
        yield f"The database is damaged: {damage}. Restore it from a backup."
    for model, texts in _KEPT_AS.items():
        for entry in list_entries(engine, model):
            if not entry.kinds:
                continue
            generations = Generations(engine, entry.name)
            fault = _fault(generations, model, entry)
            # A load may have replaced or removed the data meanwhile.
            if fault and entry in generations.entries(model):
                last_load = entry.last_load or entry.generation
                what, remedy = (each.format(name=entry.name, load=last_load) for each in texts)
                yield f"{what} is damaged: {fault}. {remedy}"


def _fault(generations: Generations, model: type[Register], entry: Entry) -> str | None:
    """Return a clause that says what is wrong with the data of an entry; None if nothing is."""
    try:
        with generations.opened_entry(model, entry) as opened:
            if opened is None:
                return "its data is missing"
            # NOTE: a transaction of another kind would keep out merges on SQLite.
            with opened.engine.consistent_read():
                if damage := opened.engine.integrity_fault():
                    return damage
                held = read_identity(*opened)
                return generations.fault(entry, held) or _miscount(opened, entry, held)
    except (peewee.DatabaseError, peewee.InterfaceError) as error:
        return message_of(error)


def _miscount(opened: OpenRegister, entry: Entry, held: StoredIdentity) -> str | None:
    # The rows of a merge are committed before the index says how many there are (D28).
    if held.last_load != entry.last_load:
        return None
    for kind in Kind:
        count = RegisterTable(opened, kind).count()
        if count != entry.rows(kind):
            return f"it holds {count:,} {kind}, but {entry.rows(kind):,} were loaded"
    return None
