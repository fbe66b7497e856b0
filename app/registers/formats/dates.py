"""Parsers of dates, years and times.

Dates become texts of the form YYYY-MM-DD, and times become Unix seconds.
"""

import re
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from app.clock import parse_iso_date
from app.registers.formats import date_forms
from app.registers.formats.bounded_cache import BoundedCache, cached
from app.registers.formats.faults import RowFault
from app.registers.formats.values import MISSING, quoted, stored_text

YEAR_MIN, YEAR_MAX = 1885, 9999
_TIMES_OF_DAY_MAX = 100_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_YEAR = re.compile(r"([0-9]+)(?:[.,]0+)?")
_COMPACT = re.compile(r"([0-9]{4})([0-9]{2})([0-9]{2})(?:\.0+)?")
_AMERICAN = re.compile(r"([0-9]{2})/([0-9]{2})/([0-9]{4})")
_ISO_TIME = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?")
# Matches many times, one per line, in the most frequent form.
_UTC_TIMES = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z"
    r"(?:\n[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z)*+"
)


class DateFault(RowFault):
    """A text is not a date.

    Args:
        label: the name of the column.
        expected: the form that the date should have.
    """

    def __init__(self, label: str, text: str, expected: str = date_forms.ISO) -> None:
        super().__init__(f"{label}: {_not_a_date(text, expected)}: {quoted(text)}")
        self.label = label


def _not_a_date(text: str, expected: str) -> str:
    forms = date_forms.likely_forms([text])
    if date_forms.fits(text, expected) or (not forms and date_forms.is_written_as(text, expected)):
        return date_forms.no_such_day(expected)
    if not forms:
        return "not a date"
    # The value is not shown, but its form is (D70).
    return f"not {expected}, but {' or '.join(forms)}; a mapping can say so with date_format"


def iso_date(text: str) -> str | None:
    """Return a text of the form YYYY-MM-DD if it is a valid date, else None."""
    return None if parse_iso_date(text) is None else text


def native_date(text: str) -> str | None:
    """Return the date of a text of the form YYYY-MM-DD, also if midnight follows, else None."""
    return date_forms.iso_day(text, date_forms.ISO)


def compact_date(text: str) -> str | None:
    """Return the date of a text of the form YYYYMMDD, else None. A number may end with `.0`."""
    match = _COMPACT.fullmatch(text)
    return iso_date("-".join(match.groups())) if match else None


def american_date(text: str) -> str | None:
    """Return the date of a text of the form MM/DD/YYYY, else None."""
    match = _AMERICAN.fullmatch(text)
    return iso_date(f"{match[3]}-{match[1]}-{match[2]}") if match else None


def iso_time_date(text: str) -> str | None:
    """Return the date of a text of the form YYYY-MM-DDThh:mm:ss[.fff], else None."""
    match = _ISO_TIME.fullmatch(text)
    return iso_date(match[1]) if match else None


def day(
    label: str,
    parse: Callable[[str], str | None] = iso_date,
    missing: frozenset[str] = MISSING,
) -> Callable[[str], str | None]:
    """Return a parser of the dates of vehicles and fines.

    An invalid date counts as unknown (formats 0.8).
    """

    def parse_day(text: str) -> str | None:
        value = stored_text(label, text, missing)
        return None if value is None else parse(value)

    return cached(parse_day)


def strict_day(label: str, *, required: bool) -> Callable[[str], str | None]:
    """Return a parser of the dates of policies. An invalid date rejects the row (formats 0.8)."""

    def parse_day(text: str) -> str | None:
        value = stored_text(label, text)
        if value is None:
            if required:
                raise RowFault(f"no {label}")
            return None
        parsed = native_date(value)
        if parsed is None:
            raise DateFault(label, value)
        return parsed

    return cached(parse_day)


def year(label: str, missing: frozenset[str] = MISSING) -> Callable[[str], int | None]:
    """Return a parser of years. An invalid year counts as unknown (formats 0.9)."""

    def parse_year(text: str) -> int | None:
        value = stored_text(label, text, missing)
        return None if value is None else year_of(value)

    return cached(parse_year)


def year_of(text: str) -> int | None:
    """Return the year if it is from 1885 to 9999, else None. `2012.0` is a year, too."""
    match = _YEAR.fullmatch(text)
    if match is None:
        return None
    number = int(match[1])
    return number if YEAR_MIN <= number <= YEAR_MAX else None


def moment(label: str) -> Callable[[str], int | None]:
    """Return a parser of ISO 8601 times, which returns Unix seconds.

    A time needs a time zone. A date alone, or with a midnight without one, means midnight UTC. An
    invalid text counts as unknown.
    """
    # PERF: times rarely repeat, but dates and times of day do. With a cache for each, parsing takes
    # 1 us instead of 4 us.
    midnights, times_of_day = BoundedCache(_midnight), BoundedCache(_time_of_day, _TIMES_OF_DAY_MAX)

    def parse_moment(text: str) -> int | None:
        if not text:
            return None
        midnight, seconds = midnights[text[:10]], times_of_day[text[10:]]
        if midnight is not None and seconds is not None:
            return midnight + seconds
        value = stored_text(label, text)
        return None if value is None or value == text else parse_moment(value)

    return parse_moment


def moments(label: str) -> Callable[[list[str]], list[int | None]]:
    """Return a parser of many ISO 8601 times at once, with the results of `moment`."""
    parse = moment(label)

    def parse_many(texts: list[str]) -> list[int | None]:
        # PERF: nearly all files write their times in this form. It takes 0.8 us per time; one by
        # one it takes 5 us.
        if _UTC_TIMES.fullmatch("\n".join(texts)):
            with suppress(ValueError):  # One of the dates is not in the calendar.
                return list(map(int, map(datetime.timestamp, map(datetime.fromisoformat, texts))))
        return list(map(parse, texts))

    return parse_many


def _midnight(text: str) -> int | None:
    """Return the start of a day in UTC, in Unix seconds; None for an invalid date."""
    parsed = parse_iso_date(text)
    return None if parsed is None else (parsed - _EPOCH.date()).days * 86_400


def _time_of_day(text: str) -> int | None:
    """Return the seconds since midnight UTC of a text such as `T07:30:00+02:00`.

    An empty text is midnight. Return None for an invalid text.
    """
    if not text or date_forms.is_midnight(text):
        return 0
    if text[0] not in "Tt ":
        return None
    try:
        time = datetime.fromisoformat("1970-01-01" + text.upper())
    except ValueError:
        return None
    return None if time.tzinfo is None else (time - _EPOCH) // timedelta(seconds=1)
