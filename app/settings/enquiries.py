"""What people say about a look-up: its reason, its reference, and who they are (D165)."""

from collections.abc import Sequence
from typing import Final

ENQUIRY_CHARACTERS_MAX: Final = 64
REASONS_MAX: Final = 50
ADVICE_CHARACTERS_MAX: Final = 500


def text_fault(text: str, characters_max: int, *, is_ascii: bool = False) -> str | None:
    """Return what is wrong with a text that people choose, such as a name or a reason.

    Returns the end of a sentence, or None if nothing is wrong. It quotes nothing of the text.
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


def enquiry_text_fault(text: str) -> str | None:
    """Return what is wrong with a reason, a reference or a user, as text_fault does."""
    return text_fault(text, ENQUIRY_CHARACTERS_MAX, is_ascii=True)


def split_reasons(text: str) -> list[str]:
    """Return the reasons of a text that separates them by commas; none if it is empty."""
    return list(dict.fromkeys(reason.strip() for reason in text.split(","))) if text else []


def parse_reasons(text: str) -> list[str]:
    """Return the accepted reasons of a text, as `split_reasons` does.

    Raises ValueError if one of them cannot be sent in a header, or if there are too many.
    """
    reasons = split_reasons(text)
    for reason in reasons:
        fault = enquiry_text_fault(reason)
        if fault:
            raise ValueError(f"each accepted reason {fault}; got {reason!r}")
    if len(reasons) > REASONS_MAX:
        raise ValueError(f"there can be at most {REASONS_MAX} accepted reasons")
    return reasons


ANY_REASON: Final = "*"
"""Stands for all reasons."""


def required_reasons(text: str) -> tuple[str, ...]:
    """Return the reasons that people must choose from; `*` alone for any, none if none is needed.

    Raises ValueError as `parse_reasons` does.
    """
    reasons = tuple(parse_reasons(text))
    if ANY_REASON in reasons and len(reasons) > 1:
        raise ValueError(f"must be {ANY_REASON} alone, or reasons without it")
    return reasons


def choices_of(required: Sequence[str]) -> Sequence[str]:
    """Return the reasons to choose from; none if every reason is accepted."""
    return () if ANY_REASON in required else required


def reason_fault(reason: str | None, required: Sequence[str]) -> str | None:
    """Return why a look-up needs another reason, as a clause; None if it does not."""
    choices = choices_of(required)
    if not required or (reason in choices if choices else reason):
        return None
    if choices:
        return f"look-ups need one of the reasons {', '.join(choices)}"
    return "look-ups need a reason"


def lookup_advice(text: str) -> str:
    """Return the text of what to do next; may be empty. Raises ValueError if it is no line."""
    if len(text) > ADVICE_CHARACTERS_MAX or not text.isprintable():
        raise ValueError(f"must be one line of at most {ADVICE_CHARACTERS_MAX} characters")
    return text
