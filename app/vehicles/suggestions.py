"""Finds the known plates that an unknown one may be a misreading of (D175)."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import combinations, product

from app.vehicles.facts import Record
from app.vehicles.reader import Found

SUGGESTED_MAX = 10
_GROUPS = ("0DOQ", "1I", "2Z", "5S", "8B", "6G")
_OTHERS = {each: group.replace(each, "") for group in _GROUPS for each in group}
"""What cameras and people take each character for."""


def variants_of(registration: str, changes_max: int) -> list[str]:
    """Return the plates that differ from one in 1 to `changes_max` confusable characters.

    Those with fewer changes come first, then they are in alphabetical order. A registration has
    at most 12 characters, so there are at most 36 variants with one change, and 630 with up to two.

    Args:
        registration: in its canonical form.
    """
    return [
        variant
        for changes in range(1, changes_max + 1)
        for variant in sorted(_changed(registration, changes))
    ]


def _changed(registration: str, changes: int) -> Iterator[str]:
    """Yield the plates that differ in so many confusable characters."""
    confusable = [place for place, each in enumerate(registration) if each in _OTHERS]
    for places in combinations(confusable, changes):
        for others in product(*(_OTHERS[registration[place]] for place in places)):
            variant = list(registration)
            for place, other in zip(places, others, strict=True):
                variant[place] = other
            yield "".join(variant)


def suggestions(
    unknown: Iterable[str],
    changes_max: int,
    look_up: Callable[[Sequence[str]], Iterable[Found]],
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
