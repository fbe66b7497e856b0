"""What can be undone of a register: its snapshots, and whether it was dropped (D71, D72)."""

from collections.abc import Sequence
from typing import NamedTuple

from peewee import fn

from app.registers.generations import Generations
from app.registers.history import History
from app.registers.models import RegisterLoad
from app.registers.snapshots import Snapshot, list_snapshots
from app.storage.engine import Engine
from app.storage.registers import DroppedRegister, Entry


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
        """Whether there is data to remove, or a warning about failed loads to end (D72)."""
        return self.current is not None or self.dropped is not None or not self.ended_well

    def snapshot(self, load_id: int) -> Snapshot | None:
        """Return the snapshot that a load left, None if there is none."""
        return next((each for each in self.snapshots if each.load_id == load_id), None)


def find_state(engine: Engine, name: str) -> RegisterState | None:
    """Return the state of a register, None if nobody has ever loaded one of this name."""
    generations, history = Generations(engine, name), History(engine, name)
    current, dropped = generations.find_current(), generations.find_dropped()
    # As long as it is dropped, it cannot be rolled back.
    is_there = current is not None and dropped is None
    snapshots = list_snapshots(engine, generations, current) if current and is_there else []
    last = RegisterLoad.select(fn.MAX(RegisterLoad.id)).where(RegisterLoad.register == name)
    last_line = last.scalar(engine) or 0
    if current is None and dropped is None and not last_line:
        return None
    return RegisterState(name, current, dropped, snapshots, history.ended_well(), last_line)


def list_dropped(engine: Engine) -> list[Entry]:
    """Return the dropped registers, ordered by name."""
    columns = [getattr(DroppedRegister, name) for name in Entry._fields]
    query = DroppedRegister.select(*columns).order_by(DroppedRegister.name)
    return [Entry(*row) for row in query.tuples().execute(engine)]
