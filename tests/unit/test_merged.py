"""Registers that a backup must hold, because no single file restores them."""

import pytest

from app.backup.take import list_merged
from app.registers.history import MERGE, REPLACE
from app.registers.reading.rejects import RejectLimit
from app.registers.undo import roll_back
from tests.conftest import STORAGE
from tests.unit.held import begun

pytestmark = STORAGE

CARS = ("registration,make", "AB12CDE,FORD")
OTHER = ("registration,make", "AB12CDE,SEAT")
POLICY = ("registration,number,validFrom,validTo", "AB12CDE,1,2026-01-01,2026-12-31")


@pytest.fixture
def load(world):
    """`load(mode, *lines)` loads a file into the register fleet."""

    def do(mode: str, *lines: str, **others: object):
        path = world.directory / "rows.csv"
        path.write_text("".join(f"{line}\n" for line in lines))
        options = {"mode": mode, "register": "fleet", "allow_shrink": True} | others
        return world.load_files(path, max_rejects=RejectLimit.parse("0"), **options)

    return do


def test_a_replace_can_be_loaded_again(world, load):
    """After a replace the register is not merged: earlier merges no longer matter."""
    load(MERGE, *CARS)
    load(REPLACE, *OTHER)
    assert list_merged(world.engine) == []


def test_a_merge_cannot(world, load):
    """A single merge counts: the history does not show whether the file was complete."""
    load(MERGE, *CARS)
    assert list_merged(world.engine) == ["fleet"]
    load(REPLACE, *CARS)
    load(MERGE, *OTHER)
    assert list_merged(world.engine) == ["fleet"]


def test_a_merge_that_changed_nothing_does_not_count(world, load):
    """After a merge without changes the register still equals its replace file."""
    load(REPLACE, *CARS)
    load(MERGE, *CARS)
    assert list_merged(world.engine) == []


def test_each_kind_counts_by_itself(world, load):
    """A replace of vehicles does not restore policies."""
    load(REPLACE, *CARS)
    load(MERGE, *POLICY)
    load(REPLACE, *OTHER)
    assert list_merged(world.engine) == ["fleet"]
    load(REPLACE, *POLICY)
    assert list_merged(world.engine) == []


def test_a_rolled_back_register_counts_as_merged(world, load):
    """After a rollback the history does not show which file the rows come from."""
    load(REPLACE, *CARS)
    load(REPLACE, *OTHER)
    roll_back(world.engine, "fleet", None)
    assert list_merged(world.engine) == ["fleet"]


def test_a_rollback_past_replaces_of_both_kinds_counts_as_merged(world, load):
    """A rollback over both kinds counts, although each kind's last load is a replace."""
    load(MERGE, *CARS)
    load(MERGE, *POLICY)
    load(REPLACE, *OTHER, keep_snapshots=2)
    load(REPLACE, *POLICY, keep_snapshots=2)
    assert list_merged(world.engine) == []
    assert roll_back(world.engine, "fleet", None, to=2)["kind"] is None
    assert list_merged(world.engine) == ["fleet"]
    load(REPLACE, *OTHER)
    load(REPLACE, *POLICY)
    assert list_merged(world.engine) == []


def test_a_failed_load_changes_nothing(world, load):
    """A failed load or a running replace does not count; a running merge does."""
    load(REPLACE, *CARS)
    with pytest.raises(Exception, match="were rejected"):
        load(MERGE, *CARS, ",FORD")
    begun(world.engine, "fleet", mode=REPLACE)
    assert list_merged(world.engine) == []
    begun(world.engine, "fleet", mode=MERGE)
    assert list_merged(world.engine) == ["fleet"]


def test_without_its_history_a_register_counts_as_merged(world, load):
    """A register whose history was removed counts as merged."""
    load(REPLACE, *CARS)
    world.engine.execute_sql("DELETE FROM register_load")
    assert list_merged(world.engine) == ["fleet"]
