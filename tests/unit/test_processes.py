"""Processes that do a part of a load, and those of the binary, which keep its files."""

import fcntl
import os
import subprocess
import sys
import warnings
from pathlib import Path

from app.processes import ForkedWorker
from tests.system.processes import ROOT

BEFORE = """
import os, sys
sys._MEIPASS = sys.argv[1]  # PyInstaller's bootloader sets it in the binary.
from app.processes import keep_unpacked_files
keep_unpacked_files()
"""
FORKED = f"""{BEFORE}
if os.fork():
    os._exit(0)
print(flush=True)
sys.stdin.read()
"""
WITHOUT_STDIN = f"""{BEFORE}
print(os.path.realpath("/proc/self/fd/0"))
"""
TAKEN = """
import os, sys
os.open(sys.argv[1], os.O_RDONLY)  # As libffi does while Python imports ctypes.
from app.processes import open_standard_streams
open_standard_streams()
print("read:", sys.stdin.read(), flush=True)
"""


def test_a_child_is_known_whatever_is_said_of_its_fork(monkeypatch):
    """Where warnings are errors, Python 3.15 raises after a fork beside threads; no child is lost.

    Earlier versions do not raise, so this fork warns as that of 3.15 does.
    """
    fork = os.fork

    def warned_fork() -> int:
        process_id = fork()
        if process_id:
            warnings.warn("This process is multi-threaded", DeprecationWarning, stacklevel=2)
        return process_id

    monkeypatch.setattr(os, "fork", warned_fork)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ForkedWorker(lambda: None, []).wait()


def is_locked(directory: Path) -> bool:
    """Tell whether systemd-tmpfiles would pass the directory by; it asks in the same way."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def test_unpacked_files_are_locked_until_the_last_process_ends(tmp_path):
    """A forked process holds the lock, too, when the one that forked it has ended."""
    words = [sys.executable, "-c", FORKED, tmp_path]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, cwd=ROOT, stdin=pipe, stdout=pipe, text=True) as first:
        assert first.stdout is not None
        assert first.stdout.readline()
        first.wait()
        assert is_locked(tmp_path)
        first.communicate()
    assert not is_locked(tmp_path)


def test_the_lock_is_no_standard_stream(tmp_path):
    """If standard input is closed, nothing reads the directory in its place."""
    words = ["sh", "-c", 'exec "$@" <&-', "sh", sys.executable, "-c", WITHOUT_STDIN, tmp_path]
    ended = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    assert ended.stdout != f"{tmp_path}\n"


def test_a_file_that_took_the_number_of_a_stream_is_not_that_stream(tmp_path):
    """Whatever was opened before, a closed standard input is empty, and output goes nowhere."""
    other = tmp_path / "other"
    other.write_text("not for commands\n")
    for closed, printed in (("<&-", b"read: \n"), (">&-", b"")):
        words = ["sh", "-c", f'exec "$@" {closed}', "sh", sys.executable, "-c", TAKEN, other]
        ended = subprocess.run(
            words, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, check=False
        )
        assert (ended.returncode, ended.stdout, ended.stderr) == (0, printed, b"")


def test_other_processes_run_if_the_directory_cannot_be_locked(tmp_path):
    """Where a file system has no locks, the program starts nevertheless."""
    words = [sys.executable, "-c", BEFORE, tmp_path / "missing"]
    subprocess.run(words, cwd=ROOT, check=True)
