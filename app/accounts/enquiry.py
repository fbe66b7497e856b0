"""What the accounts of a plan say about a look-up: why, for which case, and who asks (D124)."""

from typing import Final, Literal

from app.accounts.administration import require_plan
from app.accounts.models import Plan
from app.errors import OperatorError
from app.storage.engine import Engine

TEXT_CHARACTERS_MAX: Final = 64
TEXT_RULE: Final = f"must have 1 to {TEXT_CHARACTERS_MAX} printable ASCII characters"
"""The end of a sentence about a reason, a reference or a user, without its full stop."""
REASONS_MAX: Final = 50
Enquiry = Literal["off", "optional", "required"]
"""Whether the headers are ignored, or checked and recorded, or a reason is needed, too."""
ENQUIRIES: Final[tuple[Enquiry, ...]] = ("off", "optional", "required")


def is_enquiry_text(text: str) -> bool:
    """Tell whether a text can be a reason, a reference or a user."""
    return 1 <= len(text) <= TEXT_CHARACTERS_MAX and text.isascii() and text.isprintable()


def split_reasons(text: str) -> list[str]:
    """Return the reasons of a text that separates them by commas; none if it is empty."""
    return list(dict.fromkeys(reason.strip() for reason in text.split(","))) if text else []


def set_enquiry(engine: Engine, plan: str, enquiry: Enquiry | None, reasons: str | None) -> Plan:
    """Set what the accounts of a plan must say, from their next request on.

    Args:
        enquiry: None to leave it as it is.
        reasons: the accepted reasons, separated by commas; the empty text to accept all; None to
            leave them as they are.

    Raises OperatorError if there is no such plan, or if a reason cannot be sent in a header.
    """
    values: dict[str, object] = {}
    if enquiry is not None:
        values["enquiry"] = enquiry
    if reasons is not None:
        values["enquiry_reasons"] = _checked(reasons)
    with engine.atomic():
        if values:
            Plan.update(values).where(Plan.name == plan).execute(engine)
        changed = require_plan(engine, plan)
        if reasons and changed.enquiry == "off":
            raise OperatorError("--enquiry-reasons needs --enquiry optional or required")
        return changed


def _checked(text: str) -> str:
    """Return reasons as a plan stores them: separated by commas, each once."""
    reasons = split_reasons(text.strip())
    for reason in reasons:
        if not is_enquiry_text(reason):
            raise OperatorError(f"--enquiry-reasons: each reason {TEXT_RULE}; got {reason!r}")
    if len(reasons) > REASONS_MAX:
        raise OperatorError(f"--enquiry-reasons takes at most {REASONS_MAX} reasons")
    return ",".join(reasons)
