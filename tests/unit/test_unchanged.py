"""Files whose content comes again, and registers whose content does not change."""

import pytest

from app import clock
from app.alerts.conditions import conditions_of
from app.alerts.loads import freshness
from app.registers.history import RegisterLoad
from app.registers.undo import drop_register, purge_register, roll_back, undrop_register
from tests.conftest import ON_SQLITE, STORAGE

HOUR, DAY = 3600, 86_400
NIGHT = 1_900_000_000
HEADER = "registration,make\n"
FORD, OPEL = f"{HEADER}AB12CDE,FORD\n", f"{HEADER}AB12CDE,OPEL\n"
POLICY = "registration,number,validFrom,validTo\nAB12CDE,1,2026-01-01,2026-12-31\n"


class Source:
    """A register of one source, whose files are loaded at times that tests choose."""

    def __init__(self, world, monkeypatch):
        self.world = world
        self._monkeypatch = monkeypatch
        self.at(NIGHT)

    def at(self, time):
        """Let the clock stand at this time."""
        self._monkeypatch.setattr(clock, "now", lambda: int(time))

    def load(self, time, text=FORD, **options):
        """Load a file with this content at this time, and return the notes."""
        self.at(time)
        path = self.world.directory / "file.csv"
        path.write_text(text)
        return self.world.load_files(path, **{"register": "rdw", "mode": "replace"} | options).notes

    def age(self, **settings):
        """Return the register's age and what it is compared with."""
        (age,) = freshness(self.world.engine, self.world.configured(**settings))
        return age

    def conditions(self, **settings):
        """Return the conditions of unchanged content, by key."""
        found = conditions_of(self.world.engine, self.world.configured(**settings)).conditions
        return {each.key: each for each in found if each.kind == "unchanged"}


@pytest.fixture
def source(world, monkeypatch):
    """A source that was never loaded."""
    return Source(world, monkeypatch)


@ON_SQLITE
class TestNotes:
    @pytest.mark.parametrize("mode", ["merge", "replace"])
    def test_the_same_file_every_night_is_counted(self, source, mode):
        """Nights count from the first of the equal loads, although timers are never exact."""
        assert source.load(NIGHT, mode=mode) == []
        assert source.load(NIGHT + DAY + 800, mode=mode) == ["same content as load 1, for 1 night"]
        assert source.load(NIGHT + 2 * DAY - 800, mode=mode)[0].endswith(", for 2 nights")
        tried = source.load(NIGHT + 3 * DAY, mode=mode, dry_run=True)
        assert tried == ["same content as load 1, for 3 nights"]
        assert source.load(NIGHT + 3 * DAY, mode=mode) == tried
        assert source.load(NIGHT + 4 * DAY, OPEL, mode=mode) == []

    def test_loads_of_each_hour_do_not_count_as_nights(self, source):
        """A load after an hour names no night, and one after thirty hours names one."""
        source.load(NIGHT)
        hours = (1, 2, 11, 23, 30)
        told = [source.load(NIGHT + hour * HOUR)[0] for hour in hours]
        assert told == [
            *["same content as load 1"] * 3,
            *["same content as load 1, for 1 night"] * 2,
        ]

    def test_an_older_file_that_comes_again_is_told_from_a_run(self, source):
        """If other content was loaded in between, no nights are counted."""
        source.load(NIGHT)
        source.load(NIGHT + DAY, OPEL)
        again = ["same content as load 1, although load 2 had other content"]
        assert source.load(NIGHT + 2 * DAY) == again
        assert source.load(NIGHT + 3 * DAY) == ["same content as load 3, for 1 night"]

    def test_only_comparable_loads_count(self, source):
        """Not one of another register or kind, one that was taken back, nor one before a drop."""
        source.load(NIGHT)
        assert source.load(NIGHT, register="mid") == []
        source.load(NIGHT + DAY, POLICY)
        assert source.load(NIGHT + DAY) == ["same content as load 1, for 1 night"]
        source.load(NIGHT + 2 * DAY, OPEL)
        roll_back(source.world.engine, "rdw", None)
        assert source.load(NIGHT + 3 * DAY, OPEL) == []
        drop_register(source.world.engine, "rdw")
        assert source.load(NIGHT + 4 * DAY, OPEL) == []

    def test_a_failed_load_is_no_measure(self, source):
        """A file that was refused before is new when it is loaded."""
        source.load(NIGHT)
        RegisterLoad.update(status="failed").execute(source.world.engine)
        assert source.load(NIGHT + DAY) == []


class TestUnchangedSince:
    @ON_SQLITE
    def test_it_is_the_last_load_that_changed_a_row(self, source):
        """The age of the last load goes on, whether or not it changes anything (D51)."""
        source.load(NIGHT)
        source.load(NIGHT + DAY)
        assert (source.age().loaded_at, source.age().changed_at) == (NIGHT + DAY, NIGHT)
        source.load(NIGHT + 2 * DAY, OPEL, mode="merge")
        assert source.age().changed_at == NIGHT + 2 * DAY

    @ON_SQLITE
    def test_a_rollback_changes_it(self, source):
        """A rollback changes rows, too, and the load that it takes back no longer counts."""
        source.load(NIGHT)
        source.load(NIGHT + DAY, OPEL)
        source.at(NIGHT + 2 * DAY)
        roll_back(source.world.engine, "rdw", None)
        source.load(NIGHT + 3 * DAY)
        assert source.age().changed_at == NIGHT + 2 * DAY

    @ON_SQLITE
    def test_a_drop_that_is_taken_back_changes_nothing(self, source):
        """After an undrop it is what it was; after a purge it is the first load since."""
        engine = source.world.engine
        source.load(NIGHT)
        source.at(NIGHT + DAY)
        drop_register(engine, "rdw")
        undrop_register(engine, "rdw")
        assert source.age().changed_at == NIGHT
        purge_register(engine, "rdw")
        source.load(NIGHT + 2 * DAY)
        assert source.age().changed_at == NIGHT + 2 * DAY

    @ON_SQLITE
    def test_the_oldest_line_is_a_bound(self, source):
        """If the history no longer has the change, its oldest line is the best that is known."""
        for day in range(3):
            source.load(NIGHT + day * DAY)
        RegisterLoad.delete().where(RegisterLoad.id == 1).execute(source.world.engine)
        assert source.age().changed_at == NIGHT + DAY
        RegisterLoad.delete().execute(source.world.engine)
        assert source.age().changed_at == source.age().loaded_at

    @STORAGE
    def test_the_setting_warns_about_it(self, source):
        """It is off by default; its warning has the age, and its alert the last load's note."""
        source.load(NIGHT)
        source.load(NIGHT + 3 * DAY)
        assert source.conditions() == {}
        assert source.conditions(unchanged_after={"*": 3 * DAY}) == {}
        assert source.conditions(unchanged_after={"rdw": 0, "*": DAY}) == {}
        condition = source.conditions(unchanged_after={"rdw": DAY, "*": 0})["unchanged:rdw"]
        assert condition.warning == (
            "The content of the register rdw has not changed for 3 d; "
            "VERIFYD_UNCHANGED_AFTER allows 1 d."
        )
        assert condition.details == ("Load 2: same content as load 1, for 3 nights",)
        assert (condition.since, condition.occurrence) == (NIGHT + DAY, str(NIGHT))
        source.load(NIGHT + 3 * DAY, OPEL)
        assert source.conditions(unchanged_after={"*": DAY}) == {}
