"""The text of a key (D3)."""

import hashlib
import re
import string
import zlib

from hypothesis import given
from hypothesis import strategies as st

from app.accounts.tokens import Token, base62, new_token, parse_token, random_base62
from tests.rows import each_row

KEY = Token("abc123", "XyZ98765", "s" * 43).text
ALPHABET = string.digits + string.ascii_uppercase + string.ascii_lowercase


def checked(body):
    """Return a text with its correct check."""
    return body + base62(zlib.crc32(body.encode()), 6)


def test_a_key_has_the_documented_form():
    """A key is `vfd_<account 6><key 8>_<secret 43><check 6>`, all base62."""
    text = new_token("abc123").text
    assert re.fullmatch(r"vfd_abc123[0-9A-Za-z]{8}_[0-9A-Za-z]{49}", text)


def test_the_check_is_the_crc_of_what_comes_before():
    """The last six digits are the CRC-32 of everything before them."""
    assert checked(f"vfd_abc123XyZ98765_{'s' * 43}") == KEY


def test_parsing_gives_the_parts_back():
    """Parsing a key returns the parts that it was made of."""
    token = new_token("abc123")
    assert parse_token(token.text) == token


def test_a_key_of_a_sandbox_has_a_prefix_of_its_own():
    """The prefix is part of the key and of its check digits."""
    token = new_token("abc123", is_sandbox=True)
    assert re.fullmatch(r"vfd_test_abc123[0-9A-Za-z]{8}_[0-9A-Za-z]{49}", token.text)
    assert parse_token(token.text) == token
    assert parse_token(token.text.replace("test_", "")) is None
    assert parse_token(KEY.replace("vfd_", "vfd_test_")) is None
    # The tag of another key can begin with the same letters.
    assert parse_token(Token("test12", "XyZ98765", "s" * 43).text) == (
        "test12",
        "XyZ98765",
        "s" * 43,
        False,
    )


def test_keys_differ():
    """Each key has its own id and secret."""
    tokens = [new_token("abc123") for _ in range(100)]
    assert len({token.key_id for token in tokens}) == 100
    assert len({token.secret for token in tokens}) == 100


def test_the_hash_is_of_the_secret_alone():
    """The hash is SHA-256 in hexadecimal, of the 43 characters."""
    assert Token("a", "b", "secret").secret_hash == hashlib.sha256(b"secret").hexdigest()


@each_row("position", range(len(KEY)))
def test_every_single_typing_error_is_noticed(position):
    """A key with one character changed, left out or swapped with the next is invalid."""
    changed = "a" if KEY[position] != "a" else "b"
    assert parse_token(KEY[:position] + changed + KEY[position + 1 :]) is None
    assert parse_token(KEY[:position] + KEY[position + 1 :]) is None
    swapped = KEY[:position] + KEY[position : position + 2][::-1] + KEY[position + 2 :]
    assert swapped == KEY or parse_token(swapped) is None


@each_row(
    "text",
    [
        "",
        "vfd_",
        KEY + "0",
        f" {KEY}",
        f"{KEY}\n",
        f"{KEY},{KEY}",
        checked(f"vfx_abc123XyZ98765_{'s' * 43}"),
        checked(f"vfd_abc123XyZ98765{'s' * 44}"),
        checked(f"vfd_abc123XyZ9876_{'s' * 44}"),
        checked(f"vfd_abc123XyZ987655_{'s' * 42}"),
        checked(f"vfd_abc123XyZ98765_{'s' * 42}_"),
        checked(f"vfd_abc123XyZ9876-_{'s' * 43}"),
        checked(f"vfd_abc123XyZ98765_{'s' * 42}'"),
        checked(f"vfd_abc123XyZ98765_{'s' * 42} "),
        checked(f"vfd_abc123XyZ98765_{'s' * 42}\u00fc"),
        checked(f"vfd_abc123XyZ98765_{'s' * 42}\u0661"),
    ],
)
def test_a_text_of_another_form_is_no_key(text):
    """A text of another form is no key, even with the right check."""
    assert parse_token(text) is None


@given(st.text(max_size=100))
def test_any_text_is_a_key_or_none(text):
    """Any text is parsed, or is no key; no error occurs."""
    assert parse_token(text) is None


@given(st.integers(0, 2**256 - 1))
def test_base62_holds_256_bits_in_43_digits(number):
    """Every secret fits, with leading zeros, and each has its own text."""
    digits = base62(number, 43)
    assert len(digits) == 43
    back = 0
    for digit in digits:
        back = back * 62 + ALPHABET.index(digit)
    assert back == number


def test_random_text_uses_the_whole_alphabet():
    """All 62 digits and letters occur."""
    assert set(random_base62(10_000)) == set(ALPHABET)
