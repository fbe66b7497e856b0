"""Small files that the service keeps for itself, and what may stand in their place."""

import os
import resource
import signal
from contextlib import suppress

import pytest

from app import clock_steps
from app.audit.verified import Verified
from app.errors import OperatorError
from app.registers.dropped import kept
from app.serve import service_lock
from app.storage.file_lock import locked
from app.storage.files import read_bytes
from tests.rows import each_row

_SECONDS_MAX = 5


@pytest.fixture(autouse=True)
def hurried():
    """Let an alarm end a test that waits for a pipe."""

    def late(*_):
        # TimeoutError is an OSError, which the code may handle.
        raise AssertionError("a pipe was waited for")

    former = signal.signal(signal.SIGALRM, late)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, former)


def test_a_pipe_is_refused_at_once(tmp_path):
    """Nobody may ever write to it, and a command would wait for that."""
    os.mkfifo(tmp_path / "file")
    signal.alarm(_SECONDS_MAX)
    with pytest.raises(OSError, match="not a regular file"):
        read_bytes(tmp_path / "file")


@each_row(
    ("name", "read"),
    [
        ("clock.json", clock_steps.look),
        ("drop-directory", kept.remembered),
        ("verified.json", Verified.load),
        ("listeners", service_lock.listeners),
        ("listeners", lambda directory: service_lock.note_listeners(directory, ["unix:/x"])),
        ("audit-trail", lambda directory: service_lock.records_in(directory, directory)),
        ("serving", service_lock.is_running),
    ],
)
def test_no_state_is_waited_for(tmp_path, name, read):
    """A pipe in place of a file counts as damage, or ends the command."""
    if not (tmp_path / name).exists():
        os.mkfifo(tmp_path / name)
    signal.alarm(_SECONDS_MAX)
    with suppress(OSError):
        read(tmp_path)


def test_a_start_that_fails_leaves_the_note_of_the_trail(tmp_path):
    """The service that runs still records there; the disk has no room for another note."""
    service_lock.note_trail(tmp_path, tmp_path / "audit")
    limit, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        with pytest.raises(OperatorError, match="the state directory cannot be used"):
            service_lock.note_trail(tmp_path, tmp_path / "elsewhere")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    with locked(tmp_path / "serving", shared=True):
        assert service_lock.records_in(tmp_path, tmp_path / "audit")
    assert {path.name for path in tmp_path.iterdir()} == {"audit-trail", "serving"}
