"""Appending to the audit trail: nothing is lost, and what cannot be recorded is refused (D115)."""

import errno
import os
import shutil
import threading

import msgspec
import pytest

from app.audit import owner, segments
from app.audit.owner import claim, require_host
from app.audit.record import AuditError, Plate, Record, decode_record, invalid_plate
from app.audit.seal import seal
from app.audit.segments import list_segments
from app.storage import file_lock
from tests.unit.audit_trails import (
    DATABASE,
    Clock,
    look_up,
    names,
    opened,
    plates,
    until,
)


@pytest.fixture
def hours(monkeypatch):
    """A clock that the test sets."""
    return Clock(monkeypatch)


@pytest.fixture
def directory(tmp_path):
    """The directory of a trail."""
    return tmp_path / "data" / "audit"


@pytest.fixture
def trail(directory, hours):
    """An open trail."""
    with opened(directory) as trail:
        yield trail


class TestRecords:
    def test_a_record_has_its_members_in_order_and_none_without_a_value(self):
        """A reader sees first when, who and what; absent members are left out."""
        record = Record(
            time="2026-11-22T15:00:00.000001Z",
            request_id="a" * 32,
            account="acme",
            key="4JzACp7B",
            operation="bulk_insurance",
            plates=[
                Plate("AB12CDE", found=True, insured=False),
                Plate("ZZ99ZZZ", found=False),
                invalid_plate("!" * 40),
            ],
            registers={"native": 3},
        )
        assert msgspec.json.encode(record).decode() == (
            '{"time":"2026-11-22T15:00:00.000001Z","request_id":"' + "a" * 32 + '",'
            '"account":"acme","key":"4JzACp7B","operation":"bulk_insurance","plates":['
            '{"plate":"AB12CDE","found":true,"insured":false},{"plate":"ZZ99ZZZ","found":false},'
            '{"plate":"' + "!" * 32 + '","invalid":true}],"registers":{"native":3}}'
        )
        assert decode_record(msgspec.json.encode(record)) == record

    def test_a_record_is_one_line_whatever_a_client_sends(self):
        """Line ends and bytes that are not UTF-8 cannot tear a line."""
        plate = invalid_plate("A\nB\r\udcff")
        assert msgspec.json.encode(plate) == b'{"plate":"A\\nB\\r\\\\udcff","invalid":true}'


class TestAppending:
    def test_files_are_private(self, trail, directory):
        """Only the service's user can read who asked about whom."""
        trail.append(look_up())
        assert directory.stat().st_mode & 0o777 == 0o700
        assert {path.stat().st_mode & 0o777 for path in directory.iterdir()} == {0o600}

    def test_each_hour_has_a_segment(self, trail, directory, hours):
        """A new segment begins with the first record of an hour."""
        for plate in ("A1", "B2", "C3"):
            trail.append(look_up(plate))
            trail.append(look_up(plate))
            hours.pass_hours(1)
        assert plates(directory) == ["A1", "A1", "B2", "B2", "C3", "C3"]
        assert [name[:8] for name in names(directory)] == ["00000001", "00000002", "00000003"]
        assert len({name[9:] for name in names(directory)}) == 3

    def test_a_clock_that_is_set_back_stays_in_the_newest_segment(self, trail, directory, hours):
        """No record is written to a segment older than the newest."""
        trail.append(look_up("A1"))
        hours.pass_hours(1)
        trail.append(look_up("B2"))
        hours.pass_hours(-1)
        trail.append(look_up("C3"))
        with opened(directory) as other:
            other.append(look_up("D4"))
        assert plates(directory) == ["A1", "B2", "C3", "D4"]
        assert len(names(directory)) == 2

    def test_a_segment_whose_name_is_not_on_disk_is_not_used(self, trail, directory, monkeypatch):
        """A power cut would take it with all its records, so the next attempt makes another one."""

        def fail(_path: object) -> None:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

        before = len(os.listdir("/proc/self/fd"))
        with monkeypatch.context() as patched:
            patched.setattr("app.audit.open_segment.sync", fail)
            with pytest.raises(AuditError, match="Input/output error"):
                trail.append(look_up("A1"))
        assert names(directory) == []
        assert len(os.listdir("/proc/self/fd")) == before
        trail.append(look_up("B2"))
        assert plates(directory) == ["B2"]

    def test_processes_share_the_segment_of_the_hour(self, trail, directory):
        """A second process continues in the segment that is there."""
        trail.append(look_up("A1"))
        with opened(directory) as other:
            other.append(look_up("B2"))
        trail.append(look_up("C3"))
        assert plates(directory) == ["A1", "B2", "C3"]
        assert len(names(directory)) == 1

    def test_a_child_uses_files_of_its_own(self, trail, directory):
        """After a fork parent and child do not share a lock."""
        trail.append(look_up("A1"))
        child = os.fork()
        if not child:
            trail.append(look_up("B2"))
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        trail.append(look_up("C3"))
        assert plates(directory) == ["A1", "B2", "C3"]

    def test_a_closed_segment_is_never_appended_to(self, trail, directory):
        """Whoever closes a segment knows that it does not grow any more."""
        trail.append(look_up("A1"))
        (path,) = directory.glob("*-*.ndjson")
        path.chmod(0o400)
        trail.append(look_up("B2"))
        assert path.read_bytes().count(b"\n") == 1
        assert plates(directory) == ["A1", "B2"]

    def test_a_sealed_segment_is_never_appended_to(self, trail, directory):
        """Not even if somebody made it writable again, as `chmod -R u+w` does."""
        trail.append(look_up("A1"))
        seal(directory, current=True)
        (path,) = directory.glob("*-*.ndjson")
        path.chmod(0o600)
        with opened(directory) as other:
            other.append(look_up("B2"))
        assert path.read_bytes().count(b"\n") == 1
        assert plates(directory) == ["A1", "B2"]

    def test_a_pipe_in_place_of_a_segment_is_refused(self, trail, directory):
        """It would take records and keep none. Without it they are accepted."""
        trail.append(look_up("A1"))
        (path,) = directory.glob("*-*.ndjson")
        pipe = path.with_name(path.name.replace("00000001", "00000002"))
        os.mkfifo(pipe)
        with opened(directory) as other:
            with pytest.raises(AuditError, match="is not a regular file"):
                other.append(look_up("B2"))
            pipe.unlink()
            other.append(look_up("C3"))

    @pytest.mark.parametrize("how", ["removed", "replaced"])
    def test_a_segment_that_is_gone_is_not_written_to(self, trail, directory, how):
        """The next record begins a segment with a higher number, so the gap can be seen."""
        trail.append(look_up("A1"))
        (path,) = directory.glob("*-*.ndjson")
        if how == "replaced":
            shutil.copy(path, directory / "copy")
            os.replace(directory / "copy", path)
        else:
            path.unlink()
        trail.append(look_up("B2"))
        assert names(directory)[-1].startswith("00000002")
        assert plates(directory)[-1] == "B2"

    def test_threads_can_share_a_trail(self, trail, directory):
        """Records of several threads do not mix."""
        threads = [
            threading.Thread(
                target=lambda n=n: [trail.append(look_up(f"P{n}X{i}")) for i in range(50)]
            )
            for n in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(plates(directory)) == sorted(f"P{n}X{i}" for n in range(4) for i in range(50))


class TestTornRecords:
    def test_a_short_write_is_taken_back(self, trail, directory, monkeypatch):
        """A record that was written in part is refused, and leaves no trace."""
        trail.append(look_up("A1"))
        write = os.write
        with monkeypatch.context() as patched:
            patched.setattr(os, "write", lambda fd, data: write(fd, data[:10]))
            with pytest.raises(AuditError, match="No space left on device"):
                trail.append(look_up("B2"))
        assert plates(directory) == ["A1"]
        trail.append(look_up("C3"))
        assert plates(directory) == ["A1", "C3"]

    def test_what_a_killed_process_left_is_cut_off(self, trail, directory):
        """Nobody was answered for an incomplete record, so the next one takes its place."""
        trail.append(look_up("A1"))
        (path,) = directory.glob("*-*.ndjson")
        with path.open("ab") as file:
            file.write(b'{"time":"2026-')
        trail.append(look_up("B2"))
        with path.open("ab") as file:
            file.write(b'{"time":"2026-')
        with opened(directory) as other:
            other.append(look_up("C3"))
        assert plates(directory) == ["A1", "B2", "C3"]


class TestRefusals:
    def test_a_trail_that_is_gone_is_not_made_again(self, trail, directory):
        """What was removed while serving is missed, and used again when it is back."""
        trail.append(look_up("A1"))
        away = directory.with_name("away")
        directory.rename(away)
        trail.segment._compared_at_ns = 0  # It is compared ten times a second.
        with pytest.raises(AuditError, match=r"is gone; put it back"):
            trail.append(look_up("B2"))
        assert not directory.exists()
        away.rename(directory)
        trail.append(look_up("C3"))
        assert plates(directory) == ["A1", "C3"]

    def test_a_moved_directory_is_noticed_within_a_tenth_of_a_second(self, trail, directory, hours):
        """The path is compared when the last comparison is a tenth of a second old."""
        trail.append(look_up("A1"))
        directory.rename(directory.with_name("away"))
        hours.now_ns += 10**8
        with pytest.raises(AuditError, match="is gone"):
            trail.append(look_up("B2"))

    def test_another_trail_in_its_place_is_refused(self, trail, directory, hours):
        """Two trails must not be mixed."""
        trail.append(look_up("A1"))
        directory.rename(directory.with_name("away"))
        with opened(directory) as other:
            other.append(look_up("B2"))
        hours.now_ns += 10**8
        with pytest.raises(AuditError, match="was replaced by another audit trail"):
            trail.append(look_up("C3"))

    @pytest.mark.parametrize("how", ["removed", "replaced", "damaged", "unreadable"])
    def test_a_process_with_an_open_segment_checks_the_owner(self, trail, directory, hours, how):
        """Nothing is recorded within a tenth of a second, until the owner's file is back."""
        trail.append(look_up("A1"))
        path, away = directory / "owner.json", directory / "away"
        path.rename(away)
        if how == "replaced":
            path.write_bytes(away.read_bytes().replace(DATABASE.encode(), b"e" * 32))
        elif how == "damaged":
            path.write_bytes(b"{")
        elif how == "unreadable":
            path.mkdir()
        reasons = {"removed": "is gone", "replaced": "was replaced by another audit trail"}
        for _ in range(2):
            hours.now_ns += 10**8
            with pytest.raises(AuditError, match=reasons.get(how, rf"{path} (is damaged|cannot)")):
                trail.append(look_up("B2"))
        path.rmdir() if how == "unreadable" else path.unlink(missing_ok=True)
        away.rename(path)
        trail.append(look_up("C3"))
        assert plates(directory) == ["A1", "C3"]
        assert len(names(directory)) == 1

    def test_another_host_is_refused(self, directory, monkeypatch):
        """Two hosts must not write to one directory; the message says what to do."""
        claim(directory, DATABASE)
        monkeypatch.setattr(owner, "machine", lambda: "another")
        for use in (lambda: claim(directory, DATABASE), lambda: require_host(directory)):
            with pytest.raises(AuditError, match=r"another host.*remove .*owner\.json"):
                use()

    def test_another_database_is_refused(self, directory):
        """The trail of one installation must not hold look-ups of another."""
        claim(directory, DATABASE)
        with pytest.raises(AuditError, match="another database"):
            claim(directory, "e" * 32)

    def test_another_user_is_refused(self, directory, monkeypatch):
        """The service could not use files that another user creates."""
        claim(directory, DATABASE)
        monkeypatch.setattr(os, "geteuid", lambda: 4711)
        with pytest.raises(AuditError, match=r"belongs to user \d+, not to you \(4711\)"):
            require_host(directory)

    def test_a_stopped_process_does_not_stop_the_others_for_ever(
        self, trail, directory, monkeypatch
    ):
        """A record that waits too long for the lock is refused."""
        monkeypatch.setattr(file_lock, "SOON_NS", 10**7)
        trail.append(look_up("A1"))
        with opened(directory) as other:
            other.append(look_up("B2"))
            assert other.segment is not None
            other.segment.lock()
            with pytest.raises(AuditError, match="locked by a stopped process"):
                trail.append(look_up("C3"))
            other.segment.unlock()
            trail.append(look_up("D4"))

    def test_a_stopped_process_that_opens_a_segment_does_not_stop_the_others(
        self, trail, directory, monkeypatch
    ):
        """The lock under which segments are created is waited for only so long."""
        monkeypatch.setattr(segments, "_WAIT_NS", 10**7)
        stopped = pytest.raises(AuditError, match="locked by a stopped process")
        with segments.opening(directory), stopped:
            trail.append(look_up("A1"))
        trail.append(look_up("B2"))


class TestSyncing:
    def test_everything_is_synced_each_second(self, trail, monkeypatch):
        """A power cut loses one second at most."""
        synced: list[object] = []
        sync = os.fdatasync
        monkeypatch.setattr(os, "fdatasync", lambda fd: synced.append(sync(fd)))
        trail.append(look_up("A1"))
        until(lambda: synced)

    def test_what_a_killed_process_wrote_is_synced_by_the_others(
        self, trail, directory, monkeypatch
    ):
        """A process that is killed cannot sync any more."""
        trail.append(look_up("A1"))
        trail.sync()
        synced: list[object] = []
        monkeypatch.setattr(os, "fdatasync", synced.append)
        trail.sync()
        assert synced == []
        (path,) = directory.glob("*-*.ndjson")
        with path.open("ab") as file:
            file.write(msgspec.json.encode(look_up("B2")) + b"\n")
        trail.sync()
        assert len(synced) == 1

    def test_the_segment_of_the_last_hour_is_synced_too(self, trail, hours, monkeypatch):
        """The last records of an hour are not forgotten when the next one begins."""
        trail.append(look_up("A1"))
        hours.pass_hours(1)
        trail.append(look_up("B2"))
        synced: list[object] = []
        monkeypatch.setattr(os, "fdatasync", lambda fd: synced.append(os.fstat(fd).st_ino))
        trail.sync()
        assert len(set(synced)) == 2

    def test_after_a_failed_sync_nothing_is_recorded_until_a_new_file_can_be(
        self, trail, directory, monkeypatch
    ):
        """The kernel may have dropped what it could not write, so the segment is given up."""
        trail.append(look_up("A1"))
        with monkeypatch.context() as broken:

            def fail(_descriptor):
                raise OSError(errno.EIO, os.strerror(errno.EIO))

            broken.setattr(os, "fdatasync", fail)
            broken.setattr(os, "fsync", fail)
            with pytest.raises(AuditError, match="could not be synced"):
                trail.sync()
            with pytest.raises(AuditError, match="could not be synced"):
                trail.append(look_up("B2"))
            with pytest.raises(AuditError, match="could not be synced"):
                trail.sync()
        until(lambda: not trail._syncing.fault)  # The thread tries again each second.
        trail.append(look_up("C3"))
        assert plates(directory) == ["A1", "C3"]
        first, second = list_segments(directory)
        assert (directory / first.file_name).stat().st_mode & 0o777 == 0o400
        assert second.number == first.number + 1
        assert not list(directory.glob(".probe*"))

    def test_a_disk_that_takes_no_record_takes_no_files_either(self, trail, monkeypatch):
        """Each attempt opens a segment, and the process may open some thousand files."""

        def files() -> int:
            return len(os.listdir("/proc/self/fd"))

        def fail(*_args: object) -> None:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

        before = files()
        monkeypatch.setattr("app.audit.open_segment.write_whole", fail)
        for _ in range(20):
            with pytest.raises(AuditError, match="Input/output error"):
                trail.append(look_up())
        until(lambda: files() <= before + 1)  # The thread closes them each second.

    def test_the_thread_ends_with_the_trail(self, directory):
        """A closed trail leaves no thread and no open file."""
        before, others = len(os.listdir("/proc/self/fd")), set(threading.enumerate())
        with opened(directory) as trail:
            trail.append(look_up())
            (thread,) = set(threading.enumerate()) - others
            assert thread.name == "audit-sync"
        assert thread not in threading.enumerate()
        assert len(os.listdir("/proc/self/fd")) == before


def test_a_trail_continues_after_a_restart(directory, hours):
    """The next process continues the numbers, also if all segments were removed by age."""
    with opened(directory) as trail:
        trail.append(look_up("A1"))
    hours.pass_hours(2)
    with opened(directory) as trail:
        trail.append(look_up("B2"))
    assert [name[:8] for name in names(directory)] == ["00000001", "00000002"]
    assert plates(directory) == ["A1", "B2"]
