"""The files with what workers have counted: written, added up, folded, removed, never blocking."""

import fcntl
import os
import time

import msgspec
import pytest

from app.serve.http import metrics_files
from app.serve.http.metrics import Measures
from app.serve.http.metrics_files import RequestCounts
from tests.unit.limit_files import file_size_limit

DAMAGED = pytest.mark.parametrize(
    "content", [b"", b"\xff" * 9, msgspec.msgpack.encode({"seconds": 1})]
)


@pytest.fixture
def directory(tmp_path, monkeypatch):
    """The directory of this process as a master."""
    monkeypatch.setattr(metrics_files, "_own", None)
    metrics_files.prepare(tmp_path)
    return tmp_path / "metrics" / str(os.getpid())


def count(directory, pid, amount, route="/x"):
    """Leave the file of the worker with this number."""
    counts = RequestCounts(database_errors=amount)
    counts.timed(route, 200)[:2] = [amount / 2, amount]
    counts.limited["free", "admitted"] = amount
    (directory / f"{pid}.counts").write_bytes(msgspec.msgpack.encode(counts))


def told():
    """Return the requests that all workers have counted, by route."""
    total = metrics_files.total(RequestCounts())
    by_route = {route: numbers[1] for (route, _), numbers in total.seconds.items()}
    assert sum(by_route.values()) == total.database_errors
    assert total.limited.get(("free", "admitted"), 0) == total.database_errors
    assert sum(numbers[0] for numbers in total.seconds.values()) == total.database_errors / 2
    return by_route


def files(directory):
    return sorted(path.name for path in directory.glob("*.counts"))


def test_a_start_empties_the_directory(directory, tmp_path):
    """Counts of an earlier master with the same process id are discarded."""
    count(directory, 7, 5)
    metrics_files.prepare(tmp_path)
    assert files(directory) == []


def test_a_start_removes_what_ended_masters_left(directory, tmp_path):
    """A start removes the directories of ended masters, and keeps those of running ones."""
    parent = directory.parent
    (parent / "999999999").mkdir()
    (parent / str(os.getppid())).mkdir()
    metrics_files.prepare(tmp_path)
    assert {path.name for path in parent.iterdir()} == {str(os.getpid()), str(os.getppid())}


def test_the_end_removes_only_its_own(directory, monkeypatch):
    """A master removes its directory; a process that was forked from it does not."""
    with monkeypatch.context() as patched:
        patched.setattr(metrics_files, "_own", directory.parent / "1")
        (directory.parent / "1").mkdir()
        metrics_files.remove()
    assert (directory.parent / "1").exists()
    metrics_files.remove()
    assert not directory.exists()


def test_folding_keeps_every_count(directory):
    """Counts of ended workers are added up in one file; running workers keep theirs."""
    for pid, amount in ((7, 5), (8, 2), (9, 1)):
        count(directory, pid, amount)
    count(directory, 6, 10, route="/y")
    before = told()
    metrics_files.fold({9})
    assert files(directory) == ["0.counts", "9.counts"]
    assert told() == before == {"/x": 8, "/y": 10}
    count(directory, 9, 2)
    metrics_files.fold(())
    assert files(directory) == ["0.counts"]
    assert told() == {"/x": 9, "/y": 10}


def test_many_workers_leave_few_files(directory):
    """Only running workers have files of their own."""
    for pid in range(100, 200):
        count(directory, pid, 1)
        metrics_files.fold({pid})
    assert files(directory) == ["0.counts", "199.counts"]
    assert told() == {"/x": 100}


def test_folding_waits_for_nobody(directory):
    """While somebody reads, folding is skipped until the next time, and nothing is lost."""
    count(directory, 7, 5)
    with open(directory / "lock", "rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        metrics_files.fold(())
        assert files(directory) == ["7.counts"]
    metrics_files.fold(())
    assert told() == {"/x": 5}
    assert files(directory) == ["0.counts"]


@DAMAGED
def test_a_damaged_file_is_dropped(directory, caplog, content):
    """A damaged file is logged and removed; all other counts stay."""
    count(directory, 8, 2)
    (directory / "7.counts").write_bytes(content)
    metrics_files.fold(())
    assert "7.counts is damaged" in caplog.text
    assert files(directory) == ["0.counts"]
    assert told() == {"/x": 2}


def test_a_full_disk_does_not_end_the_master(directory, caplog):
    """Without disk space nothing is folded, and the counts stay where they are."""
    count(directory, 7, 5)
    with file_size_limit(8):
        metrics_files.fold(())
    assert "counts of an ended worker cannot be added" in caplog.text
    assert files(directory) == ["7.counts"]
    assert told() == {"/x": 5}


def test_a_full_disk_stops_the_numbers_and_loses_none(directory, caplog):
    """Numbers stand still while they cannot be written, and go on when they can."""
    measures = Measures(["/x"])
    measures._counts.database_errors = 1
    assert measures.total().database_errors == 1
    measures._counts.database_errors = 2
    with file_size_limit(8):
        assert [measures.total().database_errors for _ in range(2)] == [1, 1]
    assert set(os.listdir(directory)) == {"lock", f"{os.getpid()}.counts"}
    assert caplog.text.count("counts of requests are not written") == 1
    measures._counts.database_errors = 3
    assert measures.total().database_errors == 3


def test_a_removed_directory_loses_nothing_of_this_worker(directory):
    """The next write makes the directory again, with all that the worker has counted."""
    measures = Measures(["/x"])
    measures._counts.database_errors = 7
    assert measures.total().database_errors == 7
    for path in directory.iterdir():
        path.unlink()
    directory.rmdir()
    assert measures.total().database_errors == 7


def test_the_thread_writes_and_ends_with_the_last_counts(directory):
    """What was counted after the last write is written when the worker ends."""
    measures = Measures(["/x"])
    measures.start()
    while not files(directory):
        time.sleep(0.001)
    measures._counts.database_errors = 5
    measures.stop()
    assert metrics_files.total(RequestCounts()).database_errors == 5


def test_a_worker_goes_on_from_an_ended_one_with_its_number(directory):
    """The kernel can give the number of a worker again before its counts were folded."""
    count(directory, os.getpid(), 5)
    measures = Measures(["/y"])
    measures.start()
    measures.stop()
    assert told() == {"/x": 5, "/y": 0}


def test_alone_there_are_no_files(monkeypatch):
    """A process without a master counts in its own memory."""
    monkeypatch.setattr(metrics_files, "_own", None)
    metrics_files.fold(())
    metrics_files.remove()
    measures = Measures(["/x"])
    measures._counts.database_errors = 1
    assert measures.total() is measures._counts
