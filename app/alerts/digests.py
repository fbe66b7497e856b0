"""Sends the digests of the audit trail to other machines (D168).

There is no queue: one digest proves what all before it prove, so each destination gets the latest
that it does not have. `digests.json` in VERIFYD_DATA_DIR says what each has. If it is missing or
damaged, the latest digest is sent again. The unit that delivers alerts sends digests, too, because
the sandbox of `seal` would break a setgid `sendmail`.
"""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from app import clock
from app.alerts.delivery import is_due, is_past, outcome_of
from app.alerts.message import DIGEST, Condition, new_message
from app.alerts.nightly import is_catching_up
from app.alerts.spool import Spool
from app.audit.chain import last_digest
from app.audit.digests import latest
from app.audit.record import AuditError
from app.config import Config
from app.errors import BAD_JSON, OperatorError
from app.settings.destinations import Destination
from app.storage.files import read_bytes, replace

_FILE: Final = "digests.json"
_DAY_SECONDS = 86_400
_LATE_SECONDS = 3600
_log = logging.getLogger("verifyd.alerts")


class SentDigest(msgspec.Struct, frozen=True):
    """What a destination has. Times are Unix seconds."""

    digest: str = ""
    """The latest that it accepted."""
    sent_at: int = 0
    attempts: int = 0
    """How many began since; each fails until it is known to have succeeded."""
    tried_at: int = 0
    failing_since: int = 0


class Deliveries(msgspec.Struct, frozen=True):
    """The content of the file."""

    ran_at: int = 0
    """When a delivery last looked whether there is anything to send."""
    sent: dict[str, SentDigest] = {}
    """By the digest of the destination's name."""


def send_digests(config: Config) -> bool:
    """Send the latest digest to each destination that does not have it; return False if one failed.

    Commands and URLs get each digest, mail addresses one a day. If another process is delivering,
    this one does nothing. If this one is killed while it sends, it is as if the attempt had failed.

    Raises AuditError if the trail cannot be read, and OSError. Raises OperatorError if an attempt
    cannot be noted. Then nothing is sent, because that would be repeated without end.
    """
    if not config.audit_digests:
        return True
    with Spool(config.data_dir).delivering() as is_alone:
        if not is_alone:
            return True
        known = _read(config.data_dir)
        sent = {
            each.digest: known.sent.get(each.digest, SentDigest()) for each in config.audit_digests
        }
        # PERF: it reads only the end of the chain, and nearly always that is all.
        newest = last_digest(config.audit_dir)
        for destination in config.audit_digests:
            state = sent[destination.digest]
            if newest and state.digest != newest and _is_due(destination, state):
                sent[destination.digest] = _attempted(state)
                _write(config.data_dir, sent)
                if digest := _send(config, destination):
                    sent[destination.digest] = SentDigest(digest, clock.now())
        _write(config.data_dir, sent)
        return not any(state.attempts for state in sent.values())


def digest_conditions(config: Config) -> Iterator[Condition]:
    """Yield a condition if digests do not reach their destinations."""
    try:
        newest = last_digest(config.audit_dir) if config.audit_digests else ""
    except OSError:
        return  # Another condition says so.
    if not newest:
        return
    known = _read(config.data_dir)
    states = {each: known.sent.get(each.digest, SentDigest()) for each in config.audit_digests}
    since = {
        each.name: state.failing_since
        for each, state in states.items()
        if state.attempts and is_past(state.failing_since, _LATE_SECONDS)
    }
    is_new = any(state.digest != newest for state in states.values())
    if not since and is_new and is_past(known.ran_at, _LATE_SECONDS) and not is_catching_up():
        # Nothing failed, but nothing is tried either.
        since = {each.name: known.ran_at or clock.now() for each in states}
    if since:
        yield Condition(
            key="audit:digests",
            title="digests of the audit trail do not leave the host",
            warning=f"Digests of the audit trail do not reach {', '.join(since)}.",
            since=min(since.values()),
            remedy="sudo verifyd notify --test",
        )


def _is_due(destination: Destination, state: SentDigest) -> bool:
    if destination.kind == "mailto" and not is_past(state.sent_at, _DAY_SECONDS):
        return False
    return is_due(state.attempts, state.tried_at)


def _attempted(state: SentDigest) -> SentDigest:
    now = clock.now()
    return msgspec.structs.replace(
        state,
        attempts=state.attempts + 1,
        tried_at=now,
        failing_since=state.failing_since or now,
    )


def _send(config: Config, destination: Destination) -> str:
    """Send the latest digest, and return it; empty if it was not accepted."""
    kept = latest(config.audit_dir)
    if kept is None:
        raise AuditError(f"{config.audit_dir} has a chain, but no trail whose digest can be sent")
    message = new_message(DIGEST, "digest of the audit trail", f"{kept}\n")
    outcome = outcome_of(destination, message, config)
    if outcome.outcome == "failed":
        _log.warning("digest of %s: %s", kept.segment, outcome)
        return ""
    _log.info("digest of %s: %s", kept.segment, outcome)
    return kept.digest


def _read(data_dir: Path) -> Deliveries:
    try:
        return msgspec.json.decode(read_bytes(data_dir / _FILE), type=Deliveries)
    except (OSError, *BAD_JSON):
        return Deliveries()


def _write(data_dir: Path, sent: dict[str, SentDigest]) -> None:
    try:
        replace(data_dir / _FILE, msgspec.json.encode(Deliveries(clock.now(), sent)))
    except OSError as error:
        raise OperatorError(
            f"{data_dir / _FILE} cannot be written: {error.strerror}, so no digest is sent"
        ) from error
