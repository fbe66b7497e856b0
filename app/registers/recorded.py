"""What the record of actions says about registers and loads (D130)."""

from collections.abc import Mapping
from typing import Any

import msgspec

from app.actions import State, Subject, record
from app.actor import Actor
from app.registers.history import find_load
from app.registers.models import json_list
from app.storage.engine import Engine
from app.storage.registers import Entry
from app.storage.tables import Kind


def record_load(
    engine: Engine,
    load_id: int,
    kind: Kind,
    former: Entry | None,
    columns: Mapping[str, Any],
) -> None:
    """Record a load that is done, if an operator ran it; call this within its last transaction.

    The history knows whose load it is. So it does not matter who finishes it: after a kill between
    the two commits of a merge, that is a later load.

    Args:
        former: the register's entry before the load. None, or never loaded, for a new register.
        columns: the columns of the history line, `held` and `changed` among them.
    """
    load = find_load(engine, load_id)
    if load.actor is None:
        return
    before = None
    if former is not None and former.loaded_at is not None:
        before = {"held": former.rows(kind)}
    accepted = json_list(load.accepted, str)
    after = {
        "held": columns["held"],
        "load": load_id,
        "kind": kind.value,
        "mode": load.mode,
        "changed": columns["changed"],
        **({"accepted": accepted} if accepted else {}),
    }
    record(
        engine,
        msgspec.json.decode(load.actor, type=Actor),
        "imports.load",
        subject_of(load.register),
        before,
        after,
    )


def register_state(entry: Entry | None) -> State | None:
    """Return how many rows of each kind a register holds; None if there is none."""
    return entry and {kind.value: entry.rows(kind) for kind in Kind}


def subject_of(register: str) -> Subject:
    """Return a register as the subject of an action."""
    return Subject("register", register)
