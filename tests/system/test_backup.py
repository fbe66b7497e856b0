"""Backups of a running service, killed or without space, and restores next to a service."""

import json
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from app.storage.engine import close_quietly
from tests.conftest import World
from tests.system.processes import (
    EVERY_RULE_ACCEPTED,
    Service,
    environment,
    run_command,
    until,
)
from tests.system.threads import Threads

CARS = 2_000
BACKUPS = 20
MAKES = ("FORD", "SKODA")
KILLED_AT = """
import os, signal, sys
from app.cli import main
from app.backup import {module}

def killed(*_args, **_options):
    os.kill(os.getpid(), signal.SIGKILL)

{module}.{name} = killed
main(sys.argv[1:])
"""


def killed_at(module: str, name: str, *words: object, **settings: Any) -> None:
    """Run a command that is killed when it reaches a function of the backup's."""
    killed = subprocess.run(
        [sys.executable, "-c", KILLED_AT.format(module=module, name=name), *map(str, words)],
        env=environment(**settings),
        capture_output=True,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL


def settings_of(world: World, directory: Path | None = None) -> dict[str, Any]:
    """Return the settings of a world, or of a copy of its database."""
    directory = directory or world.directory
    return {
        "database_url": f"sqlite:///{directory / 'verifyd.db'}",
        "state_dir": directory / "state",
    }


def run(*words: object, **settings: Any) -> Any:
    """Run a command that must succeed, and return the document it prints."""
    ended = run_command(*words, "--json", **settings)
    assert (ended.returncode, ended.stderr) == (0, "")
    return json.loads(ended.stdout)


def fill(world: World) -> None:
    """Load a register of 6 MB, too large for the little disk, and close it."""
    words = {"make": "X" * 90, "model": "Y" * 90}
    world.load([{"registration": f"A{n:05}", **words} for n in range(25_000)])
    close_quietly(world.engine)


def shown(directory: Path) -> list[str]:
    """Return the names in a directory that are not hidden."""
    return [path.name for path in directory.iterdir() if path.name[0] != "."]


@pytest.mark.parametrize(
    ("module", "name"),
    [
        pytest.param(
            *("sqlite", "require_sound"), id="before it is checked", marks=pytest.mark.system_long
        ),
        pytest.param("manifest", "write", id="before its manifest"),
    ],
)
def test_a_killed_backup_leaves_none(world, module, name):
    """What remains has no backup's name, and the next run removes it."""
    settings = settings_of(world)
    killed_at(module, name, "backup", world.directory / "backups", **settings)
    assert shown(world.directory / "backups") == []
    backup = run("backup", world.directory / "backups", **settings)["backup"]
    assert shown(world.directory / "backups") == [Path(backup).name]
    assert len(list((world.directory / "backups").iterdir())) == 2  # the backup and the lock


@pytest.mark.parametrize(
    "name", [pytest.param("_carry_over_registers", marks=pytest.mark.system_long), "_set_aside"]
)
def test_a_restore_killed_before_the_end_changes_nothing(world, name):
    """Everything is copied and checked elsewhere before any existing file is touched."""
    close_quietly(world.engine)
    settings = settings_of(world)
    backup = run("backup", world.directory / "backups", **settings)["backup"]
    before = world.database.read_bytes()
    killed_at("restore", name, "restore", backup, **settings)
    assert world.database.read_bytes() == before
    found = run("check", **settings)
    assert (found["ok"], found["warnings"]) == (True, [])


@pytest.mark.system_long
def test_a_restore_killed_at_the_end_can_be_run_again(world):
    """Between the two databases there is none for a moment; the old one is kept."""
    world.load([{"registration": "AB12CDE", "make": "FORD"}])
    close_quietly(world.engine)
    settings = settings_of(world)
    backup = run("backup", world.directory / "backups", "--registers", **settings)["backup"]
    killed_at("restore", "_move", "restore", backup, **settings)
    assert "does not exist; run " in run_command("check", **settings).stderr
    (aside,) = world.directory.glob("verifyd.replaced-*")
    assert {"verifyd.db", "verifyd.register_native.1.db"} <= set(shown(aside))
    assert run("restore", backup, **settings)["registers"] == ["native"]
    assert [each["name"] for each in run("accounts", "list", **settings)] == ["alice", "bob"]


@pytest.mark.system_long
def test_a_running_service_is_not_pulled_away(served, world):
    """`restore` is refused while the service runs, and the service continues."""
    close_quietly(world.engine)
    settings = settings_of(world)
    backup = run("backup", world.directory / "backups", **settings)["backup"]
    ended = run_command("restore", backup, **settings)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "the service is running: stop it first" in ended.stderr
    served.process.send_signal(signal.SIGTERM)
    served.wait()
    assert run("restore", backup, **settings)["restored"] == backup


def test_the_service_serves_what_was_restored(serve, world):
    """The service answers as at the moment of the backup, with full buckets."""
    close_quietly(world.engine)
    settings = settings_of(world)
    service = serve(workers=1)
    service.post("/api/domains", {"name": "early.example.com"})
    backup = run("backup", world.directory / "backups", **settings)["backup"]
    service.post("/api/domains", {"name": "late.example.com"})
    service.process.send_signal(signal.SIGTERM)
    service.wait()
    run("restore", backup, **settings)
    answer = serve(workers=1).get("/api/domains")
    assert [each["name"] for each in answer.json()["domains"]] == ["early.example.com"]
    assert answer.headers["X-RateLimit-Remaining"] == "599"


@pytest.mark.system_long
def test_a_backup_without_room_leaves_none(world, little_disk):
    """On a full disk it fails with a clear message, and earlier backups stay."""
    fill(world)
    settings = settings_of(world)
    good = run("backup", little_disk, **settings)["backup"]
    ended = run_command("backup", little_disk, "--registers", **settings)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "the backup needs 6.1 MB in " in ended.stderr
    assert f"no backup was made in {little_disk}" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert shown(little_disk) == [Path(good).name]
    assert run("restore", good, **settings)["registers"] == ["native"]


def test_a_restore_without_room_changes_nothing(world, little_disk):
    """If the whole copy does not fit next to the database, nothing is replaced."""
    fill(world)
    backup = run("backup", world.directory, "--registers", **settings_of(world))["backup"]
    ended = run_command("restore", backup, **settings_of(world, little_disk))
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "No space left" in ended.stderr
    assert shown(little_disk) == ["state"]


@contextmanager
def writing(service: Service):
    """Create domains continuously; yield how many were acknowledged so far."""
    acknowledged: list[str] = []

    def write() -> None:
        while not writer.over.is_set():
            name = f"d{len(acknowledged):05}.example.com"
            assert service.post("/api/domains", {"name": name}).status == 201
            acknowledged.append(name)

    writer = Threads(write)
    with writer:
        yield acknowledged


@contextmanager
def importing(world: World, settings: dict[str, Any]):
    """Load the same cars continuously, each time all of another make."""
    files = []
    for make in MAKES:
        files.append(world.directory / f"{make}.ndjson")
        cars = [{"registration": f"A{n:05}", "make": make} for n in range(CARS)]
        files[-1].write_bytes(msgspec.json.Encoder().encode_lines(cars))
    loads: list[int] = []

    def load() -> None:
        while not loader.over.is_set():
            ended = run_command("import", files[len(loads) % 2], *EVERY_RULE_ACCEPTED, **settings)
            assert ended.returncode == 0, ended.stderr
            loads.append(len(loads))

    loader = Threads(load)
    with loader:
        until(lambda: loads, "the first load")
        yield loads


@pytest.mark.system_long
def test_each_of_20_backups_is_of_one_moment(serve, world):
    """Each backup during writes and loads restores to the answers of one moment."""
    settings = settings_of(world)
    world.key_of("writer")
    run_command("plans", "set", "standard", "--requests", "1000000", "--window", "60", "--bulk-max",
                "10000", "--domains-max", "1000000", **settings)  # fmt: skip
    service = serve(workers=2)
    moments = []
    with importing(world, settings), writing(service) as acknowledged:
        for _ in range(BACKUPS):
            before = len(acknowledged)
            backup = run("backup", world.directory / "backups", "--registers", **settings)["backup"]
            moments.append((before, backup, len(acknowledged) + 1))
    assert moments[-1][0] > moments[0][0]
    for number, (before, backup, after) in enumerate(moments):
        copy = settings_of(world, world.directory / f"copy-{number}")
        (world.directory / f"copy-{number}").mkdir()
        run("restore", backup, **copy)
        checked = run("check", **copy)
        assert (checked["ok"], checked["faults"]) == (True, [])
        # The copy has a load of that moment as unfinished.
        assert all("The last load of the register" in each for each in checked["warnings"])
        restored = serve(workers=1, **copy)
        names = [each["name"] for each in restored.get("/api/domains").json()["domains"]]
        assert before <= len(names) <= after
        assert names == [f"d{n:05}.example.com" for n in range(len(names))]
        assert makes_of(restored) in ({"FORD"}, {"SKODA"})
        restored.process.kill()


def makes_of(service: Service) -> set[str]:
    """Return the make of a tenth of the cars; all of them must be the same."""
    makes = set()
    for number in range(0, CARS, 10):
        answer = service.get(f"/v1/vehicle/A{number:05}/insurance")
        assert answer.status == 200
        makes.add(answer.json()["vehicle"]["make"])
    return makes
