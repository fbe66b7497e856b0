"""Usage in the database: written beside others, kept while it cannot be, and removed (D128)."""

import logging
import threading
from datetime import UTC, date, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import apsw
import peewee
import pytest

from app import clock
from app.accounts.administration import create_account, create_key, delete_account
from app.accounts.authentication import Authenticator
from app.accounts.usage import counts as counts_module
from app.accounts.usage.counts import Counts
from app.accounts.usage.report import By, Whose, usage_of_days, usage_of_hours
from app.accounts.usage.store import KEPT_DAYS, UsageAccount, UsageWriter, interval_seconds
from app.routes import OPERATIONS
from app.storage.engine import close_quietly, open_engine
from tests.conftest import ON_POSTGRES, ON_SQLITE, STORAGE
from tests.rows import each_row
from tests.system.processes import until

pytestmark = STORAGE

INSURANCE = "/v1/vehicle/{registration}/insurance"
HOUR = 3600
DAY = 24 * HOUR
# 2030-06-15T12:00:00Z
NOON = 1_907_755_200
ANY_DAY = (date(2000, 1, 1), date(2100, 1, 1))


def caller_of(world, key):
    """Return the caller with a key."""
    caller = Authenticator(world.engine).find_caller(key)
    assert caller
    return caller


class Process:
    """What counts and writes in one worker."""

    def __init__(self, world, zone=UTC):
        self.engine = open_engine(world.config.database_url, is_serving=True)
        self.counts = Counts(OPERATIONS)
        self.writer = UsageWriter(self.counts, self.engine, zone, world.config.data_dir)
        self.callers = [caller_of(world, key) for key in (world.alice_key, world.bob_key)]

    def count(self, answers=1, status=200, vehicles=1, caller=None):
        self.counts.look_at_clock()
        for _ in range(answers):
            self.counts.add(caller or self.callers[0], INSURANCE, "GET", status, vehicles)


@pytest.fixture
def now(monkeypatch):
    """`now(seconds)` sets the clock to so many seconds after noon, without a jump."""

    def move(seconds):
        monkeypatch.setattr(clock, "now", lambda: NOON + seconds)
        monkeypatch.setattr(clock, "monotonic_ns", lambda: (NOON + seconds) * 10**9)
        monkeypatch.setattr(clock, "today", lambda zone: clock.day_of(NOON + seconds, zone))

    move(0)
    return move


@pytest.fixture
def start(world, now):
    """`start()` returns another process on the same database."""
    processes = []

    def begin(zone=UTC):
        processes.append(Process(world, zone))
        return processes[-1]

    yield begin
    for process in processes:
        close_quietly(process.engine)


@pytest.fixture
def process(start):
    return start()


def days(world, *by):
    """Return account, day and numbers of all days."""
    used = usage_of_days(world.engine, *ANY_DAY, by or (By.ACCOUNT, By.DAY))
    return [(each.account, each.day, each.answers, each.vehicles) for each in used]


def hours(world):
    """Return account, hours since noon and answers of all hours that are kept."""
    used = usage_of_hours(world.engine, (By.ACCOUNT, By.HOUR))
    return [(each.account, ((each.hour or 0) - NOON) // HOUR, each.answers) for each in used]


class TestWrite:
    def test_counts_add_up(self, world, process):
        """Each write adds to what is there, in the hour and on the day."""
        for _ in range(2):
            process.count(3, vehicles=10)
            process.writer.flush()
        assert days(world) == [("alice", "2030-06-15", 6, 60)]
        assert hours(world) == [("alice", 0, 6)]

    def test_processes_add_up(self, world, start):
        """Workers, and hosts that share a database, add to the same numbers."""
        for process in (start(), start(), start()):
            process.count(2)
            process.count(1, caller=process.callers[1])
            process.writer.flush()
        assert days(world) == [("alice", "2030-06-15", 6, 6), ("bob", "2030-06-15", 3, 3)]

    def test_classes_are_apart(self, world, process):
        """The four classes are added up separately."""
        for status, answers in ((200, 4), (404, 3), (429, 2), (503, 1)):
            process.count(answers, status=status)
        process.writer.flush()
        (used,) = usage_of_days(world.engine, *ANY_DAY, ())
        assert used.by_class == (4, 3, 2, 1)
        assert used.answers == 10

    def test_nothing_is_written_if_nothing_was_counted(self, process, statements):
        """An idle worker does not touch the database: each write costs the others their keys."""
        with statements() as seen:
            process.writer.flush()
        assert seen == []

    @pytest.mark.parametrize(
        ("zone", "seconds", "day"),
        [
            ("UTC", 12 * HOUR - 1, "2030-06-15"),
            ("UTC", 12 * HOUR, "2030-06-16"),
            ("Pacific/Auckland", -1, "2030-06-15"),
            ("Pacific/Auckland", 0, "2030-06-16"),
            ("Asia/Kathmandu", 6 * HOUR + 15 * 60 - 1, "2030-06-15"),
            ("Asia/Kathmandu", 6 * HOUR + 15 * 60, "2030-06-16"),
        ],
    )
    def test_days_are_those_of_the_time_zone(self, world, start, now, zone, seconds, day):
        """A day begins at midnight of the service's time zone, whatever its offset (D20)."""
        process = start(ZoneInfo(zone))
        now(seconds)
        process.count()
        process.writer.flush()
        assert [each[1] for each in days(world)] == [day]
        assert hours(world) == [("alice", seconds // HOUR, 1)]

    def test_a_late_write_counts_for_the_time_of_the_answer(self, world, process, now):
        """What was counted before midnight stays on that day."""
        now(12 * HOUR - 1)
        process.count()
        now(12 * HOUR)
        process.count(2)
        process.writer.flush()
        assert [each[1:3] for each in days(world)] == [("2030-06-15", 1), ("2030-06-16", 2)]
        assert hours(world) == [("alice", 11, 1), ("alice", 12, 2)]

    def test_no_key_or_plate_is_stored(self, world, process, alice):
        """The tables hold the public id of a key, and nothing of what was asked."""
        alice.get("/v1/vehicle/QX99ZZY/insurance")
        alice.get("/v1/QX99ZZY")
        alice.application.usage.flush()
        assert world.alice_key[18:].encode() not in world.store.content()
        assert b"QX99ZZY" not in world.store.content()


class TestOldUsage:
    def test_hours_are_kept_for_48_hours(self, world, process, now):
        """Hours older than that are removed, and their days stay."""
        process.count()
        process.writer.flush()
        now(47 * HOUR)
        process.count()
        process.writer.flush()
        assert hours(world) == [("alice", 0, 1), ("alice", 47, 1)]
        now(48 * HOUR)
        assert hours(world) == [("alice", 47, 1)]
        process.count()
        process.writer.flush()
        now(0)
        assert hours(world) == [("alice", 47, 1), ("alice", 48, 1)]
        assert sum(each[2] for each in days(world)) == 3

    def test_days_are_kept_for_400_days(self, world, process, now):
        """The day 400 days ago is still there, the one before is not."""
        for ago in (KEPT_DAYS + 1, KEPT_DAYS, 0):
            now(-ago * DAY)
            process.count()
            process.writer.flush()
        first = clock.today(UTC) - timedelta(days=KEPT_DAYS)
        assert [each[1] for each in days(world)] == [str(first), "2030-06-15"]

    def test_after_a_long_pause_everything_old_goes(self, world, process, now):
        """Nothing needs to run while nothing is served."""
        for hour in range(0, 7 * 24, 5):
            now(hour * HOUR)
            process.count()
            process.writer.flush()
        now(500 * DAY)
        process.count()
        process.writer.flush()
        assert len(days(world)) == len(hours(world)) == 1
        now(0)
        assert len(hours(world)) == 1

    def test_two_processes_can_remove_the_same(self, world, start, now):
        """Whoever comes second finds nothing left to remove, and both have written."""
        first, second = start(), start()
        first.count()
        first.writer.flush()
        now(500 * DAY)
        for process in (first, second):
            process.count()
        threads = [threading.Thread(target=each.writer.flush) for each in (first, second)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        first.writer.flush()
        second.writer.flush()
        assert [each[2] for each in days(world)] == [2]

    def test_a_deleted_account_keeps_its_name_as_long_as_its_usage(self, world, process, now):
        """A later account of the same name is another one."""
        for _ in range(2):
            create_account(world.engine, "acme", "standard")
            key = create_key(world.engine, "acme")[1].text
            process.count(caller=caller_of(world, key))
            process.writer.flush()
            delete_account(world.engine, "acme", lambda _: 0)
        assert days(world, By.ACCOUNT) == [("acme", None, 1, 1)] * 2
        (both,) = usage_of_days(world.engine, *ANY_DAY, (), Whose(account="acme"))
        assert both.answers == 2
        now(500 * DAY)
        process.count()
        process.writer.flush()
        assert [each.name for each in UsageAccount.select().execute(world.engine)] == ["alice"]


class TestFaults:
    @pytest.fixture
    def log(self, caplog):
        """The messages that were logged about usage."""
        caplog.set_level(logging.INFO, "verifyd.usage")
        return lambda: [(each.levelname, each.message.partition(":")[0]) for each in caplog.records]

    def test_a_lost_database_delays_the_counts(self, world, process, log):
        """They wait in memory; the log has one line for it, and one when they are written."""
        process.count()
        world.store.lose()
        for _ in range(3):
            process.writer.flush()
            process.count()
        world.store.give_back()
        for _ in range(2):
            process.writer.flush()
        assert log() == [
            ("ERROR", "usage cannot be written now, and is kept in memory"),
            ("INFO", "usage is written again"),
        ]
        assert days(world) == [("alice", "2030-06-15", 4, 4)]

    @ON_SQLITE
    def test_a_locked_database_delays_the_counts(self, world, process, log):
        """Nothing is written half, and nothing twice."""
        process.count()
        process.writer.flush()
        process.engine.execute_sql("PRAGMA busy_timeout = 10")
        process.count()
        holder = apsw.Connection(str(world.database))
        holder.execute("BEGIN IMMEDIATE")
        process.writer.flush()
        process.writer.flush()
        holder.execute("ROLLBACK")
        holder.close()
        process.writer.flush()
        assert [level for level, _ in log()] == ["ERROR", "INFO"]
        assert days(world) == [("alice", "2030-06-15", 2, 2)]

    @ON_SQLITE
    def test_a_creation_waits_for_usage_that_is_being_written(self, world, process, alice):
        """A domain is created as soon as the writer's transaction has ended."""
        statuses = []

        def create():
            statuses.append(alice.post("/api/domains", {"name": "a.example"}).status_int)

        with process.engine.atomic():
            thread = threading.Thread(target=create)
            thread.start()
            thread.join(0.2)
            assert thread.is_alive()
            UsageAccount.insert(id=1, name="alice").execute(process.engine)
        thread.join()
        assert statuses == [201]

    def test_an_unknown_outcome_is_not_written_twice(self, world, process, log, monkeypatch):
        """If the connection is lost after the commit was sent, its counts are not repeated."""
        commit = process.engine.commit

        def lose():
            commit()
            raise peewee.OperationalError("server closed the connection unexpectedly")

        process.count(3)
        with monkeypatch.context() as patched:
            patched.setattr(process.engine, "commit", lose)
            process.writer.flush()
        process.count()
        process.writer.flush()
        assert log() == [("ERROR", "usage")]
        assert days(world) == [("alice", "2030-06-15", 4, 4)]

    @ON_SQLITE
    def test_a_commit_that_failed_for_sure_is_repeated(self, world, process, log, monkeypatch):
        """SQLite says that nothing was committed, as on a full disk."""

        def fail():
            process.engine.rollback()
            error = apsw.FullError("database or disk is full")
            error.result = apsw.SQLITE_FULL  # type: ignore[attr-defined]
            raise peewee.OperationalError(error)

        process.count(3)
        with monkeypatch.context() as patched:
            patched.setattr(process.engine, "commit", fail)
            process.writer.flush()
        process.writer.flush()
        assert days(world) == [("alice", "2030-06-15", 3, 3)]

    @ON_POSTGRES
    def test_a_connection_that_was_ended_is_opened_again(self, world, process):
        """The counts of a write that met a dead connection are in the next one."""
        process.count()
        process.writer.flush()
        (pid,) = process.engine.execute_sql("SELECT pg_backend_pid()").fetchone()
        world.engine.execute_sql("SELECT pg_terminate_backend(%s, 5000)", [pid])
        process.count()
        process.writer.flush()
        process.writer.flush()
        assert days(world) == [("alice", "2030-06-15", 2, 2)]

    def test_too_many_counts_are_said_once(self, world, process, log, monkeypatch):
        """What finds no room in memory is lost; the log says so once, until it can be written."""
        monkeypatch.setattr(counts_module, "COUNTS_MAX", 1)
        process.counts.__init__(OPERATIONS)
        world.store.lose()
        process.count()
        for _ in range(3):
            process.count(caller=process.callers[1])
            process.writer.flush()
        world.store.give_back()
        process.writer.flush()
        assert [level for level, _ in log()] == ["ERROR", "ERROR", "INFO"]
        assert days(world) == [("alice", "2030-06-15", 1, 1)]

    def test_a_loss_after_a_recovery_is_said_again(self, world, process, log, monkeypatch):
        """Once usage was written again, the next loss is a new one."""
        monkeypatch.setattr(counts_module, "COUNTS_MAX", 1)
        process.counts.__init__(OPERATIONS)
        for _ in range(2):
            world.store.lose()
            process.count()
            for _ in range(2):
                process.count(caller=process.callers[1])
                process.writer.flush()
            world.store.give_back()
            process.writer.flush()
        told = [text for _, text in log() if not text.startswith("usage cannot be written")]
        assert told == 2 * ["usage", "usage is written again"]


class TestThread:
    def test_the_first_answer_is_written_soon(self, world, process):
        """A process that has answered for a moment only has counted most of that."""
        process.writer.start()
        process.count(5)
        until(lambda: days(world) == [("alice", "2030-06-15", 5, 5)], "the first write", seconds=5)
        process.writer.stop()

    def test_nothing_is_looked_for_before_the_first_answer(self, process, statements):
        """A worker without answers ends at once, and has not written."""
        with statements() as seen:
            process.writer.start()
            process.writer.stop()
        assert seen == []

    @each_row(("age", "seconds"), [(0, 0.2), (1.9, 0.2), (5, 0.5), (50, 5), (100, 10), (10**6, 10)])
    def test_writes_become_rarer(self, age, seconds):
        """A process writes after a tenth of its age, at least 0.2 s and at most 10 s."""
        assert interval_seconds(age) == seconds

    def test_the_end_writes_what_is_left(self, world, process):
        """After `stop` everything is written, without waiting for the next time."""
        process.writer.start()
        process.count(5)
        process.writer.stop()
        assert days(world) == [("alice", "2030-06-15", 5, 5)]

    def test_the_end_says_what_was_not_written(self, world, process, caplog):
        """If the database cannot be used at the end, the log has the number of answers."""
        process.count(5)
        world.store.lose()
        process.writer.start()
        process.writer.stop()
        assert "usage: the last 5 answers were not written" in caplog.messages
        world.store.give_back()

    def test_it_takes_no_signals(self, world, process):
        """Signals must reach the main thread, which would not wake up otherwise."""
        process.writer.start()
        (thread,) = [each for each in threading.enumerate() if each.name == "usage"]
        status = Path(f"/proc/self/task/{thread.native_id}/status").read_text()
        blocked = int(status.partition("SigBlk:")[2].split()[0], 16)
        assert blocked & (1 << 14)  # SIGTERM
        process.writer.stop()
