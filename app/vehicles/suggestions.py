"""Finds the known plates that an unknown one may be a misreading of (D175)."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import combinations, product

from app.vehicles.facts import Record
from app.vehicles.reader import FoundPlate

SUGGESTED_MAX = 10
_SHAPES = ("0DOQ", "1I", "2Z", "5S", "8B", "6G")
_ACCENTS = ("AÄÅ", "OÖØ", "UÜ")


def _others_in(groups: Sequence[str]) -> dict[str, str]:
    """Return what each character of these groups is taken for."""
    return {
        each: "".join(group.replace(each, "") for group in groups if each in group)
        for each in "".join(groups)
    }


_OTHERS = _others_in(_SHAPES + _ACCENTS), _others_in(_SHAPES)
"""What cameras and people take each character for, if one is changed, and if two are.

PERF: an accent is never one of two: there would be 1,712 variants, not 656.
"""
_TO_LATIN = str.maketrans(
    "АВЕНІКМОРТХУСΑΒΕΗΙΚΜΝΟΡΤΧΥΖ",  # noqa: RUF001 # Cyrillic and Greek letters are meant.
    "ABEHIKMOPTXYCABEHIKMNOPTXYZ",
)
_TO_PLAIN = _TO_LATIN | str.maketrans("ÄÅÖØÜ", "AAOOU")
_SCRIPTS = (
    str.maketrans("ABEHIKMOPTXYC", "АВЕНІКМОРТХУС"),  # noqa: RUF001
    str.maketrans("ABEHIKMNOPTXYZ", "ΑΒΕΗΙΚΜΝΟΡΤΧΥΖ"),  # noqa: RUF001
)
"""The letters of Cyrillic and Greek plates that look like Latin ones."""


def variants_of(registration: str, changes_max: int) -> list[str]:
    """Return the plates that differ from one in 1 to `changes_max` confusable characters.

    The whole plate in the letters of another script counts as one change. Those with fewer changes
    come first, then they are in alphabetical order. A registration has at most 12 characters, so
    there are at most 62 variants with one change, and 656 with up to two, of which none is an
    accent.

    Args:
        registration: in its canonical form.
    """
    variants: dict[str, None] = {}
    for changes in range(1, changes_max + 1):
        others = _in_other_scripts(registration) if changes == 1 else ()
        variants |= dict.fromkeys(sorted({*_changed(registration, changes), *others}))
    return list(variants)


def _changed(registration: str, changes: int) -> Iterator[str]:
    """Yield the plates that differ in so many confusable characters."""
    others_of = _OTHERS[changes - 1]
    confusable = [place for place, each in enumerate(registration) if each in others_of]
    for places in combinations(confusable, changes):
        for others in product(*(others_of[registration[place]] for place in places)):
            variant = list(registration)
            for place, other in zip(places, others, strict=True):
                variant[place] = other
            yield "".join(variant)


def in_latin(registration: str) -> str | None:
    """Return a Cyrillic or Greek plate in Latin letters; None if they do not have its letters."""
    latin = registration.translate(_TO_LATIN)
    return latin if latin != registration and latin.isascii() else None


def _in_other_scripts(registration: str) -> Iterator[str]:
    """Yield a plate in plain Latin letters, and in Cyrillic or Greek ones if it can be."""
    plain = registration.translate(_TO_PLAIN)
    # A plate has the letters of one script only.
    others = (plain.translate(script) for script in _SCRIPTS)
    whole = (each for each in others if not re.search("[A-Z]", each))
    yield from (each for each in (plain, *whole) if each != registration)


def suggestions(
    unknown: Iterable[str],
    changes_max: int,
    look_up: Callable[[Sequence[str]], Iterable[FoundPlate]],
) -> dict[str, list[Record]]:
    """Return for each unknown plate the known ones that it may be a misreading of.

    Each has at most 10, in the order of `variants_of`.

    Args:
        unknown: in their canonical form.
        look_up: looks plates up; it is called at most once.
    """
    variants = {plate: variants_of(plate, changes_max) for plate in unknown}
    asked = list(dict.fromkeys(each for some in variants.values() for each in some))
    found = look_up(asked) if asked else ()
    known = {each.asked: each.record for each in found if each.record is not None}
    return {
        plate: [known[each] for each in some if each in known][:SUGGESTED_MAX]
        for plate, some in variants.items()
    }
