"""Conditions that an operator must look at, found once for all who show them."""

import errno
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from app import clock
from app.accounts.administration import suspend_account
from app.alerts import certificate as certificates
from app.alerts.certificate import certificate_conditions, validity_of
from app.alerts.conditions import conditions_of, gathered
from app.alerts.nightly import JobRun, Run, last_runs, record, running
from app.errors import OperatorError
from app.registers.applying.answers import Turned
from app.registers.change import LoadChange
from app.registers.dropped import kept
from app.registers.generations import locked
from app.registers.history import (
    MERGE,
    REPLACE,
    RegisterLoad,
    json_text,
    note_moved,
    note_refused,
)
from app.registers.reading.rejects import RejectLimit
from app.registers.undo import drop_register, roll_back, undrop_register
from app.storage.engine import close_quietly, open_engine
from app.storage.registers import Register
from app.watches.tables import Watch, WatchFeed
from tests.conftest import ON_POSTGRES, ON_SQLITE
from tests.unit.held import begun

CAR = {"registration": "AB12CDE", "make": "FORD"}
DAY = 86_400
NOW = 1_900_000_000


@pytest.fixture(autouse=True)
def stopped_clock(monkeypatch):
    """A clock that stands still, on a host that started a year ago."""
    monkeypatch.setattr(clock, "now", lambda: NOW)
    monkeypatch.setattr(clock, "monotonic_ns", lambda: 365 * DAY * 10**9)


def found(world, **settings):
    """Return what is wrong, by key."""
    gathered = conditions_of(world.engine, world.configured(**settings))
    return {each.key: each for each in gathered.conditions}


def failed_load(world, register="native"):
    """Load a file whose rows are all rejected; its name and content could be secret."""
    file = world.directory / "bad.csv"
    file.write_text("registration,make\nSECRET??,FORD\n")
    with pytest.raises(OperatorError):
        world.load_files(file, register=register, max_rejects=RejectLimit.parse("0"))


def refused(world, file, register=""):
    """Add an attempt that failed before its file was recognised."""
    line = {"register": register, "mode": "" if register else MERGE, "files": file}
    note_refused(world.engine, "The file fits no format.", **line)


def loaded(world, file):
    """Load a file of this name."""
    path = world.directory / file
    path.write_text("registration,make\nAB12CDE,FORD\n")
    world.load_files(path)


def _seen_by_another(world):
    """Return what another process finds: on Postgres a lock does not block its holder."""
    engine = open_engine(world.config.database_url)
    try:
        return conditions_of(engine, world.config).conditions
    finally:
        close_quietly(engine)


class TestLoads:
    def test_nothing_is_wrong_with_a_new_installation(self, world):
        """A load that succeeds causes no condition either."""
        assert found(world) == {}
        world.load([CAR])
        assert found(world) == {}

    def test_a_failed_load_is_wrong_until_one_succeeds(self, world):
        """A failed load is reported until a load of the same register succeeds."""
        world.load([CAR], register="rdw")
        failed_load(world, "rdw")
        failed_load(world, "mid")
        assert sorted(found(world)) == ["load:mid", "load:rdw"]
        world.load([CAR], register="rdw")
        assert sorted(found(world)) == ["load:mid"]

    def test_all_failures_since_a_success_are_listed(self, world):
        """The condition has number and files, the latest first; its event is the last failure."""
        failed_load(world)
        failed_load(world)
        condition = found(world)["load:native"]
        assert condition.occurrence == "2"
        lines = [line for line in condition.details if line.startswith("Load ")]
        assert [line.partition(" (")[0] for line in lines] == ["Load 2", "Load 1"]
        assert "bad.csv" in lines[0]
        assert condition.remedy.startswith("sudo verifyd imports show 2")

    @pytest.mark.parametrize("register", ["native", ""])
    def test_failures_beyond_the_listed_ones_are_counted(self, world, monkeypatch, register):
        """The warning counts all that failed, and `since` stays the end of the first of them."""
        ends = []
        for number in range(7):
            monkeypatch.setattr(clock, "now", lambda number=number: NOW + 60 * number)
            refused(world, f"{number}.csv", register=register)
            (condition,) = found(world).values()
            ends.append(condition.since)
        assert set(ends) == {NOW}
        assert "7 loads" in condition.warning
        assert "(loads 7, 6, 5, 4, 3 and 2 more)" in condition.warning
        assert f"and 2 more, the first of them at {clock.iso_utc(NOW)}" in condition.details

    def test_no_record_is_in_it(self, world):
        """The reason of a failed load can quote a record, so it is only in the history."""
        failed_load(world)
        RegisterLoad.update(reason="line 2: SECRET").execute(world.engine)
        assert "SECRET" not in repr(found(world))

    def test_a_load_of_an_unknown_register_is_wrong_until_its_files_are_loaded(self, world):
        """A file that was not recognised has no register, so its name identifies it."""
        refused(world, "a.csv")
        refused(world, "b.csv")
        assert found(world)["load:?"].remedy == "sudo verifyd imports show 2"
        loaded(world, "b.csv")
        condition = found(world)["load:?"]
        assert condition.remedy == "sudo verifyd imports show 1"
        assert condition.occurrence == "2"  # The event is still the same.
        loaded(world, "other.csv")
        assert sorted(found(world)) == ["load:?"]
        loaded(world, "a.csv")
        assert found(world) == {}

    def test_a_load_by_hand_is_not_over_because_its_file_is_gone(self, world):
        """Only files that were moved to `failed/` are looked for there, also under a number."""
        refused(world, "a.csv")
        refused(world, "b.csv")
        failed = world.directory / "failed"
        failed.mkdir()
        (failed / "b.csv.1").touch()
        note_moved(world.engine, 2, failed)
        assert found(world)["load:?"].remedy == "sudo verifyd imports show 2"
        (failed / "b.csv.1").unlink()
        assert found(world)["load:?"].remedy == "sudo verifyd imports show 1"

    def test_a_load_of_an_unknown_register_is_over_after_a_week(self, world, monkeypatch):
        """The condition ends after a week: perhaps nobody loads a file of that name."""
        refused(world, "a.csv")
        monkeypatch.setattr(clock, "now", lambda: NOW + 7 * DAY - 1)
        assert sorted(found(world)) == ["load:?"]
        monkeypatch.setattr(clock, "now", lambda: NOW + 7 * DAY)
        assert found(world) == {}

    def test_a_mistake_in_the_options_is_a_failure_of_the_register(self, world):
        """A mistake in an option file is a failure until a load of the register succeeds."""
        refused(world, "a.csv", register="native")
        condition = found(world)["load:native"]
        assert condition.details[0] == "Load 1: a.csv; no rows read"
        world.load([CAR])
        assert found(world) == {}

    def test_an_alert_has_counts_of_the_change_and_no_values(self, world):
        """SEC: the insurers that the history has are values of the register."""
        failed_load(world, "native")
        insurers = {"CANARY": Turned(0, 960)}
        change = LoadChange(held=(4_000, 3_040), removed=960, insurers=insurers)
        change.answers = {"insured": Turned(0, 960)}
        RegisterLoad.update(change=json_text(change)).execute(world.engine)
        condition = found(world)["load:native"]
        would = "it would have changed: -960, 960 lose cover"
        assert condition.details[0].endswith(would)
        assert "CANARY" not in str(condition)

    def test_a_register_that_was_never_loaded_can_be_a_mistake(self, world):
        """The remedy for a mistyped register, but not for one with rows, ends the warning."""
        failed_load(world, "rwd")
        world.load([CAR], register="rdw")
        failed_load(world, "rdw")
        conditions = found(world)
        assert "verifyd imports drop rwd --purge" in conditions["load:rwd"].remedy
        assert "purge" not in conditions["load:rdw"].remedy

    def test_a_killed_load_is_a_failed_one(self, world):
        """A load without an end whose lock is free was killed, and counts as failed."""
        with locked(world.engine, "rdw"):
            begun(world.engine, "rdw")
            assert _seen_by_another(world) == []
        assert sorted(found(world)) == ["load:rdw"]

    def test_a_stale_register_is_reported_with_its_limit(self, world):
        """A register is stale after 8 days, or what the setting says (D51)."""
        world.load([CAR])
        Register.update(loaded_at=NOW - 8 * DAY - 1).execute(world.engine)
        assert sorted(found(world)) == ["stale:native"]
        assert found(world, stale_after={}) == {}
        drop_register(world.engine, "native")
        assert found(world) == {}


class TestSweeps:
    @pytest.fixture
    def watch(self, world):
        """A watch that is three hours old, of a plate that nobody knows."""
        WatchFeed.insert(account=1, feed="0123abcd").execute(world.engine)
        self.add(world, "SECRET", NOW - 3 * 3600)

    def add(self, world, plate, created_at):
        about = {"account": 1, "lead_days": "", "told": "null", "day": "2026-11-25"}
        row = Watch.insert(**about, registration=plate, created_at=created_at)
        row.execute(world.engine)

    def test_sweeps_that_do_not_come_are_late(self, world, watch):
        """After three hours, which is two missed runs; any host's run counts."""
        assert found(world) == {}
        Watch.update(created_at=NOW - 3 * 3600 - 1).execute(world.engine)
        assert found(world)["sweep:late"].warning.startswith(
            "The watches were last swept 3 h 1 s ago, which should happen every hour."
        )
        record(world.engine, world.config.data_dir, Run("sweep", True, NOW - 5))
        JobRun.update(host="other").execute(world.engine)
        assert found(world) == {}
        JobRun.update(finished_at=NOW - 4 * 3600).execute(world.engine)
        assert sorted(found(world)) == ["sweep:late"]
        Watch.delete().execute(world.engine)
        assert found(world) == {}

    def test_a_watch_of_the_future_hides_no_late_sweep(self, world, watch):
        """The clock may have been ahead for a while; the oldest of the others counts."""
        Watch.update(created_at=NOW + DAY).execute(world.engine)
        self.add(world, "OLD", NOW - 4 * 3600)
        assert sorted(found(world)) == ["sweep:late"]

    def test_a_sweep_of_the_future_hides_no_late_sweep(self, world, watch):
        """The clock may have been ahead for a while; the newest run counts, not the latest time."""
        for is_scheduled, finished_at in ((False, NOW + DAY), (True, NOW - 4 * 3600)):
            record(world.engine, world.config.data_dir, Run("sweep", is_scheduled, NOW))
            newest = JobRun.is_scheduled == is_scheduled
            JobRun.update(finished_at=finished_at).where(newest).execute(world.engine)
        Watch.update(created_at=NOW - 9 * 3600).execute(world.engine)
        assert sorted(found(world)) == ["sweep:late"]

    def test_a_load_of_the_drop_directory_makes_no_sweep_late(self, world, watch):
        """It can take hours, and its own sweep follows; what was late before it stays late."""
        Watch.update(created_at=NOW - 9 * 3600).execute(world.engine)
        record(world.engine, world.config.data_dir, Run("sweep", True, NOW))
        JobRun.update(finished_at=NOW - 5 * 3600).execute(world.engine)
        with running(world.config.state_dir, "import"):
            os.utime(world.config.state_dir / "job-import.lock", (NOW - 4 * 3600,) * 2)
            assert found(world) == {}
        assert sorted(found(world)) == ["sweep:late"]
        record(world.engine, world.config.data_dir, Run("import", True, NOW - 4 * 3600))
        assert found(world) == {}
        JobRun.update(started_at=NOW - 1).where(JobRun.job == "import").execute(world.engine)
        assert sorted(found(world)) == ["sweep:late"]

    def test_failed_runs_are_the_details_of_late_ones(self, world, watch):
        """An alert each hour for one fault would be too many."""
        failed = Run("sweep", True, NOW - 5, ("It failed: the disk is full.",))
        record(world.engine, world.config.data_dir, failed)
        assert found(world) == {}
        assert gathered(world.engine, world.config, failed).conditions == []
        Watch.update(created_at=NOW - 4 * 3600).execute(world.engine)
        assert found(world)["sweep:late"].details == failed.faults

    def test_a_host_that_has_just_booted_is_not_late(self, world, watch, monkeypatch):
        """Nor does anybody know whether it is."""
        Watch.update(created_at=NOW - 4 * 3600).execute(world.engine)
        monkeypatch.setattr(clock, "monotonic_ns", lambda: 60 * 10**9)
        assert found(world) == {}
        assert "sweep" in conditions_of(world.engine, world.config).unknown

    def test_what_is_held_back_names_the_accounts(self, world, watch):
        """And how many watches; no plates. A suspended account has none."""
        WatchFeed.update(held=1_200, held_at=NOW - 60).execute(world.engine)
        condition = found(world)["sweep:held"]
        assert condition.details == ("alice: 1,200 watches",)
        assert condition.remedy.endswith("sudo verifyd sweep --accept alice")
        assert "SECRET" not in str(condition)
        suspend_account(world.engine, "alice")
        assert found(world) == {}


class TestJobs:
    def test_a_failed_run_is_wrong_until_one_succeeds(self, world):
        """A failed run is reported until a later run on the same host succeeds."""
        record(
            world.engine,
            world.config.data_dir,
            Run("backup", True, NOW - 9, ("It failed: No space left on device.",)),
        )
        assert found(world)["job:backup"].details == ("It failed: No space left on device.",)
        record(world.engine, world.config.data_dir, Run("backup", True, NOW - 5))
        assert found(world) == {}

    def test_a_run_by_hand_says_nothing_of_the_nightly_one(self, world):
        """Runs by hand and nightly runs, such as two backups, do not hide each other."""
        by_hand = Run("backup", False, NOW - 7, ("It failed.",))
        record(world.engine, world.config.data_dir, by_hand)
        assert found(world)["job:backup"].title == "the backup failed"
        assert gathered(world.engine, world.config, by_hand).conditions[0].key == "job:backup"
        record(world.engine, world.config.data_dir, Run("backup", True, NOW - 6))
        assert found(world) == {}
        record(world.engine, world.config.data_dir, by_hand)
        assert found(world) == {}
        assert gathered(world.engine, world.config, by_hand).conditions == []
        record(world.engine, world.config.data_dir, Run("backup", True, NOW - 5, ("It failed.",)))
        record(world.engine, world.config.data_dir, Run("backup", False, NOW - 4))
        assert found(world)["job:backup"].title == "the nightly backup failed"
        assert conditions_of(world.engine, world.config).ran_until == {"backup": NOW}

    def test_a_scheduled_run_that_does_not_come_is_missed(self, world):
        """A run is missed after 26 hours, or what `VERIFYD_MISSED_AFTER` says."""
        record(world.engine, world.config.data_dir, Run("import", True, NOW - 26 * 3600))
        assert found(world) == {}
        JobRun.update(started_at=NOW - 26 * 3600 - 1).execute(world.engine)
        warning = found(world)["missed:import"].warning
        assert warning == (
            "The nightly load did not run: it last began 1 d 2 h ago; "
            "VERIFYD_MISSED_AFTER allows 1 d 2 h."
        )
        assert found(world, missed_after={"import": 30 * 3600}) == {}
        assert found(world, missed_after={"backup": 1}) == {}

    def test_a_job_that_was_never_scheduled_is_not_missed(self, world):
        """A machine without timers misses no run."""
        record(world.engine, world.config.data_dir, Run("backup", False, NOW - 30 * DAY))
        assert found(world) == {}

    def test_a_run_of_another_host_is_not_ours(self, world):
        """Hosts that share a database have their own timers."""
        record(
            world.engine,
            world.config.data_dir,
            Run("import", True, NOW - 30 * DAY, ("It failed.",)),
        )
        JobRun.update(host="another").execute(world.engine)
        assert found(world) == {}

    def test_a_host_that_was_off_catches_up_first(self, world, monkeypatch):
        """After a boot, timers have an hour to catch up before a run counts as missed."""
        record(world.engine, world.config.data_dir, Run("import", True, NOW - 3 * DAY))
        assert conditions_of(world.engine, world.config).unknown == frozenset()
        monkeypatch.setattr(clock, "boot_id", lambda: "the next one")
        monkeypatch.setattr(clock, "monotonic_ns", lambda: 3500 * 10**9)
        assert found(world) == {}
        assert conditions_of(world.engine, world.config).unknown == {"missed", "sweep"}

    def test_a_run_under_way_is_not_missed_unless_it_does_not_end(self, world, monkeypatch):
        """A run in progress, whose lock is held, is reported only after a day or more."""
        record(world.engine, world.config.data_dir, Run("import", True, NOW - 3 * DAY))
        with running(world.config.state_dir, "import"):
            assert found(world) == {}
            monkeypatch.setattr(clock, "now", lambda: NOW + 2 * DAY)
            assert "does not end: it began 2 d ago" in found(world)["missed:import"].warning
        assert "did not run" in found(world)["missed:import"].warning

    def test_old_runs_are_forgotten(self, world, monkeypatch):
        """Runs are forgotten after 400 days."""
        record(world.engine, world.config.data_dir, Run("import", True, NOW))
        monkeypatch.setattr(clock, "now", lambda: NOW + 401 * DAY)
        monkeypatch.setattr(clock, "monotonic_ns", lambda: (365 + 401) * DAY * 10**9)
        record(world.engine, world.config.data_dir, Run("backup", True, NOW + 401 * DAY))
        assert [row.job for row in JobRun.select().execute(world.engine)] == ["backup"]

    def test_the_last_backup_counts_for_all_hosts(self, world):
        """Hosts that share a database share its last backup."""
        record(world.engine, world.config.data_dir, Run("backup", False, NOW - 9, (), 1234))
        JobRun.update(host="another").execute(world.engine)
        assert (last_runs(world.engine).backup_at, last_runs(world.engine).backup_bytes) == (
            NOW,
            1234,
        )


class TestDisk:
    def test_too_little_space_for_the_next_load_is_reported(self, world, monkeypatch):
        """The warning has the space that the load needs and the free space."""
        world.load([CAR])
        free = os.statvfs_result((4096, 4096, 1000, 1, 1, 9, 9, 9, 0, 255))
        monkeypatch.setattr(os, "statvfs", lambda _: free)
        condition = found(world)["disk:load"]
        assert condition.title == "too little disk space for the next load of the register native"
        assert "and 4 kB are free" in condition.warning

    @ON_SQLITE
    def test_a_rollback_or_undrop_is_no_load(self, world, monkeypatch):
        """A replace still needs its space after a rollback, or after an undrop."""
        rows = world.directory / "rows.csv"
        rows.write_text("registration\n" + "".join(f"AB{n}\n" for n in range(5_000)))
        for mode in (MERGE, REPLACE):
            world.load_files(rows, mode=mode)
        free = os.statvfs_result((4096, 4096, 1000, 20, 20, 9, 9, 9, 0, 255))
        monkeypatch.setattr(os, "statvfs", lambda _: free)
        assert "disk:load" in found(world)
        drop_register(world.engine, "native")
        assert found(world) == {}
        undrop_register(world.engine, "native")
        assert "disk:load" in found(world)
        roll_back(world.engine, "native", None)
        assert "disk:load" in found(world)

    @ON_SQLITE
    def test_loaded_files_count_as_free_space(self, world, monkeypatch):
        """Files in `loaded/` of the nightly job's drop directory count as free space."""
        world.load([CAR])
        drop = world.directory / "drop"
        (drop / "rdw" / "loaded").mkdir(parents=True)
        (drop / "rdw" / "loaded" / "a.csv").write_bytes(os.urandom(1 << 20))
        free = os.statvfs_result((4096, 4096, 1000, 1, 1, 9, 9, 9, 0, 255))
        monkeypatch.setattr(os, "statvfs", lambda _: free)
        remedy = found(world)["disk:load"].remedy
        assert "verifyd imports drop NAME --purge" in remedy
        assert "VERIFYD_DROP_LIMIT" in remedy
        kept.remember(world.config.data_dir, drop)
        assert found(world) == {}
        shutil.rmtree(drop)
        assert sorted(found(world)) == ["disk:load"]

    @ON_SQLITE
    def test_a_shortage_is_over_when_a_tenth_more_is_free(self, world, monkeypatch):
        """A shortage ends only when a tenth more is free, because free space varies."""
        world.load([CAR])
        (file,) = world.directory.glob("*.register_native*.db")
        needed = int(2.5 * file.stat().st_size)

        def with_free(free_bytes):
            free = os.statvfs_result((1, 1, 10**9, free_bytes, free_bytes, 9, 9, 9, 0, 255))
            monkeypatch.setattr(os, "statvfs", lambda _: free)
            looked = conditions_of(world.engine, world.config)
            return [each.key for each in looked.conditions], "disk" in looked.unknown

        assert with_free(needed - 1) == (["disk:load"], True)
        assert with_free(needed) == ([], True)
        assert with_free(int(needed * 1.1) - 1) == ([], True)
        assert with_free(int(needed * 1.1) + 1) == ([], False)

    @ON_POSTGRES
    def test_without_a_directory_for_temporary_files_nothing_breaks(self, world, monkeypatch):
        """If no temporary directory is usable, a start and an answer still succeed."""

        def full():
            raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found in ['/tmp']")

        world.load([CAR])
        monkeypatch.setattr(tempfile, "gettempdir", full)
        warning = found(world)["disk:temporary"].warning
        assert warning == "No load is possible: No usable temporary directory found in ['/tmp']."
        assert conditions_of(world.engine, world.config).unknown == {"disk"}
        client = world.client(world.alice_key)
        local = {"REMOTE_ADDR": "127.0.0.1"}
        assert client.get("/readyz", environ=local).json["warnings"] == [warning]
        metrics = client.get("/metrics", environ=local)
        assert str(world.config.data_dir) in metrics.text

    @ON_SQLITE
    def test_a_small_delta_needs_little(self, world, monkeypatch):
        """A merge needs space for the same share of rows as the last merge."""
        world.load([CAR | {"registration": f"AB{n}"} for n in range(5_000)])
        world.load([CAR])
        free = os.statvfs_result((4096, 4096, 1000, 20, 20, 9, 9, 9, 0, 255))
        monkeypatch.setattr(os, "statvfs", lambda _: free)
        assert "disk:load" not in found(world)
        RegisterLoad.update(mode="replace").execute(world.engine)
        assert "disk:load" in found(world)


class TestSettings:
    def test_wrong_settings_are_wrong(self, world):
        """Wrong settings are reported by name, because a value can be a secret."""
        faults = ["VERIFYD_WORKERS: must be a number, not SECRET", "VERIFYD_X: no such setting"]
        (condition,) = gathered(world.engine, world.config, faults=faults).conditions
        assert condition.key == "settings:wrong"
        assert condition.occurrence == "VERIFYD_WORKERS VERIFYD_X"
        assert "SECRET" not in repr(condition)

    def test_a_condition_of_a_wrong_setting_is_unknown(self, world):
        """A default in place of a wrong setting neither raises nor ends an alarm."""
        world.load([CAR])
        Register.update(loaded_at=NOW - 9 * DAY).execute(world.engine)
        assert sorted(found(world)) == ["stale:native"]
        seen = gathered(world.engine, world.config, faults=["VERIFYD_STALE_AFTER: must be an age"])
        assert [each.key for each in seen.conditions] == ["settings:wrong"]
        assert "stale" in seen.unknown

    def test_a_run_that_failed_because_of_them_is_still_reported(self, world):
        """A run that failed because of a wrong setting is still reported."""
        run = Run("import", True, NOW, ("Its log has the reason.",))
        seen = gathered(None, world.config, run, ["VERIFYD_DATABASE_URL: must be a URL"])
        assert [each.key for each in seen.conditions] == ["job:import", "settings:wrong"]


def certificate(directory, *words, days=30):
    """Make a certificate with openssl, and return its file."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is needed to make a certificate")
    path = directory / "fullchain.pem"
    command = [
        "openssl",
        "req",
        "-x509",
        "-nodes",
        "-subj",
        "/CN=localhost/O=A",
        "-days",
        str(days),
    ]
    command += ["-keyout", str(directory / "key.pem"), "-out", str(path), *words]
    subprocess.run(command, check=True, capture_output=True)
    return path


class TestCertificate:
    @pytest.mark.parametrize(
        "words",
        [
            ["-newkey", "rsa:2048"],
            ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"],
            ["-newkey", "ed25519", "-days", "20000"],
        ],
    )
    def test_its_end_is_what_openssl_says(self, tmp_path, words):
        """The end date equals openssl's, also after 2049, where its encoding changes (RFC 5280)."""
        path = certificate(tmp_path, *words)
        shown = subprocess.run(
            ["openssl", "x509", "-in", path, "-noout", "-enddate", "-dateopt", "iso_8601"],
            capture_output=True,
            text=True,
            check=True,
        )
        told = shown.stdout.strip().removeprefix("notAfter=").replace(" ", "T")
        validity = validity_of(path)
        assert validity is not None
        assert clock.iso_utc(validity.expires_at) == told

    def test_the_first_of_a_chain_counts(self, tmp_path):
        """The first certificate of a chain counts; text between certificates is ignored."""
        chain = certificate(tmp_path, "-newkey", "rsa:2048").read_text()
        expected = validity_of(tmp_path / "fullchain.pem")
        other = certificate(tmp_path, "-newkey", "rsa:2048", days=5).read_text()
        (tmp_path / "fullchain.pem").write_text(f"subject=CN\n{chain}\n{other}")
        assert validity_of(tmp_path / "fullchain.pem") == expected

    @pytest.mark.parametrize(
        ("days", "late_days"), [(3650, 14), (90, 14), (84, 14), (60, 10), (45, 7.5), (6, 1)]
    )
    def test_its_renewal_is_late_in_the_last_sixth(self, tmp_path, days, late_days):
        """Its renewal is late when a sixth of its lifetime is left, but at most 14 days."""
        validity = validity_of(certificate(tmp_path, "-newkey", "ed25519", days=days))
        assert validity is not None
        assert validity.expires_at - validity.late_at == late_days * DAY

    def test_it_is_reported_within_14_days(self, tmp_path, monkeypatch):
        """It is reported for 14 days, and again after it expired; a renewed one is read again."""
        path = certificate(tmp_path, "-newkey", "rsa:2048", days=90)
        validity = validity_of(path)
        assert validity is not None
        expiry = validity.expires_at
        told, since = [], []
        for before in (14 * DAY + 1, 14 * DAY, 1, 0, -60):
            monkeypatch.setattr(clock, "now", lambda before=before: expiry - before)
            found = list(certificate_conditions(path))
            since += [each.since - expiry for each in found]
            if before not in (0, 1):
                told.append([each.warning for each in found])
        # The condition began two weeks before it expires; that it has expired began then.
        assert since == [-14 * DAY, -14 * DAY, 0, 0]
        at = clock.iso_utc(expiry)
        assert told == [
            [],
            [f"The certificate {path} expires in 14 d, at {at}."],
            [f"The certificate {path} expired 1 min ago, at {at}."],
        ]
        certificate(tmp_path, "-newkey", "rsa:2048", days=200)
        assert list(certificate_conditions(path)) == []

    def test_the_shipped_one_may_be_missing(self, tmp_path, monkeypatch):
        """The shipped path may be missing: TLS can end elsewhere."""
        monkeypatch.setattr(certificates, "SHIPPED", tmp_path / "fullchain.pem")
        assert list(certificate_conditions(tmp_path / "fullchain.pem")) == []
        assert list(certificate_conditions(None)) == []

    def test_another_one_that_is_missing_is_reported(self, tmp_path):
        """A mistyped path is reported, because the real certificate would expire unnoticed."""
        (condition,) = certificate_conditions(tmp_path / "none.pem")
        assert f"VERIFYD_CERTIFICATE: {tmp_path}/none.pem does not exist" in condition.warning
        assert condition.remedy.startswith("set VERIFYD_CERTIFICATE to a certificate in PEM")

    def test_the_remedy_says_how_nginx_gets_the_renewed_one(self, tmp_path, monkeypatch):
        """The remedy names the installed script: certbot runs its hook once per certificate."""
        path = certificate(tmp_path, "-newkey", "rsa:2048", days=5)
        (condition,) = certificate_conditions(path)
        assert condition.remedy.endswith("sudo nginx -t && sudo systemctl reload nginx")
        monkeypatch.setattr(certificates, "SHIPPED", path)
        monkeypatch.setattr(certificates, "_HOOK", path.with_name("certificate.sh"))
        path.with_name("certificate.sh").write_text("")
        (condition,) = certificate_conditions(path)
        assert f"sudo {tmp_path}/certificate.sh DIRECTORY" in condition.remedy

    @pytest.mark.parametrize(
        "content",
        [
            b"",
            b"\xff\0",
            b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
            b"-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n",
            b"-----BEGIN CERTIFICATE-----\nMAMwAQA=\n-----END CERTIFICATE-----\n",
        ],
    )
    def test_a_file_without_a_certificate_is_reported(self, tmp_path, content):
        """A file without a certificate is reported, because its end would go unnoticed."""
        path = tmp_path / "fullchain.pem"
        path.write_bytes(content)
        (condition,) = certificate_conditions(path)
        assert f"{path} is not a certificate in PEM" in condition.warning
        assert "openssl" in condition.remedy
        assert not re.search("chmod|chgrp|setfacl", condition.remedy)

    def test_a_path_that_is_no_file_is_reported(self, tmp_path):
        """For a path that is no file, the remedy does not suggest permissions."""
        (condition,) = certificate_conditions(tmp_path)
        assert "cannot be read" in condition.warning
        assert not re.search("chmod|chgrp|setfacl", condition.remedy)

    def test_one_that_cannot_be_read_is_reported(self, tmp_path, monkeypatch):
        """The remedy lets the service read the file, and takes access from nobody else."""
        path = certificate(tmp_path, "-newkey", "rsa:2048")

        def closed(*_args, **_kwargs):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

        monkeypatch.setattr(Path, "open", closed)
        (condition,) = certificate_conditions(path)
        assert "cannot be read: Permission denied" in condition.warning
        assert f"sudo setfacl -m u:verifyd:r {path}" in condition.remedy
        assert not re.search("chmod|chgrp", condition.remedy)
        monkeypatch.setattr(certificates, "SHIPPED", path)
        (condition,) = certificate_conditions(path)
        assert f"sudo chgrp verifyd {tmp_path} {path} && sudo chmod 750" in condition.remedy
