"""Words for yes, no and tax statuses in other languages."""

from collections.abc import Collection, Sequence

from app.registers.formats.known_words import NO, STATUSES, YES
from app.registers.formats.suggesting import looks

_NATIVE_FLAGS = frozenset("true yes 1 false no 0".split())
_NATIVE_STATUSES = frozenset("taxed exempt sorn untaxed".split())


def are_flags(values: Sequence[str]) -> bool:
    """Tell whether most values are words for yes or no."""
    known = sum(each.lower() in YES or each.lower() in NO for each in values)
    return bool(values) and known >= looks.MOST * len(values)


def flag_words(values: Collection[str]) -> tuple[dict[str, str], int]:
    """Return the words for yes and no that a mapping must list, as TOML, and how many are unknown.

    SEC: unknown words are not returned: nobody knows what is in the column.
    """
    found = {each.lower() for each in values} - _NATIVE_FLAGS
    known = {word: "true" if word in YES else "false" for word in sorted(found & (YES | NO))}
    return known, len(found - known.keys())


def status_words(values: Collection[str]) -> tuple[dict[str, str], int]:
    """Return the words for tax statuses, as `flag_words` does."""
    found = {each.lower() for each in values} - _NATIVE_STATUSES
    known = {word: f'"{STATUSES[word]}"' for word in sorted(found & STATUSES.keys())}
    return known, len(found - known.keys())
