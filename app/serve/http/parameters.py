"""Query parameters: only known ones, each at most once, each checked."""

import re
from collections.abc import Collection, Sequence

import falcon

from app.clock import day_fault, parse_iso_date
from app.errors import Problem, closest, listed, plain

# Parameters that belong into a header, by name without case, underscores and hyphens.
_HEADERS = {
    **dict.fromkeys(
        ("key", "apikey", "xapikey", "token", "accesstoken", "auth", "authorization", "bearer"),
        "the key in the header X-API-Key",
    ),
    **dict.fromkeys(("enquiryreason", "reason"), "it in the header Enquiry-Reason"),
    "enquiryreference": "it in the header Enquiry-Reference",
    "enquiryuser": "it in the header Enquiry-User",
}
_TRUE = ("true", "True", "TRUE", "1")
_FALSE = ("false", "False", "FALSE", "0")
# SEC: any other name could be a registration, a secret or markup.
_PLAIN_NAME = re.compile(r"[A-Za-z_.-]{1,20}")


def require_known_parameters(
    req: falcon.Request, *known: str, members: Collection[str] = ()
) -> None:
    """Refuse parameters that an operation does not have: a misspelt one would change the answer.

    Args:
        members: names that belong into the body.

    Raises Problem unknown_parameter.
    """
    # PERF: most requests have no query at all.
    if not req.query_string:
        return
    for name in req.params:
        if name in members:
            detail = f"The parameter {name} is unknown; send it as a member of the body."
            raise Problem("unknown_parameter", detail)
        if name not in known:
            raise Problem("unknown_parameter", unknown("parameter", name, known))


def unknown(what: str, name: str, known: Sequence[str]) -> str:
    """Return a sentence about a parameter or a member that an operation does not have."""
    named = f"The {what} {name}" if is_plain_name(name) else f"A {what}"
    header = _HEADERS.get(plain(name))
    if header:
        return f"{named} is unknown; send {header}."
    suggested = closest(name, known)
    if suggested:
        return f"{named} is unknown; did you mean {suggested}?"
    if not known:
        return f"{named} is unknown; this operation has none."
    return f"{named} is unknown; this operation has {listed(known)}."


def is_plain_name(name: str) -> bool:
    """Tell whether a name that a client made up may be repeated in an answer."""
    return _PLAIN_NAME.fullmatch(name) is not None


def text_parameter(req: falcon.Request, name: str) -> str | None:
    """Return a parameter's text; None if it is absent.

    Raises Problem invalid_parameter if it is given twice.
    """
    value = req.params.get(name)
    if isinstance(value, list):
        raise invalid_parameter(name, "is given more than once")
    return value


def date_parameter(req: falcon.Request, name: str) -> str | None:
    """Return a parameter that is a date YYYY-MM-DD, as the ISO text it is."""
    text = text_parameter(req, name)
    if text is not None and parse_iso_date(text) is None:
        raise invalid_parameter(name, day_fault(text))
    return text


def integer_parameter(req: falcon.Request, name: str, least: int, most: int) -> int | None:
    """Return a parameter that is a whole number within limits, both included."""
    text = text_parameter(req, name)
    if text is None:
        return None
    # SEC: the length is checked first; int() of a very long text is slow.
    is_short_number = len(text) <= len(str(most)) and text.isascii() and text.isdigit()
    if not is_short_number or not least <= int(text) <= most:
        raise invalid_parameter(name, f"must be a whole number from {least:,} to {most:,}")
    return int(text)


def choice_parameter(req: falcon.Request, name: str, choices: Sequence[str]) -> str | None:
    """Return a parameter that is one of a few words."""
    text = text_parameter(req, name)
    if text is not None and text not in choices:
        raise invalid_parameter(name, f"must be {' or '.join(choices)}")
    return text


def flag_parameter(req: falcon.Request, name: str) -> bool:
    """Return a parameter that is true or false, in the usual spellings; false if it is absent."""
    text = text_parameter(req, name)
    if text is None or text in _FALSE:
        return False
    if text not in _TRUE:
        raise invalid_parameter(name, "must be true or false")
    return True


def invalid_parameter(name: str, fault: str) -> Problem:
    """Return the refusal of a parameter (400); the fault ends the sentence."""
    return Problem("invalid_parameter", f"The parameter {name} {fault.removesuffix('.')}.")
