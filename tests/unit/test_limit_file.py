"""The state file of the buckets: created once, checked, and reported if it fails (D11)."""

import os
import shutil

import pytest

from app import clock
from app.serve.limits import file as limit_file
from app.serve.limits.bucket import rate
from app.serve.limits.file import ACCOUNT_SLOTS, ADDRESS_SLOTS, FILE_BYTES, StoreError
from app.serve.limits.store import LimitStore, identity_of, start
from tests.unit.limit_files import (
    DATABASE,
    PLAN,
    file_size_limit,
    in_processes,
    left,
    opened,
    spend,
)

LAST_SLOT = ACCOUNT_SLOTS + ADDRESS_SLOTS - 1


@pytest.fixture
def path(tmp_path):
    """The path of the file; it is removed afterwards because it is large."""
    path = tmp_path / "state" / "limits"
    yield path
    shutil.rmtree(path.parent, ignore_errors=True)


@pytest.fixture
def store(path):
    """A store with its file."""
    start(path, DATABASE)
    return opened(path)


class TestStart:
    def test_the_file_is_whole_and_private(self, path):
        """The file has its full size at once, and only its owner can read or write it."""
        old = os.umask(0)
        try:
            start(path, DATABASE)
        finally:
            os.umask(old)
        found = path.stat()
        assert (found.st_size, found.st_mode & 0o777) == (FILE_BYTES, 0o600)
        assert found.st_blocks * 512 >= FILE_BYTES
        assert path.parent.stat().st_mode & 0o027 == 0

    def test_a_restart_keeps_the_count(self, store, path):
        """A restarted service finds the buckets unchanged."""
        spend(store, 3)
        store.close()
        start(path, DATABASE)
        assert left(opened(path)) == 2

    def test_a_reboot_starts_afresh(self, store, path, monkeypatch):
        """The clock starts again with the host, so the buckets do, too."""
        spend(store, 3)
        monkeypatch.setattr(clock, "boot_id", lambda: "9f3a1c52-0000-4000-8000-000000000000")
        start(path, DATABASE)
        assert left(opened(path)) == 5

    def test_another_database_starts_afresh(self, store, path):
        """A restored or another database does not inherit buckets."""
        spend(store, 3)
        start(path, DATABASE[::-1])
        assert left(opened(path)) == 5

    def test_another_layout_starts_afresh(self, store, path):
        """A start replaces the file of another version of the program."""
        spend(store, 3)
        with path.open("r+b") as file:
            file.seek(16)
            file.write(b"\x63")
        start(path, DATABASE)
        assert left(opened(path)) == 5

    @pytest.mark.parametrize("size", [0, 16, 4096, FILE_BYTES - 1])
    def test_a_truncated_file_starts_afresh(self, store, path, size):
        """A start replaces a truncated file."""
        os.truncate(path, size)
        start(path, DATABASE)
        assert left(opened(path)) == 5

    def test_the_first_use_makes_the_file(self, path):
        """If no start made the file, as under another server, the first use does."""
        assert left(opened(path)) == 5
        assert path.stat().st_size == FILE_BYTES

    def test_a_full_disk_stops_the_start_only_as_long_as_it_is_full(self, path):
        """Without disk space there is no file, not even a part of one; with space there is."""
        with file_size_limit(FILE_BYTES - 1), pytest.raises(StoreError, match="cannot be created"):
            start(path, DATABASE)
        assert os.listdir(path.parent) == []
        start(path, DATABASE)

    def test_creators_at_once_agree(self, path):
        """Only one of several services that start at once makes the file."""
        plan = rate(8, 60)

        def work():
            start(path, DATABASE)
            return path.stat().st_ino, opened(path).take(0, plan).remaining

        found = in_processes(8, work)
        assert len({inode for inode, _ in found}) == 1
        assert sorted(remaining for _, remaining in found) == list(range(8))
        assert os.listdir(path.parent) == ["limits"]

    def test_replacers_at_once_agree(self, path):
        """Services that start at once replace an older database's file once."""
        start(path, DATABASE[::-1])
        plan = rate(8, 60)

        def work():
            start(path, DATABASE)
            return opened(path).take(0, plan).remaining

        assert sorted(in_processes(8, work)) == list(range(8))
        assert os.listdir(path.parent) == ["limits"]

    def test_an_impossible_state_directory_is_reported(self, tmp_path):
        """A state directory that is a file is named in the error."""
        (tmp_path / "state").write_text("")
        with pytest.raises(StoreError, match=r"state/limits cannot be created"):
            start(tmp_path / "state" / "limits", DATABASE)


def other_file(path):
    path.write_bytes(b"important" * 100)
    path.chmod(0o640)  # Whatever the umask is.


def symlink(path):
    path.with_name("elsewhere").write_bytes(b"")
    path.symlink_to("elsewhere")


def directory(path):
    path.mkdir()


def fifo(path):
    os.mkfifo(path)


def writable(path):
    start(path, DATABASE)
    path.chmod(0o620)


FOREIGN = {
    "other file": (other_file, "is not a file of this program"),
    "symbolic link": (symlink, "is a symbolic link"),
    "directory": (directory, "cannot be|not a regular file"),
    "fifo": (fifo, "not a regular file"),
    "writable by others": (writable, "written to by other users"),
}


@pytest.mark.parametrize(("make", "reason"), FOREIGN.values(), ids=FOREIGN)
class TestForeign:
    def test_it_is_not_taken_at_the_start(self, path, make, reason):
        """Another file, link, directory or FIFO in its place is refused and left as it is."""
        path.parent.mkdir()
        make(path)
        before = path.lstat()
        with pytest.raises(StoreError, match=reason):
            start(path, DATABASE)
        assert path.lstat().st_mtime_ns == before.st_mtime_ns
        assert path.lstat().st_ino == before.st_ino

    def test_it_is_not_taken_up_later(self, store, path, make, reason):
        """A foreign file that replaces the file in use is refused until it is removed."""
        spend(store, 2)
        path.rename(path.with_name("away"))
        make(path)
        with pytest.raises(StoreError, match=reason):
            store.take(0, PLAN)
        shutil.rmtree(path) if path.is_dir() else path.unlink()
        path.with_name("away").rename(path)
        assert left(store) == 3


class TestFailure:
    def test_another_owners_file_is_refused(self, store, path, monkeypatch):
        """A file of another user is refused."""
        monkeypatch.setattr(os, "geteuid", lambda: path.stat().st_uid + 1)
        with pytest.raises(StoreError, match="belongs to user"):
            store.take(0, PLAN)

    def test_a_file_that_is_gone_stays_gone(self, store, path):
        """Without its file the limiter admits nothing, and no use makes a new one (D11)."""
        spend(store, 2)
        path.unlink()
        for _ in range(2):
            with pytest.raises(StoreError, match='"verifyd serve" creates it at start-up'):
                store.take(0, PLAN)
        assert os.listdir(path.parent) == []

    def test_a_file_that_comes_back_is_used(self, store, path):
        """If the file returns, its counts apply again without a restart."""
        spend(store, 2)
        away = path.rename(path.with_name("away"))
        with pytest.raises(StoreError):
            store.take(0, PLAN)
        away.rename(path)
        assert left(store) == 3

    def test_a_service_that_starts_makes_the_file(self, store, path):
        """A start makes the missing file, and running services use it."""
        spend(store, 2)
        path.unlink()
        start(path, DATABASE)
        assert left(store) == 5

    def test_a_replaced_file_is_taken_up(self, store, path):
        """A whole file with the same identity, put in place of the one in use, is used."""
        copy = path.with_name("copy")
        shutil.copy(path, copy)
        spend(store, 4)
        copy.replace(path)
        assert left(store) == 5
        assert left(opened(path)) == 5

    @pytest.mark.parametrize("size", [0, 4096, FILE_BYTES - 8, FILE_BYTES + 8])
    def test_a_file_of_another_size_is_refused(self, store, path, size):
        """A truncated file admits no request; once restored, it works again."""
        spend(store, 2)
        whole = path.read_bytes()
        os.truncate(path, size)
        for slot in (0, LAST_SLOT):
            with pytest.raises(StoreError, match=r"bytes instead of|not a file of this program"):
                store.take(slot, PLAN)
        path.write_bytes(whole)
        assert left(store) == 3

    def test_another_databases_file_is_refused(self, store, path):
        """If services share a state directory, the replaced one reports it and counts nothing."""
        start(path, DATABASE[::-1])
        displaced = path.read_bytes()
        with pytest.raises(StoreError, match="belongs to another database"):
            limit_file.open_checked(path, limit_file.Identity.now(DATABASE))
        assert path.read_bytes() == displaced

    def test_a_failed_write_is_reported(self, store):
        """A failed write is a store error, and the next write that works counts."""
        spend(store, 1)
        with file_size_limit(4096), pytest.raises(StoreError, match="cannot be used"):
            store.take(0, PLAN)
        assert store.take(0, PLAN).remaining == 3

    def test_a_database_that_cannot_tell_its_id_fails_as_itself(self, path):
        """If the database cannot return its id, its own error reaches the caller."""

        def database_id():
            raise LookupError("no database")

        with pytest.raises(LookupError):
            LimitStore(path, lambda: identity_of(path, database_id)).take(0, PLAN)
