"""Suggests the path that a wrong one was probably meant to be."""

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

# What clients leave out at the beginning of a path, or confuse.
_BASES = ((), ("v1",), ("api",))
_SIMILARITY_MIN = 0.65
# SEC: comparing two texts takes the product of their lengths.
_CHARACTERS_MAX = 200
_ANY = "{}"


def closest_template(path: str, templates: Sequence[str]) -> str | None:
    """Return the template closest to a path that does not exist, None if none is close.

    The result contains nothing of the path itself, which can hold a registration.
    """
    if len(path) > _CHARACTERS_MAX:
        return None
    likeness, best = max(
        (_likeness(segments, template), template)
        for segments in _variants(path)
        for template in templates
        if template != "/"  # Every short path would be like it.
    )
    return best if likeness >= _SIMILARITY_MIN else None


def _variants(path: str) -> Iterator[list[str]]:
    """Yield the segments of a path as they are, with a base before them, and with another base."""
    segments = [segment for segment in path.split("/") if segment]
    for base in _BASES:
        yield [*base, *segments]
        yield [*base, *segments[1:]]


def _likeness(segments: Sequence[str], template: str) -> float:
    """Return how much a path is like a template, from 0 to 1; parameters can be anything."""
    expected = template.strip("/").split("/")
    given = list(segments)
    for place, segment in enumerate(expected):
        if segment.startswith("{"):
            expected[place] = _ANY
            if place < len(given):
                given[place] = _ANY
    return SequenceMatcher(None, "/".join(given).lower(), "/".join(expected)).ratio()
