"""Generates and parses the text of keys, without the database (D3).

A key is `vfd_<account tag 6><key id 8>_<secret 43><check digits 6>`, all in base62. The check
digits are the CRC-32 of everything before them.
"""

import hashlib
import secrets
import string
import zlib
from typing import NamedTuple

from app.redaction import KEY_PREFIX

_DIGITS = string.digits + string.ascii_uppercase + string.ascii_lowercase
PREFIX = KEY_PREFIX
TAG_CHARACTERS = 6
KEY_ID_CHARACTERS = 8
_SECRET_CHARACTERS = 43
_CHECK_CHARACTERS = 6
_SECRET_BITS = 256
LENGTH = 4 + TAG_CHARACTERS + KEY_ID_CHARACTERS + 1 + _SECRET_CHARACTERS + _CHECK_CHARACTERS


class Token(NamedTuple):
    """The three parts of a key."""

    account_tag: str
    key_id: str
    secret: str

    @property
    def text(self) -> str:
        """The text of the key, which its holder gets once."""
        body = f"{PREFIX}{self.account_tag}{self.key_id}_{self.secret}"
        return body + _check(body)

    @property
    def secret_hash(self) -> str:
        """The SHA-256 of the secret in hexadecimal. Only this is stored."""
        return hashlib.sha256(self.secret.encode()).hexdigest()


def new_token(account_tag: str) -> Token:
    """Generate a key for the account with this tag."""
    secret = base62(secrets.randbits(_SECRET_BITS), _SECRET_CHARACTERS)
    return Token(account_tag, random_base62(KEY_ID_CHARACTERS), secret)


def parse_token(text: str) -> Token | None:
    """Parse the text of a key; return None if it is malformed or mistyped."""
    if len(text) != LENGTH or not text.startswith(PREFIX) or not text.isascii():
        return None
    body, check = text[:-_CHECK_CHARACTERS], text[-_CHECK_CHARACTERS:]
    if _check(body) != check:
        return None
    ids, separator, secret = body[len(PREFIX) :].partition("_")
    if not separator or len(secret) != _SECRET_CHARACTERS or not (ids + secret).isalnum():
        return None
    return Token(ids[:TAG_CHARACTERS], ids[TAG_CHARACTERS:], secret)


def random_base62(characters: int) -> str:
    """Return a random text of base62 digits."""
    return "".join(secrets.choice(_DIGITS) for _ in range(characters))


def base62(number: int, characters: int) -> str:
    """Return `number` in base 62, with leading zeros."""
    digits = []
    for _ in range(characters):
        number, digit = divmod(number, len(_DIGITS))
        digits.append(_DIGITS[digit])
    return "".join(reversed(digits))


def _check(body: str) -> str:
    return base62(zlib.crc32(body.encode()), _CHECK_CHARACTERS)
