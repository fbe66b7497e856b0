"""The progress of a load in the history, which the console shows (D135)."""

import peewee
import pytest

from app.registers import attempts
from app.registers.attempts import Attempt, NotedProgress, past_load
from app.registers.history import History, find_load
from app.registers.load import load
from app.registers.request import LoadRequest
from tests.unit.held import HEADER


@pytest.fixture
def run(world, monkeypatch):
    """`run(mode)` loads a file and returns every state of its line while it ran."""
    monkeypatch.setattr(attempts, "_EVERY_NS", 0)

    def run(mode="merge"):
        rows = (f"AB{n:05},FORD\n" for n in range(12_000))
        path = world.directory / "cars.csv"
        path.write_text(HEADER + "".join(rows))
        request = LoadRequest(files=[str(path)], mode=mode)
        attempt, states = Attempt(request), []

        def look(_progress):
            if attempt.load_id is not None:
                line = find_load(world.engine, attempt.load_id)
                states.append(past_load(line, {}).progress)

        # It looks before the progress is noted, so it sees the one before.
        noted = NotedProgress(world.engine, attempt, look)
        return load(world.engine, world.directory, request, noted, attempt), states

    return run


@pytest.mark.parametrize("mode", ["merge", "replace"])
def test_it_is_in_the_history(world, run, mode):
    """First the file with its bytes is there, then the rows that are written."""
    result, states = run(mode)
    assert result.loaded == 12_000
    known = [state for state in states if state is not None]
    assert {state.file for state in known} <= {"cars.csv", None}
    assert known[0].file == "cars.csv"
    size = (world.directory / "cars.csv").stat().st_size
    assert known[0].done <= size == known[0].total
    last = past_load(find_load(world.engine, result.load), {}).progress
    assert last is not None
    assert (last.file, last.total) == (None, 12_000)


def test_it_is_noted_only_now_and_then(world, monkeypatch):
    """A load of less than three seconds writes no progress."""
    noted = []
    monkeypatch.setattr(History, "note_progress", lambda *arguments: noted.append(arguments))
    world.load([{"registration": "AB12CDE"}])
    assert noted == []


def test_a_failing_note_does_not_fail_the_load(run, monkeypatch):
    """The load goes on, and waits a minute before the next note."""
    tried = []

    def fail(*arguments):
        tried.append(arguments)
        raise peewee.OperationalError("database is locked")

    monkeypatch.setattr(History, "note_progress", fail)
    result, _ = run()
    assert result.loaded == 12_000
    assert len(tried) == 1
