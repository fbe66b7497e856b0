"""Parsers for dates and words that a mapping file translates into native ones."""

from collections.abc import Callable, Mapping
from typing import Any

from app.registers.formats.bounded_cache import cached
from app.registers.formats.date_forms import iso_day
from app.registers.formats.dates import DateFault


def with_dates(
    form: str, parse: Callable[[str], Any], *, is_last: bool = False
) -> Callable[[str], Any]:
    """Return a parser that turns dates of a form into native ones before it parses them.

    Args:
        is_last: whether a month without a day means its last day, not its first one.
    """

    def parse_date(text: str) -> Any:
        trimmed = text.strip()
        native = iso_day(trimmed, form, is_last=is_last)
        try:
            return parse(native or text)
        except DateFault as fault:
            raise DateFault(fault.label, trimmed, form) from None

    return cached(parse_date)


def with_words(
    words: Mapping[str, str], parse_native: Callable[[str], Any], parse_other: Callable[[str], Any]
) -> Callable[[str], Any]:
    """Return a parser that replaces known words, and parses other texts with `parse_other`."""

    def parse_word(text: str) -> Any:
        native = words.get(text.strip().lower())
        return parse_other(text) if native is None else parse_native(native)

    return parse_word
