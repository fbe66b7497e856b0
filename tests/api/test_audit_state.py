"""The state of the audit trail in /readyz, /metrics and the alerts (D127)."""

import json
import os
import shutil
from pathlib import Path

import pytest

from app import clock
from app.alerts.conditions import conditions_of
from app.audit import owner as owners
from app.audit import state
from app.audit.owner import claim
from app.audit.prune import prune
from app.audit.record import time_of
from app.audit.seal import seal
from app.audit.trail import Trail
from app.serve import service_lock
from app.storage.versions import database_id
from tests.unit.audit_trails import look_up

DAY = 86_400
NOW = 1_900_000_800
LOCAL = {"REMOTE_ADDR": "127.0.0.1"}


@pytest.fixture
def at(monkeypatch):
    """Set the time, in hours after a whole hour, on a host that started a year ago."""

    def set_time(hours: float) -> None:
        now = NOW - NOW % 3600 + int(3600 * hours)
        monkeypatch.setattr(clock, "now", lambda: now)
        monkeypatch.setattr(clock, "now_ns", lambda: now * 10**9)

    monkeypatch.setattr(clock, "monotonic_ns", lambda: 365 * DAY * 10**9)
    set_time(0)
    return set_time


@pytest.fixture
def trail(world, at) -> Path:
    """The trail of a service that runs, which began at 0:00 and has a record."""
    directory: Path = world.directory / "audit"
    owner = claim(directory, database_id(world.engine))
    os.utime(directory / "owner.json", (clock.now(), clock.now()))
    opened = Trail(directory, lambda: owner)
    opened.append(look_up())
    opened.close()
    return directory


@pytest.fixture
def running(world):
    """A service runs, as commands and its own workers notice."""
    service_lock.announce(world.directory / "state")
    service_lock.note_trail(world.directory / "state", world.directory / "audit")


def ready(world, **settings):
    """Return what a caller on this machine gets from /readyz."""
    return world.client(None, **{"audit": True} | settings).get("/readyz", environ=LOCAL)


def metrics(world, **settings) -> dict[str, float]:
    """Return the metrics of the trail."""
    client = world.client(None, **{"audit": True} | settings)
    lines = client.get("/metrics", environ=LOCAL).text.splitlines()
    pairs = (line.split() for line in lines if line.startswith("verifyd_audit_"))
    return {name: float(value) for name, value in pairs}


def noting(paths: list[object], act):
    """Return a function that does the same, and notes the path."""

    def noted(path="."):
        paths.append(path)
        return act(path)

    return noted


def conditions(world, **settings):
    """Return what is wrong with the trail, by key."""
    found = conditions_of(world.engine, world.configured(**{"audit": True} | settings)).conditions
    return {each.key: each for each in found if each.kind == "audit"}


class TestState:
    def test_off(self, world, at):
        """A trail that is off says so, and has no size."""
        assert ready(world, audit=False).json["checks"]["audit"] == "off"
        assert metrics(world, audit=False) == {"verifyd_audit_enabled": 0}

    def test_on_before_the_first_look_up(self, world, at):
        """A service without a trail begins one; nothing is wrong."""
        assert ready(world).json["checks"]["audit"] == "on"
        assert metrics(world) == {"verifyd_audit_enabled": 1, "verifyd_audit_writable": 1}
        assert conditions(world) == {}

    def test_size_and_age_after_a_seal(self, world, trail, at):
        """Both are those of the last run of `seal`, which had something to seal or not."""
        (segment,) = trail.glob("*-*.ndjson")
        size_bytes = segment.stat().st_size
        at(1.1)
        seal(trail, current=False)
        at(2)
        assert ready(world).json["checks"]["audit"] == (
            f"on, {size_bytes} bytes sealed, last run 54 min ago"
        )
        wanted = {
            "verifyd_audit_enabled": 1,
            "verifyd_audit_writable": 1,
            "verifyd_audit_size_bytes": size_bytes,
            "verifyd_audit_last_seal_timestamp_seconds": clock.now() - 54 * 60,
        }
        assert metrics(world) == wanted
        seal(trail, current=False)
        wanted["verifyd_audit_last_seal_timestamp_seconds"] = clock.now()
        assert metrics(world) == wanted

    def test_what_was_removed_by_age_does_not_count(self, world, trail, at):
        """`prune` lowers the size; it seals its own record, and with it all others."""
        at(1.1)
        seal(trail, current=False)
        at(2)
        prune(trail, "1d", before=time_of(clock.now_ns()))
        told = metrics(world)
        (kept,) = [path for path in trail.glob("*-*.ndjson") if not path.stat().st_mode & 0o200]
        assert told["verifyd_audit_size_bytes"] == kept.stat().st_size
        assert told["verifyd_audit_last_seal_timestamp_seconds"] == clock.now()

    def test_a_trail_that_was_switched_off_still_has_a_size(self, world, trail, at):
        """Its records are still sealed and pruned."""
        at(1.1)
        seal(trail, current=False)
        told = metrics(world, audit=False)
        assert (told["verifyd_audit_enabled"], "verifyd_audit_writable" in told) == (0, False)
        assert told["verifyd_audit_size_bytes"] > 0
        assert conditions(world, audit=False) == {}

    def test_a_damaged_summary_is_none(self, world, trail, at):
        """The next run of `seal` writes it again."""
        (trail / "summary.json").write_text("{")
        assert ready(world).status_int == 200
        seal(trail, current=True)
        assert json.loads((trail / "summary.json").read_bytes())["segments"] == 1

    def test_nothing_is_listed(self, world, trail, at, monkeypatch):
        """The cost does not depend on the number of segments."""
        seal(trail, current=True)
        client = world.client(None, audit=True)
        listed: list[object] = []
        for name in ("listdir", "scandir"):
            monkeypatch.setattr(os, name, noting(listed, getattr(os, name)))
        assert client.get("/readyz", environ=LOCAL).status_int == 200
        assert client.get("/metrics", environ=LOCAL).status_int == 200
        assert [path for path in listed if str(trail) in str(path)] == []


class TestFailing:
    """Every look-up is refused, so the service is not ready."""

    def require_failing(self, world, reason: str) -> None:
        answer = ready(world)
        assert (answer.status_int, answer.json["code"]) == (503, "not_ready")
        assert answer.json["detail"].startswith("Look-ups cannot be recorded: ")
        assert reason in answer.json["detail"]
        far = world.client(None, audit=True).get("/readyz")
        assert (far.status_int, far.json["detail"]) == (503, "Look-ups cannot be recorded.")
        assert metrics(world)["verifyd_audit_writable"] == 0

    def test_the_trail_of_another_database(self, world, at):
        """It is named, for a caller on this machine only, and in the alerts."""
        claim(world.directory / "audit", "0" * 32)
        owners._claimed.clear()
        self.require_failing(world, "is the audit trail of another database")
        assert list(conditions(world)) == ["audit:refused"]

    def test_a_trail_that_was_removed_while_serving(self, world, trail):
        """A service does not begin another one by itself."""
        trail.rename(trail.with_name("elsewhere"))
        self.require_failing(world, "is gone")
        assert list(conditions(world)) == ["audit:refused"]

    def test_a_trail_that_was_replaced_while_serving(self, world, trail):
        """Even by another trail of the same host and database."""
        trail.rename(trail.with_name("elsewhere"))
        owners._claimed.clear()
        claimed = claim(trail, database_id(world.engine))
        shutil.rmtree(trail)
        claim(trail, database_id(world.engine))
        owners._claimed[str(trail)] = claimed
        self.require_failing(world, "was replaced by another audit trail")

    @pytest.mark.usefixtures("running")
    def test_other_processes_know_that_a_service_runs(self, world, trail):
        """A command has not claimed the trail, and asks whether the service runs."""
        trail.rename(trail.with_name("elsewhere"))
        owners._claimed.clear()
        assert "is gone" in conditions(world)["audit:refused"].warning

    def test_a_trail_that_cannot_be_written_to(self, world, trail, monkeypatch):
        """Root may write everywhere, so the test asks in another way."""
        is_allowed = os.access
        monkeypatch.setattr(
            os, "access", lambda path, mode: path != trail and is_allowed(path, mode)
        )
        self.require_failing(world, "cannot be written to")
        # The sandbox of a job may not let it write there, although the service can.
        assert conditions(world) == {}

    def test_a_full_disk(self, world, trail, monkeypatch):
        """A service on a full disk is not ready, and the alerts say so before."""
        monkeypatch.setattr(state, "free_bytes_of", lambda _: 8_000_000)
        assert ready(world).status_int == 200
        assert list(conditions(world)) == ["audit:space"]
        monkeypatch.setattr(state, "free_bytes_of", lambda _: 0)
        self.require_failing(world, "is full: 0 bytes are free")

    def test_a_disk_that_does_not_sync(self, world, trail, monkeypatch):
        """The process that noticed it says so."""
        monkeypatch.setattr(state, "sync_fault", lambda: "it could not be synced")
        self.require_failing(world, "it could not be synced")


class TestOverdue:
    def test_a_seal_that_is_overdue_is_a_warning(self, world, trail, at):
        """After three hours without a run it is reported, also if the first run never came."""
        at(3)
        assert conditions(world) == {}
        at(3.1)
        (found,) = conditions(world).values()
        assert found.key == "audit:seal"
        assert "was last sealed 3 h 6 min ago" in found.warning
        assert found.since == clock.now() - 6 * 60
        (warning,) = ready(world).json["warnings"]
        assert warning == found.warning
        seal(trail, current=False)
        assert conditions(world) == {}
        at(6.2)
        assert list(conditions(world)) == ["audit:seal"]

    def test_after_a_boot_timers_catch_up(self, world, trail, at, monkeypatch):
        """For an hour nothing is overdue, and nothing is said to be over."""
        monkeypatch.setattr(clock, "monotonic_ns", lambda: 1_000 * 10**9)
        at(5)
        found = conditions_of(world.engine, world.configured(audit=True))
        assert ([each.key for each in found.conditions], "audit" in found.unknown) == ([], True)

    def test_a_trail_without_look_ups_is_not_overdue(self, world, trail, at):
        """A run that found nothing to seal counts."""
        for hours in range(1, 10):
            at(hours + 0.1)
            seal(trail, current=False)
            assert conditions(world) == {}
