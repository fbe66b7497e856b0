"""Which members a column's name can mean."""

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from itertools import filterfalse
from typing import NamedTuple

from app.registers.formats.dates import likely_forms, moment, year_of
from app.registers.formats.native import SHAPES
from app.registers.formats.suggesting.vocabulary import NAMES, OTHERS
from app.registers.formats.values import AMOUNTS, NO, STATUSES, YES
from app.storage.tables import Kind, Shape
from app.vehicles.compliance import TAX_STATUSES
from app.vehicles.registration import canonical_registration

EXACT, WHOLE, PART = 3.0, 2.75, 2.0
"""How sure a name is: it is a known one, it is one with other meanings, or it contains one."""
_PART_CHARACTERS_MIN = 5
_OTHER_CHARACTERS = re.compile("[^a-z0-9]+")
_UMLAUT = re.compile("(?<=[aou])e")
_CHARACTERS_MAX = 200
_OF = r"(?:(?:of|de la|de|du|di|della|del|van|der|des) |d(?:e?ll)?['\u2019])?"
_NUMBER_OF = re.compile(rf"^n(?:[°.]|[or]\b\.?|um\w{{0,5}}\b\.?) ?{_OF}")
"""The beginning of "N° de contrat", "Nr polisy", "Numero di polizza"."""
_NUMBER_WORD = re.compile(r" (?:nr|no|num|nummer|numer)\b\.?$")
"""The end of "Police-Nr."."""
_CURRENCY = re.compile(r"\W+(?:in )?(?:eur|euro|€|chf|gbp|pln|zl|usd)\W*$")
"""The end of "Betrag in EUR"."""
_DAY_OF = re.compile(rf"^(?:date|datum|data|fecha) {_OF}")
"""The beginning of "Date de début", "Data do"."""
_PAST = re.compile(r"\b(?:last|letzt|laatst|dernier|ultim|ostatni)")
_LETTERS = str.maketrans({"ł": "l", "ø": "o", "đ": "d", "æ": "ae", "œ": "oe", "_": " ", "-": " "})
_NUMBERED = frozenset({"registration", "number", "reference"})
"""The members that a number of something can be."""


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
    numbered = {_without(_NUMBER_OF, plain), _without(_NUMBER_WORD, plain)}
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
    """Tell whether a part of a name means something else than a member, as in "Reifenmarke"."""
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
    """Return the compact form of a name without this part; empty if the name lacks the part."""
    match = part.search(plain)
    return _compact(plain[: match.start()] + plain[match.end() :]) if match else ""


def _plain(name: str) -> str:
    """Return the words of a name in lower case, without accents."""
    folded = name[:_CHARACTERS_MAX].casefold().translate(_LETTERS)
    letters = unicodedata.normalize("NFKD", folded)
    return " ".join("".join(filterfalse(unicodedata.combining, letters)).split())


def _compact(plain: str) -> str:
    return _OTHER_CHARACTERS.sub("", plain)


# What the values of a column look like: plates, dates, years, yes and no.

MOST = 0.8
"""The share of values that must look alike."""
_YEAR_MAX = 2100
_NUMBER_CHARACTERS_MAX = 40
_OTHER_DATE = re.compile(r"\d{1,4}[./-]\d{1,2}[./-]\d{1,4}(?:[ T].*)?")
_NUMBER = re.compile(r"[-+]?[\d.,: /]*\d[\d.,: /]*")


class Dates(NamedTuple):
    """The form of the dates in a column."""

    form: str | None
    """None: they look like dates, but no mapping can read them."""
    other: str | None = None
    """Another form that fits as well."""


def present(texts: Sequence[str]) -> list[str]:
    """Return the values of a column, trimmed, without missing ones."""
    return [text for each in texts if (text := each.strip()) and text.lower() != "null"]


def dates(values: Sequence[str]) -> Dates | None:
    """Return the form of dates; None if most values are no dates."""
    forms = likely_forms(values)
    if forms:
        return Dates(forms[0], forms[1] if forms[1:] else None)
    return Dates(None) if share(values, _OTHER_DATE) >= MOST else None


def are_years(values: Sequence[str]) -> bool:
    """Tell whether most values are years in which a vehicle can have been built."""
    years = [year for year in map(year_of, values) if year and year <= _YEAR_MAX]
    return bool(values) and len(years) >= MOST * len(values)


def are_times(values: Sequence[str]) -> bool:
    """Tell whether most values are times with a time zone, or dates that a mapping can read."""
    parse = moment("")
    if values and sum(parse(each) is not None for each in values) >= MOST * len(values):
        return True
    found = dates(values)
    return found is not None and found.form is not None


def decimal(values: Sequence[str]) -> str | None:
    """Return the decimal separator; a point if no value has hundredths, None if no amounts."""
    likely = max(AMOUNTS, key=lambda each: share(values, AMOUNTS[each]))
    return likely if share(values, AMOUNTS[likely]) >= MOST else None


def plates(values: Sequence[str], *, mixed: bool = False) -> float:
    """Return the share of values that can be registrations.

    Args:
        mixed: count only values with letters and digits, which hardly any other column has.
    """
    if not values:
        return 0.0
    return sum(is_plate(each) if mixed else _can_be_plate(each) for each in values) / len(values)


def is_plate(text: str) -> bool:
    """Tell whether a text has letters and digits, and can be a registration."""
    plate = canonical_registration(text[:100])
    return plate is not None and any(map(str.isdigit, plate)) and any(map(str.isalpha, plate))


def is_value(name: str) -> bool:
    """Tell whether a name in a header is rather a number or a date, as in a file without header."""
    text = name.strip()
    # SEC: the time that the pattern takes grows with the square of the length.
    return len(text) <= _NUMBER_CHARACTERS_MAX and bool(_NUMBER.fullmatch(text))


def share(values: Sequence[str], pattern: re.Pattern[str]) -> float:
    """Return the share of values that match a pattern."""
    return sum(map(bool, map(pattern.fullmatch, values))) / len(values) if values else 0.0


def _can_be_plate(text: str) -> bool:
    return canonical_registration(text[:100]) is not None


# Words for yes, no and tax statuses in other languages.

_NATIVE_FLAGS = frozenset("true yes 1 1.0 false no 0 0.0".split())
_FLAGS = {word: "true" if word in YES else "false" for word in YES | NO}
_NATIVE_STATUSES = frozenset(TAX_STATUSES)
_STATUSES = {word: f'"{STATUSES[word]}"' for word in STATUSES}


def are_flags(values: Sequence[str]) -> bool:
    """Tell whether most values are words for yes or no."""
    known = sum(each.lower() in YES or each.lower() in NO for each in values)
    return bool(values) and known >= MOST * len(values)


class Words(NamedTuple):
    """The words of a column.

    SEC: unknown words are only counted, because the column can contain anything.
    """

    known: dict[str, str]
    """The words that a mapping must list, with their values as TOML."""
    others: int
    """How many words are not known."""
    rows: int
    """How many rows have an unknown word."""


def words(values: Sequence[str], *, is_flag: bool) -> Words:
    """Return the words for yes and no, or for tax statuses, among the values of a column."""
    native = _NATIVE_FLAGS if is_flag else _NATIVE_STATUSES
    translated = _FLAGS if is_flag else _STATUSES
    counts = Counter(each.lower() for each in values)
    found = sorted(counts.keys() - native)
    others = [word for word in found if word not in translated]
    known = {word: translated[word] for word in found if word in translated}
    return Words(known, len(others), sum(counts[word] for word in others))
