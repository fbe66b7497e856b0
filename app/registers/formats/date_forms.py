"""The forms of dates that a mapping can name, such as `DD.MM.YYYY`, and which of them fit."""

import re
from calendar import monthrange
from collections.abc import Sequence
from datetime import date
from functools import cache
from typing import NamedTuple

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
MIDNIGHT = r"(?:[ T]0?0:00(?::00(?:\.0+)?)?| 12:00(?::00)? ?[Aa][Mm])"
_DECIMALS = r"(?:\.0+)"
_MINUTE_AFTER = r"(?:[ T]0?0:01(?::00(?:\.0+)?)?| 12:01(?::00)? ?[Aa][Mm])"
# Go writes the name of a zone after its offset, which says it all.
_ZONE = r"(?: ?(?:[Zz]|UTC|GMT|[+-][0-9]{2}(?::?[0-9]{2})?(?: [A-Z]{3,5})?))"
# XML Schema (Part 2, 3.3.9) lets a zone follow a day, as the Danish register of vehicles has it.
ZONE_OF_DAY = "(?:Z|[+-][0-9]{2}:[0-9]{2})"
_IN_COMMON_FORM = re.compile(
    r"[0-9]{1,4}(?:[./-]|\. )?[0-9]{1,4}(?:(?:[./-]|\. )?[0-9]{1,4}(?: \u0433)?\.?)?"
    rf"(?:{MIDNIGHT}{_ZONE}?|{ZONE_OF_DAY}|{_DECIMALS})?"
)
_TIMED = re.compile(
    r"(?P<day>(?:\. |[0-9./-]){6,11})"
    r"(?P<time>[ Tt][0-2]?[0-9]:[0-5][0-9](?::[0-6][0-9](?:[.,][0-9]+)?)?(?: ?[AaPp][Mm])?)"
    rf"(?P<zone>{_ZONE}?)"
)
_SHAPE_CHARACTERS_MAX = 20
YEAR_MIN, YEAR_MAX = 1885, 9999


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
    midnight = f"|{MIDNIGHT}{_ZONE}?|{ZONE_OF_DAY}" if len(letters) > 2 else ""
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
        return re.fullmatch(MIDNIGHT, self.time) is not None

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
    return year >= YEAR_MIN and 1 <= month <= 12 and 1 <= day <= 31


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
