"""Refuses methods that a path does not take, and suggests the path that was probably meant."""

from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from functools import cache
from types import MappingProxyType

import falcon

from app.errors import Problem, listed
from app.serve.http.bodies import refuse_broken_body
from app.serve.http.context import Request

BASES = ("v1", "api")
"""The first segments of the API's paths. Clients often forget or confuse them."""
_SIMILARITY_MIN = 0.75
_PENALTY_OF_A_GAP = 0.1
_PENALTY_OF_A_METHOD = 0.15
_LIKENESS_OF_IMAGINED = 0.95
_IMPLIED = ("HEAD", "OPTIONS")
_REGISTRATION = "{registration}"
# SEC: comparing two texts takes the product of their lengths.
_SEGMENT_CHARACTERS_MAX = 40
_SEGMENTS_MAX = 6


def closest_path(
    path: str,
    method: str,
    paths: Mapping[str, Sequence[str]],
    imagined: Mapping[str, str] = MappingProxyType({}),
) -> str | None:
    """Return the path template closest to a path that does not exist, None if none is close.

    The result contains nothing of the path itself, which can hold a registration. A template
    without the method must be clearly closer than all that have it.

    Args:
        paths: the templates that can be suggested, each with its methods.
        imagined: templates that do not exist but are often tried, and which one is meant.
    """
    segments = [segment.lower() for segment in path.split("/") if segment]
    if not 1 <= len(segments) <= _SEGMENTS_MAX:
        return None
    variants = _variants(segments)
    scores = {template: max(_likeness(each, template) for each in variants) for template in paths}
    for spelling, meant in imagined.items():
        if meant in paths and any(_fits(each, spelling) for each in variants):
            scores[meant] = max(scores[meant], _LIKENESS_OF_IMAGINED)
    for template, methods in paths.items():
        if method not in methods:
            scores[template] -= _PENALTY_OF_A_METHOD
    best = max(scores, key=scores.__getitem__, default="")
    return best if scores.get(best, 0) > 0 else None


def correction(path: str, method: str, template: str, methods: Sequence[str]) -> str:
    """Return what else to correct in a request whose path is close to a template.

    Empty if nothing. `methods` are those of the template.
    """
    if method not in methods:
        return f", which takes {listed([each for each in methods if each not in _IMPLIED])}"
    if path.endswith("/"):
        return ", without the final slash"
    segments = [segment.lower() for segment in path.split("/") if segment]
    expected = template.strip("/").split("/")
    joined = [_joined(each, expected) for each in _variants(segments) if len(each) > len(expected)]
    if any(each and _segments_likeness(each, expected) for each in joined):
        return f", without a slash in {next(filter(_is_parameter, expected))}"
    return ""


def _variants(segments: list[str]) -> list[list[str]]:
    """Return the segments as they are, with a base before them, with another, and with one less."""
    with_base = [[base, *segments] for base in BASES]
    with_other_base = [[base, *segments[1:]] for base in BASES]
    has_two_bases = len(segments) > 2 and set(segments[:2]) == set(BASES)
    without_one = [segments[1:], [segments[0], *segments[2:]]] if has_two_bases else []
    return [segments, *with_base, *with_other_base, *without_one]


def _fits(given: list[str], template: str) -> bool:
    """Tell whether a path is one of a template, exactly."""
    expected = template.strip("/").split("/")
    return len(given) == len(expected) and all(
        _similarity(*pair) == 1 for pair in zip(given, expected, strict=True)
    )


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
    if len(given) > len(expected):
        joined = _joined(given, expected)
        return max(0, _segments_likeness(joined, expected) - _PENALTY_OF_A_GAP) if joined else 0
    return 0


def _joined(given: list[str], expected: list[str]) -> list[str] | None:
    """Return the segments, with those that slashes within a parameter made joined to one."""
    for place, segment in enumerate(expected):
        if _is_parameter(segment):
            following = len(expected) - place - 1
            return [*given[:place], segment, *given[len(given) - following :]]
    return None


def _without_one(segments: list[str]) -> Iterator[list[str]]:
    """Yield the segments without one of them, as long as something telling is left."""
    for place in range(len(segments)):
        rest = segments[:place] + segments[place + 1 :]
        if not all(segment in BASES or _is_parameter(segment) for segment in rest):
            yield rest


def _segments_likeness(given: list[str], expected: list[str]) -> float:
    """Return the least similarity of two segments in the same place; 0 if one is too low."""
    likeness = min(_similarity(*pair) for pair in zip(given, expected, strict=True))
    return likeness if likeness >= _SIMILARITY_MIN else 0


def _is_parameter(segment: str) -> bool:
    return segment.startswith("{")


def _similarity(given: str, expected: str) -> float:
    if expected == _REGISTRATION and given.startswith("bulk"):
        return 0  # It is meant to be a path for many vehicles, and no plate.
    if _is_parameter(expected) or given == expected:
        return 1
    if len(given) > _SEGMENT_CHARACTERS_MAX:
        return 0
    return SequenceMatcher(None, given, expected).ratio()


class Methods:
    """Refuses methods that a path does not take.

    Args:
        paths: the path templates that can be suggested, each with its methods.
        imagined: templates that do not exist but are often tried, and which one is meant.
    """

    def __init__(self, paths: Mapping[str, Sequence[str]], imagined: Mapping[str, str]) -> None:
        self._paths = paths
        self._imagined = imagined

    def process_resource(
        self, req: Request, resp: falcon.Response, resource: object, params: object
    ) -> None:
        """Answer OPTIONS with 204 and `Allow`; admit the other methods that the path takes.

        Raises falcon.HTTPNotFound for an empty segment, Problem method_not_allowed or, where
        no responder looks at the body, invalid_request.
        """
        # NOTE: to Falcon `/api/domains/` is `/api/domains/{domain}` with an empty name, and a
        # path may begin with any number of slashes (D1).
        if req.path != "/" and (req.path.endswith("/") or "//" in req.path):
            raise falcon.HTTPNotFound
        allowed = allowed_methods(resource)
        if req.method == "OPTIONS":
            resp.status = falcon.HTTP_204
            resp.set_header("Allow", ", ".join(allowed))
            resp.complete = True
        elif req.method not in allowed:
            detail = f"This path takes {listed(allowed)}{self._meant(req)}"
            raise Problem("method_not_allowed", detail, headers={"Allow": ", ".join(allowed)})
        elif req.method != "POST":
            refuse_broken_body(req)

    def _meant(self, req: Request) -> str:
        """Return the end of a sentence: the path for many vehicles that was probably meant.

        To Falcon a misspelt one is a path with a registration, such as `BULK-COMPLIANCE`.
        """
        # SEC: paths without a key are not charged, so their refusal must cost nothing.
        if req.method != "POST" or not req.context.caller:
            return "."
        paths = {path: methods for path, methods in self._paths.items() if "POST" in methods}
        meant = closest_path(req.path, req.method, paths, self._imagined)
        return f"; did you mean {meant}?" if meant else "."


def allowed_methods(resource: object) -> Sequence[str]:
    """Return the methods of a resource or of its class, as in the header `Allow`."""
    return _methods_of(resource if isinstance(resource, type) else type(resource))


# PERF: finding the methods takes 3 % of a look-up.
@cache
def _methods_of(kind: type) -> tuple[str, ...]:
    methods = ("GET", "HEAD", "POST", "PUT", "DELETE")
    return (*(m for m in methods if hasattr(kind, f"on_{m.lower()}")), "OPTIONS")
