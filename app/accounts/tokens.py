"""The text of a key (D3): made, and parsed."""

import hashlib
import secrets
import string
import zlib
from typing import NamedTuple

from app.errors import KEY_PREFIX, SANDBOX_KEY_PREFIX

_DIGITS = string.digits + string.ascii_uppercase + string.ascii_lowercase
TAG_CHARACTERS = 6
KEY_ID_CHARACTERS = 8
_SECRET_CHARACTERS = 43
_CHECK_CHARACTERS = 6
_SECRET_BITS = 256
_BODY_CHARACTERS = TAG_CHARACTERS + KEY_ID_CHARACTERS + 1 + _SECRET_CHARACTERS + _CHECK_CHARACTERS


class Token(NamedTuple):
    """The parts of a key (D3).

    Its text is `vfd_<account tag 6><key id 8>_<secret 43><check digits 6>`, all in base62. In a
    sandbox it begins with `vfd_test_` (D180). The check digits are the CRC-32 of everything before
    them.
    """

    account_tag: str
    key_id: str
    secret: str
    is_sandbox: bool = False

    @property
    def text(self) -> str:
        """The text of the key, which its holder gets once."""
        prefix = SANDBOX_KEY_PREFIX if self.is_sandbox else KEY_PREFIX
        body = f"{prefix}{self.account_tag}{self.key_id}_{self.secret}"
        return body + _check(body)

    @property
    def secret_hash(self) -> str:
        """The SHA-256 of the secret in hexadecimal. Only this is stored."""
        return hashlib.sha256(self.secret.encode()).hexdigest()


def new_token(account_tag: str, *, is_sandbox: bool = False) -> Token:
    """Generate a key for the account with this tag."""
    secret = base62(secrets.randbits(_SECRET_BITS), _SECRET_CHARACTERS)
    return Token(account_tag, random_base62(KEY_ID_CHARACTERS), secret, is_sandbox)


def prefix_of(key: str) -> str:
    """Return how a key with this beginning must begin."""
    return SANDBOX_KEY_PREFIX if key.startswith(SANDBOX_KEY_PREFIX) else KEY_PREFIX


def length_of(key: str) -> int:
    """Return how many characters a key with this beginning must have."""
    return len(prefix_of(key)) + _BODY_CHARACTERS


def parse_token(text: str) -> Token | None:
    """Parse the text of a key; return None if it is malformed or mistyped."""
    prefix = prefix_of(text)
    if len(text) != length_of(text) or not text.startswith(prefix) or not text.isascii():
        return None
    body, check = text[:-_CHECK_CHARACTERS], text[-_CHECK_CHARACTERS:]
    if _check(body) != check:
        return None
    ids, separator, secret = body[len(prefix) :].partition("_")
    if not separator or len(secret) != _SECRET_CHARACTERS or not (ids + secret).isalnum():
        return None
    is_sandbox = prefix == SANDBOX_KEY_PREFIX
    return Token(ids[:TAG_CHARACTERS], ids[TAG_CHARACTERS:], secret, is_sandbox)


def is_key_id(text: str) -> bool:
    """Tell whether a text has the form of a key's id."""
    return len(text) == KEY_ID_CHARACTERS and text.isascii() and text.isalnum()


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
