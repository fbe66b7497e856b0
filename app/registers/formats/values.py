"""Parsers of the texts in a column, except dates and times (`dates.py`).

A parser takes the text as it stands in the file. It returns the value, None if it is unknown, or
raises RowFault if it must not be stored. A text is missing if it is empty, `null` or a placeholder
of the source, in any case (formats 0.7).
"""

import re
import unicodedata
from collections.abc import Callable, Mapping
from typing import TypeVar

from app.registers.formats.bounded_cache import cached
from app.registers.formats.faults import RowFault
from app.storage.tables import TEXT_CHARACTERS_MAX
from app.vehicles.registration import canonical_registration

MISSING = frozenset({"", "null"})
_CENTS_MAX = 2**63 - 1
_SHOWN_CHARACTERS = 40
_SHOWN = re.compile(r""": ['"].*""", re.DOTALL)

# Many texts, one on each line, in the form that nearly all have: they are stored as they stand.
_CANONICAL_LINES = re.compile(r"[0-9A-Z]{1,12}(?:\n[0-9A-Z]{1,12})*+")
_PLAIN_LINES = re.compile(r"[!-~](?:[ -~]{0,98}[!-~])?(?:\n[!-~](?:[ -~]{0,98}[!-~])?)*+")

T = TypeVar("T")


def shown(text: str) -> str:
    """Return a text as a reason quotes it: short, and without control characters."""
    return repr(text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "...")


def without_value(reason: str) -> str:
    """Return a reason without the text that it quotes by `shown`."""
    return _SHOWN.sub("", reason)


def registration(text: str) -> str:
    """Return the canonical registration (D19); `NULL` is a plate here (formats 0.2)."""
    plate = canonical_registration(text)
    if plate is None:
        trimmed = text.strip()
        if not trimmed:
            raise RowFault("no registration")
        plate = canonical_registration(trimmed)
        if plate is None:
            raise RowFault(f"not a registration number: {shown(trimmed)}")
    return plate


def registrations(texts: list[str]) -> list[str]:
    """Parse many registrations at once; raises RowFault if any value is invalid."""
    # PERF: nearly all are canonical as they stand: 0.2 us each, one by one 1.3 us.
    if _CANONICAL_LINES.fullmatch("\n".join(texts)):
        return texts
    return list(map(registration, texts))


def stored_text(label: str, text: str, missing: frozenset[str] = MISSING) -> str | None:
    """Return a text trimmed, None if it is missing.

    Raises RowFault if it is too long or has a control character (formats 0.6).
    """
    trimmed = text.strip()
    if trimmed.lower() in missing:
        return None
    if len(trimmed) > TEXT_CHARACTERS_MAX:
        raise RowFault(f"{label}: longer than {TEXT_CHARACTERS_MAX} characters")
    # PERF: isprintable() clears nearly all texts in 0.1 us.
    if not trimmed.isprintable() and any(map(_is_control, trimmed)):
        raise RowFault(f"{label}: contains a control character")
    return trimmed


def _is_control(character: str) -> bool:
    return unicodedata.category(character) in ("Cc", "Cs")


def text(label: str, missing: frozenset[str] = MISSING) -> Callable[[str], str | None]:
    """Return a parser of texts that repeat, such as makes and colours."""
    return cached(lambda text: stored_text(label, text, missing))


def key_text(label: str) -> Callable[[str], str]:
    """Return a parser of a text that every row must have, and that hardly ever repeats."""

    def parse(text: str) -> str:
        value = stored_text(label, text)
        if value is None:
            raise RowFault(f"no {label}")
        return value

    return parse


def key_texts(label: str) -> Callable[[list[str]], list[str]]:
    """Return a parser of many such texts at once; it raises RowFault if any value is invalid."""
    parse = key_text(label)

    def parse_many(texts: list[str]) -> list[str]:
        # PERF: nearly all are stored as they stand: 0.2 us each, one by one 1.2 us.
        lines = "\n".join(texts)
        if _PLAIN_LINES.fullmatch(lines) and "null" not in lines.lower():
            return texts
        return list(map(parse, texts))

    return parse_many


def known_word(
    label: str, words: Mapping[str, T], missing: frozenset[str] = MISSING
) -> Callable[[str], T | None]:
    """Return a parser of a few words in any case; all other words are unknown."""

    def parse(text: str) -> T | None:
        value = stored_text(label, text, missing)
        return None if value is None else words.get(value.lower())

    return cached(parse)


def boolean(label: str, words: Mapping[str, bool]) -> Callable[[str], bool | None]:
    """Return a parser of yes and no in any case; another word rejects the row."""

    def parse(text: str) -> bool | None:
        value = stored_text(label, text)
        if value is None:
            return None
        if value.lower() not in words:
            raise RowFault(f"{label}: neither true nor false: {shown(value)}")
        return words[value.lower()]

    return cached(parse)


def cents(label: str) -> Callable[[str], int | None]:
    """Return a parser of decimal amounts, in hundredths that fit 64 bits; others reject the row."""

    def parse(text: str) -> int | None:
        value = stored_text(label, text)
        if value is None:
            return None
        whole, point, hundredths = value.removeprefix("-").partition(".")
        digits = whole + hundredths.ljust(2, "0")
        if (
            not (digits.isascii() and digits.isdigit() and whole)
            or len(digits) != len(whole) + 2
            or bool(point) != bool(hundredths)
        ):
            raise RowFault(f"{label}: not a decimal with at most two places: {shown(value)}")
        amount = int(digits)
        if amount > _CENTS_MAX:
            raise RowFault(f"{label}: too large: {shown(value)}")
        return -amount if value.startswith("-") else amount

    return cached(parse)


def currency(label: str) -> Callable[[str], str | None]:
    """Return a parser of three-letter codes; any other text is unknown."""

    def parse(text: str) -> str | None:
        value = stored_text(label, text)
        is_code = value is not None and len(value) == len("USD") and value.isascii()
        return value.upper() if value and is_code and value.isalpha() else None

    return cached(parse)
