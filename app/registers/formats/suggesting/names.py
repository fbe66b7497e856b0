"""Which members a column's name can mean."""

import re
import unicodedata
from collections.abc import Mapping
from enum import Enum, auto
from itertools import filterfalse

from app.registers.formats.suggesting.vocabulary import NAMES, OTHERS
from app.storage.tables import Kind

EXACT, WHOLE, PART = 3.0, 2.75, 2.0
"""How sure a name is: it is a known one, it is one with other meanings, or it contains one."""
_PART_CHARACTERS_MIN = 5
_OTHER_CHARACTERS = re.compile("[^a-z0-9]+")
_UMLAUT = re.compile("(?<=[aou])e")
_CHARACTERS_MAX = 200
_OF = r"(?:(?:of|de la|de|du|di|della|del|van|der|des) |d(?:e?ll)?['\u2019])?"
_NUMBER_OF = re.compile(rf"^n(?:[°.]|[or]\b\.?|um\w{{0,5}}\b\.?) ?{_OF}")
"""The beginning of "N° de contrat", "Nr polisy", "Numero di polizza"."""
_NUMBER = re.compile(r" (?:nr|no|num|nummer|numer)\b\.?$")
"""The end of "Police-Nr."."""
_CURRENCY = re.compile(r"\W+(?:in )?(?:eur|euro|€|chf|gbp|pln|zl|usd)\W*$")
"""The end of "Betrag in EUR"."""
_DAY_OF = re.compile(rf"^(?:date|datum|data|fecha) {_OF}")
"""The beginning of "Date de début", "Data do"."""
_PAST = re.compile(r"\b(?:last|letzt|laatst|dernier|ultim|ostatni)")
_LETTERS = str.maketrans({"ł": "l", "ø": "o", "đ": "d", "æ": "ae", "œ": "oe", "_": " ", "-": " "})
_NUMBERED = frozenset({"registration", "number", "reference"})
"""The members that a number of something can be."""


class Shape(Enum):
    """What the values of a member look like."""

    PLATE = auto()
    DAY = auto()
    TIME = auto()
    YEAR = auto()
    FLAG = auto()
    MONEY = auto()
    TEXT = auto()


SHAPES: Mapping[str, Shape] = {
    "registration": Shape.PLATE,
    "year": Shape.YEAR,
    "lastUpdated": Shape.TIME,
    "amount": Shape.MONEY,
    **dict.fromkeys(("insured", "motExempt"), Shape.FLAG),
    **dict.fromkeys(
        (
            *("motExpiry", "firstRegistered", "taxDue", "validFrom", "validTo", "cancelledOn"),
            *("issuedOn", "settledOn"),
        ),
        Shape.DAY,
    ),
}
"""The shapes of members; all others are texts."""

_SURE: dict[Kind, dict[str, frozenset[str]]] = {}
_WHOLE: dict[Kind, dict[str, frozenset[str]]] = {}
for _kind, _members in NAMES.items():
    _texts = {member: text.partition("?") for member, text in _members.items()}
    _SURE[_kind] = {member: frozenset(text[0].split()) for member, text in _texts.items()}
    _WHOLE[_kind] = {member: frozenset(text[2].split()) for member, text in _texts.items()}
_ALL_NAMES = frozenset[str]().union(
    *(names for each in (*_SURE.values(), *_WHOLE.values()) for names in each.values())
)
_OTHERS = tuple(OTHERS.split())


def scores(name: str, kind: Kind) -> dict[str, float]:
    """Return the members of a kind that a column's name can mean, and how sure that is."""
    plain = _plain(name)
    compact = _compact(plain)
    # An umlaut is written with and without an e.
    spellings = {compact, _UMLAUT.sub("", compact)}
    numbered = {_without(_NUMBER_OF, plain), _without(_NUMBER, plain)}
    others = {Shape.DAY: _DAY_OF, Shape.TIME: _DAY_OF, Shape.MONEY: _CURRENCY}
    found: dict[str, float] = {}
    for member in NAMES[kind]:
        sure, whole = _SURE[kind][member], _WHOLE[kind][member]
        is_numbered = member in _NUMBERED and not numbered.isdisjoint(sure | whole)
        other = others.get(SHAPES.get(member, Shape.TEXT))
        if is_numbered or not sure.isdisjoint(spellings) or compact == member.lower():
            found[member] = EXACT
        elif not whole.isdisjoint(spellings | {_without(other, plain) if other else ""}):
            found[member] = WHOLE
    is_known = not _ALL_NAMES.isdisjoint(spellings)
    # In a list of policies "Échéance CT" is no end of a policy.
    if not found and not is_known and not means_other(name):
        found = _by_parts(compact, kind)
    # The day of the last inspection is not when the next one is due.
    is_past = _PAST.search(plain)
    return {each: found[each] for each in found if each == "lastUpdated" or not is_past}


def means_other(name: str) -> bool:
    """Tell whether a part of a name says that it is no member, as in "Reifenmarke"."""
    compact = _compact(_plain(name))
    return any(each in compact for each in _OTHERS)


def _by_parts(compact: str, kind: Kind) -> dict[str, float]:
    found = {}
    for member, known in _SURE[kind].items():
        parts = [each for each in known if len(each) >= _PART_CHARACTERS_MIN and each in compact]
        if parts:
            # The longest part says most: "first registration date" is no registration.
            found[member] = PART + max(map(len, parts)) / max(len(compact), 1) / 2
    if "model" in found:
        found.pop("make", None)  # "Marke/Modell": models often repeat the make.
    return found


def _without(part: re.Pattern[str], plain: str) -> str:
    """Return the compact form of a name without its beginning or end; empty if it has no such."""
    match = part.search(plain)
    return _compact(plain[: match.start()] + plain[match.end() :]) if match else ""


def _plain(name: str) -> str:
    """Return the words of a name in lower case, without accents."""
    folded = name[:_CHARACTERS_MAX].casefold().translate(_LETTERS)
    letters = unicodedata.normalize("NFKD", folded)
    return " ".join("".join(filterfalse(unicodedata.combining, letters)).split())


def _compact(plain: str) -> str:
    return _OTHER_CHARACTERS.sub("", plain)
