"""Parsers of the texts in a column. `dates.py` has the parsers of dates and times.

A parser takes a text from the file. It returns its value, or None if the value is unknown. It
raises RowFault if the value must not be stored. A text is missing if it is empty, `null` or a
placeholder of the source, in upper or lower case.
"""

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from app.registers.bounded_cache import cached
from app.registers.formats.columns import RowFault
from app.storage.tables import TEXT_CHARACTERS_MAX
from app.vehicles.registration import canonical_registration

T = TypeVar("T")

# Words for yes, no and tax statuses in other languages.
#
# SEC: messages may show them, because they reveal nothing about anyone.

YES = frozenset("yes y true t 1 1.0 ja j wahr oui o vrai si sí s verdadero sì vero tak".split())
NO = frozenset("no n false f 0 0.0 nein falsch nee non faux falso nie".split())
STATUSES: Mapping[str, str] = {
    **dict.fromkeys(("paid", "versteuert", "betaald", "payé", "pagado"), "taxed"),
    **dict.fromkeys(("pagato", "pagata", "opłacony", "opłacone", "zapłacono"), "taxed"),
    **dict.fromkeys(("esente", "zwolniony"), "exempt"),
    **dict.fromkeys(("non pagato", "non pagata", "nieopłacony", "nieopłacone"), "untaxed"),
    **dict.fromkeys(("bezahlt", "steuerpflichtig", "belast", "imposé"), "taxed"),
    **dict.fromkeys(("steuerfrei", "befreit", "vrijgesteld", "exonéré", "exento"), "exempt"),
    **dict.fromkeys(("off road", "geschorst", "stillgelegt"), "sorn"),
    **dict.fromkeys(("unpaid", "not taxed", "unversteuert", "onbetaald"), "untaxed"),
    **dict.fromkeys(("unbezahlt", "nicht bezahlt", "impayé", "impagado"), "untaxed"),
}


def is_known(word: str) -> bool:
    """Tell whether a word is in `YES`, `NO` or `STATUSES`, in upper or lower case."""
    folded = word.strip().lower()
    return folded in YES or folded in NO or folded in STATUSES


MISSING = frozenset({"", "null"})
TEXT_NOTHING = frozenset({r"\n"})
NOTHING = TEXT_NOTHING.union("nan nat <nil> <na> (null)".split())
DAY_NOTHING = NOTHING.union("na n/a #n/a none nil - --".split())
"""Words of other programs, in lower case, that can only mean that a value is missing: in texts; in
flags, statuses and amounts, where `-` can be zero and `N/A` exempt; in days, times and years."""
# `1.200` is twelve hundred in one file and a mistake in another, and nothing in it tells which. A
# fine must not become a thousand times larger.
AMOUNTS: Mapping[str, re.Pattern[str]] = {
    ".": re.compile(r"(-?)([0-9]+)(?:\.([0-9]{1,2}))?"),
    ",": re.compile("(-?)([0-9]+|[0-9]{1,3}(?:[. \u00a0\u202f][0-9]{3})+)(?:,([0-9]{1,2}))?"),
}
"""The forms of amounts, by their decimal separator: sign, whole part, hundredths."""
_CENTS_MAX = 2**63 - 1
_DAY = re.compile(r"[0-9]{4}-[01][0-9]-[0-3][0-9]")
_WITH_EXPONENT = re.compile(r"[0-9](?:[.,][0-9]+)?[Ee]\+[0-9]{1,3}")
_NO_DIGIT = re.compile("[^0-9]")
_QUOTED_CHARACTERS = 40
_QUOTED = re.compile(r""": ['"].*""", re.DOTALL)

# Each matches many texts, one per line, in the most frequent form, which is stored unchanged.
_CANONICAL_LINES = re.compile(r"[0-9A-Z]{1,12}(?:\n[0-9A-Z]{1,12})*+")
_PLAIN_LINES = re.compile(r"[!-~](?:[ -~]{0,98}[!-~])?(?:\n[!-~](?:[ -~]{0,98}[!-~])?)*+")


def quoted(text: str) -> str:
    """Return a text as error messages quote it: shortened, and with escaped control characters."""
    return repr(text if len(text) <= _QUOTED_CHARACTERS else text[:_QUOTED_CHARACTERS] + "...")


def shortened(names: Sequence[str], most: int) -> str:
    """Return names with commas; of many names, the first ones and the number of the others."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more:,} more" if more > 0 else "")


def without_value(reason: str) -> str:
    """Return the reason of a reject without the value at its end that `quoted` wrote."""
    return _QUOTED.sub("", reason)


def is_day(text: str) -> bool:
    """Tell whether a spreadsheet has turned a plate such as `11-12-13` into a day."""
    return len(text) == len("2011-12-13") and _DAY.fullmatch(text) is not None


def has_exponent(text: str) -> bool:
    """Tell whether a spreadsheet has turned a long number into one with an exponent."""
    return "+" in text and _WITH_EXPONENT.fullmatch(text.strip()) is not None


def registration(text: str) -> str:
    """Return the canonical registration (D19). `NULL` is a valid plate.

    Raises RowFault if the text is empty or is not a registration.
    """
    plate = canonical_registration(text)
    if plate is None:
        trimmed = text.strip()
        if not trimmed:
            raise RowFault("no registration")
        plate = canonical_registration(trimmed)
        if plate is None:
            raise RowFault(f"not a registration number: {quoted(trimmed)}")
    return plate


def registrations(texts: list[str]) -> list[str]:
    """Return the canonical form of many registrations. Raises RowFault if any is invalid."""
    # PERF: nearly all registrations are canonical. The check of all of them takes 0.2 us per text;
    # one by one it takes 1.3 us.
    if _CANONICAL_LINES.fullmatch("\n".join(texts)):
        return texts
    return list(map(registration, texts))


def stored_text(label: str, text: str, missing: frozenset[str] = MISSING) -> str | None:
    """Return the trimmed text, or None if it is missing.

    Args:
        label: the name of the column in error messages.
        missing: the texts that mean no value, in lower case.

    Raises RowFault if the text is too long or contains a control character.
    """
    trimmed = text.strip()
    if trimmed.lower() in missing:
        return None
    if len(trimmed) > TEXT_CHARACTERS_MAX:
        raise RowFault(f"{label}: longer than {TEXT_CHARACTERS_MAX} characters")
    # PERF: nearly all texts are printable, and isprintable() takes only 0.1 us.
    if not trimmed.isprintable():
        categories = set(map(unicodedata.category, trimmed))
        if "Cs" in categories:  # A byte that its encoding does not have.
            raise RowFault(f"{label}: contains a character that cannot be decoded")
        if "Cc" in categories:
            raise RowFault(f"{label}: contains a control character")
    return trimmed


def text(label: str, missing: frozenset[str] = MISSING) -> Callable[[str], str | None]:
    """Return a parser with a cache, for texts that repeat, such as makes and colours."""
    return cached(lambda text: stored_text(label, text, missing))


def key_text(label: str) -> Callable[[str], str]:
    """Return a parser without a cache, for texts that every row must have and that rarely repeat.

    It raises RowFault if the text is missing.
    """
    missing = MISSING | TEXT_NOTHING

    def parse(text: str) -> str:
        value = stored_text(label, text, missing)
        if value is None:
            raise RowFault(f"no {label}")
        return value

    return parse


def key_texts(label: str) -> Callable[[list[str]], list[str]]:
    """Return a parser of many texts at once, with the results of `key_text`.

    It raises RowFault if any value is invalid.
    """
    parse = key_text(label)

    def parse_many(texts: list[str]) -> list[str]:
        # PERF: nearly all texts are stored unchanged. The check of all of them takes 0.2 us per
        # text; one by one it takes 1.2 us.
        lines = "\n".join(texts)
        if _PLAIN_LINES.fullmatch(lines):
            folded = lines.lower()
            # What has an exponent is returned as another list, which `UnreadableValues` looks at.
            if "null" not in folded and r"\n" not in folded and "e+" not in folded:
                return texts
        return list(map(parse, texts))

    return parse_many


def parser(
    label: str, parse: Callable[[str], T | None], missing: frozenset[str] = MISSING
) -> Callable[[str], T | None]:
    """Return a parser with a cache that returns None for missing texts, and parses all others.

    Args:
        parse: gets the trimmed text.
    """

    def parse_text(text: str) -> T | None:
        value = stored_text(label, text, missing)
        return None if value is None else parse(value)

    return cached(parse_text)


def known_word(
    label: str, words: Mapping[str, T], missing: frozenset[str] = MISSING
) -> Callable[[str], T | None]:
    """Return a parser of known words in upper or lower case. Any other word counts as unknown.

    Args:
        words: the value of each word, which is in lower case.
    """
    return parser(label, lambda value: words.get(value.lower()), missing)


# Spreadsheets and databases write yes and 1, and these words have no other meaning. Any other word
# rejects the row: the operator makes native files, and can correct them.
_BOOLEANS = {
    **dict.fromkeys(("true", "yes", "1", "1.0"), True),
    **dict.fromkeys(("false", "no", "0", "0.0"), False),
}


def boolean(label: str) -> Callable[[str], bool | None]:
    """Return a parser of true and false in upper or lower case. Any other word rejects the row."""

    def parse(value: str) -> bool:
        if value.lower() not in _BOOLEANS:
            raise RowFault(_unknown_flag(label, value))
        return _BOOLEANS[value.lower()]

    return parser(label, parse, MISSING | NOTHING)


def _unknown_flag(label: str, word: str) -> str:
    translate = f"[words.{label}] of a mapping can translate it"
    if is_known(word):
        return f'{label}: the word "{word}" is neither true nor false; {translate}'
    return f"{label}: neither true nor false; {translate}: {quoted(word)}"


def cents(label: str, decimal: str = ".") -> Callable[[str], int | None]:
    """Return a parser of decimal amounts, which returns hundredths.

    It raises RowFault for any other text, and for an amount that does not fit 64 bits.

    Args:
        decimal: the decimal separator, a key of `AMOUNTS`.
    """
    fullmatch = AMOUNTS[decimal].fullmatch

    def parse(value: str) -> int:
        match = fullmatch(value)
        if match is None:
            raise RowFault(f"{label}: {_not_an_amount(value, decimal)}: {quoted(value)}")
        sign, whole, hundredths = match.groups("")
        digits = whole if whole.isdigit() else _NO_DIGIT.sub("", whole)
        amount = int(digits + hundredths.ljust(2, "0"))
        if amount > _CENTS_MAX:
            raise RowFault(f"{label}: too large: {quoted(value)}")
        return -amount if sign else amount

    return parser(label, parse, MISSING | NOTHING)


def _not_an_amount(text: str, decimal: str) -> str:
    if text.lower() in DAY_NOTHING:
        return "not a decimal; [words.amount] of a mapping can say what the word means"
    if decimal == ",":
        return "not a decimal with a comma and at most two places"
    can_be_mapped = AMOUNTS[","].fullmatch(text)
    hint = '; a mapping with decimal = "," can read it' if can_be_mapped else ""
    return f"not a decimal with at most two places{hint}"


def currency(label: str) -> Callable[[str], str | None]:
    """Return a parser of three-letter codes. Any other text counts as unknown."""
    return parser(label, _currency_code, MISSING | DAY_NOTHING)


def _currency_code(text: str) -> str | None:
    is_code = len(text) == len("USD") and text.isascii() and text.isalpha()
    return text.upper() if is_code else None
