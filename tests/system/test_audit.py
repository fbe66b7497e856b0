"""The audit trail with real processes and disks: killed, full, read-only, moved away (D115)."""

import json
import random
import shutil
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from app.audit.prune import AMOUNT, prune
from app.audit.record import AuditError, Plate, Record, time_of
from app.audit.seal import seal
from app.audit.search import Query, search
from app.audit.trail import Trail
from app.audit.verify import verify
from app.audit.view import view_of
from tests.system.audit_writers import Writer, change, kill_at_random
from tests.system.full_disk import Disk
from tests.system.processes import run_command, until
from tests.unit.audit_trails import first_plates, lines, look_up, opened, plates

HOUR_NS = 3600 * 10**9


@pytest.fixture
def directory(tmp_path):
    """The directory of a trail."""
    return tmp_path / "audit"


@pytest.mark.parametrize("kills", [4, pytest.param(150, marks=pytest.mark.system_long)])
def test_killed_writers_lose_nothing(directory, tmp_path, kills):
    """Of eight processes that are killed at random, every acknowledged record is there, whole."""
    acknowledged = tmp_path / "acknowledged"
    acknowledged.mkdir()
    random.seed(17)
    writers = [Writer(directory, f"W{n}", acknowledged) for n in range(8)]
    running = list(writers)
    try:
        until(lambda: all(writer.has_begun for writer in running), "the first records")
        for number in range(8, 8 + kills):
            # Everything is sealed meanwhile, and that is killed, too.
            sealing = change(directory, "seal") if number % 3 == 0 else None
            running.pop(random.randrange(len(running))).kill()
            running.append(Writer(directory, f"W{number}", acknowledged))
            writers.append(running[-1])
            until(lambda: running[-1].has_begun, "the first record of a new process")
            if sealing is not None:
                kill_at_random(sealing, 0.3)
    finally:
        for writer in running:
            writer.kill()
    seal(directory, current=True)
    told = [plate for writer in writers for plate in writer.acknowledged]
    assert len(told) > 8 + kills
    found = first_plates(directory)
    assert set(told) <= set(found)
    assert len(found) == len(set(found))
    # At most the record that a process was writing when it was killed was not acknowledged.
    assert len(found) - len(told) <= len(writers)
    assert verify(directory).faults == []


@pytest.mark.parametrize("kills", [3, pytest.param(100, marks=pytest.mark.system_long)])
def test_killed_runs_of_seal_converge(directory, kills):
    """Whenever `seal` is killed, the next run continues, and searches find everything."""
    random.seed(17)
    with opened(directory) as trail:
        for run in range(kills):
            for number in range(30):
                trail.append(look_up(f"R{run}N{number}"))
            trail.append(look_up(plates=[Plate(f"B{n}", found=True) for n in range(1_500)]))
            # Also while it starts.
            kill_at_random(change(directory, "seal"), 0.6)
    seal(directory, current=True)
    assert verify(directory).faults == []
    assert not list((directory / "index").glob("*.new"))
    assert len(list(search(view_of(directory), Query("plate", "B77")))) == kills
    for run in range(kills):
        assert len(list(search(view_of(directory), Query("plate", f"R{run}N7")))) == 1


@pytest.mark.parametrize("kills", [3, pytest.param(60, marks=pytest.mark.system_long)])
def test_killed_runs_of_prune_converge(directory, kills):
    """Whenever `prune` is killed, the next run removes what the chain has noted."""
    random.seed(17)
    with opened(directory) as trail:
        for number in range(3 * kills):
            trail.append(look_up(f"N{number}"))
            seal(directory, current=True)
    oldest = time.time_ns()
    for _ in range(kills):
        since = time.time_ns() - oldest
        kill_at_random(change(directory, "prune", since + random.randrange(10**9)), 0.5)
    before = time_of(time.time_ns())
    digest = prune(directory, "1d", before=before, accepted=[AMOUNT]).digest
    assert set(plates(directory)) == set()
    verdict = verify(directory, digest)
    # All of it is younger than the age that is kept.
    assert {fault.kind for fault in verdict.faults} == {"pruned_early"}
    assert verdict.pruned >= 3 * kills


class TestDisks:
    def test_on_a_full_disk_nothing_is_recorded_in_part(self, little_disk):
        """Records are refused, and accepted again when there is room."""
        disk, directory = Disk(little_disk), little_disk / "audit"
        with opened(directory) as trail:
            trail.append(look_up("A1"))
            disk.fill()
            # The last page of the segment has room for a few.
            taken = [is_taken(trail, look_up(f"F{n}", reference="R" * 64)) for n in range(100)]
            with pytest.raises(AuditError, match="No space left on device"):
                trail.append(look_up(plates=[Plate(f"B{n}") for n in range(1_000)]))
            disk.empty()
            trail.append(look_up("Z9"))
        wanted = [f"F{number}" for number, is_recorded in enumerate(taken) if is_recorded]
        assert plates(directory) == ["A1", *wanted, "Z9"]
        assert len(wanted) < 100

    def test_on_a_full_disk_the_next_hour_cannot_begin(self, little_disk):
        """A segment that cannot be created is tried again with each record."""
        disk, directory = Disk(little_disk), little_disk / "audit"
        with opened(directory) as trail:
            trail.append(look_up("A1"))
            (path,) = directory.glob("*-*.ndjson")
            path.chmod(0o400)
            disk.fill()
            bulk = look_up(plates=[Plate(f"B{n}") for n in range(1_000)])
            assert not all(is_taken(trail, bulk) for _ in range(20))
            disk.empty()
            trail.append(look_up("Z9"))
        assert plates(directory)[-1] == "Z9"

    def test_sealing_on_a_full_disk_fails_and_is_repeated(self, little_disk):
        """A chain without room keeps its last whole line."""
        disk, directory = Disk(little_disk), little_disk / "audit"
        with opened(directory) as trail:
            trail.append(look_up("A1"))
            seal(directory, current=True)
            trail.append(look_up(plates=[Plate(f"B{n}") for n in range(9_000)]))
            disk.fill()
            with pytest.raises(OSError, match="No space left on device"):
                seal(directory, current=True)
            disk.empty()
        assert seal(directory, current=True).digest
        verdict = verify(directory)
        assert (verdict.faults, verdict.segments) == ([], 2)
        assert len(list(search(view_of(directory), Query("plate", "B8999")))) == 1

    def test_a_read_only_disk_is_refused_until_it_is_writable(self, little_disk):
        """A trail is opened again without a restart."""
        directory = little_disk / "audit"
        with opened(directory) as trail:
            trail.append(look_up("A1"))
            trail.sync()
            # A file system with files that are open for writing cannot become read-only.
            trail.close()
            remount(little_disk, "ro")
            with pytest.raises(AuditError, match="Read-only file system"):
                trail.append(look_up("B2"))
            remount(little_disk, "rw")
            trail.append(look_up("C3"))
        assert plates(directory) == ["A1", "C3"]

    def test_a_disk_that_is_unmounted_is_missed(self, little_disk, directory):
        """The trail is on a file system of its own; below its mount point nothing is written."""
        (little_disk / "audit").mkdir(mode=0o700)
        directory.mkdir(mode=0o700)
        with ExitStack() as mounted:
            bind(little_disk / "audit", directory)
            mounted.callback(unmount, directory)
            with opened(directory) as trail:
                trail.append(look_up("A1"))
                unmount(directory)
                with pytest.raises(AuditError, match="is gone; put it back"):
                    until(lambda: trail.append(look_up("B2")), "the refusal")
                assert list(directory.iterdir()) == []
                bind(little_disk / "audit", directory)
                trail.append(look_up("C3"))
            assert (plates(directory)[0], plates(directory)[-1]) == ("A1", "C3")

    def test_a_removed_directory_is_missed(self, directory, tmp_path):
        """`rm -rf` is noticed with the next record, and undone by a copy."""
        copy = tmp_path / "copy"
        with opened(directory) as trail:
            trail.append(look_up("A1"))
            shutil.copytree(directory, copy)
            shutil.rmtree(directory)
            with pytest.raises(AuditError, match="is gone; put it back"):
                trail.append(look_up("B2"))
            copy.rename(directory)
            trail.append(look_up("C3"))
        assert plates(directory) == ["A1", "C3"]

    def test_a_disk_that_does_not_keep_what_it_takes_stops_records(self, make_disk, tmp_path):
        """After a sync that really failed, records are refused; when it works again, accepted."""
        backing, mounted = make_disk(12), tmp_path / "mounted"
        directory = mounted / "audit"
        with ExitStack() as stack:
            mount_image(backing / "image", mounted, stack)
            with opened(directory) as trail:
                trail.append(look_up("A1"))
                trail.sync()
                Disk(backing).fill()
                bulk = look_up(plates=[Plate(f"B{n}") for n in range(20_000)])
                until(lambda: not is_taken(trail, bulk), "the failure of the sync each second")
                with pytest.raises(AuditError, match="could not be synced to disk"):
                    trail.append(look_up("C3"))
                Disk(backing).empty()
                until(lambda: not trail._syncing.fault, "the recovery")
                trail.append(look_up("Z9"))
                trail.sync()
            segments = sorted(directory.glob("*-*"))
            assert [path.stat().st_mode & 0o777 for path in segments] == [0o400, 0o600]
            # The disk may have lost the end of the first one.
            assert '"Z9"' in segments[1].read_text()


def test_a_clock_that_is_set_back_by_an_hour_costs_nothing(directory, monkeypatch):
    """Records stay in order of the trail, are sealed, and found by their own time."""
    offset = [0]
    monkeypatch.setattr("app.clock.now_ns", lambda: time.time_ns() + offset[0])
    with opened(directory) as trail:
        for offset[0] in (0, HOUR_NS, 0, 2 * HOUR_NS):
            trail.append(look_up("A1"))
            seal(directory, current=False)
    seal(directory, current=True)
    assert verify(directory).faults == []
    times = [line["time"] for line in lines(directory)]
    assert times != sorted(times)
    assert len(list(search(view_of(directory), Query("plate", "A1")))) == 4


def test_the_commands_work_as_an_operator_types_them(world, directory):
    """Recorded by one process, sealed, verified and searched by others."""
    settings = {"database_url": world.config.database_url, "audit": "on", "audit_dir": directory}
    with opened(directory) as trail:
        trail.append(look_up("AB12CDE"))
    (directory / "owner.json").unlink()  # It is that of another database.
    refused = run_command("audit", "seal", **settings)
    assert "there is no audit trail in" in refused.stderr
    with opened(directory):
        sealed = run_command("audit", "seal", "--json", **settings)
    digest = json.loads(sealed.stdout)["digest"]
    assert json.loads(sealed.stderr)["message"].endswith(digest)
    verified = run_command("audit", "verify", "--digest", digest, **settings)
    assert (verified.returncode, verified.stderr) == (0, "")
    found = run_command("audit", "search", "--plate", "ab12cde", "--json", **settings)
    assert len(json.loads(found.stdout)) == 1
    exported = run_command("audit", "export", **settings)
    assert [json.loads(line)["operation"] for line in exported.stdout.splitlines()] == [
        "insurance",
        "search",
    ]


def is_taken(trail: Trail, record: Record) -> bool:
    """Tell whether a record was accepted."""
    try:
        trail.append(record)
    except AuditError:
        return False
    return True


def remount(disk: Path, how: str) -> None:
    """Make a file system read-only (`ro`) or writable (`rw`)."""
    subprocess.run(["mount", "-o", f"remount,{how}", str(disk)], check=True)


def bind(source: Path, target: Path) -> None:
    """Show a directory at another path."""
    subprocess.run(["mount", "--bind", str(source), str(target)], check=True)


def unmount(path: Path) -> None:
    """Unmount a file system, also one with open files."""
    subprocess.run(["umount", "--lazy", str(path)], check=False, capture_output=True)


def mount_image(image: Path, where: Path, stack: ExitStack) -> None:
    """Mount a file system of 64 MB in a file that grows."""
    with image.open("wb") as file:
        file.truncate(64 * 1024 * 1024)
    where.mkdir()
    for words in (
        ["mkfs.ext4", "-q", "-m", "0", "-O", "^has_journal", str(image)],
        ["mount", "-o", "loop", str(image), str(where)],
    ):
        if (
            not shutil.which(words[0])
            or subprocess.run(words, check=False, capture_output=True).returncode
        ):
            pytest.skip("a file system in a file cannot be mounted here")
    stack.callback(subprocess.run, ["umount", "--lazy", str(where)], check=True)
