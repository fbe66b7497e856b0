"""Parsers of dates, years and times.

Dates become texts of the form YYYY-MM-DD, and times become Unix seconds.
"""

import re
from calendar import monthrange
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import cache, partial
from typing import NamedTuple

from app.clock import parse_iso_date, shifted_day
from app.registers.formats.columns import RowFault
from app.registers.formats.values import (
    DAY_NOTHING,
    MISSING,
    BoundedCache,
    cached,
    quoted,
    stored_text,
)

# The forms of dates that a mapping can name, such as `DD.MM.YYYY`.

ISO = "YYYY-MM-DD"
_COMMON = (
    *(ISO, "DD.MM.YYYY", "D.M.YYYY", "DD/MM/YYYY", "MM/DD/YYYY", "D/M/YYYY", "M/D/YYYY"),
    *("DD-MM-YYYY", "MM-DD-YYYY", "D-M-YYYY", "YYYY/MM/DD", "YYYY.MM.DD", "YYYYMMDD"),
    # As people write days in Central Europe, where a point follows each number, and in East Asia.
    *("DD. MM. YYYY", "D. M. YYYY", "DD.MM.YYYY.", "D.M.YYYY.", "D. M. YYYY."),
    # Bulgaria writes "of the year" behind it.
    *("DD.MM.YYYY \u0433.", "D.M.YYYY \u0433."),
    *("YYYY.MM.DD.", "YYYY. MM. DD.", "YYYY. M. D.", "YYYY/M/D"),
    *("MM/YYYY", "M/YYYY", "MM.YYYY", "MM-YYYY", "YYYY-MM", "YYYY/MM"),
)
"""The first one that fits is the most likely."""
RULE = "must have YYYY, MM and DD once each, or YYYY and MM, such as DD.MM.YYYY or MM/YYYY"
_PARTS = {
    "YYYY": "(?P<year>[0-9]{4})",
    "MM": "(?P<month>[0-9]{2})",
    "M": "(?P<month>[0-9]{1,2})",
    "DD": "(?P<day>[0-9]{2})",
    "D": "(?P<day>[0-9]{1,2})",
}
_PART = re.compile("(YYYY|MM?|DD?)")
# Spreadsheets and databases write midnight, or the decimals of a number, after a day.
_MIDNIGHT = r"(?:[ T]0?0:00(?::00(?:\.0+)?)?| 12:00(?::00)? ?[Aa][Mm])"
_DECIMALS = r"(?:\.0+)"
_MINUTE_AFTER = r"(?:[ T]0?0:01(?::00(?:\.0+)?)?| 12:01(?::00)? ?[Aa][Mm])"
# Go writes the name of a zone after its offset, which says it all.
_ZONE = r"(?: ?(?:[Zz]|UTC|GMT|[+-][0-9]{2}(?::?[0-9]{2})?(?: [A-Z]{3,5})?))"
# XML Schema (Part 2, 3.3.9) lets a zone follow a day, as the Danish register of vehicles has it.
_ZONE_OF_DAY = "(?:Z|[+-][0-9]{2}:[0-9]{2})"
_IN_COMMON_FORM = re.compile(
    r"[0-9]{1,4}(?:[./-]|\. )?[0-9]{1,4}(?:(?:[./-]|\. )?[0-9]{1,4}(?: \u0433)?\.?)?"
    rf"(?:{_MIDNIGHT}{_ZONE}?|{_ZONE_OF_DAY}|{_DECIMALS})?"
)
_TIMED = re.compile(
    r"(?P<day>(?:\. |[0-9./-]){6,11})"
    r"(?P<time>[ Tt][0-2]?[0-9]:[0-5][0-9](?::[0-6][0-9](?:[.,][0-9]+)?)?(?: ?[AaPp][Mm])?)"
    rf"(?P<zone>{_ZONE}?)"
)
_SHAPE_CHARACTERS_MAX = 20
_YEAR_MIN, _YEAR_MAX = 1885, 9999


@cache
def pattern_of(form: str) -> re.Pattern[str]:
    """Return the pattern of a form. `M` and `D` also read one digit. Raises ValueError.

    A day may be followed by midnight, also in a zone, by a zone, and one without separators by
    `.0`.
    """
    parts = _PART.split(form)
    letters, others = parts[1::2], parts[::2]
    has_once = sorted(part[0] for part in letters) in (["D", "M", "Y"], ["M", "Y"])
    # In "DMYYYY" nobody knows where the day ends.
    is_clear = {"D", "M"}.isdisjoint(letters) or all(others[1:-1])
    if not has_once or not is_clear or re.search("[A-Za-z0-9]", "".join(others)):
        raise ValueError(form)
    # Programs that have no days, only times, write a day as its midnight in their own zone.
    midnight = f"|{_MIDNIGHT}{_ZONE}?|{_ZONE_OF_DAY}" if len(letters) > 2 else ""
    decimals = "" if any(others) else f"|{_DECIMALS}"
    day = "".join(_PARTS.get(part, re.escape(part)) for part in parts)
    return re.compile(f"{day}(?:{midnight}{decimals})")


def iso_day(text: str, form: str, *, is_last: bool = False) -> str | None:
    """Return a date as YYYY-MM-DD; None if it has another form or is not in the calendar.

    Args:
        is_last: whether a month without a day means its last day, not its first one.
    """
    match = pattern_of(form).fullmatch(text)
    if match is None:
        return None
    try:
        first = date(*_parts(match))
    except ValueError:
        return None
    if is_last and "day" not in match.groupdict():
        return first.replace(day=monthrange(first.year, first.month)[1]).isoformat()
    return first.isoformat()


class TimedDay(NamedTuple):
    """A day with a time of day, as a file writes it."""

    day: str
    time: str
    zone: str
    """Such as ` +02:00` or `Z`; empty if there is none."""

    @property
    def is_midnight(self) -> bool:
        """Whether the time is midnight in the zone that is written there."""
        return re.fullmatch(_MIDNIGHT, self.time) is not None

    @property
    def is_end_of_day_before(self) -> bool:
        """Whether what ends then lasts until the day before.

        It ends at midnight, or at 12:01 a.m. as US policies do.
        """
        return self.is_midnight or re.fullmatch(_MINUTE_AFTER, self.time) is not None


def timed_day(text: str) -> TimedDay | None:
    """Return the parts of a day with a time of day; None for any other text."""
    match = _TIMED.fullmatch(text)
    return TimedDay(*match.groups()) if match else None


def time_fault(text: str) -> str:
    """Return why a day with a time is no date; empty for any other text, and for midnights."""
    timed = timed_day(text)
    if timed is None or timed.is_midnight:
        return ""
    if timed.zone:
        zone = timed.zone.strip()
        return f"a time in the zone {zone} that is no midnight there; export days without times"
    return "a day with a time; [times] of a mapping can say what the time means"


def fits(text: str, form: str) -> bool:
    """Tell whether a text has a form. An impossible day fits, too: 31.02.2026 is a mistake."""
    match = pattern_of(form).fullmatch(text)
    if match is None:
        return False
    year, month, day = _parts(match)
    return year >= _YEAR_MIN and 1 <= month <= 12 and 1 <= day <= 31


def is_written_as(text: str, form: str) -> bool:
    """Tell whether a text has the digits and signs of a form, whatever month and day it says."""
    return pattern_of(form).fullmatch(text) is not None


def likely_forms(texts: Sequence[str]) -> list[str]:
    """Return the form that more than half of the texts have, in a list; empty if there is none.

    If another form fits as many texts, but reads some of them as another day, it comes second.
    """
    candidates = [text for text in texts if _IN_COMMON_FORM.fullmatch(text)]
    if not _are_most(len(candidates), texts):
        return []
    fitting = {form: sum(fits(text, form) for text in candidates) for form in _COMMON}
    most = max(fitting.values())
    if not _are_most(most, texts):
        return []
    best, *others = [form for form, count in fitting.items() if count == most]
    return [best, *[form for form in others if _differ(candidates, best, form)][:1]]


def no_such_day(form: str) -> str:
    """Return the fault of a date such as 31.06.2027."""
    return f"has the form {form}, but is no day that exists"


def shape(text: str) -> str:
    """Return how a text looks, without its content: 9 for each digit, a for each letter."""
    shown = "".join(
        "9" if each.isdigit() else "a" if each.isalpha() else each
        for each in text[:_SHAPE_CHARACTERS_MAX]
        if each.isprintable()
    )
    return shown if len(text) <= _SHAPE_CHARACTERS_MAX else shown + "..."


def _are_most(count: int, texts: Sequence[str]) -> bool:
    return 2 * count > len(texts)


def _differ(texts: Sequence[str], form: str, other: str) -> bool:
    return any(iso_day(text, form) != iso_day(text, other) for text in texts)


def _parts(match: re.Match[str]) -> tuple[int, int, int]:
    """Return year, month and day; a form without days means the first."""
    parts = match.groupdict()
    return int(parts["year"]), int(parts["month"]), int(parts.get("day", 1))


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
    return first < last and first[-2:] == last[-2:]


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
    return number if _YEAR_MIN <= number <= _YEAR_MAX else None


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
    if not text or re.fullmatch(_MIDNIGHT, text):
        return None if is_local else 0
    return _seconds("1970-01-01", text)


def _of_24_hours(match: re.Match[str]) -> str:
    """Return an hour with minutes, which may have one digit, or be of 12, in two digits of 24."""
    hour, rest, half = int(match[1]), match[2], match[3]
    if half and not 1 <= hour <= 12:
        return match[0]
    return f"{hour % 12 + 12 * (half == 'P') if half else hour:02}{rest}"


def _plain_zone(match: re.Match[str]) -> str:
    return "Z" if match["utc"] else ""


def _seconds(day: str, time: str, zone: tzinfo | None = None) -> int | None:
    """Return a valid day and a time of day in Unix seconds; None for an invalid time.

    Args:
        zone: that of a time without one, which is invalid if this is None.
    """
    if re.fullmatch(_MIDNIGHT, time):
        time = ""
    elif re.fullmatch(_ZONE_OF_DAY, time):
        time = f"T00:00{time}"
    if time and time[0] not in "Tt ":
        return None
    with suppress(ValueError):
        of_24_hours = _HOUR.sub(_of_24_hours, time.upper())
        found = datetime.fromisoformat(day + _ZONE_WORD.sub(_plain_zone, of_24_hours))
        if found.tzinfo is None and zone is not None:
            found = found.replace(tzinfo=zone)
        if found.tzinfo is not None:
            return (found - _EPOCH) // timedelta(seconds=1)
    return None
