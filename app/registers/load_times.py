"""When each kind of each register was last loaded, for answers that tell how old they are."""

from peewee import fn

from app import clock
from app.registers.history import COUNTS, MERGE, REPLACE, RegisterLoad
from app.storage.engine import Engine
from app.storage.registers import in_precedence
from app.storage.tables import Kind
from app.vehicles.deciding import LoadTimes

_KEPT_NS = 10 * 10**9


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
        self._state, self._read_at_ns = "", 0
        self._times: LoadTimes = {}

    def of_state(self, state: str) -> LoadTimes:
        """Return when the registers of a state were last loaded; raises as reading does."""
        now_ns = clock.monotonic_ns()
        if self._state != state or now_ns - self._read_at_ns > _KEPT_NS:
            self._times = read_load_times(self._engine, state)
            self._state, self._read_at_ns = state, now_ns
        return self._times
