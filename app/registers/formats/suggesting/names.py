"""What the names of columns can mean, by the words in `vocabulary.csv`.

Its words are in lower case, without accents, spaces and signs, as names are compared. The last
column names the published source that gives a member a `certain` name. A `likely` word counts in
longer names, too; a `vague` one, which has other meanings, only as a whole name.
"""

import csv
import re
import unicodedata
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

CERTAIN, LIKELY, VAGUE, PART = 4, 3, 2, 1
"""How sure a meaning is; of the last one the name only contains a word."""
OTHER, WITHOUT, _FIRST = "other", "without", "first"
"""No members: names of other things, names of dates that can be the first day without, and the
names of registrations that `lookup --csv` of 1.0.0 knew."""
_RANKS = {"certain": CERTAIN, "likely": LIKELY, "vague": VAGUE}
_CHARACTERS_MAX = 200
_PART_CHARACTERS_MIN = 5
_UMLAUT = re.compile("(?<=[aou])e")
_LETTERS = str.maketrans(
    {"ł": "l", "ø": "o", "đ": "d", "æ": "ae", "œ": "oe", "\u0131": "i", "þ": "th", "ð": "d"}
)


@cache
def _words() -> Mapping[str, Mapping[str, int]]:
    words: dict[str, dict[str, int]] = {}
    path = Path(__file__).with_name("vocabulary.csv")
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            for word in row["names"].split():
                words.setdefault(word, {})[row["member"]] = _RANKS[row["how"]]
    return words


def meanings(name: str) -> Mapping[str, int]:
    """Return the members that a column's name can mean, and how sure each is."""
    compact = _compact(name)
    # PERF: this takes 0.1 ms, and to look up all parts of a long name ten times as much.
    parts = {
        member: PART
        for word, means in _words().items()
        if word in compact
        for member, rank in means.items()
        if rank > VAGUE and (member == OTHER or len(word) >= _PART_CHARACTERS_MIN)
    }
    found = _whole(compact) or ({OTHER: PART} if OTHER in parts else parts)
    return {**found, WITHOUT: PART} if WITHOUT in parts else found


def plate_columns(header: Sequence[str]) -> list[int]:
    """Return the positions of columns with registrations, by their names.

    The words that `lookup --csv` of 1.0.0 knew win: a file that it answers every night must not
    become ambiguous by a new word.
    """
    means = [_whole(_compact(name)) for name in header]
    first = [at for at, each in enumerate(means) if _FIRST in each]
    return first or [at for at, each in enumerate(means) if each.get("registration", 0) > VAGUE]


def _whole(compact: str) -> Mapping[str, int]:
    # An umlaut is written with and without an e.
    return _words().get(compact) or _words().get(_UMLAUT.sub("", compact), {})


def _compact(name: str) -> str:
    """Return the letters and digits of a name in lower case, without accents."""
    letters = name[:_CHARACTERS_MAX].casefold().translate(_LETTERS)
    return "".join(filter(str.isalnum, unicodedata.normalize("NFKD", letters)))
