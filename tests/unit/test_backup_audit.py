"""The audit trail in backups, and its restore (D126)."""

import json
import os
import shutil
from contextlib import closing
from pathlib import Path

import pytest

from app import clock
from app.audit import owner as owners
from app.audit.export import records_in
from app.audit.owner import claim, find_owner, require_host
from app.audit.prune import prune
from app.audit.record import AuditError, time_of
from app.audit.seal import seal
from app.audit.search import TimeSpan
from app.audit.trail import Trail
from app.audit.verify import verify
from app.audit.view import view_of
from app.backup import retention, trail
from app.storage.file_lock import tried
from app.storage.session import opened_database
from app.storage.versions import database_id
from tests.conftest import ON_SQLITE
from tests.unit.audit_trails import HOUR_NS, Clock, first_plates, look_up, names, plates

pytestmark = ON_SQLITE


@pytest.fixture
def time(monkeypatch) -> Clock:
    """A clock that the test sets."""
    return Clock(monkeypatch)


class Audited:
    """An installation whose trail a test writes to."""

    def __init__(self, cli) -> None:
        self.cli = cli
        self.directory: Path = cli.directory / "audit"
        with opened_database() as engine:
            self.database: str = database_id(engine)

    def record(self, *plates: str) -> None:
        """Append a record for each plate."""
        trail = Trail(self.directory, lambda: claim(self.directory, self.database))
        for plate in plates:
            trail.append(look_up(plate))
        trail.close()

    def back_up(self, *options: str) -> Path:
        """Take a backup with the trail."""
        directory = self.cli.directory / "backups"
        return Path(self.cli.json("backup", directory, "--audit", *options)["backup"])

    def restore(self, backup: Path) -> str:
        """Restore a backup, and return what the command says."""
        ended = self.cli.run("restore", backup)
        assert (ended.status, ended.stderr) == (0, "")
        return str(ended.stdout)


@pytest.fixture
def audited(cli, time, monkeypatch) -> Audited:
    """A trail with two sealed hours, A1 and A2 in one, B1 in the other, and C1 not sealed."""
    monkeypatch.setenv("VERIFYD_AUDIT_DIR", str(cli.directory / "audit"))
    found = Audited(cli)
    for hour in (["A1", "A2"], ["B1"]):
        found.record(*hour)
        time.pass_hours(1)
        seal(found.directory, current=False)
    found.record("C1")
    return found


def inode(path: Path) -> int:
    """Return the number of a file on its disk."""
    return path.stat().st_ino


class TestBackup:
    def test_it_has_the_trail_on_request(self, audited):
        """Without `--audit` there is none; with it there is all, and it verifies by itself."""
        without = audited.cli.json("backup", audited.cli.directory / "backups")
        assert (without["audit"], (Path(without["backup"]) / "audit").exists()) == (False, False)
        copy = audited.back_up() / "audit"
        assert sorted(path.name for path in copy.iterdir()) == [
            *(f"{name}.ndjson" for name in names(audited.directory)),
            "chain.ndjson",
        ]
        assert first_plates(copy) == ["A1", "A2", "B1", "C1"]
        digest = seal(audited.directory, current=False).digest
        verdict = verify(copy, digest)
        assert (verdict.faults, verdict.segments, verdict.unsealed) == ([], 2, 1)
        assert "nothing that was sealed was changed" in (
            audited.cli.run("audit", "verify", "--directory", copy, "--digest", digest).stdout
        )

    def test_the_manifest_has_its_files(self, audited):
        """Each has its length and its checksum, and the size of the backup includes them."""
        backup = audited.back_up()
        told = json.loads((backup / "manifest.json").read_bytes())
        sizes = {path.name: path.stat().st_size for path in (backup / "audit").iterdir()}
        assert {name: file["size_bytes"] for name, file in told["audit"].items()} == sizes
        total = sum(file["size_bytes"] for file in told["files"].values()) + sum(sizes.values())
        again = audited.cli.json("backup", audited.cli.directory / "backups", "--audit")
        assert again["size_bytes"] == total

    def test_it_is_private(self, audited):
        """The trail says who asked about whom."""
        copy = audited.back_up() / "audit"
        assert copy.stat().st_mode & 0o777 == 0o700
        assert {path.stat().st_mode & 0o777 for path in copy.iterdir()} == {0o400, 0o600}

    def test_sealed_segments_are_linked_to_the_last_backup_that_has_them(self, audited):
        """They take disk space once; the trail itself is never linked."""
        first = audited.back_up()
        audited.cli.json("backup", audited.cli.directory / "backups")
        second = audited.back_up()
        sealed = [f"{name}.ndjson" for name in names(audited.directory)[:2]]
        for name in sealed:
            assert inode(first / "audit" / name) == inode(second / "audit" / name)
            assert inode(first / "audit" / name) != inode(audited.directory / name)
        current = f"{names(audited.directory)[2]}.ndjson"
        assert inode(first / "audit" / current) != inode(second / "audit" / current)
        shutil.rmtree(first)
        assert verify(second / "audit").faults == []

    def test_without_links_segments_are_copied(self, audited, monkeypatch):
        """A file system may have no hard links."""

        def refuse(*_words, **_options):
            raise PermissionError(1, "Operation not permitted")

        audited.back_up()
        monkeypatch.setattr(os, "link", refuse)
        assert verify(audited.back_up() / "audit").segments == 2

    def test_an_earlier_backup_replaces_what_was_changed_or_removed(self, audited, caplog):
        """What was sealed is taken from where it is still as it was sealed."""
        audited.back_up()
        one, two, _ = (audited.directory / f"{name}.ndjson" for name in names(audited.directory))
        one.unlink()
        two.chmod(0o600)
        two.write_bytes(two.read_bytes().replace(b"B1", b"X1"))
        assert verify(audited.back_up() / "audit").faults == []
        assert len(verify(audited.directory).faults) == 2

    def test_what_nobody_has_as_it_was_sealed_is_reported(self, audited):
        """The backup is still taken, and shows what is wrong with the trail."""
        one, two, _ = (audited.directory / f"{name}.ndjson" for name in names(audited.directory))
        one.unlink()
        two.chmod(0o600)
        two.write_bytes(two.read_bytes().replace(b"B1", b"X1"))
        ended = audited.cli.run("backup", audited.cli.directory / "backups", "--audit")
        assert ended.status == 0
        told = str(ended)
        assert "is missing, so it is not in the backup" in told
        assert "was changed after it was sealed" in told
        (backup,) = (audited.cli.directory / "backups").glob("verifyd-*")
        assert {fault.kind for fault in verify(backup / "audit").faults} == {"removed", "changed"}

    def test_a_record_that_is_being_written_is_left_out(self, audited):
        """Of the current segment the backup has the complete lines."""
        path = audited.directory / f"{names(audited.directory)[2]}.ndjson"
        with path.open("ab") as file:
            file.write(b'{"time":"2026-11-2')
        backup = audited.back_up()
        assert first_plates(backup / "audit") == ["A1", "A2", "B1", "C1"]
        shutil.rmtree(audited.directory)
        audited.restore(backup)
        assert first_plates(audited.directory) == ["A1", "A2", "B1", "C1"]

    def test_what_was_removed_by_age_is_not_in_it(self, audited, time):
        """Its digests are, as in the trail."""
        audited.back_up()
        time.pass_hours(50)
        prune(audited.directory, "1d", before=time_of(clock.now_ns() - 51 * HOUR_NS))
        copy = audited.back_up() / "audit"
        assert plates(copy) == ["B1", "C1"]
        verdict = verify(copy)
        assert (verdict.faults, verdict.pruned) == ([], 1)

    def test_seal_waits_for_it(self, audited, monkeypatch):
        """A backup shows the chain and the segments of one moment; other readers need not wait."""
        lock, copy, could_seal = audited.directory / "changing.lock", trail._copy, []

        def noted(*words, **options):
            with tried(lock) as is_free, tried(lock, shared=True) as is_shared:
                could_seal.append((is_free, is_shared))
            return copy(*words, **options)

        monkeypatch.setattr(trail, "_copy", noted)
        audited.back_up()
        assert could_seal == [(False, True)] * 4
        with tried(lock) as is_free:
            assert is_free

    def test_without_a_trail_there_is_no_backup(self, cli, monkeypatch):
        """Whoever asks for the trail must not believe that it is in the backup."""
        monkeypatch.setenv("VERIFYD_AUDIT_DIR", str(cli.directory / "audit"))
        refusal = cli.refusal("backup", cli.directory / "backups", "--audit")
        assert f"there is no audit trail in {cli.directory / 'audit'}; leave out --audit" in refusal
        claim(cli.directory / "audit", "0" * 32)
        assert "another database" in cli.refusal("backup", cli.directory / "backups", "--audit")
        assert not list((cli.directory / "backups").glob("*verifyd-*"))


class TestKeep:
    def test_shared_segments_count_once(self, audited, monkeypatch):
        """The limit is about disk space: each further backup of one trail needs little."""
        big = look_up(plates=[], reference="X" * 3_000_000)
        with closing(
            Trail(audited.directory, lambda: claim(audited.directory, audited.database))
        ) as trail:
            trail.append(big)
        seal(audited.directory, current=True)
        monkeypatch.setenv("VERIFYD_BACKUP_LIMIT", "6M")
        for _ in range(4):
            backup = audited.back_up("--keep", "14")
        assert len(list(backup.parent.glob("verifyd-*"))) == 4

    def test_room_is_what_a_removal_really_frees(self, audited):
        """A segment that stays in another backup does not become free."""
        one, two = audited.back_up(), audited.back_up()
        segments = [path for path in (one / "audit").glob("*-*") if path.stat().st_nlink == 2]
        shared = sum(path.stat().st_blocks * 512 for path in segments)
        assert shared
        both = retention._freed_bytes([one, two])
        assert retention._freed_bytes([one]) + retention._freed_bytes([two]) == both - shared

    def test_older_backups_go(self, audited):
        """The newest keeps every segment, though it was linked to one that is gone."""
        for _ in range(3):
            backup = audited.back_up("--keep", "1")
        assert list(backup.parent.glob("verifyd-*")) == [backup]
        assert first_plates(backup / "audit") == ["A1", "A2", "B1", "C1"]


class TestRestore:
    def test_a_host_without_a_trail_gets_it_back(self, audited, time):
        """It goes on where the backup ended: same digests, next numbers."""
        backup = audited.back_up()
        digest = seal(audited.directory, current=False).digest
        shutil.rmtree(audited.directory)
        told = audited.restore(backup)
        assert f"its audit trail is in {audited.directory}" in told
        assert first_plates(audited.directory) == ["A1", "A2", "B1", "C1"]
        modes = [
            path.stat().st_mode & 0o777 for path in sorted(audited.directory.glob("*-*.ndjson"))
        ]
        assert modes == [0o400, 0o400, 0o600]
        assert audited.directory.stat().st_mode & 0o777 == 0o700
        audited.record("D1")
        time.pass_hours(1)
        seal(audited.directory, current=True)
        assert first_plates(audited.directory)[-1] == "D1"
        verdict = verify(audited.directory, digest)
        assert (verdict.faults, verdict.segments) == ([], 3)
        found = audited.cli.json("audit", "search", "--plate", "A2")
        assert len(found) == 1

    def test_a_trail_that_exists_stays(self, audited):
        """What was recorded after the backup must not be lost with a restore."""
        backup = audited.back_up()
        audited.record("C2")
        told = audited.restore(backup)
        assert f"the audit trail in {audited.directory} stays as it is" in told
        assert first_plates(audited.directory)[-1] == "C2"

    def test_it_belongs_to_the_host_that_it_was_restored_on(self, audited, monkeypatch):
        """A host that replaces another one records at once."""
        backup = audited.back_up()
        shutil.rmtree(audited.directory)
        monkeypatch.setattr(owners, "machine", lambda: "another")
        owners._claimed.clear()
        audited.restore(backup)
        owner = require_host(audited.directory)
        assert (owner.machine, owner.database) == ("another", audited.database)
        audited.record("D1")
        assert first_plates(audited.directory)[-1] == "D1"

    def test_a_directory_for_it_may_exist(self, audited):
        """A disk of its own is mounted there, whose other files stay."""
        backup = audited.back_up()
        shutil.rmtree(audited.directory)
        audited.directory.mkdir()
        (audited.directory / "lost+found").mkdir()
        audited.restore(backup)
        assert verify(audited.directory).faults == []
        assert (audited.directory / "lost+found").is_dir()

    def test_without_a_trail_in_the_backup_none_is_begun(self, audited):
        """The command says nothing about it."""
        backup = Path(audited.cli.json("backup", audited.cli.directory / "backups")["backup"])
        shutil.rmtree(audited.directory)
        assert "audit trail" not in audited.restore(backup)
        assert not audited.directory.exists()

    def test_a_damaged_segment_is_refused_before_anything_changes(self, audited):
        """A backup is checked as a whole."""
        backup = audited.back_up()
        path = next((backup / "audit").glob("00000001-*"))
        path.chmod(0o600)
        path.write_bytes(path.read_bytes().replace(b"A1", b"X1"))
        shutil.rmtree(audited.directory)
        assert "its checksum differs" in audited.cli.refusal("restore", backup)
        assert not audited.directory.exists()

    @pytest.mark.parametrize("name", ["../../evil.ndjson", "owner.json", "00000001-x.ndjson"])
    def test_a_manifest_leads_nowhere_else(self, audited, name):
        """A name that no file of a trail has is refused."""
        backup = audited.back_up()
        path = backup / "manifest.json"
        told = json.loads(path.read_bytes())
        told["audit"][name] = told["audit"]["chain.ndjson"]
        path.write_text(json.dumps(told))
        assert "names a file that cannot be part of a backup" in (
            audited.cli.refusal("restore", backup)
        )

    def test_an_interrupted_restore_can_be_run_again(self, audited):
        """Until then no service begins a trail between half of the old one."""
        backup = audited.back_up()
        rest = audited.directory / ".restoring"
        for name in ("owner.json", "chain.ndjson"):
            (audited.directory / name).unlink()
        rest.mkdir()
        (rest / "chain.ndjson").write_text("{}")
        with pytest.raises(AuditError, match=r"restore of the audit trail in .* was interrupted"):
            claim(audited.directory, audited.database)
        audited.restore(backup)
        assert first_plates(audited.directory) == ["A1", "A2", "B1", "C1"]
        assert (verify(audited.directory).faults, rest.exists()) == ([], False)

    def test_a_restore_that_fails_leaves_no_trail(self, audited, monkeypatch):
        """The copy is removed if the database cannot be replaced."""
        backup = audited.back_up()
        shutil.rmtree(audited.directory)

        def fail(*_words):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("app.backup.restore.put_in_place", fail)
        assert "No space left" in audited.cli.refusal("restore", backup)
        assert list(audited.directory.iterdir()) == []
        assert find_owner(audited.directory) is None


def test_all_records_of_a_backup_can_be_exported(audited):
    """Commands that read a trail read the copy in a backup, too."""
    copy = audited.back_up() / "audit"
    assert len(list(records_in(view_of(copy), TimeSpan()))) == 4
