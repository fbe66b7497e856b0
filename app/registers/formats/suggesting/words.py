"""Words for yes, no and tax statuses in other languages."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from app.registers.formats.known_words import NO, STATUSES, TAX_STATUSES, YES
from app.registers.formats.suggesting import looks

_NATIVE_FLAGS = frozenset("true yes 1 1.0 false no 0 0.0".split())
_FLAGS = {word: "true" if word in YES else "false" for word in YES | NO}
_NATIVE_STATUSES = frozenset(TAX_STATUSES)


def are_flags(values: Sequence[str]) -> bool:
    """Tell whether most values are words for yes or no."""
    known = sum(each.lower() in YES or each.lower() in NO for each in values)
    return bool(values) and known >= looks.MOST * len(values)


class Words(NamedTuple):
    """The words of a column.

    SEC: unknown words are only counted: nobody knows what is in the column.
    """

    known: dict[str, str]
    """The words that a mapping must list, with their values as TOML."""
    others: int
    """How many words are not known."""
    rows: int
    """How many rows have one of these."""


def flag_words(values: Sequence[str]) -> Words:
    """Return the words for yes and no among the values of a column."""
    return _words(values, _NATIVE_FLAGS, _FLAGS)


def status_words(values: Sequence[str]) -> Words:
    """Return the words for tax statuses among the values of a column."""
    return _words(values, _NATIVE_STATUSES, {word: f'"{STATUSES[word]}"' for word in STATUSES})


def _words(values: Sequence[str], native: Collection[str], translated: Mapping[str, str]) -> Words:
    counts = Counter(each.lower() for each in values)
    found = sorted(counts.keys() - native)
    others = [word for word in found if word not in translated]
    known = {word: translated[word] for word in found if word in translated}
    return Words(known, len(others), sum(counts[word] for word in others))
