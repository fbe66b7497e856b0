"""What the values of a column look like: plates, dates, years, amounts, yes and no."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC
from functools import lru_cache
from typing import TypeVar

from app.nouns import counted
from app.registers.formats.columns import RowFault
from app.registers.formats.dates import OPEN_ENDS, iso_day, likely_forms, moment, timed_day, year_of
from app.registers.formats.values import AMOUNTS, DAY_NOTHING, NO, NOTHING, STATUSES, YES
from app.storage.tables import Shape
from app.vehicles.compliance import TAX_STATUSES
from app.vehicles.registration import canonical_registration

T = TypeVar("T")

_MOST = 0.8
"""The share of values that must look alike."""
_YEAR_MAX = 2100
_CHARACTERS_MAX = 40
_COLUMNS_MAX = 1_000
_NUMBER = re.compile(r"[-+]?[\d.,: /]*\d[\d.,: /]*")
_DATED = (Shape.DAY, Shape.TIME, Shape.YEAR)
_WORDS = {
    Shape.FLAG: (
        frozenset("true yes 1 1.0 false no 0 0.0".split()),
        {word: "true" if word in YES else "false" for word in YES | NO},
        "true or false",
    ),
    Shape.WORD: (
        frozenset(TAX_STATUSES),
        {word: f'"{STATUSES[word]}"' for word in STATUSES},
        '"taxed", "exempt", "sorn" or "untaxed"',
    ),
}
"""By shape: native words, what other words mean as TOML, and what a word can mean."""


def are_most(values: Sequence[T], test: Callable[[T], object]) -> bool:
    """Tell whether most values pass a test; false if there are none."""
    return bool(values) and sum(map(bool, map(test, values))) >= _MOST * len(values)


def are_distinct(values: Sequence[str]) -> bool:
    """Tell whether more than half of the values differ from each other."""
    return 2 * len(set(values)) > len(values)


def is_plate(text: str) -> bool:
    """Tell whether a text has letters and digits, and can be a registration."""
    plate = canonical_registration(text[:100])
    return plate is not None and any(map(str.isdigit, plate)) and any(map(str.isalpha, plate))


def is_value(text: str) -> bool:
    """Tell whether a text in a header is rather a number or a date than a name."""
    # SEC: the time that the pattern takes grows with the square of the length.
    return len(text) <= _CHARACTERS_MAX and bool(_NUMBER.fullmatch(text.strip()))


def form(text: str) -> str:
    """Return how a text is written, without its content: `AA99AAA`."""
    return "".join(
        "9" if each.isdigit() else each if not each.isalpha() else "a" if each.islower() else "A"
        for each in text[:_CHARACTERS_MAX]
        if each.isprintable()
    )


def dates(values: Sequence[str]) -> list[str]:
    """Return the likely form of dates, and another one that fits as well; empty for other values.

    Words for nothing and times of day do not count.
    """
    return list(_dates(tuple(values)))


@lru_cache(_COLUMNS_MAX)
def _dates(values: Sequence[str]) -> Sequence[str]:
    """PERF: each member asks about each column; 400 columns of dates took 13 s, and take 1.5 s."""
    days = [each for each in values if each.lower() not in OPEN_ENDS]
    timed = map(timed_day, days)
    return likely_forms(
        [each.day if each and not each.zone else day for day, each in zip(days, timed, strict=True)]
    )


def day(text: str, form: str) -> str | None:
    """Return the day of a date as YYYY-MM-DD, without a time of day; None if there is none."""
    timed = timed_day(text.strip())
    return iso_day(timed.day if timed and not timed.zone else text.strip(), form)


def have_times(values: Sequence[str]) -> bool:
    """Tell whether any value is a day with a time of day that is not midnight, without a zone."""
    return any(each and not (each.zone or each.is_midnight) for each in map(timed_day, values))


def decimals(values: Sequence[str]) -> list[str]:
    """Return the decimal separator of amounts, and another one that may be meant; empty if none."""
    fitting = [each for each in AMOUNTS if are_most(values, AMOUNTS[each].fullmatch)]
    # 1.200 can be read with a comma only, but need not be meant so.
    is_sure = fitting != [","] or any("," in each for each in values)
    return fitting[:1] if is_sure else [",", "."]


def _are_times(values: Sequence[str]) -> bool:
    parse = moment("", UTC)

    def is_time(text: str) -> bool:
        with suppress(RowFault):  # It has control characters.
            return parse(text) is not None
        return False

    return are_most(values, is_time) or bool(dates(values))


_CHECKS: dict[Shape, tuple[Callable[[Sequence[str]], object], str]] = {
    # 2026-03-01 could be a registration.
    Shape.PLATE: (
        lambda values: are_most(values, canonical_registration) and not dates(values),
        "registrations",
    ),
    Shape.DAY: (dates, "dates that a mapping can read"),
    Shape.TIME: (_are_times, "times that can be read"),
    Shape.YEAR: (
        lambda values: are_most(values, lambda each: 0 < (year_of(each) or 0) <= _YEAR_MAX),
        "years",
    ),
    Shape.FLAG: (
        lambda values: are_most(values, lambda each: each.lower() in YES | NO),
        "words for yes or no",
    ),
    Shape.MONEY: (decimals, "amounts"),
    Shape.TEXT: (lambda values: not dates(values), "texts"),
}


def misfit(values: Sequence[str], shape: Shape) -> str:
    """Return why a member of a shape cannot have these values; empty if it can."""
    nothing = OPEN_ENDS if shape in _DATED else NOTHING
    known = [each for each in values if each.lower() not in nothing]
    fits, what = _CHECKS[shape]
    return f"most of its values are no {what}" if known and not fits(known) else ""


def words(values: Sequence[str], shape: Shape) -> tuple[dict[str, str], str]:
    """Return the words that a mapping must list, with their values as TOML, and advice for others.

    SEC: other words are only counted, because the column can contain anything.
    """
    counts = Counter(each.lower() for each in values)
    translated: dict[str, str] = {}
    if shape == Shape.MONEY:
        # What `-` and its like mean here only a person knows: zero, or nothing.
        unknown, ours = DAY_NOTHING.intersection(counts), '"0.00" or ""'
    elif shape in _WORDS:
        native, translated, ours = _WORDS[shape]
        unknown = frozenset(counts) - native
    else:
        return {}, ""
    listed = {each: translated[each] for each in sorted(unknown) if each in translated}
    others = unknown - NOTHING - listed.keys()
    rows = counted(sum(counts[each] for each in others), "row")
    advice = f'{counted(len(others), "other word")} in {rows}: add lines here, "WORD" = {ours}'
    return listed, advice if others else ""
