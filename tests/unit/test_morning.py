"""The morning report: what is on its one screen, and which host sends it when."""

import errno
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from app import clock
from app.alerts.conditions import FoundConditions
from app.alerts.message import Condition, Message
from app.alerts.morning import COLUMNS_MAX, LINES_MAX, composed_report, send
from app.alerts.nightly import JobRun, Run, record
from app.alerts.report import report
from app.alerts.spool import Spool
from app.registers.generations import locked
from app.registers.history import insert_line, note_refused, unopened_notes
from app.registers.undo import roll_back
from app.settings.destinations import Destination
from app.storage.engine import close_quietly, open_engine
from tests.conftest import ON_SQLITE, STORAGE
from tests.unit.held import held_load

HOUR, DAY = 3600, 86_400
NOW = 1_900_000_000
CAR = {"registration": "AB12CDE", "make": "FORD"}


class Morning:
    """An installation whose hosts send reports at times that tests choose."""

    def __init__(self, world, monkeypatch):
        self.world = world
        self.engine = world.engine
        self._monkeypatch = monkeypatch
        self.at(NOW, "web1")

    def at(self, time, host=None):
        """Let the clock stand at this time, on this host."""
        self._monkeypatch.setattr(clock, "now", lambda: int(time))
        if host:
            self._monkeypatch.setattr(socket, "gethostname", lambda: host)
            self.config = self.world.configured(
                data_dir=self.world.directory / host,
                notify=(Destination("exec", "/bin/true"),),
                stale_after={},
            )

    def send(self, time, host=None):
        """Send the report, and return whether it was sent."""
        self.at(time, host)
        return isinstance(send(self.engine, self.config), Message)

    def text(self, **settings):
        """Return the lines of the report."""
        config = self.world.configured(**{"stale_after": {}} | settings)
        text = composed_report(self.engine, config).text
        lines = text.splitlines()
        assert len(lines) <= LINES_MAX
        assert max(map(len, lines)) <= COLUMNS_MAX
        return lines

    def line(self, begin, **settings):
        """Return the line of the report that begins with a text."""
        (line,) = [each for each in self.text(**settings) if each.startswith(begin)]
        return line

    def fail(self, register="rdw", reason="It failed.", **columns):
        """Add a load that was refused."""
        known = {"register": register, "kind": "vehicles", "mode": "replace", "files": "a.csv"}
        note_refused(self.engine, reason, **known | columns)


@pytest.fixture
def early(world, monkeypatch):
    """An installation on which no report was sent yet."""
    return Morning(world, monkeypatch)


@ON_SQLITE
class TestText:
    def test_all_is_well(self, early):
        """A good night is one screen, too: each register, the jobs, trail, certificate and disk."""
        early.at(NOW - 4 * HOUR)
        early.world.load([CAR], register="rdw")
        early.world.load([CAR, {"registration": "B1"}], register="rdw")
        record(early.engine, early.config.data_dir, Run("import", True, NOW - 4 * HOUR))
        record(
            early.engine,
            early.config.data_dir,
            Run("backup", True, NOW - 5 * HOUR, (), 1_234_567_890),
        )
        early.at(NOW)
        assert early.text()[:-1] == [
            "verifyd, Sun 17 Mar 17:46 UTC, since Sat 16 Mar 17:46, from web1",
            "All is well",
            "",
            "Register  Last loaded  Unchanged for  Change",
            "rdw       4 h ago      4 h            +2",
            "",
            "Nightly load        done 4 h ago on web1",
            "Nightly backup      done 4 h ago on web1, 1.2 GB",
            "Nightly deep check  never ran",
            "Audit trail         off",
            "Certificate         none",
        ]
        assert early.text()[-1].startswith("Free on disk        ")
        message = composed_report(early.engine, early.config)
        assert message.subject == "verifyd on web1: morning report, all is well"
        assert (message.type, message.problems) == ("verifyd.report", [])

    def test_it_fits_on_a_screen_whatever_happened(self, early):
        """Eight registers with long names, thirty failures and long values have their place."""
        early.at(NOW, "h" * 64)
        for number in range(8):
            early.world.load([CAR], register=f"{'x' * 29}{number}")
        for number in range(30):
            early.fail(f"{'y' * 28}{number}", rows=10**9, rejected=10**9)
        record(early.engine, early.config.data_dir, Run("backup", True, NOW, ("It failed.",)))
        lines = early.text(certificate=early.world.directory / "missing.pem", audit=True)
        assert len(lines) == LINES_MAX
        assert lines[1].startswith("Problems: 32, failed loads: 30; sudo verifyd check")
        assert lines[2] == "- the nightly backup failed"
        assert lines[-19] == "- and 29 more"
        assert sum(line.startswith("xxx") for line in lines) == 8

    def test_refused_loads_have_rules_and_counts(self, early):
        """No reason is sent that can quote a record (D77)."""
        early.fail(reason="SECRET1: repeat it with --allow-missing x --allow-loss make", rows=4000)
        early.fail("mid", reason="SECRET2 --allow-secret3", rows=9, rejected=1)
        early.fail("nyc", reason="SECRET4", rows=1, rejected=1)
        unopened = unopened_notes(is_attended=False)
        early.fail("", reason="--map fleet.toml: there is no such file", notes=unopened)
        early.fail("mid")
        lines = early.text()
        assert lines[2:6] == [
            "- mid: 2 failed, load 5: no rows read",
            "- unknown register: 1 failed, load 4: --map fleet.toml: there is no such file",
            "- nyc: 1 failed, load 3: 1 row read, 1 rejected",
            "- rdw: 1 failed, load 1: missing, loss, 4,000 rows read, 0 rejected",
        ]
        assert "secret" not in "".join(lines).lower()

    def test_it_is_about_the_time_since_the_last_one(self, early):
        """A failure is told once, even if it is over; without a former report a day counts."""
        early.at(NOW - 25 * HOUR)
        early.fail()
        early.world.load([CAR], register="rdw")
        early.at(NOW - 23 * HOUR)
        early.fail("mid")
        early.world.load([CAR], register="mid")
        early.at(NOW)
        assert early.text()[1] == "Failed loads: 1; sudo verifyd imports list --failed shows more"
        assert early.line("- ").startswith("- mid: 1 failed")
        assert early.line("rdw").endswith("not loaded")
        assert early.send(NOW)
        assert early.text()[1] == "All is well"
        early.at(NOW + 30 * DAY)
        assert "since Tue 09 Apr" in early.text()[0]

    def test_a_problem_of_a_failed_load_is_told_once(self, early):
        """A load that failed before, and whose register is not loaded since, still is a problem."""
        early.at(NOW - 2 * DAY)
        early.fail()
        early.at(NOW)
        assert early.line("- ") == "- a load of the register rdw failed"
        early.fail()
        assert early.line("- ").startswith("- rdw: 1 failed")

    def test_held_loads_are_problems_and_have_not_failed(self, early):
        """They have a line with rules and counts until somebody decides, however old they are."""
        file = held_load(early.world)
        for time in (NOW, NOW + 2 * DAY):
            early.at(time)
            assert early.text()[1:3] == [
                "Problems: 1; sudo verifyd check shows more",
                "- fleet: 1 held, load 2: rows, insurers, insured, 20 rows read, 0 rejected",
            ]
        file.unlink()
        early.at(NOW)
        assert early.line("- ").startswith("- fleet: 1 failed, load 2: rows")

    def test_what_happened_to_a_register(self, early):
        """Changes are added up; a rollback, a running load and a stale register are named."""
        engine, world = early.engine, early.world
        path = world.directory / "a.csv"
        for make in ("FORD", "OPEL", "SEAT"):
            path.write_text(f"registration,make\nAB12CDE,{make}\n")
            world.load_files(path, register="rdw", mode="replace")
        assert early.line("rdw").endswith("+1, 2 changed")
        world.load_files(path, register="rdw", mode="replace")
        assert early.line("rdw").endswith("+1, 2 changed")
        roll_back(engine, "rdw", None)
        assert early.line("rdw").endswith("rolled back, +1, 2 changed")
        early.at(NOW + 2 * DAY)
        assert early.line("rdw", stale_after={"rdw": 1}).endswith("not loaded, stale")

    def test_a_load_that_is_running_is_named(self, early):
        """A load of another host is known by its lock in the database."""
        early.world.load([CAR], register="rdw")
        early.at(NOW + 2 * DAY)
        columns = {"register": "rdw", "kind": "vehicles", "mode": "merge", "format": ""}
        insert_line(early.engine, **columns, files="a", status="running")
        assert early.line("- ").startswith("- rdw: 1 failed")
        other = open_engine(early.world.config.database_url)
        with locked(other, "rdw"):
            assert early.line("rdw").endswith("not loaded, is being loaded")
        close_quietly(other)

    def test_a_failed_backup_has_the_age_of_the_last_good_one(self, early):
        """Jobs of all hosts count, because one of them takes the backups."""
        early.at(NOW - DAY, "web2")
        record(early.engine, early.config.data_dir, Run("backup", True, NOW, (), 5_000_000))
        early.at(NOW - HOUR, "web1")
        record(early.engine, early.config.data_dir, Run("backup", True, NOW, ("It failed.",)))
        early.at(NOW)
        told = "failed 1 h ago on web1; done 1 d ago on web2, 5.0 MB"
        assert early.line("Nightly backup") == f"Nightly backup      {told}"


class TestSend:
    @ON_SQLITE
    def test_one_host_sends_it_each_morning(self, early):
        """Timers vary by some minutes, and the clocks go forward once a year."""
        assert early.send(NOW, "web1")
        assert not early.send(NOW + 5, "web2")
        assert not early.send(NOW + 9, "web1")
        assert early.send(NOW + 23 * HOUR, "web2")
        assert not early.send(NOW + 23 * HOUR + 600, "web1")
        assert early.send(NOW + 47 * HOUR, "web1")

    @ON_SQLITE
    def test_a_late_report_does_not_replace_the_next_one(self, early):
        """A host that was off sends its report late, unless another host has sent one."""
        assert early.send(NOW - 6 * HOUR, "web1")
        assert early.send(NOW, "web1")
        assert not early.send(NOW + 13 * HOUR, "web2")

    @ON_SQLITE
    def test_a_clock_that_was_wrong_hinders_no_report(self, early):
        """A report of the future is no reason to send none for years; one of soon is."""
        assert early.send(NOW + 900 * DAY)
        assert early.send(NOW, "web1")
        assert not early.send(NOW - 60, "web2")

    @ON_SQLITE
    def test_it_is_queued_and_forgets_no_alert(self, early):
        """The queue remembers what was alerted, so the next watch sends nothing twice."""
        condition = Condition("load:rdw", "it failed", "It failed.", NOW, "mend it")
        assert report(early.config, lambda: FoundConditions([condition])).message
        assert early.send(NOW)
        assert report(early.config, lambda: FoundConditions([condition])).message is None
        types = [each.message.type for each in Spool(early.config.data_dir).entries()]
        assert types == ["verifyd.alert", "verifyd.report"]

    @ON_SQLITE
    def test_a_host_that_cannot_queue_it_leaves_it_to_another(self, early, monkeypatch):
        """Nothing is recorded before the message is in the queue."""

        def full(*_):
            raise OSError(errno.ENOSPC, "No space left on device")

        with monkeypatch.context() as broken:
            broken.setattr(Spool, "put", full)
            with pytest.raises(OSError, match="No space left"):
                early.send(NOW, "web1")
        assert JobRun.select().count(early.engine) == 0
        assert early.send(NOW, "web2")

    @STORAGE
    def test_of_hosts_that_begin_together_one_sends_it(self, early, monkeypatch):
        """The database decides, on both engines."""
        hosts = [f"web{number}" for number in range(4)]
        barrier = threading.Barrier(len(hosts))
        monkeypatch.setattr(socket, "gethostname", lambda: threading.current_thread().name)

        def send_from(host):
            threading.current_thread().name = host
            engine = open_engine(early.world.config.database_url)
            try:
                config = early.world.configured(data_dir=early.world.directory / host)
                barrier.wait()
                return send(engine, config)
            finally:
                close_quietly(engine)

        with ThreadPoolExecutor(len(hosts)) as pool:
            ended = list(pool.map(send_from, hosts))
        (sent,) = [each for each in ended if isinstance(each, Message)]
        assert {each.host for each in ended} == {sent.host}
        queued = [list(Spool(early.world.directory / host).entries()) for host in hosts]
        assert sum(map(len, queued)) == 1
