"""Words for yes, no and tax statuses in other languages.

SEC: messages may show them, because they reveal nothing about anyone.
"""

from collections.abc import Mapping

TAX_STATUSES = ("taxed", "exempt", "sorn", "untaxed")
"""Our own words, which a mapping translates others to."""
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
    """Tell whether a word is one of these, in upper or lower case."""
    folded = word.strip().lower()
    return folded in YES or folded in NO or folded in STATUSES
