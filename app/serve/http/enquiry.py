"""The enquiry of a look-up: its reason, its reference and its user."""

from typing import NamedTuple

from app.errors import Problem, listed
from app.serve.http.context import REPEATED, Request, caller_of
from app.settings.enquiries import enquiry_text_fault, split_reasons

_HEADERS = ("Enquiry-Reason", "Enquiry-Reference", "Enquiry-User")


class Enquiry(NamedTuple):
    """The headers of a look-up; None for each that was not sent, or that the plan ignores."""

    reason: str | None = None
    reference: str | None = None
    user: str | None = None


NO_ENQUIRY = Enquiry()
"""Of accounts whose plans ignore the headers, as all do until they are set to ask.

Clients must be told before a reason is required.
"""


def enquiry_of(req: Request) -> Enquiry:
    """Return what the request says about its look-up, for an account whose plan wants to know.

    Raises Problem invalid_enquiry or enquiry_reason_required.
    """
    caller = caller_of(req)
    enquiry = Enquiry(*(_text(req, header) for header in _HEADERS))
    reasons = caller.enquiry_reasons
    if enquiry.reason is None and caller.enquiry == "required":
        detail = "The account's plan needs a reason for each look-up, in the header Enquiry-Reason"
        raise Problem("enquiry_reason_required", f"{detail}{_accepted(reasons)}.")
    if enquiry.reason is not None and reasons and enquiry.reason not in split_reasons(reasons):
        detail = "The header Enquiry-Reason has a reason that the plan does not accept"
        raise Problem("invalid_enquiry", f"{detail}{_accepted(reasons)}.")
    return enquiry


def _text(req: Request, header: str) -> str | None:
    """Return the value of a header; None if it was not sent."""
    name = f"HTTP_{header.upper().replace('-', '_')}"
    text: str | None = req.env.get(name)
    if text is None:
        return None
    # NOTE: repeated headers come as one, joined by a comma, which a user's name can contain.
    if name in req.env.get(REPEATED, ()):
        raise Problem("invalid_enquiry", f"The header {header} was sent more than once.")
    fault = enquiry_text_fault(text)
    if fault:
        raise Problem("invalid_enquiry", f"The header {header} {fault}.")
    return text


def _accepted(reasons: str) -> str:
    """Return the end of a sentence: the reasons that a plan accepts, or nothing for all."""
    return f"; it accepts {listed(split_reasons(reasons))}" if reasons else ""
