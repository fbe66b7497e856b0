"""Parsers of dates, years and times.

Dates become texts of the form YYYY-MM-DD, and times become Unix seconds.
"""

import re
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import partial

from app.clock import parse_iso_date, shifted_day
from app.registers.bounded_cache import BoundedCache, cached
from app.registers.formats.columns import RowFault
from app.registers.formats.date_forms import (
    ISO,
    MIDNIGHT,
    YEAR_MAX,
    YEAR_MIN,
    ZONE_OF_DAY,
    fits,
    is_written_as,
    iso_day,
    likely_forms,
    no_such_day,
    time_fault,
)
from app.registers.formats.values import DAY_NOTHING, MISSING, quoted, stored_text

_TIMES_OF_DAY_MAX = 100_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_SECOND, _LAST_SECOND = (
    (datetime.combine(day, at, UTC) - _EPOCH) // timedelta(seconds=1)
    for day, at in ((date.min, time.min), (date.max, time.max))
)
_FIRST_DAY, NO_END = date.min.isoformat(), date.max.isoformat()
_YEAR = re.compile(r"([0-9]+)(?:[.,]0+)?")
_COMPACT = re.compile(r"([0-9]{4})([0-9]{2})([0-9]{2})(?:\.0+)?")
_AMERICAN = re.compile(r"([0-9]{2})/([0-9]{2})/([0-9]{4})")
_ISO_TIME = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?")
_ZONE_WORD = re.compile(
    r"(?<=[+-][0-9]{4}) [A-Z]{3,5}\Z|(?<=[0-9])(?P<utc> ?(?:UTC|GMT)\Z)|(?<=[0-9]) (?=[Z+-])"
)
_HOUR = re.compile(r"(?<=[T ])([0-9]{1,2})(:[0-5][0-9][0-9:.,]*)(?: ?([AP])M\b)?")
# Matches many times, one per line, in the most frequent form.
_UTC_TIMES = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z"
    r"(?:\n[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z)*+"
)


OPEN_END = "; if the policy has no end"
"""Part of the reason of a reject for want of an end."""
OPEN_ENDS = MISSING | DAY_NOTHING | {"infinity"}
"""Words that mean no end if the operator says so, in lower case."""


class DateFault(RowFault):
    """A text is not a date.

    Args:
        label: the name of the column.
        expected: the form that the date should have.
    """

    def __init__(self, label: str, text: str, expected: str = ISO) -> None:
        super().__init__(f"{label}: {_not_a_date(text, expected)}: {quoted(text)}")
        self.label = label


def _not_a_date(text: str, expected: str) -> str:
    if fault := time_fault(text):
        return fault
    forms = likely_forms([text])
    if fits(text, expected) or (not forms and is_written_as(text, expected)):
        return no_such_day(expected)
    if not forms:
        return "not a date"
    # The value is not shown, but its form is (D70).
    return f"not {expected}, but {' or '.join(forms)}; a mapping can say so with date_format"


def iso_date(text: str) -> str | None:
    """Return a text of the form YYYY-MM-DD if it is a valid date, else None."""
    return None if parse_iso_date(text) is None else text


def native_date(text: str) -> str | None:
    """Return the date of a text of the form YYYY-MM-DD, also if midnight follows, else None."""
    return iso_day(text, ISO)


def compact_date(text: str) -> str | None:
    """Return the date of a text of the form YYYYMMDD, else None. A number may end with `.0`."""
    match = _COMPACT.fullmatch(text)
    return iso_date("-".join(match.groups())) if match else None


def american_date(text: str) -> str | None:
    """Return the date of a text of the form MM/DD/YYYY, else None."""
    match = _AMERICAN.fullmatch(text)
    return iso_date(f"{match[3]}-{match[1]}-{match[2]}") if match else None


def day_before(day: str | None) -> str | None:
    """Return the last day with something, of the first day without; None for no day."""
    # The first day of the calendar has none before it, and the last one means that there is no end.
    if day is None or day == NO_END:
        return day
    return shifted_day(day, -1) if day != _FIRST_DAY else None


def ends_late(first: str, last: str) -> bool:
    """Tell whether an end has the day of the month of an earlier beginning; both are ISO dates.

    What begins on 15 March ends on the 14th of a month if its end is the last day with.
    """
    return first < last != NO_END and first[-2:] == last[-2:]


def iso_time_date(text: str) -> str | None:
    """Return the date of a text of the form YYYY-MM-DDThh:mm:ss[.fff], else None."""
    match = _ISO_TIME.fullmatch(text)
    return iso_date(match[1]) if match else None


def strict_day(label: str, *, required: bool) -> Callable[[str], str | None]:
    """Return a parser of the dates of policies. An invalid date rejects the row."""
    missing = MISSING | DAY_NOTHING

    def parse_day(text: str) -> str | None:
        value = stored_text(label, text, missing)
        if value is None:
            if required:
                raise RowFault(f"no {label}{_open_end(label, text)}")
            return None
        parsed = native_date(value)
        if parsed is None:
            if _open_end(label, value):
                raise RowFault(f"{label}: not a date{_open_end(label, value)}: {quoted(value)}")
            raise DateFault(label, value)
        return parsed

    return cached(parse_day)


def _open_end(label: str, text: str) -> str:
    """Return how a mapping says that this text means no end; empty for any other text."""
    word = text.strip()
    if label != "validTo" or word.lower() not in OPEN_ENDS:
        return ""
    return f'{OPEN_END}, [words.validTo] of a mapping can say so with "{word}" = "{NO_END}"'


def year_of(text: str) -> int | None:
    """Return the year if it is from 1885 to 9999, else None. `2012.0` is a year, too."""
    match = _YEAR.fullmatch(text)
    if match is None:
        return None
    number = int(match[1])
    return number if YEAR_MIN <= number <= YEAR_MAX else None


def moment(label: str, zone: tzinfo | None = None) -> Callable[[str], int | None]:
    """Return a parser of ISO 8601 times, which returns Unix seconds.

    An invalid text counts as unknown. Without a zone, a time is unknown, and a date alone or with
    midnight means midnight UTC.

    Args:
        zone: that of times and dates without one. A time that the clock skips in it is read by the
            offset before, and of one that it repeats the first counts, as in RFC 5545 (3.3.5).
    """
    # PERF: times rarely repeat, but dates and times of day do. With a cache for each, parsing takes
    # 1 us instead of 4 us.
    midnights = BoundedCache(_midnight)
    times_of_day = BoundedCache(partial(_time_of_day, is_local=zone is not None), _TIMES_OF_DAY_MAX)

    def parse_moment(text: str) -> int | None:
        if not text:
            return None
        midnight, seconds = midnights[text[:10]], times_of_day[text[10:]]
        at = None
        if midnight is not None and seconds is not None:
            at = midnight + seconds
        elif midnight is not None and zone is not None:
            at = _seconds(text[:10], text[10:], zone)
        # An offset can lead out of the calendar, and no answer could show such a time.
        if at is not None and _FIRST_SECOND <= at <= _LAST_SECOND:
            return at
        value = stored_text(label, text)
        return None if value is None or value == text else parse_moment(value)

    return parse_moment


def moments(label: str, zone: tzinfo | None = None) -> Callable[[list[str]], list[int | None]]:
    """Return a parser of many ISO 8601 times at once, with the results of `moment`."""
    parse = moment(label, zone)

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


def _time_of_day(text: str, *, is_local: bool) -> int | None:
    """Return the seconds since midnight UTC of a text such as `T07:30:00+02:00`.

    Return None for an invalid text.

    Args:
        is_local: whether days and midnights without a zone are not those of UTC.
    """
    if not text or re.fullmatch(MIDNIGHT, text):
        return None if is_local else 0
    return _seconds("1970-01-01", text)


def _of_24_hours(match: re.Match[str]) -> str:
    """Return an hour with minutes, which may have one digit, or be of 12, in two digits of 24."""
    hour, rest, half = int(match[1]), match[2], match[3]
    if half and not 1 <= hour <= 12:
        return match[0]
    return f"{hour % 12 + 12 * (half == 'P') if half else hour:02}{rest}"


def _seconds(day: str, time: str, zone: tzinfo | None = None) -> int | None:
    """Return a valid day and a time of day in Unix seconds; None for an invalid time.

    Args:
        zone: that of a time without one, which is invalid if this is None.
    """
    if re.fullmatch(MIDNIGHT, time):
        time = ""
    elif re.fullmatch(ZONE_OF_DAY, time):
        time = f"T00:00{time}"
    if time and time[0] not in "Tt ":
        return None
    with suppress(ValueError):
        of_24_hours = _HOUR.sub(_of_24_hours, time.upper())
        plain = _ZONE_WORD.sub(lambda word: "Z" if word["utc"] else "", of_24_hours)
        found = datetime.fromisoformat(day + plain)
        if found.tzinfo is None and zone is not None:
            found = found.replace(tzinfo=zone)
        if found.tzinfo is not None:
            return (found - _EPOCH) // timedelta(seconds=1)
    return None
