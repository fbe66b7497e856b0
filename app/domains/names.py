"""The rules of domain names, and their canonical form: each name has one spelling."""

import re

import idna

NAME_CHARACTERS_MAX = 253
IDENTIFIER_PREFIX = "dom_"
"""What the identifiers of domains begin with; no name does."""
_LENGTH_RULE = f"A domain name has at most {NAME_CHARACTERS_MAX} characters in its ASCII form"
# SEC: longer texts are refused unread; IDNA's rules cost more than linear time.
_TEXT_CHARACTERS_MAX = 1_000
_LABEL_CHARACTERS_MAX = 63
_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_LABELS_MIN = 2
_IDNA_FAULTS = {
    "empty_label": "A label of the domain name is empty.",
    "label_too_long": (
        f"A label of the domain name has more than {_LABEL_CHARACTERS_MAX} characters "
        "in its ASCII form."
    ),
    "domain_too_long": f"{_LENGTH_RULE}; this has more.",
}
_FOREIGN = re.compile(r"[/:?#@*_,\s]", re.ASCII)
_FOREIGN_FAULTS = {
    **dict.fromkeys("/:?#", "Give the domain name without scheme, port and path: example.com."),
    "@": "Give the domain name without what comes before the @: example.com.",
    "*": "A domain name has no wildcards (*).",
    "_": "A domain name has no underscores.",
    ",": "Give one domain name, without commas.",
}


class InvalidDomainName(ValueError):
    """A text is no domain name. The message is a sentence that quotes nothing of it."""


def canonical_domain_name(text: str) -> str | None:
    """Return the form in which a name is stored and compared; None if it is no domain name."""
    try:
        return require_domain_name(text)
    except InvalidDomainName:
        return None


def require_domain_name(text: str) -> str:
    """Return the form in which a name is stored and compared.

    Lower case A-labels (UTS 46) without a trailing dot; 1 to 253 characters, at least two
    labels of letters, digits and inner hyphens, the last not numeric.
    Raises InvalidDomainName, which says which of these rules is broken.
    """
    if not text:
        raise InvalidDomainName("A domain name is needed; this is empty.")
    if len(text) > _TEXT_CHARACTERS_MAX:
        raise _too_long(len(text))
    foreign = _FOREIGN.search(text)
    if foreign and text.startswith(IDENTIFIER_PREFIX):
        raise InvalidDomainName("Give the name of the domain, not its id.")
    if foreign:
        fault = _FOREIGN_FAULTS.get(foreign[0], "A domain name has no spaces or line ends.")
        raise InvalidDomainName(fault)
    name = text.lower() if text.isascii() else _to_a_labels(text)
    name = name.removesuffix(".")
    labels = name.split(".")
    if len(name) > NAME_CHARACTERS_MAX:
        raise _too_long(len(name))
    if len(labels) < _LABELS_MIN:
        detail = "A domain name has at least two labels, such as example.com; got one."
        raise InvalidDomainName(detail)
    for place, label in enumerate(labels, 1):
        if not _LABEL.fullmatch(label):
            rule = f"must be 1 to {_LABEL_CHARACTERS_MAX} letters, digits and inner hyphens"
            raise InvalidDomainName(f"Label {place} of the domain name {rule}{_length(label)}.")
        if not _is_sound(label):
            detail = "begins with xn-- but stands for no international name (IDNA 2008)"
            raise InvalidDomainName(f"Label {place} of the domain name {detail}.")
    if labels[-1].isdigit():
        raise InvalidDomainName("The last label of a domain name must not be a number.")
    return name


def _length(label: str) -> str:
    """Return the end of a sentence about a wrong label: its length, if the length is wrong."""
    if not label:
        return "; it is empty"
    return f"; it has {len(label)} characters" if len(label) > _LABEL_CHARACTERS_MAX else ""


def _too_long(characters: int) -> InvalidDomainName:
    return InvalidDomainName(f"{_LENGTH_RULE}; got {characters:,}.")


def _to_a_labels(text: str) -> str:
    try:
        return idna.encode(text, uts46=True, std3_rules=True).decode().lower()
    except (idna.IDNAError, UnicodeError) as error:
        detail = _IDNA_FAULTS.get(
            getattr(error, "code", ""),
            "This is not a valid international domain name (IDNA 2008, UTS 46).",
        )
        raise InvalidDomainName(detail) from None


def _is_sound(label: str) -> bool:
    """Tell whether a label is no A-label, or one that IDNA can produce."""
    if not label.startswith("xn--"):
        return True
    try:
        return idna.alabel(idna.ulabel(label)).decode() == label
    except (idna.IDNAError, UnicodeError):
        return False
