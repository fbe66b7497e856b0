"""No destination, setting or disk hinders the delivery of alerts to others."""

import errno
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from unittest.mock import Mock

import msgspec
import pytest

from app import clock
from app.alerts import delivery, sending
from app.alerts.conditions import queue_conditions
from app.alerts.delivery import deliver, outcome_of, send_to_all
from app.alerts.https import NotSent
from app.alerts.message import Alerted, Condition, composed
from app.alerts.message import test_message as trial_message
from app.alerts.spool import Spool
from app.config import Config
from app.settings.destinations import Destination
from tests.system.processes import until

NOW = 1_900_000_000
DAY = 86_400
PROBLEM = Condition("load:rdw", "it failed", "It failed.", NOW, "mend it", "1")
TRIAL = composed([PROBLEM], [])


class Queue:
    """An installation with two commands as destinations, and a clock that tests set."""

    def __init__(self, directory):
        self.directory = directory
        self.now = NOW
        self.commands = [self.command("first"), self.command("second")]
        self.config = self.configured(*self.commands)

    def command(self, name, text="exit 0"):
        """Make a command that records its runs."""
        path = self.directory / name
        path.write_text(f'#!/bin/sh\necho >>"{path}.got"\n{text}\n')
        path.chmod(0o755)
        return path

    def configured(self, *commands):
        """Return the settings with these commands."""
        return Config(
            database_url=f"sqlite:///{self.directory}/verifyd.db",
            data_dir=self.directory,
            notify=tuple(Destination("exec", str(path)) for path in commands),
        )

    def put(self):
        """Queue an alert."""
        spool = Spool(self.directory)
        with spool.locked():
            spool.put(msgspec.structs.replace(TRIAL, created_at=self.now), {})

    def queued(self):
        """Return the waiting messages."""
        return list(Spool(self.directory).entries())

    def got(self, command):
        """Return how often a command ran."""
        path = command.with_name(f"{command.name}.got")
        return path.read_text().count("\n") if path.exists() else 0


@pytest.fixture
def queue(tmp_path, monkeypatch):
    """An installation with an empty queue."""
    queue = Queue(tmp_path)
    monkeypatch.setattr(clock, "now", lambda: queue.now)
    return queue


def test_it_has_failed_as_long_as_an_alert_waits(queue):
    """The unit has failed until everything is delivered, also between attempts."""
    queue.put()
    queue.command("second", "exit 1")
    assert not deliver(queue.config)
    assert not deliver(queue.config)
    assert queue.got(queue.commands[1]) == 1
    queue.command("second")
    queue.now += 300
    assert deliver(queue.config)
    assert deliver(queue.config)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("exit 78", "ended with 78"),
        (
            "echo one >&2; printf 'no \\033[1mconfiguration\\n\\n' >&2; exit 78",
            "ended with 78: no ",
        ),
        ("yes x | head -c 100000 >&2; echo last >&2; exit 1", "ended with 1: last"),
        ("printf '\\377' >&2; exit 1", "ended with 1: \\xff"),
    ],
)
def test_the_reason_has_the_last_line_of_an_error(queue, capfd, text, reason):
    """A number alone tells nothing; control characters are not printed."""
    command = queue.command("first", text)
    outcome = outcome_of(Destination("exec", str(command)), TRIAL, queue.config)
    assert outcome.outcome == "failed"
    assert str(outcome.reason).startswith(f"{command} {reason}")
    assert "\x1b" not in str(outcome.reason)
    assert ("last" in capfd.readouterr().err) == ("last" in text)


@pytest.mark.timeout(30)
def test_a_process_that_is_left_in_the_background_delays_nothing(queue, tmp_path):
    """A mailer may leave one that delivers, with the same stderr."""
    left = tmp_path / "left"
    command = queue.command("first", f"tail -f /dev/null &\necho $! >{left}")
    outcome = outcome_of(Destination("exec", str(command)), TRIAL, queue.config)
    assert outcome.outcome == "sent"
    os.kill(int(left.read_text()), signal.SIGKILL)


def test_a_test_goes_the_way_of_alerts(queue):
    """Who delivers the queue sends it once, and the command that waits learns what came of it."""
    queue.put()
    queue.command("second", "echo no >&2; exit 1")
    spool = Spool(queue.directory)
    reported = {"load:rdw": Alerted("1", "it failed", NOW, NOW)}
    with spool.locked():
        spool.put(TRIAL, reported)
    deliver(queue.config)
    message = trial_message()
    with ThreadPoolExecutor() as threads:
        waiting = threads.submit(delivery.test_through_queue, queue.config, message)
        until(lambda: any(each.message == message for each in queue.queued()), "the test")
        deliver(queue.config)
        ended = waiting.result()
    assert ended is not None
    first, second = ended
    assert (first.outcome, second.outcome) == ("sent", "failed")
    assert str(second.reason).endswith("ended with 1: no")
    assert all(each.message != message for each in queue.queued())
    assert spool.alerted() == reported
    assert spool.tested(TRIAL.id) is None


def test_a_test_that_nobody_sends_ends(queue, monkeypatch):
    """The command says so then."""
    monkeypatch.setattr(delivery, "TEST_SECONDS", 0)
    assert delivery.test_through_queue(queue.config, trial_message()) is None


def test_a_test_is_sent_once_on_a_full_disk(queue, monkeypatch):
    """What came of it cannot be noted, but no further start of the unit sends it again."""
    full = OSError(errno.ENOSPC, "no space")
    monkeypatch.setattr(delivery, "TEST_SECONDS", 0)
    monkeypatch.setattr(Spool, "note_tested", Mock(side_effect=full))
    delivery.test_through_queue(queue.config, trial_message())
    with pytest.raises(OSError, match="no space"):
        deliver(queue.config)
    assert queue.queued() == []


def test_without_a_destination_alerts_wait(queue, caplog):
    """Alerts without a destination are kept and reported: the setting may be empty by mistake."""
    queue.put()
    nowhere = queue.configured()
    assert not deliver(nowhere)
    assert "not delivered: VERIFYD_NOTIFY names no destination" in caplog.text
    queue.now += 3601
    (condition,) = queue_conditions(nowhere)
    assert "Alerts are not delivered: 1;" in condition.warning
    assert deliver(queue.config)
    assert list(map(queue.got, queue.commands)) == [1, 1]


def test_without_a_destination_they_do_not_wait_forever(queue, caplog):
    """Alerts without a destination are given up after four days, like any other."""
    queue.put()
    queue.now += 4 * DAY + 1
    assert not deliver(queue.configured())
    assert queue.queued() == []
    assert "given up after 4 days" in caplog.text


@pytest.mark.parametrize("error", [UnicodeError("x"), ValueError("x"), OSError(5, "x")])
def test_one_destination_never_hinders_another(queue, monkeypatch, error):
    """Any error of one destination leaves the others unaffected."""

    def fail(*_):
        raise error

    monkeypatch.setattr(sending, "_post", fail)
    notify = (Destination("https", "https://h/token"), *queue.config.notify)
    outcomes = send_to_all(replace(queue.config, notify=notify), TRIAL)
    assert [each.outcome for each in outcomes] == ["failed", "sent", "sent"]


def test_a_test_names_the_setting_of_a_destination_of_digests(queue):
    """A URL on the same host may have the same place in the other setting; none gets two tests."""
    first, second = queue.config.notify
    config = replace(queue.config, notify=(first,), audit_digests=(first, second))
    assert [each.destination for each in send_to_all(config, TRIAL)] == [
        first.name,
        f"{second.name} of VERIFYD_AUDIT_DIGESTS",
    ]


def test_a_note_that_cannot_be_written_hinders_no_destination(queue, monkeypatch, caplog):
    """A delivery that cannot be recorded may be repeated; other destinations get theirs."""
    queue.put()

    def full(*_):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patched:
        patched.setattr(Spool, "write", full)
        assert deliver(queue.config)
    assert list(map(queue.got, queue.commands)) == [1, 1]
    assert "its delivery cannot be recorded: Input/output error" in caplog.text


def test_one_that_is_not_executable_says_who_must_run_it(queue, monkeypatch):
    """A command of mode 644 is refused, and the reason names the user of the service."""
    command = queue.command("third")
    command.chmod(0o644)
    monkeypatch.setattr(sending, "user_name", lambda: "verifyd")
    with pytest.raises(NotSent, match=r"^Permission denied; let the user verifyd run it$"):
        sending.send(Destination("exec", str(command)), TRIAL, None)


@pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning")
def test_one_that_cannot_be_killed_is_left_to_itself(queue, monkeypatch):
    """A command that another user's process replaced cannot be killed, so nothing waits for it."""
    pid = queue.directory / "pid"
    command = queue.command("third", f'echo $$ >"{pid}"; exec sleep 600')
    killpg = os.killpg

    def refused(*_):
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(sending, "COMMAND_SECONDS", 1)
    monkeypatch.setattr(sending, "_KILL_SECONDS", 0.1)
    monkeypatch.setattr(os, "killpg", refused)
    try:
        with pytest.raises(NotSent, match="did not end within 1 s"):
            sending.send(Destination("exec", str(command)), TRIAL, None)
    finally:
        killpg(int(pid.read_text()), signal.SIGKILL)
