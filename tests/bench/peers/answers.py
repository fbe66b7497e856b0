"""Checks that contestants answer as verifyd does, so that nobody wins by doing less."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

from app.accounts.tokens import new_token
from tests.bench.intake.files import plate
from tests.bench.peers.contestants import Contestant
from tests.bench.peers.data import CASES, Data
from tests.system.processes import Answer, send

LIMIT_HEADERS = ("X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset")
# Their values may differ: an id, a time, and sentences for people.
_FREE = {"request_id", "lastChecked", "detail", "error"}
_BULK_PATH = "/v1/vehicle/bulk-insurance"


class Question(NamedTuple):
    """A request that every contestant must answer like verifyd."""

    path: str
    key: str
    registrations: Sequence[str] | None = None
    """The plates of a bulk; None for a GET."""


def questions(data: Data) -> Iterator[Question]:
    """Yield vehicles with every kind of paper, unknown and malformed plates, and wrong keys."""
    known = [plate(number) for number in range(min(CASES, data.vehicles))]
    unknown, malformed = "ZZ99ZZZZ", "AB!12"
    spaced = f"{known[0][:4]} {known[0][4:]}".lower()
    for text in (*known, spaced, unknown, malformed):
        yield Question(insurance_path(text), data.key)
        yield Question(compliance_path(text), data.key)
    for key in (new_token("AAAAAA").text, "wrong", ""):
        yield Question(insurance_path(known[0]), key)
    yield Question(_BULK_PATH, data.key, [*known, spaced, unknown, malformed, known[0]])


def insurance_path(text: str) -> str:
    """Return the path of a single look-up."""
    return f"/v1/vehicle/{quote(text)}/insurance"


def compliance_path(text: str) -> str:
    """Return the path of a compliance check."""
    return f"/v1/compliance/{quote(text)}"


def ask(contestant: Contestant, question: Question) -> Answer:
    """Return the answer of a contestant."""
    headers = {"Content-Type": "application/json"}
    if question.key:
        headers["X-API-Key"] = question.key
    if question.registrations is None:
        return send(contestant.bind, "GET", question.path, headers=headers)
    body = json.dumps({"registrations": question.registrations})
    return send(contestant.bind, "POST", question.path, body=body, headers=headers)


def differences(expected: Answer, given: Answer) -> list[str]:
    """Return how an answer differs from verifyd's: in status, limit headers or members."""
    found = []
    if given.status != expected.status:
        found.append(f"status {given.status}, not {expected.status}")
    if given.status == 200:
        found += [f"no header {name}" for name in LIMIT_HEADERS if name not in given.headers]
    if not found:
        found += _unlike("", json.loads(expected.body), json.loads(given.body))
    return found


def _unlike(place: str, expected: Any, given: Any) -> Iterator[str]:
    if isinstance(expected, Mapping) and isinstance(given, Mapping):
        if expected.keys() != given.keys():
            yield f"{place or '/'} has {', '.join(given)}, not {', '.join(expected)}"
            return
        for name in expected.keys() - _FREE:
            yield from _unlike(f"{place}/{name}", expected[name], given[name])
    elif isinstance(expected, list) and isinstance(given, list) and len(expected) == len(given):
        for number, pair in enumerate(zip(expected, given, strict=True)):
            yield from _unlike(f"{place}/{number}", *pair)
    elif expected != given or type(expected) is not type(given):
        yield f"{place} is {given!r}, not {expected!r}"


class WrongAnswerError(Exception):
    """A contestant does not do the same work."""


def require_same_answers(verifyd: Contestant, other: Contestant, data: Data) -> int:
    """Compare all answers of a contestant with verifyd's; return how many were compared.

    Raises WrongAnswerError with the first difference.
    """
    asked = list(questions(data))
    for question in asked:
        found = differences(ask(verifyd, question), ask(other, question))
        if found:
            raise WrongAnswerError(f"{other.title}: {question.path}: {'; '.join(found)}")
    return len(asked)
