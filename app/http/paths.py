"""Suggests the path that a wrong one was probably meant to be."""

from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher

# Clients often forget or confuse the first segment of a path.
_BASES = ("v1", "api")
_SIMILARITY_MIN = 0.75
_PENALTY_OF_A_GAP = 0.1
# SEC: comparing two texts takes the product of their lengths.
_SEGMENT_CHARACTERS_MAX = 40
_SEGMENTS_MAX = 6


def closest_path(path: str, method: str, paths: Mapping[str, Sequence[str]]) -> str | None:
    """Return the path template closest to a path that does not exist, None if none is close.

    The result contains nothing of the path itself, which can hold a registration.

    Args:
        paths: the methods of each template; only templates with this method are suggested.
    """
    segments = [segment.lower() for segment in path.split("/") if segment]
    if not 1 <= len(segments) <= _SEGMENTS_MAX:
        return None
    scores = {
        template: max(_likeness(each, template) for each in _variants(segments))
        for template, methods in paths.items()
        if method in methods
    }
    best = max(scores, key=scores.__getitem__, default="")
    return best if scores.get(best) else None


def _variants(segments: list[str]) -> list[list[str]]:
    """Return the segments as they are, with a base before them, and with another base."""
    with_base = [[base, *segments] for base in _BASES]
    with_other_base = [[base, *segments[1:]] for base in _BASES]
    return [segments, *with_base, *with_other_base]


def _likeness(given: list[str], template: str) -> float:
    """Return how much a path is like a template, from 0 to 1, even if one segment is left out."""
    expected = template.strip("/").split("/")
    if len(given) == len(expected):
        return _segments_likeness(given, expected)
    if len(given) + 1 == len(expected):
        likeness = max(
            (_segments_likeness(given, rest) for rest in _without_one(expected)), default=0
        )
        return max(0, likeness - _PENALTY_OF_A_GAP)
    return 0


def _without_one(segments: list[str]) -> Iterator[list[str]]:
    """Yield the segments without one of them, as long as something telling is left."""
    for place in range(len(segments)):
        rest = segments[:place] + segments[place + 1 :]
        if not all(segment in _BASES or _is_parameter(segment) for segment in rest):
            yield rest


def _segments_likeness(given: list[str], expected: list[str]) -> float:
    """Return the least similarity of two segments in the same place; 0 if one is too low."""
    likeness = min(_similarity(*pair) for pair in zip(given, expected, strict=True))
    return likeness if likeness >= _SIMILARITY_MIN else 0


def _is_parameter(segment: str) -> bool:
    return segment.startswith("{")


def _similarity(given: str, expected: str) -> float:
    if _is_parameter(expected) or given == expected:
        return 1
    if len(given) > _SEGMENT_CHARACTERS_MAX:
        return 0
    return SequenceMatcher(None, given, expected).ratio()
