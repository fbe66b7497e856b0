"""The cells of a CSV file that answer a plate, as `verifyd lookup --csv` appends them."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from app.csv_cells import text_cell
from app.vehicles.answers import InsuranceAnswer, failure_answer, insurance_answer
from app.vehicles.compliance import Judgement, judge
from app.vehicles.facts import Record
from app.vehicles.reader import Found

COLUMN_PREFIX = "verifyd_"
FOUND = "found"
_WORDS = {True: "true", False: "false"}


class _Answer(NamedTuple):
    """What the cells of one known plate are made from."""

    record: Record
    insurance: InsuranceAnswer
    judgement: Judgement
    text: Callable[[str | None], str]
    """Makes a cell from a text that others have chosen."""


_ANSWERED: Mapping[str, Callable[[_Answer], str]] = {
    "insured": lambda its: _WORDS[its.judgement.insurance.is_good],
    "insuranceReason": lambda its: its.judgement.insurance.reason,
    "policyNumber": lambda its: _policy_text(its, "number"),
    "policyInsurer": lambda its: _policy_text(its, "insurer"),
    "policyType": lambda its: _policy_text(its, "type"),
    "policyValidFrom": lambda its: _policy_text(its, "validFrom"),
    "policyValidTo": lambda its: _policy_text(its, "validTo"),
    "compliant": lambda its: _WORDS[its.judgement.is_compliant],
    "motValid": lambda its: _WORDS[its.judgement.mot.is_good],
    "motReason": lambda its: its.judgement.mot.reason,
    "motExpiry": lambda its: its.record.mot_expiry or "",
    "roadTaxPaid": lambda its: _WORDS[its.judgement.tax.is_good],
    "roadTaxReason": lambda its: its.judgement.tax.reason,
    "taxDue": lambda its: its.record.tax_due or "",
    "noOutstandingFines": lambda its: _WORDS[its.judgement.fines.is_good],
    "make": lambda its: its.text(its.record.make),
    "model": lambda its: its.text(its.record.model),
    "year": lambda its: "" if its.record.year is None else str(its.record.year),
    "color": lambda its: its.text(its.record.color),
    "lastUpdated": lambda its: its.insurance.lastUpdated,
}
"""How the cell of each column of a known plate is made."""
COLUMNS = ("result", "registration", "asOf", *_ANSWERED)
_NOTHING = [""] * len(_ANSWERED)


def _policy_text(answer: _Answer, member: str) -> str:
    policy = answer.insurance.policy
    return answer.text(None if policy is None else getattr(policy, member))


def heading(delimiter: str) -> str:
    """Return the cells that are appended to the header."""
    return delimiter.join(COLUMN_PREFIX + column for column in COLUMNS)


class Cells:
    """Makes the cells of a line, separated by the delimiter of the file.

    Args:
        day: ISO date that the answers are about.
    """

    def __init__(self, delimiter: str, day: str) -> None:
        self.delimiter = delimiter
        self._day = day
        self._text = text_cell(delimiter)

    def of_fault(self, fault: str) -> str:
        """Return the cells of a line that has no readable plate."""
        return self._joined(fault, None, _NOTHING)

    def of_plate(self, found: Found) -> tuple[str, str]:
        """Return the result for a plate, which is its first cell, and all its cells."""
        if found.record is None:
            result = failure_answer(found).code
            return result, self._joined(result, found.registration, _NOTHING)
        return FOUND, self._joined(FOUND, found.registration, self._answer(found.record))

    def _joined(self, result: str, registration: str | None, answer: Sequence[str]) -> str:
        return self.delimiter.join([result, registration or "", self._day, *answer])

    def _answer(self, record: Record) -> list[str]:
        """Return the cells of a known plate, in the order of the columns."""
        judgement = judge(record, self._day)
        answer = _Answer(record, insurance_answer(record, self._day), judgement, self._text)
        return [cell(answer) for cell in _ANSWERED.values()]
