"""Sends a message to one destination: a command, an https URL or the local sendmail.

Destinations with a form of their own, such as Slack, get it from a script on the page Monitoring:
their forms change, and this program would have to follow.
"""

import base64
import hashlib
import hmac
import http.client
import os
import shutil
import signal
import ssl
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from email.message import EmailMessage
from email.utils import formatdate
from http import HTTPStatus
from typing import BinaryIO

import msgspec

from app import clock
from app.alerts.https import NotSent, answer_of
from app.alerts.message import DIGEST, Message
from app.settings.destinations import SECRET_PREFIX, Destination
from app.storage.file_lock import user_name
from app.text import printable

COMMAND_SECONDS = 60
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
