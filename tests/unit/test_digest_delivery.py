"""Digests of the audit trail leave the host, to each destination that lacks the latest (D168)."""

import errno
from typing import Any

import pytest

from app import clock
from app.alerts import digests
from app.alerts.digests import digest_conditions, send_digests
from app.alerts.spool import SendResult, Spool
from app.audit.digests import latest
from app.audit.seal import seal
from app.errors import OperatorError
from app.settings.destinations import Destination
from tests.conftest import ON_SQLITE
from tests.unit.audit_trails import HOUR_NS, Clock, look_up, opened

COMMAND, URL, MAIL = (
    Destination("exec", "/bin/true"),
    Destination("https", "https://log.example.com/token"),
    Destination("mailto", "ops@example.com"),
)
pytestmark = ON_SQLITE


class Host:
    """A host whose destinations note what they get, and can fail."""

    def __init__(self, world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock = Clock(monkeypatch)
        monkeypatch.setattr(clock, "now", lambda: self.clock.now_ns // 10**9)
        monkeypatch.setattr(digests, "is_catching_up", lambda: False)
        monkeypatch.setattr(digests, "outcome_of", self.take)
        self.directory = world.directory / "audit"
        self.config = world.configured(audit_digests=(COMMAND, URL, MAIL), audit_dir=self.directory)
        self.got: list[tuple[str, str]] = []
        self.down: set[Destination] = set()
        self.killing: set[Destination] = set()
        self.tried = 0

    def take(self, destination: Destination, message: Any, _config: Any) -> SendResult:
        self.tried += 1
        if destination in self.killing:
            raise KeyboardInterrupt
        if destination in self.down:
            return SendResult(destination.name, "failed", "it answered 503")
        self.got.append((destination.kind, message.text))
        return SendResult(destination.name, "sent")

    def seal(self) -> str:
        """Record and seal something, and return the line to keep."""
        with opened(self.directory) as trail:
            trail.append(look_up())
        seal(self.directory, current=True)
        return f"{latest(self.directory)}\n"

    def pass_hours(self, hours: float) -> None:
        """Let hours pass, in each of which the delivery is started."""
        for _ in range(int(hours)):
            self.clock.now_ns += HOUR_NS
            send_digests(self.config)

    def conditions(self) -> list[str]:
        return [each.warning for each in digest_conditions(self.config)]


@pytest.fixture
def host(world, monkeypatch):
    return Host(world, monkeypatch)


def test_each_destination_gets_each_digest_and_mail_one_a_day(host):
    """Nothing is sent if nothing was sealed since."""
    assert send_digests(host.config)
    first = host.seal()
    assert send_digests(host.config)
    assert host.got == [("exec", first), ("https", first), ("mailto", first)]
    host.pass_hours(30)
    assert len(host.got) == 3
    host.got.clear()
    lines = []
    for _ in range(24):
        lines.append(host.seal())
        host.pass_hours(1)
    assert [text for kind, text in host.got if kind == "exec"] == lines
    assert len([text for kind, text in host.got if kind == "mailto"]) in (1, 2)
    assert host.conditions() == []


def test_a_destination_that_fails_for_a_week_gets_the_latest(host):
    """It holds up no other, is tried less and less, and is named meanwhile without its token."""
    host.down = {URL}
    for _ in range(7):
        host.seal()
        host.pass_hours(24)
    assert not send_digests(host.config)
    assert host.conditions() == [
        "Digests of the audit trail do not reach https://log.example.com/."
    ]
    assert host.tried < 7 + 7 + 40
    line, host.down = host.seal(), set()
    host.pass_hours(7)
    assert [text for kind, text in host.got if kind == "https"] == [line]
    assert host.conditions() == []


def test_a_delivery_that_does_not_run_is_a_condition(host):
    """Such as one whose timer was switched off; but not one that has nothing to send."""
    assert host.conditions() == []
    host.seal()
    assert len(host.conditions()) == 1
    send_digests(host.config)
    host.clock.pass_hours(20)
    assert host.conditions() == []
    host.seal()
    assert len(host.conditions()) == 1


def test_a_failure_is_told_after_a_boot_or_a_step_of_the_clock(host, monkeypatch):
    """Otherwise an alert would be solved, although nothing was delivered."""
    host.down = {URL}
    host.seal()
    send_digests(host.config)
    assert host.conditions() == []
    monkeypatch.setattr(digests, "is_catching_up", lambda: True)
    for hours in (2, -1000):
        host.clock.pass_hours(hours)
        assert len(host.conditions()) == 1


def test_a_process_that_is_killed_while_it_sends_tries_again(host):
    """Nobody knows whether the digest arrived. It holds up no other destination for good."""
    host.killing = {COMMAND}
    line = host.seal()
    with pytest.raises(KeyboardInterrupt):
        send_digests(host.config)
    assert not send_digests(host.config)
    assert host.got == [("https", line), ("mailto", line)]
    host.killing = set()
    host.pass_hours(1)
    assert host.got[2:] == [("exec", line)]
    assert send_digests(host.config)


def test_what_cannot_be_noted_is_not_sent(host, monkeypatch):
    """A full disk must not fill a mailbox. Another process that delivers is enough."""
    host.seal()
    with Spool(host.config.data_dir).delivering():
        assert send_digests(host.config)

    def refuse(*_args: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr(digests, "replace", refuse)
        with pytest.raises(OperatorError, match="No space left on device, so no digest is sent"):
            send_digests(host.config)
    assert host.tried == 0
    assert len(host.conditions()) == 1
    assert send_digests(host.config)
    assert len(host.got) == 3


@pytest.mark.parametrize("state", [b"", b"[]", b'{"sent": 1}', b"\xff"])
def test_a_damaged_state_sends_the_latest_again(host, state):
    """Twice is better than never."""
    host.seal()
    send_digests(host.config)
    (host.config.data_dir / "digests.json").write_bytes(state)
    send_digests(host.config)
    assert len(host.got) == 6


def test_a_clock_that_was_ahead_delays_no_digest(host):
    """What was tried and sent in the future is due now."""
    host.down = {COMMAND}
    host.seal()
    send_digests(host.config)
    host.clock.pass_hours(-24 * 1000)
    host.down = set()
    line = host.seal()
    send_digests(host.config)
    assert host.got[-3:] == [("exec", line), ("https", line), ("mailto", line)]
