"""Gives an identity to the data that programs without identities wrote (D153)."""

import logging
from typing import Any

import peewee
from peewee import fn

from app.errors import OperatorError
from app.registers.generations import Generations, locked
from app.registers.history import COUNTS, MERGE, RegisterLoad
from app.storage.engine import Engine
from app.storage.identity import new_stamp, read_identity, write_identity
from app.storage.register_store import OpenRegister
from app.storage.registers import DroppedRegister, Entry, KeptRegister, Register

_log = logging.getLogger("verifyd.registers")


def stamp_registers(engine: Engine) -> None:
    """Write the identities of registers, snapshots and dropped registers that lack one.

    A start calls this: after an upgrade, no data has an identity, and a former program that was
    started in between wrote none. What cannot be written now is written at the next start, because
    a full disk or a running load must not prevent the service from answering.

    Raises peewee.PeeweeException if the main database cannot be read.
    """
    for name in _incomplete(engine):
        try:
            with locked(engine, name):
                generations = Generations(engine, name)
                for model in (Register, KeptRegister, DroppedRegister):
                    for entry in generations.entries(model):
                        _stamp(generations, model, entry)
        except (OSError, peewee.PeeweeException, OperatorError) as error:
            engine.recover(error)
            _log.warning("the identity of the register %s was not written: %s", name, error)


def renew_stamp(engine: Engine, name: str, opened: OpenRegister) -> None:
    """Give restored data a stamp of its own.

    Loads after the restore get numbers again that loads before it had. So the data from before the
    restore must not pass for the restored data, nor that of the original beside a copy of it.

    Args:
        engine: the restored main database.
        opened: the restored data of the register.
    """
    held = read_identity(*opened)
    # Data in a backup of a former program is stamped at the next start.
    if held.identity is not None:
        renewed = held.identity._replace(stamp=new_stamp())
        write_identity(*opened, renewed)
        is_stamped: Any = (Register.name == name) & Register.stamp.is_null(False)
        Register.update(stamp=renewed.stamp).where(is_stamped).execute(engine)


def _incomplete(engine: Engine) -> list[str]:
    """Return the registers with an entry that a former program wrote or merged into."""
    names: set[str] = set()
    for model in (Register, KeptRegister, DroppedRegister):
        lacking = model.select(model.name).where(model.stamp.is_null() & (model.kinds != ""))
        names.update(name for (name,) in lacking.tuples().execute(engine))
    load: type[RegisterLoad] = RegisterLoad
    is_merge = COUNTS & (load.mode == MERGE) & (load.changed > 0)
    last_load = fn.COALESCE(Register.last_load, Register.generation)
    merged = Register.select(Register.name).join(
        load, on=(load.register == Register.name) & is_merge & (load.id > last_load)
    )
    names.update(name for (name,) in merged.tuples().execute(engine))
    return sorted(names)


def _stamp(generations: Generations, model: type[Register], entry: Entry) -> None:
    """Write the identity of one generation into its data and into its entry.

    Data that has an identity keeps it, as after a rollback by a former program. If it is not the
    right data, nothing is changed: readers refuse it, and say why.
    """
    if not entry.kinds:
        return
    with generations.opened_entry(model, entry) as opened:
        held = read_identity(*opened) if opened else None
        if opened is None or held is None or generations.fault(entry, held):
            return
        stamp = held.identity.stamp if held.identity else new_stamp()
        if held.identity is None:
            opened.migrate()
            write_identity(*opened, generations.identity(entry.generation, stamp))
    last_load = max(held.last_load, entry.generation)
    generations.note_identity(model, entry.generation, stamp, last_load)
