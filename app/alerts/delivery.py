"""Delivers queued messages, and tries for days again.

A unit of its own does that: the sandbox of the others would break a setgid `sendmail`. A test
goes the same way, because one that is sent from a shell would not meet that sandbox.
"""

import logging
import time

import msgspec

from app import clock
from app.alerts.https import NotSent
from app.alerts.message import TEST, Message
from app.alerts.sending import send
from app.alerts.spool import Entry, SendResult, Spool
from app.clock_steps import old_times
from app.config import SETTINGS, Config
from app.settings.destinations import Destination

TEST_SECONDS = 180
"""For a test message to be sent: commands of other messages can come before it."""
_PAUSE_SECONDS = 0.1
FIRST_WAIT_SECONDS = 300
LONGEST_WAIT_SECONDS = 6 * 3600
GIVEN_UP_SECONDS = 4 * 86_400
_log = logging.getLogger("verifyd.alerts")


def send_to_all(config: Config, message: Message) -> list[SendResult]:
    """Send a message to each destination of alerts or digests at once, without the queue."""
    outcomes = [outcome_of(each, message, config) for each in config.notify]
    for each in config.audit_digests:
        if each not in config.notify:
            outcome = outcome_of(each, message, config)
            # Its place may be taken in the other setting, too.
            name = f"{each.name} of {SETTINGS['audit_digests'].variable}"
            outcomes.append(outcome._replace(destination=name))
    return outcomes


def deliver(config: Config) -> bool:
    """Deliver every queued message that is due; return False if one was given up or is waiting.

    If another process is delivering, this one does nothing. If this process is killed after it
    delivered a message, the message is sent again with the same identifier. Raises OSError.
    """
    spool = Spool(config.data_dir)
    is_well = True
    with spool.delivering() as is_alone:
        while is_alone and (entry := _next_due(spool)):
            if entry.message.type == TEST:
                _test(spool, entry, config)
            else:
                is_well = _try_deliver(spool, entry, config) and is_well
        # A message that waits for its next attempt is not delivered, although nothing failed now.
        return is_well and not (is_alone and any(entry.attempts for entry in spool.entries()))


def _next_due(spool: Spool) -> Entry | None:
    with spool.locked():
        due = (each for each in spool.entries() if is_due(each.attempts, each.tried_at))
        return next(due, None)


def is_due(attempts: int, tried_at: int) -> bool:
    """Tell whether to try again what failed so often, the last time at `tried_at`."""
    if not attempts:
        return True
    wait = min(FIRST_WAIT_SECONDS * 2 ** min(attempts - 1, 10), LONGEST_WAIT_SECONDS)
    return is_past(tried_at, wait)


def is_past(time: int, seconds: int) -> bool:
    """Tell whether a time is so long ago, or of a clock that was ahead: that stops no delivery."""
    return not 0 <= clock.now() - time < seconds


def _test(spool: Spool, entry: Entry, config: Config) -> None:
    """Send a test message once, and note what came of it for the command that waits for that."""
    outcomes = send_to_all(config, entry.message)
    with spool.locked():
        # First, because a full disk would repeat the test every five minutes.
        spool.finish(entry)
        spool.note_tested(entry.message.id, outcomes)


def test_through_queue(config: Config, message: Message) -> list[SendResult] | None:
    """Queue a test message, and wait for what comes of it in the unit that delivers alerts.

    Returns None if that takes too long. Raises OSError if the queue cannot be used.
    """
    spool = Spool(config.data_dir)
    with spool.locked():
        spool.put(message, dict(spool.alerted()))
    until_ns = clock.monotonic_ns() + TEST_SECONDS * 1_000_000_000
    while (outcomes := spool.tested(message.id)) is None and clock.monotonic_ns() < until_ns:
        time.sleep(_PAUSE_SECONDS)
    return outcomes


def _try_deliver(spool: Spool, entry: Entry, config: Config) -> bool:
    """Send a message to the destinations that do not have it yet, and record the result."""
    message = entry.message
    entry = msgspec.structs.replace(entry, attempts=entry.attempts + 1, tried_at=clock.now())
    missing = [each for each in config.notify if each.digest not in entry.delivered]
    if not config.notify:
        _log.error("alert %s: not delivered: VERIFYD_NOTIFY names no destination", message.id)
    for destination in list(missing):
        outcome = outcome_of(destination, message, config)
        if outcome.outcome == "failed":
            _log.warning("alert %s: %s", message.id, outcome)
            continue
        _log.info("alert %s: %s", message.id, outcome)
        missing.remove(destination)
        entry = msgspec.structs.replace(entry, delivered=[*entry.delivered, destination.digest])
        _note(spool, entry)
    is_taken = bool(config.notify) and not missing
    is_too_old = message.created_at in old_times(config.data_dir, GIVEN_UP_SECONDS)
    with spool.locked():
        if is_taken or is_too_old:
            spool.finish(entry)
        else:
            spool.write(entry)
    if is_too_old and not is_taken:
        _log.error("alert %s: given up after 4 days: %s", message.id, message.subject)
    return is_taken


def _note(spool: Spool, entry: Entry) -> None:
    """Record which destinations have a message. If that fails, they get it twice."""
    try:
        with spool.locked():
            spool.write(entry)
    except OSError as error:
        _log.error(
            "alert %s: its delivery cannot be recorded: %s", entry.message.id, error.strerror
        )


def outcome_of(destination: Destination, message: Message, config: Config) -> SendResult:
    """Send a message, and return what came of it."""
    try:
        doubt = send(destination, message, config.notify_secret)
    except NotSent as error:
        return SendResult(destination.name, "failed", str(error))
    return SendResult(destination.name, "accepted" if doubt else "sent", doubt)
