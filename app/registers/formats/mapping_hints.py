"""What is said about mistakes in mapping files, and how to correct them."""

import tomllib

from app.registers.formats import date_forms
from app.registers.formats.faults import RowFault
from app.registers.formats.known_words import TAX_STATUSES
from app.registers.formats.mapping import DATES

_FLAGS = frozenset({"insured", "motExempt"})


def toml_fault(error: tomllib.TOMLDecodeError | UnicodeDecodeError) -> str:
    """Return what is wrong with a file that is not TOML."""
    # The usual cause: a word without quotes.
    hint = "; words are quoted, flags are true or false" if "Invalid value" in str(error) else ""
    return f"The file is not valid TOML: {error}{hint}."


def value_fault(field: str, value: str, fault: RowFault | None = None) -> str:
    """Return what is wrong with a value of a mapping, and which values are allowed.

    Args:
        fault: why its parser refuses it; None if it only does not know it.
    """
    if field in _FLAGS:
        return "must be true or false"
    if fault is not None:
        return str(fault)
    allowed = ""
    if field == "taxStatus":
        allowed = f"; use {', '.join(TAX_STATUSES[:-1])} or {TAX_STATUSES[-1]}"
    elif field in DATES:
        allowed = f"; use a date as {date_forms.ISO}"
    return f"{value!r} is not a valid {field}{allowed}"
