"""Which alerts are sent to whom, once: their state and the queue of messages (D77)."""

import base64
import errno
import fcntl
import os
from multiprocessing import get_context

import pytest

from app import clock
from app.alerts import delivery, sending
from app.alerts.conditions import FoundConditions
from app.alerts.delivery import deliver
from app.alerts.https import NotSent
from app.alerts.message import Condition, composed
from app.alerts.nightly import running
from app.alerts.report import report
from app.alerts.spool import MESSAGES_MAX, Spool
from app.config import Config
from app.settings.destinations import Destination
from app.storage import reserve

HOUR, DAY = 3600, 86_400
NOW = 1_900_000_000


class Night:
    """An installation with a clock that tests set; its messages are read from the queue."""

    def __init__(self, directory):
        notify = (Destination("mailto", "ops@example.com"), Destination("exec", "/bin/false"))
        self.config = Config(
            database_url=f"sqlite:///{directory}/verifyd.db",
            state_dir=directory / "state",
            data_dir=directory,
            notify=notify,
        )
        self.spool = Spool(directory)
        self.now = NOW

    def tell(self, *conditions, unknown=(), ran_until=None):
        """Report conditions; return the subject of the message, or None."""
        found = FoundConditions(list(conditions), frozenset(unknown), ran_until or {})
        message = report(self.config, lambda: found).message
        return message and message.subject.partition(": ")[2]

    def queued(self):
        """Return the queued messages."""
        return list(self.spool.entries())


@pytest.fixture
def night(tmp_path, monkeypatch):
    """An installation without any alerts so far."""
    night = Night(tmp_path)
    monkeypatch.setattr(clock, "now", lambda: night.now)
    return night


@pytest.fixture
def sent(monkeypatch):
    """Record what is sent; every destination but the `broken` ones accepts it."""

    class Sent(list):
        def __init__(self):
            super().__init__()
            self.broken = set()

    sent = Sent()

    def send(destination, message, _secret):
        if destination.kind in sent.broken:
            raise NotSent("broken")
        sent.append((destination.kind, message.id))

    monkeypatch.setattr(delivery, "send", send)
    return sent


def condition(key="load:rdw", occurrence="1", since=NOW):
    """Return a condition."""
    return Condition(key, f"{key} is wrong", f"{key} is wrong.", since, "mend it", occurrence)


class TestReport:
    def test_a_condition_is_sent_once(self, night):
        """A condition is sent once, and once more when it ends; a good night sends nothing."""
        assert night.tell() is None
        assert night.tell(condition()) == "load:rdw is wrong"
        assert night.tell(condition()) is None
        assert night.tell() == "solved: load:rdw is wrong"
        assert night.tell() is None
        assert night.tell(condition(occurrence="2")) == "load:rdw is wrong"

    def test_everything_found_at_once_is_one_message(self, night):
        """One message lists all conditions, and those that ended."""
        night.tell(condition("stale:mid", ""))
        told = night.tell(condition(), condition("disk:load", ""))
        assert told == "load:rdw is wrong, and 1 more"
        text = night.queued()[-1].message.text
        for part in ("load:rdw is wrong.", "disk:load is wrong.", "Solved", "stale:mid", "mend it"):
            assert part in text
        assert night.tell(condition(), condition("disk:load", "")) is None

    def test_a_new_failure_is_sent_again(self, night):
        """The next night's failed load is another event, and is sent."""
        night.tell(condition(occurrence="1"))
        assert night.tell(condition(occurrence="2")) == "load:rdw is wrong"

    def test_a_lasting_condition_is_sent_again_after_a_week(self, night):
        """A lasting condition is sent again after a week, and keeps its first time."""
        night.tell(condition("stale:rdw", ""))
        night.now += 7 * DAY - 1
        assert night.tell(condition("stale:rdw", "")) is None
        night.now += 1
        assert night.tell(condition("stale:rdw", "", since=night.now)) == "stale:rdw is wrong"
        night.tell()
        assert night.queued()[-1].message.solved[0].since == NOW

    def test_a_clock_that_was_ahead_puts_no_reminder_off(self, night):
        """What was sent at a time that is still to come is sent again, and hides nothing else."""
        stale = condition("stale:rdw", "")
        night.now += 365 * DAY
        night.tell(condition())
        night.now = NOW
        assert night.tell(condition(), stale) == "load:rdw is wrong, and 1 more"
        assert night.tell(condition(), stale) is None

    def test_an_unknown_condition_is_not_over(self, night):
        """While the database is down, only conditions that need no database can end."""
        night.tell(condition(), condition("certificate:expiry", ""))
        down = condition("database:unusable", "")
        assert night.tell(down, unknown=["load"]) == "database:unusable is wrong"
        solved = [each.title for each in night.queued()[-1].message.solved]
        assert solved == ["certificate:expiry is wrong"]
        assert night.tell(unknown=[]) == "solved: load:rdw is wrong, and 1 more"

    def test_a_failed_run_is_over_after_a_later_one(self, night):
        """A later run ends the condition, even if the database never recorded the failed one."""
        night.tell(condition("job:import", str(NOW)))
        assert night.tell(ran_until={"import": NOW - DAY}) is None
        assert night.tell(ran_until={"import": NOW + DAY}) == "solved: job:import is wrong"

    @pytest.mark.parametrize("key", ["load:rdw", "held:rdw:vehicles"])
    @pytest.mark.parametrize("kind", ["stale", "unchanged"])
    def test_a_register_that_failed_tonight_is_not_also_stale(self, night, kind, key):
        """The stale register is reported with the next message, or on the next day."""
        night.tell(condition(key))
        night.now += 4 * HOUR
        stale = condition(f"{kind}:rdw", "")
        assert night.tell(condition(key), stale) is None
        night.now += 24 * HOUR
        assert night.tell(condition(key), stale) == f"{kind}:rdw is wrong"

    def test_a_load_of_a_night_that_goes_on_waits_for_its_end(self, night):
        """A nightly run reports its loads at its end; older conditions do not wait for it."""
        night.now += 10
        with running(night.config.state_dir, "import"):
            assert night.tell(condition(since=night.now + 1)) is None
            assert night.tell(condition("load:mid", since=NOW)) == "load:mid is wrong"
        assert night.tell(condition(since=night.now + 1)).startswith("load:rdw is wrong")

    def test_without_a_destination_nothing_is_kept(self, tmp_path):
        """Without a destination neither queue nor state is kept, and later everything is sent."""
        config = Config(database_url=f"sqlite:///{tmp_path}/a.db", data_dir=tmp_path)
        assert report(config, lambda: FoundConditions([condition()])).message is None
        assert list(tmp_path.iterdir()) == []

    def test_undelivered_alerts_are_no_alert(self, night):
        """Undelivered alerts show up in `check`: an alert could not be delivered either."""
        assert night.tell(condition("notify:queue")) is None

    def test_a_queue_that_cannot_be_written_hinders_nobody(self, night, caplog):
        """The reason is logged, and the alert is queued the next time."""
        (night.config.data_dir / "notices").write_text("in the way")
        assert night.tell(condition()) is None
        assert "no alert can be queued" in caplog.text
        (night.config.data_dir / "notices").unlink()
        assert night.tell(condition()) == "load:rdw is wrong"

    def test_two_at_once_queue_one_message(self, night):
        """Of two reports of the same condition, only the first queues a message."""
        context = get_context("fork")
        processes = [context.Process(target=night.tell, args=[condition()]) for _ in range(8)]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
        assert len(night.queued()) == 1

    def test_conditions_are_gathered_under_the_lock(self, night):
        """Conditions are gathered under the lock, so that no older view ends new ones."""

        def gather():
            path = night.config.data_dir / "notices" / "lock"
            with path.open("wb") as lock, pytest.raises(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return FoundConditions([condition()])

        assert report(night.config, gather).message is not None

    def test_a_message_is_bounded(self):
        """The message has a maximum length, because a command gets it in its environment."""
        many = [condition(f"load:r{n}", since=n) for n in range(500)]
        many = [Condition(**{**_members(each), "details": ("x" * 5000,) * 30}) for each in many]
        message = composed(many, [])
        assert len(message.text) < 40_000
        assert len(message.problems) == 20


def _members(each):
    return {name: getattr(each, name) for name in each.__struct_fields__}


class TestQueue:
    def test_a_delivered_message_is_not_sent_again(self, night, sent):
        """A delivered message leaves the queue, and its conditions are not sent again."""
        night.tell(condition())
        assert deliver(night.config)
        assert [kind for kind, _ in sent] == ["mailto", "exec"]
        assert night.queued() == []
        assert night.tell(condition()) is None
        assert night.tell() == "solved: load:rdw is wrong"

    def test_only_failed_destinations_are_retried(self, night, sent):
        """Only failed destinations are retried: after 5, 10, 20 minutes, at most 6 hours."""
        night.tell(condition())
        sent.broken = {"exec"}
        assert not deliver(night.config)
        assert [kind for kind, _ in sent] == ["mailto"]
        waits = []
        for _ in range(9):
            tried_at = night.queued()[0].tried_at
            while night.queued()[0].tried_at == tried_at:
                night.now += 60
                deliver(night.config)
            waits.append((night.now - tried_at) // 60)
        assert waits == [5, 10, 20, 40, 80, 160, 320, 360, 360]
        sent.broken = set()
        night.now += 6 * HOUR
        assert deliver(night.config)
        assert [kind for kind, _ in sent] == ["mailto", "exec"]
        assert len({number for _, number in sent}) == 1

    def test_it_is_given_up_after_days(self, night, sent, caplog):
        """The log names the message that is given up; its conditions count as sent."""
        night.tell(condition())
        sent.broken = {"exec", "mailto"}
        night.now += 4 * DAY + 1
        assert not deliver(night.config)
        assert "given up after 4 days" in caplog.text
        assert night.queued() == []
        assert night.tell(condition()) is None

    def test_an_older_message_that_ends_later_forgets_nothing(self, night, sent):
        """The newest message decides what counts as sent, in whatever order messages end."""
        night.tell(condition())
        sent.broken = {"exec", "mailto"}
        deliver(night.config)
        night.tell(condition(), condition("load:mid"))
        sent.broken = set()
        deliver(night.config)
        assert len(night.queued()) == 1
        night.now += HOUR
        deliver(night.config)
        assert night.queued() == []
        assert night.tell(condition(), condition("load:mid")) is None

    def test_the_queue_is_bounded(self, night, caplog):
        """The oldest messages are removed first, and the log says so."""
        for number in range(MESSAGES_MAX + 3):
            night.tell(condition(occurrence=str(number)))
        assert len(night.queued()) == MESSAGES_MAX
        assert night.queued()[-1].alerted["load:rdw"].occurrence == str(MESSAGES_MAX + 2)
        assert caplog.text.count("dropped, the queue is full") == 3

    @pytest.mark.parametrize("content", [b"", b"{", b'{"number": 1}', b"\xff"])
    def test_a_damaged_message_stops_nothing(self, night, sent, content, caplog):
        """A damaged message is removed, and the others are delivered."""
        night.tell(condition())
        (night.config.data_dir / "notices" / "queue" / "0000000000.json").write_bytes(content)
        assert deliver(night.config)
        assert len(sent) == 2
        assert "removed, it is not a message" in caplog.text

    def test_two_deliverers_send_once(self, night, sent):
        """Of two deliveries at once, the second leaves the work to the first."""
        night.tell(condition())
        with night.spool.delivering() as is_alone:
            assert is_alone
            assert deliver(night.config)
            assert sent == []
        assert deliver(night.config)
        assert len(sent) == 2

    def test_a_message_is_queued_on_a_full_disk(self, night, monkeypatch):
        """On a full disk a message uses the reserve's space, as the database does (D57)."""
        assert night.tell() is None
        kept = night.config.data_dir / "notices" / "reserve"
        assert kept.stat().st_blocks * 512 >= reserve.RESERVE_BYTES
        fsync = os.fsync

        def full(descriptor):
            if kept.stat().st_size:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            fsync(descriptor)

        monkeypatch.setattr(os, "fsync", full)
        assert night.tell(condition()) == "load:rdw is wrong"
        assert len(night.queued()) == 1

    @pytest.mark.parametrize("step", range(1, 12))
    def test_a_kill_at_any_step_neither_loses_nor_repeats_an_alert(self, night, sent, step):
        """A kill at any step neither loses nor repeats an alert: each change is one rename."""
        night.tell(condition("load:mid"))

        def killed(function):
            def run(*args, **kwargs):
                nonlocal step
                step -= 1
                if step == 0:
                    os._exit(9)
                return function(*args, **kwargs)

            return run

        def told_until_killed():
            for name in ("open", "fsync", "rename", "close", "unlink"):
                setattr(os, name, killed(getattr(os, name)))
            night.tell(condition("load:mid"), condition())

        process = get_context("fork").Process(target=told_until_killed)
        process.start()
        process.join()
        night.tell(condition("load:mid"), condition())
        deliver(night.config)
        assert len(sent) == 4
        assert night.tell(condition("load:mid"), condition()) is None


def test_the_signature_is_that_of_the_specification():
    """The signature equals the example of Standard Webhooks' reference libraries."""
    secret = base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    body = b'{"test": 2432232314}'
    assert sending.signature(secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body) == (
        "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    )
