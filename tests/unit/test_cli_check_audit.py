"""`verifyd check` shows the state of the audit trail (D127)."""

import errno
import os
import re

import pytest

from app import clock
from app.audit import owner as owners
from app.audit import state as audit_state
from app.audit.owner import claim
from app.audit.seal import seal
from app.config import Config
from app.jobs import deep_check
from app.serve import service_lock
from app.storage.session import opened_database
from app.storage.versions import database_id


def database_of(cli) -> str:
    """Return the identifier of the database of the settings."""
    with opened_database() as engine:
        return str(database_id(engine))


@pytest.fixture
def cli(cli, monkeypatch):
    """The command line of an installation with a trail."""
    monkeypatch.setenv("VERIFYD_AUDIT", "on")
    monkeypatch.setenv("VERIFYD_AUDIT_DIR", str(cli.directory / "audit"))
    return cli


def test_it_shows_the_state(cli):
    """Text and JSON have state, size and age."""
    assert "audit trail: on\n" in cli.run("check").stdout
    claim(cli.directory / "audit", database_of(cli))
    seal(cli.directory / "audit", current=True)
    told = cli.run("check").stdout
    assert re.search(r"^audit trail: on, \d+ bytes sealed, last run \d+ s ago$", told, re.MULTILINE)
    told = cli.json("check")["audit"]
    assert told.pop("sealed_at")
    assert told == {"state": "on", "reason": None, "size_bytes": 0, "records": 0}


def test_the_trail_of_another_database_is_a_fault(cli):
    """The service cannot start with it."""
    claim(cli.directory / "audit", "0" * 32)
    owners._claimed.clear()
    told = cli.run("check").stderr
    assert told.count("another database") == 1
    assert "VERIFYD_AUDIT_DIR: " in told


def test_it_can_be_switched_on_while_the_service_runs(cli):
    """The service that runs has no trail yet. Afterwards one that is missing is gone."""
    state = Config.from_env().state_dir
    service_lock.announce(state)
    for trail in (None, cli.directory / "elsewhere"):
        service_lock.note_trail(state, trail)
        assert cli.run("check").status == 0
    service_lock.note_trail(state, cli.directory / "audit")
    assert "audit is gone; put it back" in cli.run("check").stderr


def test_a_full_disk_is_only_a_warning(cli, monkeypatch):
    """Systemd must start the service, which waits for room."""
    claim(cli.directory / "audit", database_of(cli))
    monkeypatch.setattr(audit_state, "free_bytes_of", lambda _: 0)
    ended = cli.run("check")
    assert ended.status == 0
    assert "warning: Look-ups that cannot be recorded are refused" in ended.stdout
    assert "audit trail: failing" in ended.stdout


def test_a_trail_that_cannot_be_written_to_is_only_a_warning(cli, monkeypatch):
    """A disk can be read-only for a while. Root may write everywhere, so the test asks itself."""
    directory = cli.directory / "audit"
    claim(directory, database_of(cli))
    is_allowed = os.access
    monkeypatch.setattr(
        os, "access", lambda path, mode: path != directory and is_allowed(path, mode)
    )
    told = cli.json("check")
    assert told["warnings"] == [
        f"VERIFYD_AUDIT_DIR: {directory} cannot be written to, so look-ups are refused."
    ]
    assert (told["ok"], told["audit"]["state"]) == (True, "failing")


def test_a_place_where_no_trail_can_begin_is_a_fault(cli, monkeypatch):
    """A mistyped directory is found before the service starts."""
    monkeypatch.setenv("VERIFYD_AUDIT_DIR", "/dev/null/audit")
    told = cli.run("check").stderr
    assert "VERIFYD_AUDIT_DIR: /dev/null cannot be written to" in told


def test_a_trail_in_the_state_directory_is_a_warning(cli, monkeypatch):
    """What is there may be in memory, and gone after a boot."""
    state = cli.directory / "state"
    monkeypatch.setenv("VERIFYD_AUDIT_DIR", str(state / "audit"))
    (warning,) = cli.json("check")["warnings"]
    assert warning == (
        f"VERIFYD_AUDIT_DIR: {state / 'audit'} is in VERIFYD_STATE_DIR, which may be in memory: "
        "name a directory on a disk."
    )
    monkeypatch.setenv("VERIFYD_AUDIT", "off")
    assert cli.json("check")["warnings"] == []


def test_a_deep_check_tells_why_a_disk_gives_no_trail(cli, monkeypatch):
    """Reads fail without the name of a file, which must not appear as None."""

    def verify(*_words: object, **_options: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    claim(cli.directory / "audit", database_of(cli))
    monkeypatch.setattr(deep_check, "verify", verify)
    refusal = cli.refusal("check", "--deep")
    assert refusal == "The audit trail could not be verified: Input/output error.\n"


def test_a_trail_of_a_former_database_can_be_taken_over(cli):
    """After `verifyd copy` the database is another one; the message says what to do."""
    directory = cli.directory / "audit"
    claim(directory, "0" * 32)
    owners._claimed.clear()
    assert f"remove {directory / 'owner.json'}" in cli.run("check").stderr
    (directory / "owner.json").unlink()
    assert cli.run("check").status == 0
    claim(directory, database_of(cli))
    assert cli.run("check").status == 0


def test_watch_reports_a_seal_that_is_overdue(cli, monkeypatch):
    """It is queued as an alert, and so is its end."""
    monkeypatch.setenv("VERIFYD_NOTIFY", "exec:/bin/true")
    monkeypatch.setattr(clock, "monotonic_ns", lambda: 10**18)
    claim(cli.directory / "audit", database_of(cli))
    seal(cli.directory / "audit", current=True)
    now = clock.now()
    monkeypatch.setattr(clock, "now", lambda: now + 4 * 3600)
    told = cli.json("watch")
    assert [each["key"] for each in told["problems"]] == ["audit:seal"]
    assert told["message"]
    assert cli.json("watch")["message"] is None
    seal(cli.directory / "audit", current=True)
    told = cli.json("watch")
    assert told["problems"] == []
    assert told["message"]
