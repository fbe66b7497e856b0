"""The files in which workers count: reserved, folded, removed, and never blocking."""

import fcntl
import os

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.mmap_dict import MmapedDict, mmap_key
from prometheus_client.multiprocess import MultiProcessCollector

from app.serve.http import metrics_files
from tests.unit.limit_files import file_size_limit


@pytest.fixture
def directory(tmp_path, monkeypatch):
    """The directory of this process as a master."""
    monkeypatch.setenv(metrics_files.ENVIRONMENT, "")
    metrics_files.prepare(tmp_path)
    return tmp_path / "metrics" / str(os.getpid())


def count(directory, pid, amount, path="/x"):
    """Count like the worker with this number."""
    values = MmapedDict(str(directory / f"counter_{pid}.db"))
    key = mmap_key("asked", "asked_total", ["path"], [path], "What was asked.")
    values.write_value(key, values.read_value(key)[0] + amount, 0.0)
    values.close()


def told(directory):
    """Return what all workers have counted, by path."""
    registry = CollectorRegistry()
    MultiProcessCollector(registry, str(directory))
    return {
        sample.labels["path"]: sample.value
        for family in registry.collect()
        for sample in family.samples
    }


def files(directory):
    return sorted(path.name for path in directory.glob("*.db"))


def test_a_start_empties_the_directory(directory, tmp_path):
    """Counts of an earlier master with the same process id are discarded."""
    count(directory, 7, 5)
    metrics_files.prepare(tmp_path)
    assert files(directory) == []
    assert os.environ[metrics_files.ENVIRONMENT] == str(directory)


def test_a_start_removes_what_ended_masters_left(directory, tmp_path):
    """A start removes the directories of ended masters, and keeps those of running ones."""
    parent = directory.parent
    (parent / "999999999").mkdir()
    (parent / str(os.getppid())).mkdir()
    metrics_files.prepare(tmp_path)
    assert {path.name for path in parent.iterdir()} == {str(os.getpid()), str(os.getppid())}


def test_the_end_removes_only_its_own(directory, monkeypatch):
    """A master removes its directory; a process that inherits the name does not."""
    monkeypatch.setenv(metrics_files.ENVIRONMENT, str(directory.parent / "1"))
    (directory.parent / "1").mkdir()
    metrics_files.remove()
    assert (directory.parent / "1").exists()
    monkeypatch.setenv(metrics_files.ENVIRONMENT, str(directory))
    metrics_files.remove()
    assert not directory.exists()


def test_folding_keeps_every_count(directory):
    """Counts of ended workers are added up in one file; running workers keep theirs."""
    for pid, amount in ((7, 5), (8, 2), (9, 1)):
        count(directory, pid, amount)
    count(directory, 8, 10, path="/y")
    before = told(directory)
    metrics_files.fold({9})
    assert files(directory) == ["counter_0.db", "counter_9.db", "histogram_0.db"]
    assert told(directory) == before == {"/x": 8, "/y": 10}
    count(directory, 9, 1)
    metrics_files.fold(())
    assert files(directory) == ["counter_0.db", "histogram_0.db"]
    assert told(directory) == {"/x": 9, "/y": 10}


def test_many_workers_leave_few_files(directory):
    """Only running workers have files of their own."""
    for pid in range(100, 200):
        count(directory, pid, 1)
        metrics_files.fold({pid})
    assert files(directory) == ["counter_0.db", "counter_199.db", "histogram_0.db"]
    assert told(directory) == {"/x": 100}


def test_folding_waits_for_nobody(directory):
    """While somebody reads, folding is skipped until the next time, and nothing is lost."""
    count(directory, 7, 5)
    with open(directory / "lock", "rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        metrics_files.fold(())
        assert files(directory) == ["counter_7.db"]
    metrics_files.fold(())
    assert told(directory) == {"/x": 5}
    assert "counter_7.db" not in files(directory)


@pytest.mark.parametrize("content", [b"", b"\xff\xff\xff\x7f" * 4, b"\x40\0\0\0" * 4])
def test_a_damaged_file_is_dropped(directory, caplog, content):
    """A damaged file is logged and removed; all other counts stay."""
    count(directory, 8, 2)
    (directory / "counter_7.db").write_bytes(content)
    metrics_files.fold(())
    assert "counter_7.db is damaged" in caplog.text
    assert files(directory) == ["counter_0.db", "histogram_0.db"]
    assert told(directory) == {"/x": 2}


def test_a_full_disk_does_not_end_the_master(directory, caplog):
    """Without disk space nothing is folded, and the counts stay where they are."""
    count(directory, 7, 5)
    with file_size_limit(8):
        metrics_files.fold(())
    assert "counts of an ended worker cannot be added" in caplog.text
    assert told(directory) == {"/x": 5}


def test_a_workers_space_is_reserved(directory):
    """Blocks are allocated before a file is mapped, so a full disk cannot kill a worker."""
    metrics_files.reserve()
    for kind, size_bytes in (("counter", 64 * 1024), ("histogram", 256 * 1024)):
        found = (directory / f"{kind}_{os.getpid()}.db").stat()
        assert found.st_size == size_bytes
        assert found.st_blocks * 512 >= size_bytes
    count(directory, os.getpid(), 3)
    assert told(directory) == {"/x": 3}


def test_without_room_nothing_is_reserved(directory):
    """A full disk is reported before anything is mapped."""
    with file_size_limit(8), pytest.raises(OSError, match="File too large"):
        metrics_files.reserve()
    assert os.listdir(directory) == ["lock"]


def test_alone_there_are_no_files(monkeypatch):
    """A process without a master counts in its own memory."""
    monkeypatch.delenv(metrics_files.ENVIRONMENT, raising=False)
    metrics_files.reserve()
    metrics_files.fold(())
    metrics_files.remove()
    with metrics_files.reading():
        assert metrics_files.directory() is None
