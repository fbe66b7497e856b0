"""When each kind of each register was last loaded, for answers that tell how old they are."""

from typing import NamedTuple

from peewee import fn

from app import clock
from app.registers.history import COUNTS, MERGE, REPLACE, RegisterLoad
from app.storage.engine import Engine
from app.storage.registers import in_precedence
from app.storage.tables import Kind
from app.vehicles.deciding import LoadTimes

_KEPT_NS = 10 * 10**9


class _Known(NamedTuple):
    state: str
    read_at: int
    times: LoadTimes


def read_load_times(engine: Engine, state: str) -> LoadTimes:
    """Return when the registers of a state were last loaded.

    Raises peewee.PeeweeException if the database cannot be read.
    """
    registers = {each.name: each for each in in_precedence(state, ())}
    query = (
        RegisterLoad.select(
            RegisterLoad.register, RegisterLoad.kind, fn.MAX(RegisterLoad.finished_at)
        )
        .where(COUNTS, RegisterLoad.mode.in_((MERGE, REPLACE)))
        .group_by(RegisterLoad.register, RegisterLoad.kind)
    )
    return {
        (name, Kind(kind)): finished_at
        for name, kind, finished_at in query.tuples().execute(engine)
        if name in registers and registers[name].holds(Kind(kind))
    }


class KnownLoadTimes:
    """The times for the requests of a worker.

    PERF: they are read once in ten seconds, and after each change of the registers.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._known = _Known("", 0, {})

    def of_state(self, state: str) -> LoadTimes:
        """Return when the registers of a state were last loaded; raises as reading does."""
        known, now = self._known, clock.monotonic_ns()
        if known.state != state or now - known.read_at > _KEPT_NS:
            known = self._known = _Known(state, now, read_load_times(self._engine, state))
        return known.times
