"""The master of a server has the trail sealed, and watches swept, every hour (D127, D185)."""

import os
import signal
from contextlib import closing
from pathlib import Path

import pytest

from app import clock
from app.audit.chain import read_chain
from app.audit.digests import latest
from app.audit.owner import claim
from app.audit.trail import Trail
from app.audit.verify import verify
from app.storage.file_lock import locked
from app.storage.versions import database_id
from tests.system.processes import GUNICORN, SERVE, Service, descendants, lives, until
from tests.unit.audit_trails import HOUR_NS, look_up
from tests.unit.watched import Watched


@pytest.fixture
def trail(world, monkeypatch) -> Path:
    """The trail of a database, with records of two hours that are over."""
    directory: Path = world.directory / "audit"
    owner = claim(directory, database_id(world.engine))
    begin = clock.now_ns()
    for hours in (3, 2):
        monkeypatch.setattr(clock, "now_ns", lambda hours=hours: begin - hours * HOUR_NS)
        with closing(Trail(directory, lambda: owner)) as opened:
            opened.append(look_up())
    monkeypatch.undo()
    return directory


def wake(service: Service) -> None:
    """Do what the kernel does when the time of the alarm has come."""
    service.process.send_signal(signal.SIGALRM)


def sealers(service: Service) -> list[int]:
    """Return the processes of a server that seal."""
    return [
        pid
        for pid in descendants(service.process.pid)
        if lives(pid) and b"seal" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    ]


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(SERVE, id="serve"),
        pytest.param(GUNICORN, id="gunicorn", marks=pytest.mark.system_long),
    ],
)
def test_an_alarm_of_the_master_seals(serve, trail, command):
    """Hours that are over are sealed, the digest is logged, and the workers stay."""
    service = serve(command=command, audit="on", audit_dir=trail)
    workers = service.workers()
    wake(service)
    until(lambda: len(read_chain(trail)) == 2, "two seals")
    until(lambda: not sealers(service), "the end of the command")
    verdict = verify(trail)
    assert (verdict.faults, verdict.segments, verdict.unsealed) == ([], 2, 0)
    told = [line for line in service.lines("stderr") if line["logger"] == "verifyd.jobs"]
    assert [line["message"] for line in told] == [
        f"audit trail sealed: segments 2; {latest(trail)}"
    ]
    # The master has noticed its end, and it was no worker.
    until(lambda: service.workers() == workers, "the workers alone")


def test_an_alarm_of_the_master_sweeps(serve, world, trail):
    """With or without a trail: accounts learn what has changed for the plates they watch (D185)."""
    watched = Watched(world.config, world.engine)
    watched.watch("AB12CDE")
    world.load([{"registration": "AB12CDE"}])
    service = serve(audit="off", audit_dir=trail)
    workers = service.workers()
    wake(service)
    until(lambda: watched.news() == [("vehicle.known", "AB12CDE")], "the event")
    until(lambda: service.workers() == workers, "the workers alone")
    assert read_chain(trail) == []


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_command_that_seals_ends_with_the_server(serve, trail, is_killed):
    """A command that still runs delays no stop, and does not outlive the master."""
    service = serve(audit="on", audit_dir=trail)
    with locked(trail / "changing.lock"):
        wake(service)
        (pid,) = until(lambda: sealers(service), "the command")
        until(lambda: _waits_for_lock(pid), "the command to wait")
        # Whoever holds the server's socket keeps its address in use.
        files = [os.readlink(path) for path in Path(f"/proc/{pid}/fd").iterdir()]
        assert [path for path in files if path.startswith("socket:")] == []
        if is_killed:
            service.process.kill()
            service.process.wait()
        else:
            began = clock.monotonic_ns()
            assert service.stop() == 0
            assert clock.monotonic_ns() - began < 5 * 10**9
        until(lambda: not lives(pid), "the end of the command")
    assert read_chain(trail) == []


def test_renewed_workers_do_not_wait_for_a_command_that_seals(serve, trail):
    """HUP works meanwhile, and the command goes on."""
    service = serve(audit="on", audit_dir=trail)
    before = set(service.workers())
    with locked(trail / "changing.lock"):
        wake(service)
        (pid,) = until(lambda: sealers(service), "the command")
        service.process.send_signal(signal.SIGHUP)
        until(lambda: before.isdisjoint(service.workers()), "the old workers to go")
        assert lives(pid)
    until(lambda: len(read_chain(trail)) == 2, "two seals")


def test_a_worker_that_gets_an_alarm_does_not_seal(serve, trail):
    """Only the master seals, although its workers inherit the handler."""
    service = serve(audit="on", audit_dir=trail)
    for pid in service.workers():
        os.kill(pid, signal.SIGALRM)
    assert service.get("/healthz").status == 200
    assert not sealers(service)
    assert read_chain(trail) == []


def _waits_for_lock(pid: int) -> bool:
    return "flock" in Path(f"/proc/{pid}/wchan").read_text() or "lock" in _system_call(pid)


def _system_call(pid: int) -> str:
    number = Path(f"/proc/{pid}/syscall").read_text().split()[0]
    return "flock" if number in {"73", "32"} else ""
