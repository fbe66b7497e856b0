"""One SQLite file that several processes open at once (D27)."""

import multiprocessing
from functools import partial
from pathlib import Path

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
