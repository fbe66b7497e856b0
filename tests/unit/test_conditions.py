"""What an operator has to look at although look-ups work: found once, for all who show it (D76)."""

import os
import shutil
import subprocess

import pytest

from app import clock
from app.errors import OperatorError
from app.operations.conditions.certificate import certificate_conditions, expires_at
from app.operations.conditions.gathered import conditions, gathered
from app.operations.conditions.jobs import JobRun, Run, last_runs, record, running
from app.registers.history import MERGE, History
from app.registers.models import RegisterLoad
from app.registers.reading.rejects import RejectLimit
from app.registers.undo import drop_register
from app.storage.registers import Register
from app.storage.tables import Kind
from tests.conftest import ON_SQLITE

CAR = {"registration": "AB12CDE", "make": "FORD"}
DAY = 86_400
NOW = 1_900_000_000


@pytest.fixture(autouse=True)
def stopped_clock(monkeypatch):
    """A clock that stands still, on a host that has been up for a year."""
    monkeypatch.setattr(clock, "now", lambda: NOW)
    monkeypatch.setattr(clock, "monotonic_ns", lambda: 365 * DAY * 10**9)


def found(world, **settings):
    """What is wrong, by key."""
    return {each.key: each for each in conditions(world.engine, world.configured(**settings))}


def failed_load(world, register="native"):
    """Load a file of which every row is rejected; its name and content could be secret."""
    file = world.directory / "bad.csv"
    file.write_text("registration,make\nSECRET??,FORD\n")
    with pytest.raises(OperatorError):
        world.load_files(file, register=register, max_rejects=RejectLimit.parse("0"))


class TestLoads:
    def test_nothing_is_wrong_with_a_new_installation(self, world):
        """Nor after a load that succeeded."""
        assert found(world) == {}
        world.load([CAR])
        assert found(world) == {}

    def test_a_failed_load_is_wrong_until_one_succeeds(self, world):
        """Of each register by itself."""
        world.load([CAR], register="rdw")
        failed_load(world, "rdw")
        failed_load(world, "mid")
        assert sorted(found(world)) == ["load:mid", "load:rdw"]
        world.load([CAR], register="rdw")
        assert sorted(found(world)) == ["load:mid"]

    def test_all_failures_since_a_success_are_listed(self, world):
        """With number and files, the latest first; the event is the last of them."""
        failed_load(world)
        failed_load(world)
        condition = found(world)["load:native"]
        assert condition.occurrence == "2"
        lines = [line for line in condition.details if line.startswith("Load ")]
        assert [line.partition(" (")[0] for line in lines] == ["Load 2", "Load 1"]
        assert "bad.csv" in lines[0]
        assert condition.remedy == "sudo verifyd imports show 2"

    def test_no_record_is_in_it(self, world):
        """Reasons of failed loads can quote a record, so they stay in the history."""
        failed_load(world)
        RegisterLoad.update(reason="line 2: SECRET").execute(world.engine)
        assert "SECRET" not in repr(found(world))

    def test_an_attempt_without_a_register_is_the_jobs(self, world):
        """A file that was not recognised is of no register."""
        failed_load(world)
        RegisterLoad.update(register="").execute(world.engine)
        assert found(world) == {}

    def test_a_killed_load_is_a_failed_one(self, world):
        """For commands, which look for it; it has no end."""
        history = History(world.engine, "rdw")
        history.begin(kind=Kind.VEHICLES, mode=MERGE, format_name="rdw-csv", files=["a.csv"])
        assert found(world) == {}
        (condition,) = gathered(world.engine, world.config).conditions
        assert condition.key == "load:rdw"

    def test_a_stale_register_is_told_with_its_limit(self, world):
        """8 days, unless the setting says otherwise (D51)."""
        world.load([CAR])
        Register.update(loaded_at=NOW - 8 * DAY - 1).execute(world.engine)
        assert sorted(found(world)) == ["stale:native"]
        assert found(world, stale_after={}) == {}
        drop_register(world.engine, "native")
        assert found(world) == {}


class TestJobs:
    def test_a_failed_run_is_wrong_until_one_succeeds(self, world):
        """Whoever started them."""
        record(world.engine, Run("backup", True, NOW - 9, ("It failed: No space left on device.",)))
        assert found(world)["job:backup"].details == ("It failed: No space left on device.",)
        record(world.engine, Run("backup", False, NOW - 5))
        assert found(world) == {}

    def test_a_scheduled_run_that_does_not_come_is_missed(self, world):
        """After 26 hours; with `VERIFYD_MISSED_AFTER` later, or never."""
        record(world.engine, Run("import", True, NOW - 26 * 3600))
        assert found(world) == {}
        JobRun.update(started_at=NOW - 26 * 3600 - 1).execute(world.engine)
        warning = found(world)["missed:import"].warning
        assert warning == (
            "The nightly load did not run: it last began 1 d 2 h ago; "
            "VERIFYD_MISSED_AFTER allows 1 d 2 h."
        )
        assert found(world, missed_after={"import": 30 * 3600}) == {}
        assert found(world, missed_after={"backup": 1}) == {}

    def test_what_was_never_scheduled_is_not_missed(self, world):
        """A machine without the timers has nothing to warn of."""
        record(world.engine, Run("backup", False, NOW - 30 * DAY))
        assert found(world) == {}

    def test_a_run_of_another_host_is_not_ours(self, world):
        """Several hosts can share a database, each with timers of its own."""
        record(world.engine, Run("import", True, NOW - 30 * DAY, ("It failed.",)))
        JobRun.update(host="another").execute(world.engine)
        assert found(world) == {}

    def test_a_host_that_was_off_catches_up_first(self, world, monkeypatch):
        """Its timers run what they missed within the first hour."""
        record(world.engine, Run("import", True, NOW - 3 * DAY))
        monkeypatch.setattr(clock, "monotonic_ns", lambda: 3500 * 10**9)
        assert found(world) == {}

    def test_a_run_under_way_is_not_missed_unless_it_does_not_end(self, world, monkeypatch):
        """The lock of a run ends with its process."""
        record(world.engine, Run("import", True, NOW - 3 * DAY))
        with running(world.config.state_dir, "import"):
            assert found(world) == {}
            monkeypatch.setattr(clock, "now", lambda: NOW + 2 * DAY)
            assert "does not end: it began 2 d ago" in found(world)["missed:import"].warning
        assert "did not run" in found(world)["missed:import"].warning

    def test_old_runs_are_forgotten(self, world, monkeypatch):
        """After 400 days."""
        record(world.engine, Run("import", True, NOW))
        monkeypatch.setattr(clock, "now", lambda: NOW + 401 * DAY)
        record(world.engine, Run("backup", True, NOW + 401 * DAY))
        assert [row.job for row in JobRun.select().execute(world.engine)] == ["backup"]

    def test_the_last_backup_counts_for_all_hosts(self, world):
        """It is one of the same database."""
        record(world.engine, Run("backup", False, NOW - 9, (), 1234))
        JobRun.update(host="another").execute(world.engine)
        assert (last_runs(world.engine).backup_at, last_runs(world.engine).backup_bytes) == (
            NOW,
            1234,
        )


class TestDisk:
    def test_too_little_space_for_the_next_load_is_told(self, world, monkeypatch):
        """With what it needs and what is free; with enough space nothing is said."""
        world.load([CAR])
        free = os.statvfs_result((4096, 4096, 1000, 1, 1, 9, 9, 9, 0, 255))
        monkeypatch.setattr(os, "statvfs", lambda _: free)
        condition = found(world)["disk:load"]
        assert condition.title == "too little disk space for the next load of the register native"
        assert "and 4 kB are free" in condition.warning

    @ON_SQLITE
    def test_a_small_delta_needs_little(self, world, monkeypatch):
        """A merge needs room for the share of the rows that the last one had."""
        world.load([CAR | {"registration": f"AB{n}"} for n in range(5_000)])
        world.load([CAR])
        free = os.statvfs_result((4096, 4096, 1000, 20, 20, 9, 9, 9, 0, 255))
        monkeypatch.setattr(os, "statvfs", lambda _: free)
        assert "disk:load" not in found(world)
        RegisterLoad.update(mode="replace").execute(world.engine)
        assert "disk:load" in found(world)


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
        """Also after 2049, where the form of times is another (RFC 5280)."""
        path = certificate(tmp_path, *words)
        shown = subprocess.run(
            ["openssl", "x509", "-in", path, "-noout", "-enddate", "-dateopt", "iso_8601"],
            capture_output=True,
            text=True,
            check=True,
        )
        told = shown.stdout.strip().removeprefix("notAfter=").replace(" ", "T")
        expiry = expires_at(path)
        assert expiry is not None
        assert clock.iso_utc(expiry) == told

    def test_the_first_of_a_chain_counts(self, tmp_path):
        """Those after it belong to the authority; text between them is passed over."""
        chain = certificate(tmp_path, "-newkey", "rsa:2048").read_text()
        expected = expires_at(tmp_path / "fullchain.pem")
        other = certificate(tmp_path, "-newkey", "rsa:2048", days=5).read_text()
        (tmp_path / "fullchain.pem").write_text(f"subject=CN\n{chain}\n{other}")
        assert expires_at(tmp_path / "fullchain.pem") == expected

    def test_it_is_told_within_14_days(self, tmp_path, monkeypatch):
        """Once more when it has expired; one that is renewed is read again."""
        path = certificate(tmp_path, "-newkey", "rsa:2048")
        expiry = expires_at(path)
        assert expiry is not None
        told = []
        for before in (14 * DAY + 1, 14 * DAY, -60):
            monkeypatch.setattr(clock, "now", lambda before=before: expiry - before)
            told.append([each.warning for each in certificate_conditions(path)])
        at = clock.iso_utc(expiry)
        assert told == [
            [],
            [f"The certificate {path} expires in 14 d, at {at}."],
            [f"The certificate {path} expired 1 min ago, at {at}."],
        ]
        certificate(tmp_path, "-newkey", "rsa:2048", days=100)
        assert list(certificate_conditions(path)) == []

    def test_one_that_is_missing_is_nobodys(self, tmp_path):
        """TLS may end elsewhere; nginx reports a file that it misses by itself."""
        assert list(certificate_conditions(tmp_path / "none.pem")) == []
        assert list(certificate_conditions(None)) == []

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
    def test_what_is_no_certificate_is_told(self, tmp_path, content):
        """Otherwise nobody would notice its end."""
        path = tmp_path / "fullchain.pem"
        path.write_bytes(content)
        (condition,) = certificate_conditions(path)
        assert f"{path} is not a certificate in PEM" in condition.warning

    def test_one_that_cannot_be_read_is_told(self, tmp_path):
        """With the command that lets the service read it."""
        (condition,) = certificate_conditions(tmp_path)
        assert "cannot be read" in condition.warning
        assert "chmod" in condition.remedy
