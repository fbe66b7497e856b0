"""The rules of domain names, and their canonical form (D14)."""

import re

import idna

NAME_CHARACTERS_MAX = 253
# SEC: longer texts are refused unread; IDNA's rules cost more than linear time.
_TEXT_CHARACTERS_MAX = 1_000
_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_LABELS_MIN = 2


def canonical_domain_name(text: str) -> str | None:
    """Return the form in which a name is stored and compared; None if it is no domain name.

    Lower case A-labels (UTS 46) without a trailing dot; 1 to 253 characters, at least two
    labels of letters, digits and inner hyphens, the last not numeric (D14).
    """
    if not 1 <= len(text) <= _TEXT_CHARACTERS_MAX:
        return None
    name = text.lower() if text.isascii() else _to_a_labels(text)
    if name is None:
        return None
    name = name.removesuffix(".")
    labels = name.split(".")
    if len(name) > NAME_CHARACTERS_MAX or len(labels) < _LABELS_MIN or labels[-1].isdigit():
        return None
    if not all(_LABEL.fullmatch(label) and _is_sound(label) for label in labels):
        return None
    return name


def domain_name_fault(text: str) -> str:
    """Return which rule a text breaks that is no domain name, as a sentence (D90)."""
    if not text:
        return "A domain name is needed; this is empty."
    if len(text) > NAME_CHARACTERS_MAX + 1:
        return f"A domain name has at most {NAME_CHARACTERS_MAX} characters; got {len(text):,}."
    labels = text.removesuffix(".").split(".")
    if len(labels) < _LABELS_MIN:
        return "A domain name has at least two labels, such as example.com; got one."
    if text.isascii():
        for place, label in enumerate(labels, 1):
            if not _LABEL.fullmatch(label.lower()):
                return (
                    f"Label {place} of the domain name must be 1 to 63 letters, digits and inner "
                    f"hyphens."
                )
        if labels[-1].isdigit():
            return "The last label of a domain name must not be a number."
    return "This is not a valid international domain name (IDNA 2008, UTS 46)."


def _to_a_labels(text: str) -> str | None:
    try:
        return idna.encode(text, uts46=True, std3_rules=True).decode().lower()
    except (idna.IDNAError, UnicodeError):
        return None


def _is_sound(label: str) -> bool:
    """Tell whether a label is no A-label, or one that IDNA can produce."""
    if not label.startswith("xn--"):
        return True
    try:
        return idna.alabel(idna.ulabel(label)).decode() == label
    except (idna.IDNAError, UnicodeError):
        return False
