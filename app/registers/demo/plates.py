"""British and Northern Irish registrations that fit the day a vehicle was first registered.

All are invented; that one of them is on a real vehicle somewhere is chance.
"""

from collections.abc import Sequence
from datetime import date
from random import Random

from app.registers.demo.data import (
    CURRENT_AREAS_FIRST,
    CURRENT_AREAS_SECOND,
    NORTHERN_IRISH_CODES,
    PREFIX_LETTERS,
    SERIAL_LETTERS,
    SUFFIX_LETTERS,
)

_CURRENT_SINCE = date(2001, 9, 1)
_PREFIX_SINCE = date(1983, 8, 1)
_SUFFIX_SINCE = date(1963, 2, 1)
_MARCH, _SEPTEMBER = 3, 9
_NORTHERN_IRISH_SHARE = 0.03
_CHERISHED_SHARE = 0.03


def new_plate(rng: Random, first_registered: date) -> str:
    """Return a canonical registration: mostly one whose age fits, some that never show an age."""
    lot = rng.random()
    if lot < _NORTHERN_IRISH_SHARE:
        code = rng.choice(NORTHERN_IRISH_CODES)
        return f"{rng.choice(SERIAL_LETTERS)}{code}{rng.randint(1000, 9999)}"
    if lot < _NORTHERN_IRISH_SHARE + _CHERISHED_SHARE or first_registered < _SUFFIX_SINCE:
        return f"{_letters(rng, rng.choice((2, 3)))}{rng.randint(1, 999)}"
    if first_registered >= _CURRENT_SINCE:
        area = rng.choice(CURRENT_AREAS_FIRST) + rng.choice(CURRENT_AREAS_SECOND)
        return f"{area}{age_identifier(first_registered)}{_letters(rng, 3)}"
    number = rng.randint(21, 999)
    if first_registered >= _PREFIX_SINCE:
        return f"{_year_letter(PREFIX_LETTERS, first_registered)}{number}{_letters(rng, 3)}"
    return f"{_letters(rng, 3)}{number}{_year_letter(SUFFIX_LETTERS, first_registered)}"


def age_identifier(first_registered: date) -> str:
    """Return the two digits of a current plate: 24 from March 2024, 74 from September 2024."""
    year = first_registered.year % 100
    if first_registered.month >= _SEPTEMBER:
        return f"{year + 50:02}"
    return f"{year:02}" if first_registered.month >= _MARCH else f"{year + 49:02}"


def _year_letter(letters: Sequence[tuple[int, int, str]], first_registered: date) -> str:
    month = (first_registered.year, first_registered.month)
    return [letter for *since, letter in letters if tuple(since) <= month][-1]


def _letters(rng: Random, count: int) -> str:
    return "".join(rng.choices(SERIAL_LETTERS, k=count))
