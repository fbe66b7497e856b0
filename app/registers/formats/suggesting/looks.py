"""What the values of a column look like: plates, dates, years, yes and no."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from app.registers.formats.date_forms import likely_forms
from app.registers.formats.dates import moment, year_of
from app.registers.formats.values import AMOUNTS
from app.vehicles.registration import canonical_registration

MOST = 0.8
"""The share of values that must look alike."""
_YEAR_MAX = 2100
_NUMBER_CHARACTERS_MAX = 40
_OTHER_DATE = re.compile(r"\d{1,4}[./-]\d{1,2}[./-]\d{1,4}(?:[ T].*)?")
_NUMBER = re.compile(r"[-+]?[\d.,: /]*\d[\d.,: /]*")


class Dates(NamedTuple):
    """The form of the dates in a column."""

    form: str | None
    """None: they look like dates, but no mapping can read them."""
    other: str | None = None
    """Another form that fits as well."""


def present(texts: Sequence[str]) -> list[str]:
    """Return the values of a column, trimmed, without those that are missing."""
    return [text for each in texts if (text := each.strip()) and text.lower() != "null"]


def dates(values: Sequence[str]) -> Dates | None:
    """Return the form of dates; None if most values are no dates."""
    forms = likely_forms(values)
    if forms:
        return Dates(forms[0], forms[1] if forms[1:] else None)
    return Dates(None) if share(values, _OTHER_DATE) >= MOST else None


def are_years(values: Sequence[str]) -> bool:
    """Tell whether most values are years in which a vehicle can have been built."""
    years = [year for year in map(year_of, values) if year and year <= _YEAR_MAX]
    return bool(values) and len(years) >= MOST * len(values)


def are_times(values: Sequence[str]) -> bool:
    """Tell whether most values are times with a time zone, or dates that a mapping can read."""
    parse = moment("")
    if values and sum(parse(each) is not None for each in values) >= MOST * len(values):
        return True
    found = dates(values)
    return found is not None and found.form is not None


def decimal(values: Sequence[str]) -> str | None:
    """Return what separates the hundredths; a point if none has any, None if no amounts."""
    likely = max(AMOUNTS, key=lambda each: share(values, AMOUNTS[each]))
    return likely if share(values, AMOUNTS[likely]) >= MOST else None


def plates(values: Sequence[str], *, mixed: bool = False) -> float:
    """Return the share of values that can be registrations.

    Args:
        mixed: count only those that have letters and digits, which hardly anything else is.
    """
    if not values:
        return 0.0
    return sum(is_plate(each) if mixed else _can_be_plate(each) for each in values) / len(values)


def is_plate(text: str) -> bool:
    """Tell whether a text has letters and digits, and can be a registration."""
    plate = canonical_registration(text[:100])
    return plate is not None and any(map(str.isdigit, plate)) and any(map(str.isalpha, plate))


def is_value(name: str) -> bool:
    """Tell whether a name in a header is rather a number or a date, as in a file without header."""
    text = name.strip()
    # SEC: the time that the pattern takes grows with the square of the length.
    return len(text) <= _NUMBER_CHARACTERS_MAX and bool(_NUMBER.fullmatch(text))


def share(values: Sequence[str], pattern: re.Pattern[str]) -> float:
    """Return the share of values that match a pattern."""
    return sum(map(bool, map(pattern.fullmatch, values))) / len(values) if values else 0.0


def _can_be_plate(text: str) -> bool:
    return canonical_registration(text[:100]) is not None
