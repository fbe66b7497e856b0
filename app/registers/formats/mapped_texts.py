"""Parsers for dates and words that a mapping file translates into native ones."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from app.registers.formats.faults import RowFault
from app.registers.formats.values import quoted, without_value

_DATE_PARTS = {"YYYY": "(?P<year>[0-9]{4})", "MM": "(?P<month>[0-9]{2})", "DD": "(?P<day>[0-9]{2})"}


def date_pattern(form: str) -> re.Pattern[str]:
    """Return the pattern of a date format such as `DD.MM.YYYY`. Raises ValueError."""
    parts = re.split("(YYYY|MM|DD)", form)
    pattern = "".join(_DATE_PARTS.get(part, re.escape(part)) for part in parts)
    if sorted(parts[1::2]) != sorted(_DATE_PARTS) or re.search("[A-Za-z0-9]", "".join(parts[::2])):
        raise ValueError(form)
    return re.compile(pattern)


def with_dates(pattern: re.Pattern[str], parse: Callable[[str], Any]) -> Callable[[str], Any]:
    """Return a parser that turns dates of a pattern into native ones before it parses them."""

    def parse_date(text: str) -> Any:
        match = pattern.fullmatch(text.strip())
        if match is None:
            return parse(text)
        try:
            return parse("{year}-{month}-{day}".format(**match.groupdict()))
        except RowFault as fault:
            # The operator looks for the text of the file, not for the native one.
            raise RowFault(f"{without_value(str(fault))}: {quoted(text.strip())}") from None

    return parse_date


def with_words(
    words: Mapping[str, str], parse_native: Callable[[str], Any], parse_other: Callable[[str], Any]
) -> Callable[[str], Any]:
    """Return a parser that replaces known words, and parses other texts with `parse_other`."""

    def parse_word(text: str) -> Any:
        native = words.get(text.strip().lower())
        return parse_other(text) if native is None else parse_native(native)

    return parse_word
