"""Suggests the known word that a wrong one was probably meant to be."""

import difflib
from collections.abc import Iterable

_SIMILARITY_MIN = 0.6
# SEC: comparing two texts takes the product of their lengths.
_CHARACTERS_MAX = 200


def closest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word closest to a wrong one, None if none is close.

    Upper and lower case, underscores and hyphens do not count.
    """
    if len(word) > _CHARACTERS_MAX:
        return None
    by_spelling = {plain(each): each for each in known}
    found = difflib.get_close_matches(plain(word), by_spelling, 1, _SIMILARITY_MIN)
    return by_spelling[found[0]] if found else None


def listed(words: Iterable[str]) -> str:
    """Return words as a list in a sentence, such as `a, b and c`."""
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def plain(word: str) -> str:
    """Return a word in lower case, without underscores and hyphens."""
    return word.lower().replace("_", "").replace("-", "")
