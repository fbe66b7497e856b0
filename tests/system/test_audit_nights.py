"""A trail is verified every night (D167), and its digests leave the host (D168)."""

import json
import shutil
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from app import clock
from app.alerts.spool import Spool
from app.audit.seal import seal
from tests.conftest import ON_SQLITE
from tests.system.processes import PROGRAM, environment, run_command, until
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
        for _ in range(3):
            self.append()

    def append(self) -> None:
        """Record and seal a look-up."""
        with opened(self.directory) as trail:
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


@ON_SQLITE
def test_digests_that_left_the_host_prove_what_was_sealed(night, tmp_path):
    """A command appends them to a file; `verify` takes that file, or standard input."""
    kept, script = tmp_path / "kept.txt", tmp_path / "keep"
    script.write_text(f'#!/bin/sh\nprintf %s "$NOTICE_TEXT" >> "{kept}"\n')
    script.chmod(0o755)
    night.settings["audit_digests"] = f"exec:{script}"
    run = partial(run_command, **night.settings)
    assert run("notify", "--test").returncode == 0
    for _ in range(2):
        night.append()
        assert run("notify", "--deliver").returncode == 0
    assert run("notify", "--deliver").returncode == 0
    assert kept.read_text().count("verifyd-audit ") == 2
    assert "do not reach" not in run("check").stdout

    verified = run("audit", "verify", "--digests", kept)
    assert (verified.returncode, "2 kept digests fit" in verified.stdout) == (0, True)
    for text, code in ((kept.read_bytes().upper(), 0), (b"nothing", 1)):
        words = [*PROGRAM, "audit", "verify", "--digests", "-"]
        env = environment(**night.settings)
        assert subprocess.run(words, input=text, env=env, check=False).returncode == code
    assert "cannot be read" in run("audit", "verify", "--digests", tmp_path / "none").stderr

    # Root removes what was sealed last, with every trace of it on this host.
    chain = night.directory / "chain.ndjson"
    *rest, _ = chain.read_bytes().splitlines(keepends=True)
    chain.write_bytes(b"".join(rest))
    (night.directory / f"{names(night.directory)[-1]}.ndjson").unlink()
    shutil.rmtree(night.directory / "index")
    assert run("audit", "verify").returncode == 0
    found = run("audit", "verify", "--digests", kept)
    assert (found.returncode, "1 of 2 kept digests do not fit" in found.stdout) == (1, True)
