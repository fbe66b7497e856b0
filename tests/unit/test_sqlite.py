"""One SQLite file that several processes open at once (D27)."""

import multiprocessing
from datetime import datetime
from functools import partial
from pathlib import Path

import pytest

from app.storage.sqlite import SqliteEngine

_ROUNDS, _PROCESSES = 30, 4


def made(directory: Path, barrier, number: int) -> str:
    """Make the same file as the others, and return its mode."""
    engine = SqliteEngine(directory / f"{number}.db", create=True)
    barrier.wait(timeout=60)
    mode = str(engine.pragma("journal_mode"))
    engine.close()
    return mode


def work(directory: Path, barrier, told) -> None:
    """Make all files, one after the other."""
    for number in range(_ROUNDS):
        try:
            told.put(made(directory, barrier, number))
        except Exception as error:
            told.put(str(error))


def test_processes_that_make_one_new_file_wait_for_each_other(tmp_path):
    """SQLite itself fails at once if two processes switch a new file to WAL."""
    context = multiprocessing.get_context("spawn")
    barrier, told = context.Barrier(_PROCESSES), context.Queue()
    target = partial(work, tmp_path, barrier, told)
    processes = [context.Process(target=target) for _ in range(_PROCESSES)]
    for process in processes:
        process.start()
    answers = [told.get(timeout=60) for _ in range(_ROUNDS * _PROCESSES)]
    for process in processes:
        process.join()
    assert set(answers) == {"wal"}


def test_a_statement_is_planned_once_whatever_values_it_gets(tmp_path):
    """SQLite does not plan the statements of the hot path again for each value."""
    engine = SqliteEngine(tmp_path / "planned.db", create=True)
    engine.execute_sql("CREATE TABLE one (id TEXT PRIMARY KEY, other TEXT)")
    engine.execute_sql("CREATE TABLE other (id TEXT PRIMARY KEY)")
    sql = "SELECT other.id FROM one JOIN other ON one.other = other.id WHERE one.id = ?"
    planned: list[tuple] = []

    def authorized(*what: object) -> int:
        planned.append(what)
        return 0

    engine.connection().authorizer = authorized
    engine.rows(sql, ("a",))
    assert planned
    planned.clear()
    engine.rows(sql, ("b",))
    assert planned == []
    engine.close()


def test_dates_and_times_are_stored_as_texts(tmp_path):
    """The driver stores no dates, so the engine turns them into ISO texts (D108)."""
    engine = SqliteEngine(tmp_path / "dates.db", create=True)
    day = datetime(2026, 5, 1, 12, 30)  # noqa: DTZ001 - as Peewee's migrations write it
    assert engine.rows("SELECT ?, ?", (day.date(), day)) == [("2026-05-01", "2026-05-01 12:30:00")]
    with pytest.raises(TypeError):
        engine.rows("SELECT ?", (object(),))
    engine.close()


def test_references_are_checked_again_after_a_migration(tmp_path):
    """A command migrates and then writes on the same connection; migrations are nested, too."""
    engine = SqliteEngine(tmp_path / "migrated.db", create=True)
    with engine.migration(), engine.migration():
        assert engine.pragma("foreign_keys") == 0
    assert engine.pragma("foreign_keys") == 1
    with pytest.raises(KeyError), engine.migration():
        raise KeyError
    assert engine.pragma("foreign_keys") == 1
    engine.close()


def test_sorting_needs_no_temporary_files(tmp_path):
    """A full or read-only directory for temporary files stops no statement (D108)."""
    engine = SqliteEngine(tmp_path / "sorted.db", create=True)
    assert engine.pragma("temp_store") == 2
    engine.close()
