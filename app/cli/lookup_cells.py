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
# What a spreadsheet takes for the beginning of a formula, its full-width forms included.
_SIGN = r"[=+\-@\uff1d\uff0b\uff0d\uff20]"
_FORMULA = re.compile(rf"\s*{_SIGN}|[\t\r\n]")
_DIVIDERS = ",;\t|"
"""What a spreadsheet may part cells by, whatever the file does: it depends on the country."""
_WORDS = {True: "true", False: "false"}


def heading(delimiter: str) -> str:
    """Return the cells that are appended to the header."""
    return delimiter.join(COLUMN_PREFIX + column for column in COLUMNS)


class Cells:
    """Makes the cells of a line, parted by the file's delimiter.

    Args:
        day: ISO date to judge by.
    """

    def __init__(self, delimiter: str, day: str, mot_first_years: int) -> None:
        self.delimiter = delimiter
        self._day = day
        self._mot_first_years = mot_first_years
        self._text = text_cell(delimiter)

    def of_fault(self, fault: str) -> str:
        """Return the cells of a line that has no plate to answer for."""
        return self._joined(fault, None, _NOTHING)

    def of_plate(self, found: Found) -> tuple[str, str]:
        """Return what became of a plate, the first of its cells, and all of them."""
        if found.record is None:
            result = failure_answer(found)["code"]
            return result, self._joined(result, found.registration, _NOTHING)
        return FOUND, self._joined(FOUND, found.registration, self._answer(found.record))

    def _joined(self, result: str, registration: str | None, answer: Sequence[str]) -> str:
        return self.delimiter.join([result, registration or "", self._day, *answer])

    def _answer(self, record: Record) -> list[str]:
        """Return what the API answers for the record, in the order of the columns."""
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
    """Return what makes a cell of a register's text: quoted if need be, and never a formula.

    That holds also for a spreadsheet that parts cells by another sign than the file.
    """
    plain = re.compile(rf'[0-9A-Za-z][^"\r\n{_DIVIDERS}]*\Z')
    # SEC: for that spreadsheet a cell begins at its own sign, and at a line end: our quotes are
    # in the midst of a cell then, and mean nothing.
    others = _DIVIDERS.replace(delimiter, "")
    inner_formula = re.compile(rf'([{others}\r\n]["\s]*)(?={_SIGN})')

    # PERF: makes, models and insurers come again and again.
    @lru_cache(maxsize=65_536)
    def cell(text: str | None) -> str:
        if not text or plain.match(text):
            return text or ""
        # SEC: what begins so is run by a spreadsheet; an apostrophe makes it a text.
        safe = f"'{text}" if _FORMULA.match(text) else text
        safe = inner_formula.sub(r"\1'", safe)
        if plain.match(safe) or not re.search(rf'["\r\n{re.escape(delimiter)}]', safe):
            return safe
        return '"' + safe.replace('"', '""') + '"'

    return cell
