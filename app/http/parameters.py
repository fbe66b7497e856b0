"""Query parameters: each at most once, each checked; unknown ones are ignored."""

from collections.abc import Sequence

import falcon

from app.clock import parse_iso_date
from app.errors import Problem


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
        raise invalid_parameter(name, "must be a date, YYYY-MM-DD")
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
    """Return a parameter that is `true` or `false`; false if it is absent."""
    return choice_parameter(req, name, ("true", "false")) == "true"


def invalid_parameter(name: str, fault: str) -> Problem:
    """Return the refusal of a parameter (400)."""
    return Problem("invalid_parameter", f"The parameter {name} {fault}.")
