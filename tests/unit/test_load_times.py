"""When registers were last loaded, as answers with details tell it (D199)."""

import pytest

from app import clock
from app.errors import OperatorError
from app.registers.load_times import KnownLoadTimes, read_load_times
from app.registers.undo import drop_register, roll_back, undrop_register
from app.storage.registers import read_state
from app.storage.tables import Kind
from tests.api.unknown import EARLY, ENDED, FLAGGED, LATE, SILENT, load_at
from tests.conftest import STORAGE

pytestmark = STORAGE

VEHICLES, POLICIES = ("native", Kind.VEHICLES), ("native", Kind.POLICIES)
SECOND_NS = 10**9


def times(world):
    """Return the times of the registers as they are now."""
    return read_load_times(world.engine, read_state(world.engine))


class Watched:
    """A worker's times at a moment that a test chooses, and how often it read them."""

    def __init__(self, world, monkeypatch):
        self.now_ns = 10**15
        monkeypatch.setattr(clock, "monotonic_ns", lambda: self.now_ns)
        self._world = world
        self._known = KnownLoadTimes(world.engine)

    def of_vehicles(self):
        """Return the time of the vehicles in the register native."""
        return self._known.of_state(read_state(self._world.engine)).get(VEHICLES)


@pytest.fixture
def watched(world, monkeypatch):
    """The times of a worker whose clock stands still."""
    return Watched(world, monkeypatch)


def test_each_kind_has_its_own(world):
    """It is the time at which its last load ended, whether that merged or replaced."""
    load_at(world, EARLY, [SILENT], [ENDED], register=None)
    load_at(world, LATE, [FLAGGED], register=None)
    assert times(world) == {VEHICLES: LATE, POLICIES: EARLY}


def test_without_registers_there_is_none(world):
    """An empty database has no times."""
    assert times(world) == {}


def replace(world, text):
    """Replace the vehicles of native; the load ends late."""
    path = world.directory / "replaced.ndjson"
    path.write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clock, "now", lambda: LATE)
        world.load_files(path, mode="replace")


def test_a_load_that_failed_does_not_count(world):
    """Its rows are not there, so no answer is as new as it."""
    load_at(world, EARLY, [SILENT], register=None)
    with pytest.raises(OperatorError, match="no line end"):
        replace(world, '{"registration": "NK01AAA", "make": "Opel"}')
    assert times(world) == {VEHICLES: EARLY}


def test_times_follow_what_is_undone(world):
    """A rollback brings the former time back; a dropped register has none until it is undropped."""
    load_at(world, EARLY, [SILENT], register=None)
    replace(world, '{"registration": "NK01AAA", "make": "Opel"}\n')
    assert times(world) == {VEHICLES: LATE}
    roll_back(world.engine, "native", None)
    assert times(world) == {VEHICLES: EARLY}
    drop_register(world.engine, "native")
    assert times(world) == {}
    undrop_register(world.engine, "native")
    assert times(world) == {VEHICLES: EARLY}


@pytest.mark.parametrize(("seconds", "expected"), [(0, EARLY), (10, EARLY), (10.1, LATE)])
def test_they_are_kept_for_ten_seconds(world, watched, seconds, expected):
    """A merge does not change the state of the registers, so answers show it a little later."""
    load_at(world, EARLY, [SILENT], register=None)
    assert watched.of_vehicles() == EARLY
    load_at(world, LATE, [FLAGGED], register=None)
    watched.now_ns += int(seconds * SECOND_NS)
    assert watched.of_vehicles() == expected


def test_another_state_is_read_at_once(world, watched):
    """A new register, kind or generation is not answered with the times of the former ones."""
    load_at(world, EARLY, [SILENT], register=None)
    assert watched.of_vehicles() == EARLY
    load_at(world, LATE, [FLAGGED], [ENDED], register=None)
    assert watched.of_vehicles() == LATE


def test_nothing_is_read_while_they_are_known(world, watched, statements):
    """A request with details costs no statement of its own."""
    load_at(world, EARLY, [SILENT], register=None)
    state = read_state(world.engine)
    known = KnownLoadTimes(world.engine)
    known.of_state(state)
    with statements() as seen:
        known.of_state(state)
    assert seen == []
