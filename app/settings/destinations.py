"""The settings of alerts: where they go, and what signs them.

As those of `app/settings/values.py`, a function returns the value of a text, or raises ValueError
with what the text must be.
"""

import base64
import binascii
import hashlib
import re
from dataclasses import dataclass, field, replace
from typing import Literal
from urllib.parse import urlsplit

from app.settings.values import words

SECRET_PREFIX = "whsec_"  # noqa: S105 - the prefix of every Standard Webhooks secret
_SECRET_BYTES = range(24, 65)
# SEC: sendmail would read a leading hyphen as an option. A line end would add a header.
_MAIL_ADDRESS = re.compile(r"[A-Za-z0-9_.+=/][A-Za-z0-9_.+=/-]*(@[A-Za-z0-9]([A-Za-z0-9.-]*))?\Z")
_MUST_BE = "must be exec:/PATH, https://... or mailto:ADDRESS, several separated by commas"


@dataclass(frozen=True)
class Destination:
    """One destination of alerts."""

    kind: Literal["exec", "https", "mailto"]
    target: str
    """The path of a command, the whole URL, or a mail address."""
    position: int | None = field(default=None, compare=False)
    """Its place in the setting, from 1, if that names several."""

    @property
    def name(self) -> str:
        """The destination's name in logs and in the output of commands."""
        if self.kind == "https":
            # SEC: the path is left out, because it can hold a token.
            place = f" (destination {self.position})" if self.position else ""
            return f"https://{urlsplit(self.target).netloc}/{place}"
        return f"{self.kind}:{self.target}"

    @property
    def digest(self) -> str:
        """An identifier for queued messages that does not reveal the target."""
        return hashlib.sha256(f"{self.kind}:{self.target}".encode()).hexdigest()[:16]


def parse_destinations(text: str) -> tuple[Destination, ...]:
    """Return the destinations that the setting names.

    Raises ValueError if the setting is wrong. The message does not repeat its text.
    """
    found = tuple(map(_parse, words(text)))
    if len(set(found)) < len(found):
        raise ValueError("must not name a destination twice")
    if len(found) == 1:
        return found
    return tuple(replace(each, position=place) for place, each in enumerate(found, 1))


def parse_secret(text: str) -> bytes | None:
    """Return the key in a `whsec_...` secret; None for an empty text.

    Raises ValueError if the secret is malformed.
    """
    if not text:
        return None
    try:
        key = base64.b64decode(text.removeprefix(SECRET_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not text.startswith(SECRET_PREFIX) or len(key) not in _SECRET_BYTES:
        raise ValueError(f"must be {SECRET_PREFIX} and 24 to 64 bytes in base64")
    return key


def _parse(text: str) -> Destination:
    if text.startswith("exec:/") and not text.endswith("/") and text.isprintable():
        return Destination("exec", text.removeprefix("exec:"))
    if text.startswith("mailto:") and _MAIL_ADDRESS.match(text.removeprefix("mailto:")):
        return Destination("mailto", text.removeprefix("mailto:"))
    if text.startswith("https://") and _is_url(text):
        return Destination("https", text)
    # SEC: the message does not repeat the value: a URL can hold a token.
    raise ValueError(_MUST_BE)


def _is_url(text: str) -> bool:
    if not text.isascii() or not text.isprintable() or " " in text:
        return False
    try:
        parts = urlsplit(text)
        is_port = parts.port is None or parts.port > 0
        # Connecting would fail with UnicodeError if a label is empty or too long.
        (parts.hostname or "").encode("idna")
    except ValueError:
        return False
    return bool(parts.hostname) and is_port and "@" not in parts.netloc and not parts.fragment
