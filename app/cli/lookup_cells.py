"""The cells that `verifyd lookup --csv` appends to a line (D84)."""

import re
from collections.abc import Callable, Sequence
from functools import lru_cache

from app.cli.plate_file import COLUMN_PREFIX
from app.vehicles.answers import failure_answer, insurance_answer
from app.vehicles.compliance import judge
from app.vehicles.facts import Record
from app.vehicles.reader import Found

FOUND = "found"
COLUMNS = (
    "result",
    "registration",
    "asOf",
    "insured",
    "insuranceReason",
    "policyNumber",
    "policyInsurer",
    "policyType",
    "policyValidFrom",
    "policyValidTo",
    "compliant",
    "motValid",
    "motReason",
    "motExpiry",
    "roadTaxPaid",
    "roadTaxReason",
    "taxDue",
    "noOutstandingFines",
    "make",
    "model",
    "year",
    "color",
    "lastUpdated",
)
_NOTHING = [""] * (len(COLUMNS) - 3)
# A formula of a spreadsheet begins with one of these, or with its full-width form.
_SIGN = r"[=+\-@\uff1d\uff0b\uff0d\uff20]"
_FORMULA = re.compile(rf"\s*{_SIGN}|[\t\r\n]")
_DIVIDERS = ",;\t|"
"""What a spreadsheet may split cells at. It depends on the country, not on the file."""
_WORDS = {True: "true", False: "false"}


def heading(delimiter: str) -> str:
    """Return the cells that are appended to the header."""
    return delimiter.join(COLUMN_PREFIX + column for column in COLUMNS)


class Cells:
    """Makes the cells of a line, separated by the delimiter of the file.

    Args:
        day: ISO date that the answers are about.
    """

    def __init__(self, delimiter: str, day: str, mot_first_years: int) -> None:
        self.delimiter = delimiter
        self._day = day
        self._mot_first_years = mot_first_years
        self._text = text_cell(delimiter)

    def of_fault(self, fault: str) -> str:
        """Return the cells of a line that has no readable plate."""
        return self._joined(fault, None, _NOTHING)

    def of_plate(self, found: Found) -> tuple[str, str]:
        """Return the result for a plate, which is its first cell, and all its cells."""
        if found.record is None:
            result = failure_answer(found)["code"]
            return result, self._joined(result, found.registration, _NOTHING)
        return FOUND, self._joined(FOUND, found.registration, self._answer(found.record))

    def _joined(self, result: str, registration: str | None, answer: Sequence[str]) -> str:
        return self.delimiter.join([result, registration or "", self._day, *answer])

    def _answer(self, record: Record) -> list[str]:
        """Return the API's answer for the record, in the order of the columns."""
        insurance = insurance_answer(record, self._day)
        judgement = judge(record, self._day, self._mot_first_years)
        policy, vehicle = insurance["policy"], insurance["vehicle"]
        text = self._text
        return [
            _WORDS[judgement.insurance.is_good],
            judgement.insurance.reason,
            text(policy and policy["number"]),
            text(policy and policy["insurer"]),
            text(policy and policy["type"]),
            policy["validFrom"] if policy else "",
            policy["validTo"] if policy else "",
            _WORDS[judgement.is_compliant],
            _WORDS[judgement.mot.is_good],
            judgement.mot.reason,
            record.mot_expiry or "",
            _WORDS[judgement.tax.is_good],
            judgement.tax.reason,
            record.tax_due or "",
            _WORDS[judgement.fines.is_good],
            text(vehicle["make"]),
            text(vehicle["model"]),
            "" if vehicle["year"] is None else str(vehicle["year"]),
            text(vehicle["color"]),
            insurance["lastUpdated"],
        ]


def text_cell(delimiter: str) -> Callable[[str | None], str]:
    """Return a function that makes a cell from text: quoted if needed, and never a formula.

    This also holds for a spreadsheet that splits cells at another character than the file.
    """
    plain = re.compile(rf'[0-9A-Za-z][^"\r\n{_DIVIDERS}]*\Z')
    # SEC: such a spreadsheet begins a cell at its own character, and at a line end. Our quotes are
    # then in the middle of a cell and have no effect.
    others = _DIVIDERS.replace(delimiter, "")
    inner_formula = re.compile(rf'([{others}\r\n]["\s]*)(?={_SIGN})')

    # PERF: makes, models and insurers are repeated often.
    @lru_cache(maxsize=65_536)
    def cell(text: str | None) -> str:
        if not text or plain.match(text):
            return text or ""
        # SEC: a spreadsheet would run this as a formula; the apostrophe makes it text.
        safe = f"'{text}" if _FORMULA.match(text) else text
        safe = inner_formula.sub(r"\1'", safe)
        if plain.match(safe) or not re.search(rf'["\r\n{re.escape(delimiter)}]', safe):
            return safe
        return '"' + safe.replace('"', '""') + '"'

    return cell
