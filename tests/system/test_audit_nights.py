"""The audit trail is verified every night, with an alert on any fault (D167)."""

import json
from pathlib import Path
from typing import Any

import pytest

from app import clock
from app.alerts.spool import Spool
from app.audit.seal import seal
from tests.conftest import ON_SQLITE
from tests.system.processes import run_command, until
from tests.unit.audit_trails import look_up, names, opened

PLATE = "SECRET1"


class Night:
    """An installation with a trail, and its nightly deep check."""

    def __init__(self, world: Any) -> None:
        self.directory: Path = world.directory / "audit"
        self.config = world.config
        self.settings = {
            "database_url": world.config.database_url,
            "state_dir": world.config.state_dir,
            "data_dir": world.config.data_dir,
            "audit_dir": self.directory,
            "notify": "exec:/bin/true",
        }
        with opened(self.directory) as trail:
            for _ in range(3):
                trail.append(look_up(PLATE, user="secret2"))
                seal(self.directory, current=True)

    def check(self, *words: str) -> Any:
        return run_command("check", "--deep", "--scheduled", *words, **self.settings)

    def alerts(self) -> list[str]:
        """Return the texts of the alerts that were queued."""
        return [each.message.text for each in Spool(self.config.data_dir).entries()]

    def damage(self, was: bytes = b"acme", becomes: bytes = b"acne") -> str:
        """Change a segment without changing its size, and return its name."""
        name = names(self.directory)[1]
        path = self.directory / f"{name}.ndjson"
        path.chmod(0o600)
        path.write_bytes(path.read_bytes().replace(was, becomes))
        path.chmod(0o400)
        return name

    def repair(self) -> None:
        """Undo the damage."""
        self.damage(b"acne", b"acme")


@pytest.fixture
def night(world):
    return Night(world)


@ON_SQLITE
def test_a_fault_of_the_trail_is_an_alert_and_its_end_too(night):
    """The trail is switched off. The alert names the segment, and nothing of its records."""
    for _ in range(2):
        assert "audit trail: it verifies; " in night.check().stdout
    name = night.damage()
    assert night.check().returncode == 1
    (told,) = night.alerts()
    assert f"The audit trail has a fault: segment {name} was changed" in told
    assert not {PLATE, "secret2", "acme", "acne"} & set(told.replace('"', " ").split())
    night.repair()
    second_now = clock.now()
    until(lambda: clock.now() > second_now, "the next second")
    assert night.check().returncode == 0
    assert "Solved" in night.alerts()[1]


@ON_SQLITE
def test_the_trail_is_verified_without_a_database(night):
    """A database that cannot be opened is the other fault of the same night."""
    name = night.damage()
    Path(night.config.database_url.removeprefix("sqlite:///")).write_bytes(b"no database" * 99)
    found = night.check("--json")
    assert found.returncode == 1
    faults = json.loads(found.stdout)["faults"]
    assert any(f"segment {name} was changed" in each for each in faults)
    assert any("VERIFYD_DATABASE_URL" in each for each in faults)
    (told,) = night.alerts()
    assert f"segment {name} was changed" in told
