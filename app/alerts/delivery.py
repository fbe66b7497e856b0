"""Sends a message to one destination; delivers queued messages, and tries for days again.

A unit of its own delivers them: the sandbox of the others would break a setgid `sendmail`. A test
goes the same way, because one that is sent from a shell would not meet that sandbox.

Destinations with a form of their own, such as Slack, get it from a script on the page Monitoring:
their forms change, and this program would have to follow.
"""

import base64
import hashlib
import hmac
import http.client
import logging
import os
import shutil
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from email.message import EmailMessage
from email.utils import formatdate
from http import HTTPStatus
from typing import BinaryIO

import msgspec

from app import clock
from app.alerts.https import NotSent, answer_of
from app.alerts.message import DIGEST, TEST, Message
from app.alerts.spool import Entry, SendResult, Spool
from app.clock_steps import old_times
from app.config import SETTINGS, Config
from app.settings.destinations import SECRET_PREFIX, Destination
from app.storage.file_lock import user_name
from app.text import printable

COMMAND_SECONDS = 60
TEST_SECONDS = 180
"""For a test message to be sent: commands of other messages can come before it."""
_PAUSE_SECONDS = 0.1
_ERROR_BYTES_MAX = 10_000
_LINE_CHARACTERS_MAX = 300
_KILL_SECONDS = 5
"""For a killed command to end. One that waits in the kernel ends later."""
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_PROXIES = ("HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy")
_SENDMAIL_PATH = f"{_PATH}:/usr/lib"


def send(destination: Destination, message: Message, secret: bytes | None) -> str | None:
    """Send a message to a command, an https URL or the local sendmail.

    Returns None if it was delivered, otherwise who has accepted it and may still drop it. Raises
    NotSent, after about a minute at most.

    Args:
        secret: the key that signs messages to an https URL.
    """
    try:
        if destination.kind == "exec":
            _run([destination.target], _encoded(message), _environment(message))
        elif destination.kind == "mailto":
            _run([_sendmail(), "-t", "-i"], _mail(destination.target, message), _environment())
            return "sendmail has taken the mail; whether it arrives is not known"
        else:
            return _post(destination.target, message, secret)
    except ssl.SSLCertVerificationError as error:
        raise NotSent(f"its certificate is not valid: {error.verify_message}") from error
    except TimeoutError as error:
        raise NotSent("it did not answer in time") from error
    except (OSError, ValueError, http.client.HTTPException) as error:
        # SEC: the message of a ValueError can quote the message that was sent.
        raise NotSent(getattr(error, "strerror", None) or type(error).__name__) from error
    return None


def signature(secret: bytes, message_id: str, timestamp: int, body: bytes) -> str:
    """Return the `webhook-signature` of Standard Webhooks: `v1,` and an HMAC-SHA256 in base64."""
    signed = f"{message_id}.{timestamp}.".encode() + body
    digest = hmac.digest(secret, signed, hashlib.sha256)
    return f"v1,{base64.b64encode(digest).decode()}"


def _encoded(message: Message) -> bytes:
    return msgspec.json.encode(message.document())


def _post(url: str, message: Message, secret: bytes | None) -> str | None:
    if secret is None:
        raise NotSent(
            f"there is no secret to sign with: VERIFYD_NOTIFY_SECRET, {SECRET_PREFIX}..., "
            "or the systemd credential notify_secret"
        )
    body, now = _encoded(message), clock.now()
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "verifyd",
        "webhook-id": message.id,
        "webhook-timestamp": str(now),
        "webhook-signature": signature(secret, message.id, now, body),
    }
    status, line = answer_of(url, body, headers)
    if HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST:
        raise NotSent(f"it answered {status}: redirects are not followed")
    if not HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
        raise NotSent(f"it answered {status}{line and ': '}{line}")
    if status == HTTPStatus.ACCEPTED:
        return f"it answered {status}, so whether the message arrives is not known"
    return None


def _run(words: Sequence[str], stdin: bytes, environment: dict[str, str]) -> None:
    """Run a command with this input. Raises NotSent unless it ends with 0 in time.

    The reason has the last line of its stderr, of which our own gets the end.
    """
    # NOTE: no pipe, which a process that it leaves in the background would keep open; no file,
    # which a full disk would refuse.
    with open(os.memfd_create("stderr"), "rb+") as errors:
        try:
            _run_with(errors, words, stdin, environment)
        finally:
            sys.stderr.write(_end_of(errors))


def _run_with(
    errors: BinaryIO, words: Sequence[str], stdin: bytes, environment: dict[str, str]
) -> None:
    """Run a command whose stderr is a file. Raises NotSent unless it ends with 0 in time."""
    # NOTE: not `with`, which would wait forever for a process that cannot be killed.
    try:
        process = subprocess.Popen(  # noqa: S603 - the operator's own command, without a shell
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            env=environment,
            cwd="/",
            start_new_session=True,
        )
    except PermissionError as error:
        raise NotSent(f"{error.strerror}; let the user {user_name()} run it") from error
    try:
        process.communicate(stdin, COMMAND_SECONDS)
    except subprocess.TimeoutExpired:
        _kill(process)
        said = f"{words[0]} did not end within {COMMAND_SECONDS} s"
        raise NotSent(f"{said}{_last_line(errors)}") from None
    if process.returncode:
        raise NotSent(f"{words[0]} ended with {process.returncode}{_last_line(errors)}")


def _last_line(errors: BinaryIO) -> str:
    """Return what a command has written last, after a colon; empty if it has written nothing."""
    lines = _end_of(errors).strip().splitlines()
    return f": {printable(lines[-1].strip())[:_LINE_CHARACTERS_MAX]}" if lines else ""


def _end_of(errors: BinaryIO) -> str:
    errors.seek(max(0, errors.seek(0, os.SEEK_END) - _ERROR_BYTES_MAX))
    return errors.read().decode(errors="backslashreplace")


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a command and the processes it started, which are a session of their own.

    A setuid `sendmail` may run as another user now, and is left running.
    """
    if process.stdin:
        with suppress(OSError):
            process.stdin.close()
    with suppress(PermissionError, ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    with suppress(subprocess.TimeoutExpired):
        process.wait(_KILL_SECONDS)


def _environment(message: Message | None = None) -> dict[str, str]:
    """Return the whole environment of a command. SEC: it has no settings and no secrets.

    The proxies are for programs that send a message, such as curl.
    """
    environment = {"PATH": _PATH, "LANG": "C.UTF-8"}
    if message is not None:
        environment |= {name: os.environ[name] for name in _PROXIES if name in os.environ}
        environment |= {
            "NOTICE_ID": message.id,
            "NOTICE_TYPE": message.type,
            "NOTICE_HOST": message.host,
            "NOTICE_SUBJECT": message.subject,
            "NOTICE_TEXT": message.text,
        }
    return environment


def _sendmail() -> str:
    found = shutil.which("sendmail", path=_SENDMAIL_PATH)
    if found is None:
        raise NotSent("there is no sendmail on this machine; install one")
    return found


def obstacle(destination: Destination, secret: bytes | None) -> str | None:
    """Return why no message can reach a destination, as far as this host knows; otherwise None."""
    if destination.kind == "mailto" and not shutil.which("sendmail", path=_SENDMAIL_PATH):
        return f"names {destination.name}, and there is no sendmail on this machine"
    if destination.kind == "https" and secret is None:
        return "names an https URL, and there is no VERIFYD_NOTIFY_SECRET to sign with"
    command = destination.target
    if destination.kind == "exec" and not (os.path.isfile(command) and os.access(command, os.X_OK)):
        return f"names {destination.name}, which is not a file that this user can execute"
    return None


def _mail(address: str, message: Message) -> bytes:
    mail = EmailMessage()
    mail["To"] = address
    mail["Subject"] = message.subject
    mail["Date"] = formatdate(message.created_at)
    mail["Message-ID"] = f"<{message.id}@{message.host}>"
    mail["Auto-Submitted"] = "auto-generated"
    # Whoever looks for a digest in a mailbox finds it in one line.
    mail.set_content(message.text, cte="7bit" if message.type == DIGEST else None)
    return mail.as_bytes()


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
