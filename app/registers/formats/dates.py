"""Forms of dates in register files; each function gives YYYY-MM-DD, or None if it is no day."""

import re

from app.registers.formats.values import iso_date

_COMPACT = re.compile(r"([0-9]{4})([0-9]{2})([0-9]{2})")
_AMERICAN = re.compile(r"([0-9]{2})/([0-9]{2})/([0-9]{4})")
_ISO_TIME = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?")


def compact_date(text: str) -> str | None:
    """Read YYYYMMDD."""
    match = _COMPACT.fullmatch(text)
    return iso_date("-".join(match.groups())) if match else None


def american_date(text: str) -> str | None:
    """Read MM/DD/YYYY."""
    match = _AMERICAN.fullmatch(text)
    return iso_date(f"{match[3]}-{match[1]}-{match[2]}") if match else None


def iso_time_date(text: str) -> str | None:
    """Read the day of YYYY-MM-DDThh:mm:ss, perhaps with a fraction, as it stands."""
    match = _ISO_TIME.fullmatch(text)
    return iso_date(match[1]) if match else None
