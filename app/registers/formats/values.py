"""Readers: each turns the text of one column into a value, remembering what it has read.

A reader takes the text as it stands in the file and raises RowFault where the value cannot be
stored. Missing is the empty text, `null` and a source's placeholders, in any case (formats 0.7).
"""

import re
import unicodedata
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from typing import TypeVar

from app.registers.formats.bounded_cache import Memo, remembering
from app.registers.formats.format import RowFault
from app.vehicles.registration import canonical_registration

TEXT_CHARACTERS_MAX = 100
YEAR_MIN, YEAR_MAX = 1885, 9999
MISSING = frozenset({"", "null"})
_TIMES_OF_DAY_MAX = 100_000
_CENTS_MAX = 2**63 - 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SHOWN_CHARACTERS = 40
_SHOWN = re.compile(r""": ['"].*""", re.DOTALL)

# One text a line, each written as nearly all are; their readers return the last two as they are.
_CANONICAL = re.compile(r"[0-9A-Z]{1,12}(?:\n[0-9A-Z]{1,12})*+")
_MOMENTS = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z"
    r"(?:\n[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z)*+"
)
_PLAIN = re.compile(r"[!-~](?:[ -~]{0,98}[!-~])?(?:\n[!-~](?:[ -~]{0,98}[!-~])?)*+")

T = TypeVar("T")


def shown(text: str) -> str:
    """Return a text as a reason may quote it: short, and without control characters."""
    return repr(text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "...")


def without_value(reason: str) -> str:
    """Return a reason without the text that it quotes by `shown`."""
    return _SHOWN.sub("", reason)


def registration(text: str) -> str:
    """Return the canonical registration (D19); here `NULL` is a plate (formats 0.2)."""
    plate = canonical_registration(text)
    if plate is None:
        trimmed = text.strip()
        if not trimmed:
            raise RowFault("no registration")
        plate = canonical_registration(trimmed)
        if plate is None:
            raise RowFault(f"no registration number: {shown(trimmed)}")
    return plate


def registrations(texts: list[str]) -> list[str]:
    """Read many registrations at once; RowFault if one is none."""
    # PERF: nearly all are canonical as they stand: 0.2 us each, one by one 1.3 us.
    if _CANONICAL.fullmatch("\n".join(texts)):
        return texts
    return list(map(registration, texts))


def stored_text(label: str, text: str, missing: frozenset[str] = MISSING) -> str | None:
    """Return a text trimmed, None if missing; RowFault if it must not be stored (formats 0.6)."""
    trimmed = text.strip()
    if trimmed.lower() in missing:
        return None
    if len(trimmed) > TEXT_CHARACTERS_MAX:
        raise RowFault(f"{label}: longer than {TEXT_CHARACTERS_MAX} characters")
    # PERF: isprintable() clears nearly all texts in 0.1 us.
    if not trimmed.isprintable() and any(map(_is_control, trimmed)):
        raise RowFault(f"{label}: holds a control character")
    return trimmed


def _is_control(character: str) -> bool:
    return unicodedata.category(character) in ("Cc", "Cs")


def text(label: str, missing: frozenset[str] = MISSING) -> Callable[[str], str | None]:
    """Make a reader of texts of which there are few, as makes and colours."""
    return remembering(lambda text: stored_text(label, text, missing))


def key_text(label: str) -> Callable[[str], str]:
    """Make a reader of a text that must be there, and of which there are many."""

    def read(text: str) -> str:
        value = stored_text(label, text)
        if value is None:
            raise RowFault(f"no {label}")
        return value

    return read


def key_texts(label: str) -> Callable[[list[str]], list[str]]:
    """Make a reader of many texts that must be there, at once; RowFault if one is not."""
    read = key_text(label)

    def read_all(texts: list[str]) -> list[str]:
        # PERF: nearly all are stored as they stand: 0.2 us each, one by one 1.2 us.
        lines = "\n".join(texts)
        if _PLAIN.fullmatch(lines) and "null" not in lines.lower():
            return texts
        return list(map(read, texts))

    return read_all


def known_word(
    label: str, words: Mapping[str, T], missing: frozenset[str] = MISSING
) -> Callable[[str], T | None]:
    """Make a reader of a few words in any case; other words are unknown."""

    def read(text: str) -> T | None:
        value = stored_text(label, text, missing)
        return None if value is None else words.get(value.lower())

    return remembering(read)


def boolean(label: str, words: Mapping[str, bool]) -> Callable[[str], bool | None]:
    """Make a reader of yes and no in any case; another word rejects the row."""

    def read(text: str) -> bool | None:
        value = stored_text(label, text)
        if value is None:
            return None
        if value.lower() not in words:
            raise RowFault(f"{label}: neither true nor false: {shown(value)}")
        return words[value.lower()]

    return remembering(read)


def year(label: str, missing: frozenset[str] = MISSING) -> Callable[[str], int | None]:
    """Make a reader of years; what is no whole number from 1885 is unknown (formats 0.9)."""

    def read(text: str) -> int | None:
        value = stored_text(label, text, missing)
        return None if value is None else year_of(value)

    return remembering(read)


def year_of(digits: str) -> int | None:
    """Return the year that the digits say, None if it cannot be a vehicle's."""
    if not (digits.isascii() and digits.isdigit()):
        return None
    number = int(digits)
    return number if YEAR_MIN <= number <= YEAR_MAX else None


def iso_date(text: str) -> str | None:
    """Return a text of the form YYYY-MM-DD that is a day of the calendar, else None."""
    # fromisoformat() alone would take 20250101 and 2025-W01-1 as well.
    if len(text) != len("YYYY-MM-DD") or text[4] != "-" or text[7] != "-":
        return None
    try:
        date.fromisoformat(text)
    except ValueError:
        return None
    return text


def day(
    label: str,
    parse: Callable[[str], str | None] = iso_date,
    missing: frozenset[str] = MISSING,
) -> Callable[[str], str | None]:
    """Make a reader of dates in a vehicle or a fine: unreadable is unknown (formats 0.8)."""

    def read(text: str) -> str | None:
        value = stored_text(label, text, missing)
        return None if value is None else parse(value)

    return remembering(read)


def sure_day(
    label: str, parse: Callable[[str], str | None] = iso_date, *, required: bool
) -> Callable[[str], str | None]:
    """Make a reader of dates in a policy: unreadable rejects the row (formats 0.8)."""

    def read(text: str) -> str | None:
        value = stored_text(label, text)
        if value is None:
            if required:
                raise RowFault(f"no {label}")
            return None
        parsed = parse(value)
        if parsed is None:
            raise RowFault(f"{label}: no date: {shown(value)}")
        return parsed

    return remembering(read)


def moment(label: str) -> Callable[[str], int | None]:
    """Make a reader of ISO 8601 times, with zone or date only, in Unix seconds; others unknown."""
    # PERF: times hardly ever repeat, but days do, and times of day: 1 us instead of 4 us.
    midnights, times_of_day = Memo(_midnight), Memo(_seconds_of_day, _TIMES_OF_DAY_MAX)

    def read(text: str) -> int | None:
        if not text:
            return None
        midnight, seconds = midnights[text[:10]], times_of_day[text[10:]]
        if midnight is not None and seconds is not None:
            return midnight + seconds
        value = stored_text(label, text)
        return None if value is None or value == text else read(value)

    return read


def moments(label: str) -> Callable[[list[str]], list[int | None]]:
    """Make a reader of many ISO 8601 times at once."""
    read = moment(label)

    def read_all(texts: list[str]) -> list[int | None]:
        # PERF: nearly all are written like this, if there are any: 0.8 us each, one by one 5 us.
        if _MOMENTS.fullmatch("\n".join(texts)):
            with suppress(ValueError):  # One of them is no day of the calendar.
                return list(map(int, map(datetime.timestamp, map(datetime.fromisoformat, texts))))
        return list(map(read, texts))

    return read_all


def _midnight(text: str) -> int | None:
    """Return when a day begins in UTC, in Unix seconds."""
    if iso_date(text) is None:
        return None
    return (date.fromisoformat(text) - _EPOCH.date()).days * 86_400


def _seconds_of_day(text: str) -> int | None:
    """Return how many seconds after midnight UTC a text such as `T07:30:00+02:00` is."""
    if not text:
        return 0
    if text[0] not in "Tt ":
        return None
    try:
        when = datetime.fromisoformat("1970-01-01" + text.upper())
    except ValueError:
        return None
    return None if when.tzinfo is None else (when - _EPOCH) // timedelta(seconds=1)


def cents(label: str) -> Callable[[str], int | None]:
    """Make a reader of decimal amounts, in hundredths that fit 64 bits; others reject."""

    def read(text: str) -> int | None:
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
            raise RowFault(f"{label}: no decimal with at most two places: {shown(value)}")
        amount = int(digits)
        if amount > _CENTS_MAX:
            raise RowFault(f"{label}: too great: {shown(value)}")
        return -amount if value.startswith("-") else amount

    return remembering(read)


def currency(label: str) -> Callable[[str], str | None]:
    """Make a reader of three-letter codes; anything else is unknown."""

    def read(text: str) -> str | None:
        value = stored_text(label, text)
        is_code = value is not None and len(value) == len("USD") and value.isascii()
        return value.upper() if value and is_code and value.isalpha() else None

    return remembering(read)
