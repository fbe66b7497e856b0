"""The earlier states of a register, and which of them a rollback goes back to (D71)."""

from collections.abc import Sequence
from typing import NamedTuple

from app import clock
from app.errors import OperatorError
from app.registers.generations import Generations
from app.registers.history import MERGE, REPLACE, ROLLBACK
from app.registers.models import RegisterLoad
from app.storage.engine import Engine
from app.storage.registers import Entry
from app.storage.tables import Kind


class Snapshot(NamedTuple):
    """What a register held after a load, until the next one replaced it."""

    kept: Entry
    """Its entry in the register index."""
    load_id: int
    """The last load whose rows are in it."""
    undone: frozenset[str]
    """Kinds that a rollback to it changes."""

    def told(self) -> str:
        """Return what an operator chooses by."""
        # Only what was loaded is kept.
        loaded_at = clock.iso_utc(self.kept.loaded_at or 0)
        return f"load {self.load_id} of {loaded_at} ({self.kept.described()})"


def list_snapshots(engine: Engine, generations: Generations, current: Entry) -> list[Snapshot]:
    """Return the states that a register can be rolled back to, the latest first."""
    snapshots: list[Snapshot] = []
    later, undone = current, frozenset[str]()
    for kept in generations.list_kept():
        query = RegisterLoad.select(RegisterLoad.kind).where(RegisterLoad.id == later.generation)
        undone |= {kind for (kind,) in query.tuples().execute(engine)}
        load_id = _last_load(engine, kept, later.generation)
        snapshots.append(Snapshot(kept, load_id, undone))
        later = kept
    return snapshots


def _last_load(engine: Engine, kept: Entry, later: int) -> int:
    """Return the load that left a generation as it is: it made it, or was merged into it.

    Args:
        later: the load that made the generation after it.
    """
    merged = RegisterLoad.select(RegisterLoad.id).where(
        (RegisterLoad.register == kept.name)
        & (RegisterLoad.status == "done")
        & (RegisterLoad.mode == MERGE)
        & (RegisterLoad.id > kept.generation)
        & (RegisterLoad.id < later)
    )
    last = merged.order_by(RegisterLoad.id.desc()).limit(1).scalar(engine)
    return int(last or kept.generation)


def require_snapshot(
    engine: Engine,
    generations: Generations,
    current: Entry,
    to: int | None,
    kind: Kind | None,
) -> Snapshot:
    """Return the state to go back to; OperatorError, with those that there are, if it is none.

    Args:
        current: the register as it is.
        to: the load that left it; the latest one if None.
        kind: the only kind that may change, None if any may.
    """
    name = generations.name
    snapshots = list_snapshots(engine, generations, current)
    if not snapshots:
        reason = _reason(engine, name)
        raise OperatorError(f"the register {name} cannot be rolled back: {reason}")
    found = next((each for each in snapshots if to in (None, each.load_id)), None)
    if found is None:
        raise OperatorError(
            f"the register {name} cannot be rolled back to load {to}. {_choice(snapshots)}"
        )
    if kind is not None and found.undone != {kind}:
        changed = " and ".join(sorted(found.undone))
        raise OperatorError(
            f"a rollback of the register {name} to load {found.load_id} changes its {changed}, "
            f"not its {kind}. {_choice(snapshots)}"
        )
    if not generations.store.has_waiting(found.kept.generation):
        raise OperatorError(
            f"what the register {name} held after load {found.load_id} is not there: restore it, "
            "or load it again"
        )
    return found


def require_not_dropped(generations: Generations) -> Entry:
    """Return the entry of a register; OperatorError if there is none, or it was dropped."""
    name = generations.name
    if generations.find_dropped() is not None:
        raise OperatorError(
            f"the register {name} was dropped; run `verifyd imports undrop {name}` to bring it back"
        )
    current = generations.find_current()
    if current is None:
        raise OperatorError(f"there is no register {name}")
    return current


def _choice(snapshots: Sequence[Snapshot]) -> str:
    return f"It can go back to {'; '.join(each.told() for each in snapshots)}."


def _reason(engine: Engine, name: str) -> str:
    """Return why there is nothing to go back to."""
    done = RegisterLoad.select(RegisterLoad.mode).where(
        (RegisterLoad.register == name)
        & (RegisterLoad.status == "done")
        & RegisterLoad.mode.in_((MERGE, REPLACE, ROLLBACK))
        & ((RegisterLoad.mode != MERGE) | (RegisterLoad.changed > 0))
    )
    modes = [mode for (mode,) in done.order_by(RegisterLoad.id.desc()).tuples().execute(engine)]
    if modes[:1] == [MERGE]:
        return "its last load was a merge"
    if len(modes) < 2:
        return "it held nothing before its last load"
    return "no earlier state is kept (VERIFYD_KEEP_SNAPSHOTS)"
