"""The cells of a CSV file that answer a plate, as `verifyd lookup --csv` appends them."""

from collections.abc import Sequence

from app.csv_cells import text_cell
from app.vehicles.answers import failure_answer, insurance_answer
from app.vehicles.compliance import judge
from app.vehicles.facts import Record
from app.vehicles.reader import Found

COLUMN_PREFIX = "verifyd_"
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
