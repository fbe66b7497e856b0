"""What the names of columns can mean, by the words in `vocabulary.csv`.

Each row of it has a member and words for it, in lower case, without accents, spaces and signs:

- `certain`: a published source, which is named, gives the member this name. As a part of a longer
  name such a word is only `likely`.
- `likely`: sources use it for the member, alone or in longer names.
- `vague`: the same, but only as a whole name: it has other meanings, too.
- `first`: registrations, as `lookup --csv` of 1.0.0 knew them.

The member `other` has names that are none of our members, and `without` those of dates that can be
the first day without.
"""

import csv
import re
import unicodedata
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

CERTAIN, LIKELY, VAGUE, PART = 4, 3, 2, 1
"""How sure a meaning is; of the last one the name only contains a word."""
_RANKS = {"certain": CERTAIN, "likely": LIKELY, "vague": VAGUE, "first": LIKELY}
OTHER, WITHOUT = "other", "without"
_CHARACTERS_MAX = 200
_PART_CHARACTERS_MIN = 5
_UMLAUT = re.compile("(?<=[aou])e")
_LETTERS = str.maketrans(
    {"ł": "l", "ø": "o", "đ": "d", "æ": "ae", "œ": "oe", "\u0131": "i", "þ": "th", "ð": "d"}
)


class _Vocabulary(NamedTuple):
    whole: Mapping[str, Mapping[str, int]]
    """What a whole name means."""
    parts: Sequence[tuple[str, str]]
    """Words that count in longer names, with their members."""
    first: frozenset[str]


@cache
def _vocabulary() -> _Vocabulary:
    whole: dict[str, dict[str, int]] = {}
    parts: list[tuple[str, str]] = []
    first: set[str] = set()
    path = Path(__file__).with_name("vocabulary.csv")
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            member, how, words = row["member"], row["how"], row["names"].split()
            for word in words:
                means = whole.setdefault(word, {})
                means[member] = max(_RANKS[how], means.get(member, PART))
            if how != "vague":
                shortest = 0 if member == OTHER else _PART_CHARACTERS_MIN
                parts += [(each, member) for each in words if len(each) >= shortest]
            if how == "first":
                first.update(words)
    return _Vocabulary(whole, parts, frozenset(first))


def meanings(name: str) -> dict[str, int]:
    """Return the members that a column's name can mean, and how sure each is.

    A name with two meanings is certain for none.
    """
    compact = _compact(name)
    vocabulary = _vocabulary()
    # An umlaut is written with and without an e.
    found = vocabulary.whole.get(compact) or vocabulary.whole.get(_UMLAUT.sub("", compact))
    if found:
        surest = LIKELY if len(found) > 1 else CERTAIN
        return {member: min(rank, surest) for member, rank in found.items()}
    found = {member: PART for word, member in vocabulary.parts if word in compact}
    return {OTHER: PART} if OTHER in found else found


def plate_columns(header: Sequence[str]) -> list[int]:
    """Return the positions of columns with registrations, by their names.

    The words that `lookup --csv` of 1.0.0 knew win: a file that it answers every night must not
    become ambiguous by a new word.
    """
    compact = list(map(_compact, header))
    first = [at for at, name in enumerate(compact) if name in _vocabulary().first]
    return first or [
        at for at, name in enumerate(header) if meanings(name).get("registration", PART) > VAGUE
    ]


def _compact(name: str) -> str:
    """Return the letters and digits of a name in lower case, without accents."""
    letters = unicodedata.normalize("NFKD", name[:_CHARACTERS_MAX].casefold().translate(_LETTERS))
    return "".join(filter(str.isalnum, letters))
