"""Lists the snapshots of a register, and chooses the one for a rollback."""

from collections.abc import Sequence
from typing import NamedTuple

from peewee import fn

from app import clock
from app.errors import OperatorError
from app.registers.generations import Generations
from app.registers.history import COUNTS, MERGE, REPLACE, History, RegisterLoad
from app.storage.engine import Engine
from app.storage.registers import Entry
from app.storage.tables import Kind


class Snapshot(NamedTuple):
    """What a register held until a replace."""

    kept: Entry
    """Its entry in the register index."""
    load_id: int
    """The last load whose rows it holds."""
    undone: frozenset[str]
    """The kinds that a rollback to it changes."""

    @property
    def only_kind(self) -> Kind | None:
        """The kind that a rollback to it changes; None if it changes several."""
        return Kind(min(self.undone)) if len(self.undone) == 1 else None

    def described(self) -> str:
        """Return the load, its time and the rows, for an operator who chooses."""
        # A register that was never loaded is not kept, so there is always a time.
        loaded_at = clock.iso_utc(self.kept.loaded_at or 0)
        return f"load {self.load_id} of {loaded_at} ({self.kept.described()})"


def list_snapshots(generations: Generations, current: Entry) -> list[Snapshot]:
    """Return the snapshots of a register, latest first.

    Args:
        current: the register's entry.
    """
    engine, snapshots = generations.engine, list[Snapshot]()
    # Going back to a snapshot undoes every replace since then: each made the next generation.
    later, undone = current, frozenset[str]()
    for kept in generations.list_kept():
        query = RegisterLoad.select(RegisterLoad.kind).where(RegisterLoad.id == later.generation)
        undone |= {kind for (kind,) in query.tuples().execute(engine)}
        load_id = _last_load(engine, kept, later.generation)
        snapshots.append(Snapshot(kept, load_id, undone))
        later = kept
    return snapshots


def _last_load(engine: Engine, kept: Entry, later: int) -> int:
    """Return the last load whose rows a snapshot holds: a merge, or the load that made it.

    Args:
        later: the load that made the next generation.
    """
    merged = RegisterLoad.select(RegisterLoad.id).where(
        (RegisterLoad.register == kept.name)
        & COUNTS
        & (RegisterLoad.mode == MERGE)
        & (RegisterLoad.id > kept.generation)
        & (RegisterLoad.id < later)
    )
    last = merged.order_by(RegisterLoad.id.desc()).limit(1).scalar(engine)
    return int(last or kept.generation)


def require_snapshot(
    generations: Generations, current: Entry, to: int | None, kind: Kind | None
) -> Snapshot:
    """Return the snapshot to roll back to.

    Args:
        current: the register's entry.
        to: the last load whose rows the snapshot holds; None for the latest snapshot.
        kind: the only kind that may change; None if all may.

    Raises OperatorError, which lists the snapshots, if none fits.
    """
    name = generations.name
    snapshots = list_snapshots(generations, current)
    if not snapshots:
        reason = _why_none(generations.engine, name)
        raise OperatorError(f"the register {name} cannot be rolled back: {reason}")
    found = next((each for each in snapshots if to in (None, each.load_id)), None)
    if found is None:
        raise OperatorError(
            f"the register {name} cannot be rolled back to load {to}. {_choices(snapshots)}"
        )
    if kind is not None and found.undone != {kind}:
        changed = " and ".join(sorted(found.undone))
        raise OperatorError(
            f"a rollback of the register {name} to load {found.load_id} changes its {changed}, "
            f"not its {kind}. {_choices(snapshots)}"
        )
    if not generations.store.has_waiting(found.kept.generation):
        raise OperatorError(
            f"the data that the register {name} held after load {found.load_id} is missing; "
            "restore it from a backup, or load its files again"
        )
    return found


def require_not_dropped(generations: Generations) -> Entry:
    """Return the register's entry; raise OperatorError if there is none, or it was dropped."""
    name = generations.name
    if generations.find_dropped() is not None:
        raise OperatorError(
            f'the register {name} was dropped; run "verifyd imports undrop {name}" to bring it back'
        )
    current = generations.find_current()
    if current is None:
        raise OperatorError(f"there is no register {name}")
    return current


def _choices(snapshots: Sequence[Snapshot]) -> str:
    return f"It can go back to {'; '.join(each.described() for each in snapshots)}."


def _why_none(engine: Engine, name: str) -> str:
    """Return why a register has no snapshots."""
    is_change = (RegisterLoad.mode == REPLACE) | (RegisterLoad.changed > 0)
    last = History(engine, name).counted().where(is_change).limit(2)
    modes = [load.mode for load in last.execute(engine)]
    if modes[:1] == [MERGE]:
        return "its last load was a merge"
    if len(modes) < 2:
        return "it held nothing before its last load"
    return "no earlier state is kept (VERIFYD_KEEP_SNAPSHOTS)"


class RegisterState(NamedTuple):
    """A register, a dropped register, or a name that only failed loads have."""

    name: str
    current: Entry | None
    """What answers come from; None if it was dropped, or never loaded."""
    dropped: Entry | None
    """What an undrop brings back."""
    snapshots: Sequence[Snapshot]
    """What a rollback can go back to, latest first."""
    ended_well: bool
    """Whether its latest load did not fail."""
    last_line: int
    """The number of its latest line in the history; 0 if it has none."""

    @property
    def can_be_purged(self) -> bool:
        """Whether there is data to remove, or a warning about failed loads to end."""
        return self.current is not None or self.dropped is not None or not self.ended_well

    def snapshot(self, load_id: int) -> Snapshot | None:
        """Return the snapshot of the state after a load, None if there is none."""
        return next((each for each in self.snapshots if each.load_id == load_id), None)


def find_state(engine: Engine, name: str) -> RegisterState | None:
    """Return the state of a register, None if nobody has ever loaded one of this name."""
    generations, history = Generations(engine, name), History(engine, name)
    current, dropped = generations.find_current(), generations.find_dropped()
    # As long as it is dropped, it cannot be rolled back.
    is_there = current is not None and dropped is None
    snapshots = list_snapshots(generations, current) if current and is_there else []
    last = RegisterLoad.select(fn.MAX(RegisterLoad.id)).where(RegisterLoad.register == name)
    last_line = last.scalar(engine) or 0
    if current is None and dropped is None and not last_line:
        return None
    return RegisterState(name, current, dropped, snapshots, history.ended_well(), last_line)
