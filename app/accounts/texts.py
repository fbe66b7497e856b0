"""The rule of texts that people choose: names, labels, and what an enquiry says."""

from app.accounts.models import NAME_CHARACTERS_MAX
from app.errors import OperatorError


def text_fault(text: str, characters_max: int, *, is_ascii: bool = False) -> str | None:
    """Return what is wrong with a text, as the end of a sentence; None if nothing is.

    It quotes nothing of the text (D90).
    """
    kind = "printable ASCII" if is_ascii else "printable"
    rule = f"must have 1 to {characters_max} {kind} characters"
    if not text:
        return f"{rule}; it is empty"
    if len(text) > characters_max:
        return f"{rule}; it has {len(text):,}"
    for place, character in enumerate(text, 1):
        if not character.isprintable() or (is_ascii and not character.isascii()):
            return f"{rule}; character {place} is not {kind}"
    return None


def require_text(what: str, text: str, characters_max: int = NAME_CHARACTERS_MAX) -> str:
    """Return a text without spaces around it. Raises OperatorError if anything is wrong with it."""
    text = text.strip()
    fault = text_fault(text, characters_max)
    if fault:
        raise OperatorError(f"{what} {fault}")
    return text
