"""The forms of dates that a mapping can name, such as `DD.MM.YYYY`."""

import re
from calendar import monthrange
from collections.abc import Sequence
from datetime import date
from functools import cache

ISO = "YYYY-MM-DD"
_COMMON = (
    *(ISO, "DD.MM.YYYY", "D.M.YYYY", "DD/MM/YYYY", "MM/DD/YYYY", "D/M/YYYY", "M/D/YYYY"),
    *("DD-MM-YYYY", "MM-DD-YYYY", "D-M-YYYY", "YYYY/MM/DD", "YYYY.MM.DD", "YYYYMMDD"),
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
# What spreadsheets and databases write behind a day: midnight, or the decimals of a number.
_MIDNIGHT = r"(?:[ T]0?0:00(?::00(?:\.0+)?)?| 12:00(?::00)? ?[Aa][Mm])"
_DECIMALS = r"(?:\.0+)"
_IN_COMMON_FORM = re.compile(
    rf"[0-9]{{1,4}}[./-]?[0-9]{{1,4}}(?:[./-]?[0-9]{{1,4}})?(?:{_MIDNIGHT}|{_DECIMALS})?"
)
_YEAR_MIN = 1885
_SHAPE_CHARACTERS_MAX = 20


@cache
def pattern_of(form: str) -> re.Pattern[str]:
    """Return the pattern of a form. `M` and `D` also read one digit. Raises ValueError.

    A day may be followed by midnight, and one without separators by `.0`.
    """
    parts = _PART.split(form)
    letters, others = parts[1::2], parts[::2]
    has_once = sorted(part[0] for part in letters) in (["D", "M", "Y"], ["M", "Y"])
    # In "DMYYYY" nobody knows where the day ends.
    is_clear = {"D", "M"}.isdisjoint(letters) or all(others[1:-1])
    if not has_once or not is_clear or re.search("[A-Za-z0-9]", "".join(others)):
        raise ValueError(form)
    midnight = f"|{_MIDNIGHT}" if len(letters) > 2 else ""
    decimals = "" if any(others) else f"|{_DECIMALS}"
    day = "".join(_PARTS.get(part, re.escape(part)) for part in parts)
    return re.compile(f"{day}(?:{midnight}{decimals})")


def is_midnight(text: str) -> bool:
    """Tell whether a text is what can follow a day, such as ` 00:00:00`."""
    return re.fullmatch(_MIDNIGHT, text) is not None


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
    """Return the form that more than half of the texts have, none if there is none.

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
    """Return what is wrong with a date such as 31.06.2027."""
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
