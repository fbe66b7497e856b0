"""What the accounts of a plan say about a look-up: why, for which case, and who asks."""

from typing import Final, Literal, NamedTuple

from app.accounts.models import Plan, text_fault
from app.errors import OperatorError

TEXT_CHARACTERS_MAX: Final = 64
REASONS_MAX: Final = 50
Enquiry = Literal["off", "optional", "required"]
"""Whether the headers are ignored, or checked and recorded, or a reason is needed, too."""
ENQUIRIES: Final[tuple[Enquiry, ...]] = ("off", "optional", "required")


def enquiry_text_fault(text: str) -> str | None:
    """Return what is wrong with a reason, a reference or a user, as text_fault does."""
    return text_fault(text, TEXT_CHARACTERS_MAX, is_ascii=True)


def split_reasons(text: str) -> list[str]:
    """Return the reasons of a text that separates them by commas; none if it is empty."""
    return list(dict.fromkeys(reason.strip() for reason in text.split(","))) if text else []


class EnquiryChange(NamedTuple):
    """How to change what a plan asks; None leaves a member as it is."""

    enquiry: Enquiry | None = None
    reasons: str | None = None
    """The accepted reasons, separated by commas; the empty text accepts all."""


UNCHANGED: Final = EnquiryChange()


def changed_columns(former: Plan | None, change: EnquiryChange) -> dict[str, str]:
    """Return the columns of a plan to change, with their values.

    Args:
        former: the plan before; None for a new one.

    Raises OperatorError if a reason cannot be sent in a header, or if the plan does not ask.
    """
    columns: dict[str, str] = {}
    if change.enquiry is not None:
        columns["enquiry"] = change.enquiry
    if change.reasons is not None:
        columns["enquiry_reasons"] = _checked(change.reasons)
    if change.reasons and (change.enquiry or (former.enquiry if former else "off")) == "off":
        raise OperatorError("accepted reasons need an enquiry that is optional or required")
    return columns


def _checked(text: str) -> str:
    """Return reasons as a plan stores them: separated by commas, each once."""
    reasons = split_reasons(text.strip())
    for reason in reasons:
        fault = enquiry_text_fault(reason)
        if fault:
            raise OperatorError(f"each accepted reason {fault}; got {reason!r}")
    if len(reasons) > REASONS_MAX:
        raise OperatorError(f"a plan can have at most {REASONS_MAX} accepted reasons")
    return ",".join(reasons)
