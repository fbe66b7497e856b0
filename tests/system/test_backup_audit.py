"""Backups of a trail that is written to, killed or without space (D126)."""

import json
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from app.audit.owner import claim
from app.audit.seal import seal
from app.audit.trail import Trail
from app.audit.verify import verify
from app.backup.retention import Room
from app.backup.take import take
from app.errors import OperatorError
from app.storage.versions import database_id
from tests.conftest import World
from tests.contract.pages import first_block
from tests.system.audit_writers import Writer, change
from tests.system.processes import environment, run_command, until
from tests.system.test_backup import killed_at, run, settings_of, shown
from tests.unit.audit_trails import first_plates, look_up

KILLED_BETWEEN = """
import os, sys
from app.cli import main

original, left = os.replace, [int(sys.argv.pop(1))]

def replace(source, target):
    if "/.restoring/" in str(source):
        left[0] -= 1
        if left[0] < 0:
            os.kill(os.getpid(), 9)
    original(source, target)

os.replace = replace
main(sys.argv[1:])
"""


def audited(world: World, *, characters: int = 10) -> Path:
    """Make a trail with three sealed segments, each of this size, and one that is not sealed."""
    directory: Path = world.directory / "audit"
    owner = claim(directory, database_id(world.engine))
    with closing(Trail(directory, lambda: owner)) as trail:
        for plate in ("A1", "B1", "C1"):
            trail.append(look_up(plate, reference="X" * characters))
            seal(directory, current=True)
        trail.append(look_up("D1"))
    return directory


ALL = ["A1", "B1", "C1", "D1"]


@pytest.mark.parametrize("name", ["_copy", pytest.param("sync", marks=pytest.mark.system_long)])
def test_a_backup_that_is_killed_while_it_copies_the_trail_leaves_none(world, name):
    """What remains has no backup's name, and the next run removes it."""
    audited(world)
    settings = settings_of(world)
    words = ("backup", world.directory / "backups", "--audit")
    killed_at("trail", name, *words, **settings)
    assert shown(world.directory / "backups") == []
    backup = run(*words, **settings)["backup"]
    assert shown(world.directory / "backups") == [Path(backup).name]
    assert len(list((world.directory / "backups").iterdir())) == 2  # the backup and the lock
    assert first_plates(Path(backup) / "audit") == ALL


@pytest.mark.parametrize(
    "name",
    [
        "claim",
        *(
            pytest.param(name, marks=pytest.mark.system_long)
            for name in ("_copy", "readable_lines")
        ),
    ],
)
def test_a_restore_of_the_trail_that_is_killed_can_be_run_again(world, name):
    """Wherever it was killed, the next one completes it, and the trail is whole."""
    directory = audited(world)
    settings = settings_of(world)
    backup = run("backup", world.directory / "backups", "--audit", **settings)["backup"]
    shutil.rmtree(directory)
    world.close()
    killed_at("trail", name, "restore", backup, **settings)
    run("restore", backup, **settings)
    claim(directory, json.loads((Path(backup) / "manifest.json").read_bytes())["database_id"])
    assert first_plates(directory) == ALL
    assert verify(directory).faults == []


@pytest.mark.parametrize(
    "moved", [1, *(pytest.param(n, marks=pytest.mark.system_long) for n in (0, 3))]
)
def test_a_restore_killed_between_two_files_of_the_trail_can_be_run_again(world, moved):
    """A trail of which only some files are there is nowhere taken for a whole one."""
    directory = audited(world)
    settings = settings_of(world)
    backup = run("backup", world.directory / "backups", "--audit", **settings)["backup"]
    shutil.rmtree(directory)
    world.close()
    killed = subprocess.run(
        [sys.executable, "-c", KILLED_BETWEEN, str(moved), "restore", backup],
        env=environment(**settings),
        check=False,
    )
    assert killed.returncode == -9
    assert len(list(directory.glob("*.ndjson"))) == moved
    assert run("restore", backup, **settings)["audit"] is True
    assert first_plates(directory) == ALL
    assert verify(directory).faults == []


class TestDisks:
    def test_without_room_nothing_is_copied(self, world, little_disk):
        """The message says how much the trail needs, and earlier backups stay."""
        settings = settings_of(world)
        good = run("backup", little_disk, **settings)["backup"]
        directory = audited(world, characters=2_000_000)
        with pytest.raises(OperatorError, match=r"the backup needs 6\.0 MB in "):
            take(world.engine, little_disk, registers="none", audit_dir=directory)
        assert shown(little_disk) == [Path(good).name]
        assert not list(little_disk.glob(".verifyd-*"))

    def test_a_disk_that_fills_up_meanwhile_leaves_no_backup(self, world, little_disk, monkeypatch):
        """The estimate was right when it was made."""
        directory = audited(world, characters=2_000_000)
        monkeypatch.setattr(Room, "require", lambda _self, _sources: None)
        with pytest.raises(OperatorError, match="No space left on device"):
            take(world.engine, little_disk, registers="none", audit_dir=directory)
        assert not list(little_disk.glob("*verifyd-*"))

    def test_a_restore_without_room_changes_nothing(self, world, little_disk):
        """Neither the database is replaced, nor is there half a trail."""
        audited(world, characters=2_000_000)
        settings = settings_of(world)
        backup = run("backup", world.directory / "backups", "--audit", **settings)["backup"]
        world.close()
        before = (world.directory / "verifyd.db").stat().st_ino
        place = little_disk / "audit"
        ended = run_command("restore", backup, **settings, audit_dir=place)
        assert ended.returncode == 1
        assert f"cannot be copied to {place}: No space left on device" in ended.stderr
        assert (world.directory / "verifyd.db").stat().st_ino == before
        assert list(place.iterdir()) == []


def _damage(verdict):
    """Return all faults but those of the prunes, which the test makes far too early."""
    return [fault for fault in verdict.faults if fault.kind != "pruned_early"]


@pytest.mark.system_long
@pytest.mark.parametrize("backups", [4, pytest.param(40, marks=pytest.mark.system_long)])
def test_each_backup_of_a_busy_trail_is_whole(world, tmp_path, backups):
    """Processes append, seal and prune meanwhile: each backup verifies, with no torn record."""
    directory = tmp_path / "trail"
    acknowledged = tmp_path / "acknowledged"
    acknowledged.mkdir()
    claim(directory, database_id(world.engine))
    writers = [
        Writer(directory, f"W{n}", acknowledged, database=database_id(world.engine))
        for n in range(2)
    ]
    copies = []
    try:
        until(lambda: all(writer.has_begun for writer in writers), "the first records")
        for number in range(backups):
            changing = [change(directory, "seal")]
            if number % 2:
                changing.append(change(directory, "prune", 2 * 10**9))
            told = [plate for writer in writers for plate in writer.acknowledged]
            taken = take(world.engine, tmp_path / "backups", registers="none", audit_dir=directory)
            copies.append((taken.directory / "audit", told))
            for process in changing:
                assert process.wait() == 0
    finally:
        for writer in writers:
            writer.kill()
    seal(directory, current=True)
    for copy, told in copies:
        verdict = verify(copy)
        assert _damage(verdict) == []
        found = first_plates(copy)
        assert len(found) == len(set(found))
        # What an earlier run of `prune` removed is not in it.
        if not verdict.pruned:
            assert set(told) <= set(found)
    assert _damage(verify(directory)) == []


@pytest.mark.parametrize("is_on", [True, False])
def test_a_restore_is_tried_as_the_page_says(world, is_on):
    """With the trail on or off, the look-up succeeds; the trail of the service has it."""
    world.load([{"registration": "AB12CDE", "make": "FORD"}])
    audited(world)
    settings = settings_of(world) | ({"audit": "on"} if is_on else {})
    backup = run("backup", world.directory / "backups", "--registers", **settings)["backup"]
    audit_dir = world.directory / "audit"
    (world.directory / "verifyd.env").write_text(
        f'VERIFYD_AUDIT_DIGESTS=\nVERIFYD_AUDIT="on"\nVERIFYD_AUDIT_DIR={audit_dir}\n' * is_on
    )
    block = first_block("deploy/docs/backup.md", "Try a restore")
    for text, here in {
        "sudo -u verifyd ": "",
        "-o verifyd -g verifyd ": "",
        "sudo ": "",
        "/var/lib/verifyd/backups/verifyd-20261121T021500Z-000": backup,
        "/opt/verifyd/current/verifyd": f"{sys.executable} -m app",
        "/etc/verifyd": world.directory,
        "/var/lib/verifyd": world.directory,
    }.items():
        assert text in block, text
        block = block.replace(text, str(here))
    before = len(first_plates(audit_dir))
    ended = subprocess.run(
        ["sh", "-ec", block], env=environment(), capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "AB12CDE" in ended.stdout
    assert first_plates(audit_dir)[before:] == ["AB12CDE"] * is_on
    assert not (world.directory / "scratch").exists()
