"""Delivers queued messages, and tries for days again if a destination refuses one (D78)."""

import logging
from typing import NamedTuple

import msgspec

from app import clock
from app.alerts.message import Message
from app.alerts.senders import NotSent, send
from app.alerts.spool import Entry, Spool
from app.config import Config
from app.destinations import Destination

FIRST_WAIT_SECONDS = 300
LONGEST_WAIT_SECONDS = 6 * 3600
GIVEN_UP_SECONDS = 4 * 86_400
_log = logging.getLogger("app.operations.notices.delivery")


class Outcome(NamedTuple):
    """The result of sending to one destination."""

    destination: str
    reason: str | None
    """Why the message was not delivered; None if it was."""


def send_to_all(config: Config, message: Message) -> list[Outcome]:
    """Send a message to each destination at once, without the queue."""
    return [
        Outcome(destination.name, _fault(destination, message, config))
        for destination in config.notify
    ]


def deliver(config: Config) -> bool:
    """Deliver every queued message that is due; return False if one was given up or is waiting.

    If another process is delivering, this one does nothing. If this process is killed after it
    delivered a message, the message is sent again with the same identifier. Raises OSError.
    """
    spool = Spool(config.data_dir)
    is_well = True
    with spool.delivering() as is_alone:
        while is_alone and (entry := _next_due(spool)):
            is_well = _try_deliver(spool, entry, config) and is_well
        # A message that waits for its next attempt is not delivered, although nothing failed now.
        return is_well and not (is_alone and any(entry.attempts for entry in spool.entries()))


def _next_due(spool: Spool) -> Entry | None:
    now = clock.now()
    with spool.locked():
        return next((entry for entry in spool.entries() if _is_due(entry, now)), None)


def _is_due(entry: Entry, now: int) -> bool:
    if not entry.attempts:
        return True
    wait = min(FIRST_WAIT_SECONDS * 2 ** (entry.attempts - 1), LONGEST_WAIT_SECONDS)
    # A clock that was set back must not stop deliveries.
    return not 0 <= now - entry.tried_at < wait


def _try_deliver(spool: Spool, entry: Entry, config: Config) -> bool:
    """Send a message to the destinations that do not have it yet, and record the result."""
    message = entry.message
    entry = msgspec.structs.replace(entry, attempts=entry.attempts + 1, tried_at=clock.now())
    missing = [each for each in config.notify if each.digest not in entry.delivered]
    if not config.notify:
        _log.error("alert %s: not delivered: VERIFYD_NOTIFY names no destination", message.id)
    for destination in list(missing):
        fault = _fault(destination, message, config)
        if fault is not None:
            _log.warning("alert %s: not delivered to %s: %s", message.id, destination.name, fault)
            continue
        _log.info("alert %s: delivered to %s", message.id, destination.name)
        missing.remove(destination)
        entry = msgspec.structs.replace(entry, delivered=[*entry.delivered, destination.digest])
        _note(spool, entry)
    is_taken = bool(config.notify) and not missing
    is_too_old = clock.now() - message.created_at > GIVEN_UP_SECONDS
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


def _fault(destination: Destination, message: Message, config: Config) -> str | None:
    try:
        send(destination, message, config.notify_secret)
    except NotSent as error:
        return str(error)
    return None
