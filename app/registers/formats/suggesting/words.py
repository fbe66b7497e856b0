"""Words for yes, no and tax statuses in other languages."""

from collections.abc import Collection, Mapping, Sequence

from app.registers.formats.suggesting import looks

_YES = frozenset("yes y true 1 ja j wahr oui o vrai si sí s verdadero".split())
_NO = frozenset("no n false 0 nein falsch nee non faux falso".split())
_NATIVE_FLAGS = frozenset("true yes 1 false no 0".split())
_NATIVE_STATUSES = frozenset("taxed exempt sorn untaxed".split())
_STATUSES: Mapping[str, str] = {
    **dict.fromkeys(("paid", "versteuert", "betaald", "payé", "pagado"), "taxed"),
    **dict.fromkeys(("steuerfrei", "befreit", "vrijgesteld", "exonéré", "exento"), "exempt"),
    **dict.fromkeys(("off road", "geschorst", "stillgelegt"), "sorn"),
    **dict.fromkeys(("unpaid", "not taxed", "unversteuert", "onbetaald"), "untaxed"),
}


def are_flags(values: Sequence[str]) -> bool:
    """Tell whether most values are words for yes or no."""
    known = sum(each.lower() in _YES or each.lower() in _NO for each in values)
    return bool(values) and known >= looks.MOST * len(values)


def flag_words(values: Collection[str]) -> tuple[dict[str, str], int]:
    """Return the words for yes and no that a mapping must list, as TOML, and how many are unknown.

    SEC: unknown words are not returned: nobody knows what is in the column.
    """
    found = {each.lower() for each in values} - _NATIVE_FLAGS
    known = {word: "true" if word in _YES else "false" for word in sorted(found & (_YES | _NO))}
    return known, len(found - known.keys())


def status_words(values: Collection[str]) -> tuple[dict[str, str], int]:
    """Return the words for tax statuses, as `flag_words` does."""
    found = {each.lower() for each in values} - _NATIVE_STATUSES
    known = {word: f'"{_STATUSES[word]}"' for word in sorted(found & _STATUSES.keys())}
    return known, len(found - known.keys())
