"""One SQLite file and several processes or threads that come to it at once (D27)."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from app.sqlite import SqliteEngine


def test_many_that_make_one_new_file_wait_for_each_other(tmp_path):
    """SQLite itself refuses at once where two switch a new file to WAL."""
    for number in range(20):
        path = tmp_path / f"{number}.db"
        barrier = threading.Barrier(6)

        def make(path: Path = path, barrier: threading.Barrier = barrier) -> str:
            engine = SqliteEngine(path, create=True)
            barrier.wait()
            mode = str(engine.pragma("journal_mode"))
            engine.close()
            return mode

        with ThreadPoolExecutor(6) as pool:
            assert {each.result() for each in [pool.submit(make) for _ in range(6)]} == {"wal"}
