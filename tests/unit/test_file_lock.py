"""Locks on files: shared or exclusive, and safe if the file is removed meanwhile."""

import fcntl
import os
import threading
from contextlib import ExitStack

import pytest

from app.storage import file_lock
from app.storage.file_lock import hold_until_exit, locked, tried


@pytest.fixture
def path(tmp_path):
    """The path of the lock, without a file."""
    return tmp_path / "lock"


def in_child(do):
    """Run a function in a forked process; return whether it returned something true."""
    child = os.fork()
    if not child:
        try:
            os._exit(0 if do() else 1)
        finally:
            os._exit(2)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def is_free(path, **how):
    """Tell whether the lock is free, and release it at once."""
    with tried(path, **how) as is_held:
        return is_held


def test_one_at_a_time(path):
    """An exclusive lock keeps out every other lock until it ends."""
    with locked(path):
        assert not is_free(path)
        assert not is_free(path, shared=True)
    assert is_free(path)


def test_many_share(path):
    """Shared locks admit each other, and no exclusive lock."""
    with locked(path, shared=True), tried(path, shared=True) as is_held:
        assert is_held
        assert not is_free(path)
    assert is_free(path)


def test_shared_locks_can_be_outlasted(path, monkeypatch):
    """With `outlast_shared` the lock is held once all shared locks end; a lock alone refuses."""
    other = os.open(path, os.O_CREAT)
    fcntl.flock(other, fcntl.LOCK_SH)
    asked = file_lock._is_only_shared

    def asked_at_last(*args, **how):
        try:
            return asked(*args, **how)
        finally:
            fcntl.flock(other, fcntl.LOCK_UN)

    monkeypatch.setattr(file_lock, "_is_only_shared", asked_at_last)
    assert is_free(path, outlast_shared=True)
    os.close(other)
    with locked(path):
        assert not is_free(path, outlast_shared=True)


def test_the_file_is_for_its_owner(path):
    """The file is created with mode 0600, and stays."""
    with locked(path):
        pass
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_missing_file_need_not_be_created(path):
    """A missing file is an error if it may not be created."""
    with pytest.raises(FileNotFoundError), locked(path, create=False):
        pass
    assert not path.exists()
    path.touch()
    assert is_free(path, create=False)


def test_a_symbolic_link_is_not_followed(path, tmp_path):
    """SEC: a user with access to the directory must not choose which file is created."""
    path.symlink_to(tmp_path / "other")
    with pytest.raises(OSError, match="symbolic"), locked(path):
        pass
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("create", [True, False])
def test_a_file_that_was_removed_is_not_enough(path, create):
    """If the file is replaced during the wait, the lock is taken on the new file."""
    path.touch()
    entered, opened = threading.Event(), threading.Event()

    def wait():
        opened.set()
        with locked(path, create=create):
            assert not is_free(path)
            entered.set()

    with locked(path):
        waiting = threading.Thread(target=wait)
        waiting.start()
        opened.wait()
        while not waits_for_lock(waiting):
            pass
        path.unlink()
        path.touch()
    waiting.join(10)
    assert entered.is_set()


def waits_for_lock(thread):
    """Tell whether a thread of this process waits in flock."""
    with open(f"/proc/self/task/{thread.native_id}/syscall", encoding="ascii") as file:
        return file.read().split()[0] == FLOCK


FLOCK = {"x86_64": "73", "aarch64": "32"}[os.uname().machine]


def test_an_error_inside_is_not_taken_for_a_held_lock(path):
    """An error of the caller is passed on, BlockingIOError too."""
    with pytest.raises(BlockingIOError, match="mine"), tried(path):
        raise BlockingIOError("mine")
    assert is_free(path)


def test_a_lock_lives_as_long_as_the_process(path):
    """A lock ends with its process, and another process gets it."""
    assert in_child(lambda: hold_until_exit(path) and not is_free(path))
    assert is_free(path)


def test_a_look_at_the_lock_is_outlasted(path, monkeypatch):
    """A service starts although a command looks at that moment whether one runs."""
    with ExitStack() as look:
        look.enter_context(locked(path))
        monkeypatch.setattr("time.sleep", lambda _: look.close())
        assert hold_until_exit(path, shared=True)
    assert is_free(path, shared=True)


def test_a_pipe_in_place_of_the_file_is_not_waited_for(path):
    """Whoever can write into the directory could otherwise stop every command."""
    os.mkfifo(path)
    assert is_free(path, shared=True, create=False)
    assert is_free(path)
