"""A clock that jumped is not trusted, and then nothing is removed because of its age (D162)."""

import json
import os
from datetime import UTC

import pytest

from app import clock
from app.accounts.authentication import Authenticator
from app.accounts.usage.counts import Count, CountIncrease
from app.accounts.usage.store import UsageDay, UsageHour, old_usage, write
from app.actions import Criteria, list_actions
from app.alerts.conditions import conditions_of
from app.alerts.delivery import deliver
from app.alerts.message import Condition, composed
from app.alerts.nightly import JobRun, Run, record
from app.alerts.spool import Spool
from app.clock_steps import accept, clock_fault, look, old_times
from app.errors import OperatorError
from app.jobs.register_tasks import RegisterTask, RegisterTaskRequest, RegisterTasks
from app.registers.history import list_loads, note_refused, prune_history
from tests.rows import each_row

WANTED = RegisterTaskRequest("native", "drop", None, "seen", "ann")
DAY = 86_400
YEARS = 3 * 365 * DAY
NOW = 1_900_000_000
TIME = clock.iso_utc(NOW)
UP = 10 * DAY


class Host:
    """A host whose clocks a test sets."""

    def __init__(self, monkeypatch, data_dir):
        self._monkeypatch = monkeypatch
        self.data_dir = data_dir
        self.file = data_dir / "clock.json"
        self.now, self.up, self.boot = NOW, UP, "first boot"
        monkeypatch.setattr(clock, "now", lambda: self.now)
        monkeypatch.setattr(clock, "monotonic_ns", lambda: self.up * 10**9)
        monkeypatch.setattr(clock, "boot_id", lambda: self.boot)

    def set(self, seconds):
        """Set the clock by so many seconds."""
        self.now += seconds

    def wait(self, seconds):
        """Let time pass, also while the host is suspended."""
        self.now += seconds
        self.up += seconds

    def restart(self, off_seconds=0):
        """Boot the host again."""
        self.now += off_seconds + 20
        self.up, self.boot = 20, f"another boot than {self.boot}"

    @property
    def fault(self):
        return clock_fault(self.data_dir)


@pytest.fixture
def host(monkeypatch, tmp_path):
    host = Host(monkeypatch, tmp_path)
    assert host.fault == ""
    return host


@each_row(
    ("seconds", "fault"),
    [
        (0, ""),
        (60, ""),
        (-60, ""),
        (DAY, ""),
        (-DAY, ""),
        (3 * DAY, ""),
        (-3 * DAY, ""),
        (3 * DAY + 1, "the clock is 3 d 1 s ahead of the time since the boot"),
        (-3 * DAY - 1, "the clock is 3 d 1 s behind the time since the boot"),
        (YEARS, "the clock is 1095 d ahead of the time since the boot"),
        (-YEARS, "the clock is 1095 d behind the time since the boot"),
        (-NOW, "the clock says 1972-12-31T00:00:00Z, so it was never set"),
    ],
)
def test_a_jump_within_a_boot(monkeypatch, tmp_path_factory, seconds, fault):
    """More than three days ahead of the time since the boot, or behind it, is a jump."""
    host = Host(monkeypatch, tmp_path_factory.mktemp("data"))
    assert host.fault == ""
    host.wait(YEARS)
    assert host.fault == ""
    host.set(seconds)
    assert host.fault == host.fault == fault
    host.set(-seconds)
    assert host.fault == ""


@each_row(
    ("seconds", "is_jump"),
    [
        (30 * DAY - 20, False),
        (30 * DAY - 19, True),
        (-3 * DAY - 20, False),
        (-3 * DAY - 21, True),
        (YEARS, True),
        (-YEARS, True),
        (-NOW - 100, True),
    ],
)
def test_a_jump_over_a_boot(monkeypatch, tmp_path_factory, seconds, is_jump):
    """After a boot the clock may be thirty days later than it last was, or three days earlier."""
    host = Host(monkeypatch, tmp_path_factory.mktemp("data"))
    assert host.fault == ""
    host.restart(seconds)
    assert bool(host.fault) is is_jump
    if is_jump:
        host.set(-seconds)
        assert host.fault == ""


def test_small_steps_add_up(host):
    """Many steps of two days are a jump, also if somebody looks after each of them."""
    faults = []
    for _ in range(5):
        host.set(2 * DAY)
        faults.append(bool(host.fault))
    assert faults == [False, True, True, True, True]


def test_the_last_time_moves_on(host):
    """A host that is looked at may run for years before it boots again."""
    for _ in range(100):
        host.wait(20 * DAY)
        assert host.fault == ""
    host.restart(29 * DAY)
    assert host.fault == ""


def test_a_boot_in_1970_is_no_reference(monkeypatch, tmp_path):
    """A machine without a battery boots in 1970; once NTP has set its clock, that is trusted."""
    host = Host(monkeypatch, tmp_path)
    host.set(-NOW + 60)
    assert host.fault == "the clock says 1970-01-01T00:01:00Z, so it was never set"
    assert not host.file.exists()
    host.set(NOW)
    assert host.fault == ""
    host.restart(-host.now + 60)
    assert "1970" in host.fault
    host.set(NOW)
    assert host.fault == ""


def test_a_clock_that_was_wrong_from_the_start_is_noticed(monkeypatch, tmp_path):
    """If the first time was wrong, the right one is a jump, which somebody must accept."""
    host = Host(monkeypatch, tmp_path)
    host.set(500 * DAY)
    assert host.fault == ""
    host.set(-500 * DAY)
    assert host.fault == "the clock is 500 d behind the time since the boot"


@each_row(
    "content",
    [b"", b"{", b"[]", b"\xff", b'{"boot":"first boot"}', b"\0" * 90]
    + [
        json.dumps({"boot": "first boot", "time": time, "since_boot": 0, "trusted": 0}).encode()
        for time in (-1, 10**400, "soon", None, 1.5)
    ],
)
def test_a_damaged_file_is_replaced(monkeypatch, tmp_path_factory, content):
    """Without a readable reference the clock is trusted, and is the reference from now on."""
    host = Host(monkeypatch, tmp_path_factory.mktemp("data"))
    host.file.write_bytes(content)
    assert host.fault == ""
    assert json.loads(host.file.read_bytes())["time"] == NOW
    host.set(YEARS)
    assert host.fault


def test_a_file_that_cannot_be_read_is_no_trust(monkeypatch, tmp_path):
    """Nobody knows what it says, so nothing is removed."""
    host = Host(monkeypatch, tmp_path)
    host.file.mkdir()
    assert host.fault == f"{host.file} cannot be read: Is a directory"


def test_a_directory_that_cannot_be_written_to(monkeypatch, tmp_path):
    """A process remembers what it could not write; after a boot it knows what was written last."""
    host = Host(monkeypatch, tmp_path / "missing")
    assert host.fault == ""
    host.set(YEARS)
    assert host.fault
    host.set(-YEARS)
    host.data_dir.mkdir()
    host.wait(3600)
    assert host.fault == ""
    assert list(host.data_dir.iterdir()) == [host.file]


def test_it_is_written_once_an_hour(host):
    """The file is read often, and written seldom; nobody else can read it."""
    written = host.file.stat().st_ino
    host.wait(3599)
    assert (host.fault, host.file.stat().st_ino) == ("", written)
    host.wait(1)
    assert host.fault == ""
    assert host.file.stat().st_ino != written
    assert host.file.stat().st_mode & 0o777 == 0o600
    assert json.loads(host.file.read_bytes()) == {
        "boot": "first boot",
        "time": NOW,
        "since_boot": UP,
        "trusted": NOW + 3600,
        "behind_from": 0,
        "behind_until": 0,
        "behind_at": 0,
    }


@pytest.mark.parametrize("boots", [False, True])
@pytest.mark.parametrize("behind", [YEARS, 500 * DAY, 10 * DAY, NOW - 60])
def test_what_a_clock_wrote_while_it_was_behind(host, behind, boots):
    """Its data is young: it is removed at the age, counted from then, not at once."""
    if boots:
        host.restart()
    host.set(-behind)
    wrote = []
    for _ in range(50):
        assert host.fault
        host.wait(1800)
        wrote.append(host.now)
    if boots:
        host.restart()
    host.set(behind)
    for _ in range(3):
        old = old_times(host.data_dir, 400 * DAY)
        assert old
        assert [each for each in wrote if each in old] == []
        host.wait(100 * DAY)
    host.wait(101 * DAY)
    if behind != NOW - 60:
        assert all(each in old_times(host.data_dir, 400 * DAY) for each in wrote)


def test_a_clock_that_is_behind_several_times(host):
    """What it wrote each time is young; the last look is never long ago."""
    wrote = []
    for behind in (500 * DAY, YEARS, 450 * DAY, NOW - 60):
        host.set(-behind)
        assert host.fault
        for _ in range(3):
            host.wait(3000)
            wrote.append(host.now)
            assert host.fault
        host.set(behind)
        host.wait(DAY)
    old = old_times(host.data_dir, 400 * DAY)
    assert [each for each in wrote if each in old] == []
    assert json.loads(host.file.read_bytes())["behind_from"] < 7 * DAY
    assert host.fault == ""


def test_a_killed_process_leaves_the_former_file(host, monkeypatch):
    """Whatever moment it is killed at, the file is whole."""

    def killed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", killed)
    host.wait(DAY)
    with pytest.raises(KeyboardInterrupt):
        look(host.data_dir)
    assert json.loads(host.file.read_bytes())["trusted"] == NOW


class TestAccept:
    @pytest.fixture
    def host(self, monkeypatch, world):
        return Host(monkeypatch, world.config.data_dir)

    def test_it_is_an_action(self, host, world):
        """What is accepted is trusted from then on, and recorded once."""
        assert host.fault == ""
        host.set(YEARS)
        for _ in range(2):
            accept(world.engine, host.data_dir)
            assert host.fault == ""
        (action,) = list_actions(world.engine, Criteria(action="clock"))
        assert (action.action, action.subject_kind) == ("clock.accept", "host")
        assert action.before == {"time": clock.iso_utc(NOW)}
        assert action.after == {"time": clock.iso_utc(NOW + YEARS)}
        host.set(-YEARS)
        assert host.fault == "the clock is 1095 d behind the time since the boot"

    def test_after_a_boot(self, host, world):
        """A host that was off for long is accepted; its reference is then that of this boot."""
        assert host.fault == ""
        host.restart(40 * DAY)
        assert host.fault == (
            "the clock is 40 d 20 s ahead of 2030-03-17T17:46:40Z, when it was last trusted before "
            "the boot"
        )
        accept(world.engine, host.data_dir)
        host.wait(YEARS)
        assert host.fault == ""

    def test_a_clock_that_was_never_set(self, host, world):
        """1970 cannot be accepted."""
        host.set(-NOW)
        with pytest.raises(OperatorError, match="set the clock first"):
            accept(world.engine, host.data_dir)
        assert list_actions(world.engine, Criteria(action="clock")) == []

    def test_it_is_a_condition_until_then(self, host, world):
        """One condition names the command, also while a database is shared with other hosts."""

        def found():
            conditions = conditions_of(world.engine, world.config).conditions
            return [(each.key, each.remedy) for each in conditions]

        assert found() == []
        host.set(-YEARS)
        assert found() == [
            ("clock:jumped", "set the clock; if it is right: sudo verifyd clock --accept")
        ]
        accept(world.engine, host.data_dir)
        assert found() == []


class TestCommand:
    @pytest.fixture
    def host(self, monkeypatch, cli):
        host = Host(monkeypatch, cli.directory)
        assert cli.run("clock").status == 0
        return host

    def test_it_shows_what_is_known(self, host, cli):
        """What the clock says and should say, and whether it is trusted."""
        times = {"now_at": TIME, "expected_at": TIME, "trusted_at": TIME}
        assert cli.json("clock") == {**times, "fault": None}
        assert cli.run("clock").stdout.endswith("the clock is trusted\n")
        host.set(YEARS)
        fault = "the clock is 1095 d ahead of the time since the boot"
        later = clock.iso_utc(NOW + YEARS)
        assert cli.json("clock") == {**times, "now_at": later, "fault": fault}
        assert cli.run("clock").stdout.endswith(
            f"nothing is removed by its age, because {fault}; set the clock, or if it is right, "
            'run "verifyd clock --accept"\n'
        )
        assert cli.json("check")["warnings"] == [f"Nothing is removed by its age, because {fault}."]

    def test_it_accepts_the_clock(self, host, cli):
        """The sentence says what was accepted; a second time there is nothing to accept."""
        host.set(-YEARS)
        assert cli.run("clock", "--accept").stdout.endswith(
            "accepted, although the clock is 1095 d behind the time since the boot\n"
        )
        assert cli.run("clock", "--accept").stdout.endswith("the clock is trusted\n")
        assert cli.json("check")["warnings"] == []
        host.set(-host.now)
        assert "so it was never set; set the clock first" in cli.refusal("clock", "--accept")


class TestRemoval:
    """What is removed by its age stays while the clock is ahead, and goes when time has passed."""

    @pytest.fixture
    def host(self, monkeypatch, world):
        host = Host(monkeypatch, world.config.data_dir)
        assert host.fault == ""
        return host

    @pytest.fixture
    def left(self, host):
        """`left(remove)` returns what that leaves after a jump, and after as much time."""

        def remove_twice(remove):
            host.set(500 * DAY)
            jumped = remove()
            host.set(-500 * DAY)
            host.wait(501 * DAY)
            return jumped, remove()

        return remove_twice

    def test_no_time_is_old_then(self, host, left):
        """What a clock wrote that was not set is never old: it can be young."""
        jumped, passed = left(lambda: old_times(host.data_dir, 400 * DAY))
        assert not jumped
        assert (NOW in passed, 0 in passed) == (True, False)

    def test_usage(self, host, left, world):
        """Hours and days stay; those of 1970 do so for good."""
        caller = Authenticator(world.engine).find_caller(world.alice_key)
        assert caller
        count = Count(caller, "insurance", "2xx")
        write(world.engine, [CountIncrease(NOW, count, 7, 7), CountIncrease(0, count, 5, 5)], UTC)

        def remove():
            write(world.engine, [], UTC, old_usage(host.data_dir))
            return [table.select().count(world.engine) for table in (UsageHour, UsageDay)]

        assert left(remove) == ([2, 2], [1, 1])

    def test_the_history_of_loads(self, host, left, world, monkeypatch):
        """Lines stay, and so do the console's tasks that added some of them."""
        monkeypatch.setattr("app.processes.start", lambda *_, kept: None)
        for _ in range(9):
            note_refused(
                world.engine, "no such file", register="native", mode="merge", files="a.csv"
            )
        task = {"register": "native", "action": "drop", "seen": "1", "asked_by": "ann"}
        done = {"asked_at": NOW, "host": "h", "status": "done", "finished_at": NOW}
        RegisterTask.insert(**task, **done).execute(world.engine)

        def remove():
            prune_history(world.engine, host.data_dir)
            RegisterTasks(world.engine, world.config).begin(WANTED, lambda: None)
            tasks = RegisterTask.select().where(RegisterTask.status == "done")
            return len(list(list_loads(world.engine))), tasks.count(world.engine)

        jumped, passed = left(remove)
        assert jumped == (9, 1)
        assert passed < jumped

    def test_runs_of_jobs(self, host, left, world):
        """The last runs of other jobs stay."""
        record(world.engine, host.data_dir, Run("check", True, NOW))

        def remove():
            record(world.engine, host.data_dir, Run("backup", True, clock.now()))
            return JobRun.select().where(JobRun.job == "check").count(world.engine)

        assert left(remove) == (1, 0)

    def test_an_alert_that_waits(self, host, left, world):
        """It is tried again, and not given up after four days of a wrong clock."""
        config = world.configured(notify=())
        spool = Spool(host.data_dir)
        with spool.locked():
            late = Condition("job:backup", "a backup failed", "It failed.", NOW, "verifyd check")
            spool.put(composed([late], []), {})

        def remove():
            assert not deliver(config)
            return len(list(spool.entries()))

        assert left(remove) == (1, 0)

    @pytest.mark.parametrize("kind", ["loaded", "failed"])
    def test_kept_files(self, host, left, cli, kind, monkeypatch):
        """Their files stay; with 0 they go at once, whatever the clock says."""
        assert cli.run("clock").status == 0
        place = cli.directory / "drop" / kind
        place.mkdir(parents=True)
        (place / "a.csv").write_text("a")
        os.utime(place / "a.csv", (NOW, NOW))

        def remove():
            assert cli.run("import", "--drop", place.parent).status == 0
            return len(list(place.iterdir()))

        assert left(remove) == (1, 0)
        (place / "a.csv").write_text("a")
        host.set(YEARS)
        monkeypatch.setenv(f"VERIFYD_KEEP_{kind.upper()}", "0")
        assert remove() == 0
