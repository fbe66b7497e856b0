"""The cells of a CSV file that answer a plate, as `verifyd lookup --csv` appends them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import UNSET

from app import clock
from app.text import text_cell
from app.vehicles.answer_shapes import FourChecks, InsuranceAnswer
from app.vehicles.answers import failure_answer, insurance_answer
from app.vehicles.compliance import Judgement, Verdict, judge, judge_insurance
from app.vehicles.contradictions import Contradicted
from app.vehicles.facts import Record
from app.vehicles.periods import (
    Outcome,
    Period,
    Until,
    good_until,
    has_too_many_policies,
    judge_period,
    newest_update,
)
from app.vehicles.reader import FoundPlate

COLUMN_PREFIX = "verifyd_"
FOUND = "found"
_NO_END = "none"
"""The cell of a last day if no end is known."""
_CHECKS = FourChecks.__struct_fields__
"""The names of the checks of a Judgement, as the API has them."""
_WORDS = {True: "true", False: "false", None: ""}


class _AnsweredPlate(NamedTuple):
    """What the cells of one known plate are made from."""

    record: Record
    insurance: InsuranceAnswer
    judgement: Judgement
    text: Callable[[str | None], str]
    """Makes a cell from a text that others have chosen."""
    day: str
    contradicted: Contradicted


_Columns = Mapping[str, Callable[[_AnsweredPlate], str]]
"""How the cell of each column of a known plate is made."""
_ANSWERED: _Columns = {
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
    "insuredUntil": lambda its: _until(
        its.record, good_until(its.record, its.day, judge_insurance)
    ),
    "compliantUntil": lambda its: _until(its.record, good_until(its.record, its.day, judge)),
    "tooManyPolicies": lambda its: _WORDS[has_too_many_policies(its.record)],
    "motExempt": lambda its: _WORDS[its.record.mot_exempt],
    "firstRegistered": lambda its: its.record.first_registered or "",
    "taxStatus": lambda its: its.record.tax_status or "",
    "finesOutstanding": lambda its: str(its.record.outstanding_fines),
    "policyCancelledOn": lambda its: (its.record.policy and its.record.policy.cancelled_on) or "",
    "contradictedBy": lambda its: " ".join(
        f"{check}={register}"
        for check, registers in zip(_CHECKS, its.contradicted, strict=True)
        for register in registers
    ),
}
COLUMNS = ("result", "registration", "asOf", *_ANSWERED)
PERIOD_COLUMNS = (
    "periodFirstDay",
    "periodLastDay",
    "insuredThroughout",
    "insuredFirstFailingDay",
    "insuredFirstFailingReasons",
    "compliantThroughout",
    "compliantFirstFailingDay",
    "compliantFirstFailingReasons",
)
"""The columns that follow if a period is asked for."""
UNKNOWN = "unknown"
"""The last column, if answers tell what is not known (D198): names of columns."""


def _policy_text(answer: _AnsweredPlate, member: str) -> str:
    policy = answer.insurance.policy
    return answer.text(None if policy is None else getattr(policy, member))


def _until(record: Record, until: Until) -> str:
    if has_too_many_policies(record) or until is UNSET:
        return ""
    return until or _NO_END


def _of_period(
    period: Period, insured: Outcome[Verdict], compliant: Outcome[Judgement]
) -> list[str]:
    """Return the cells of the columns about a period."""
    return [
        *period,
        *(_WORDS[insured.is_valid], _failing_day(insured)),
        _reasons([insured.failure.verdict] if insured.failure else ()),
        *(_WORDS[compliant.is_valid], _failing_day(compliant)),
        _reasons(compliant.failure.verdict if compliant.failure else ()),
    ]


def _failing_day(outcome: Outcome[Any]) -> str:
    return outcome.failure.day if outcome.failure else ""


def _reasons(verdicts: Iterable[Verdict]) -> str:
    """Return the checks that fail, each with its reason, without any delimiter."""
    named = zip(_CHECKS, verdicts, strict=False)
    return " ".join(f"{name}={each.reason}" for name, each in named if not each.is_good)


class Cells:
    """Makes the cells of a line, separated by the delimiter of the file.

    Args:
        day: ISO date that the answers are about.
        period: begins on this day, if the answers are about one.
        tells_unknown: add the column UNKNOWN.
    """

    def __init__(
        self, delimiter: str, day: str, period: Period | None = None, *, tells_unknown: bool
    ) -> None:
        self.delimiter = delimiter
        self._day, self._period, self._tells_unknown = day, period, tells_unknown
        self._text = text_cell(delimiter)
        columns = COLUMNS + (PERIOD_COLUMNS if period else ()) + (UNKNOWN,) * tells_unknown
        self.heading = delimiter.join(COLUMN_PREFIX + column for column in columns)
        """The cells that are appended to the header."""
        self._nothing = [""] * (len(columns) - len(COLUMNS) + len(_ANSWERED))

    def of_fault(self, fault: str) -> str:
        """Return the cells of a line that has no readable plate."""
        return self._joined(fault, None, self._nothing)

    def of_plate(
        self, found: FoundPlate, contradictions: Mapping[str, Contradicted]
    ) -> tuple[str, str]:
        """Return the result for a plate, which is its first cell, and all its cells.

        Args:
            contradictions: by plate, of the look-up that found it.
        """
        if found.record is None:
            result = failure_answer(found).code
            return result, self._joined(result, found.registration, self._nothing)
        return FOUND, self._joined(
            FOUND, found.registration, self._answer(found.record, contradictions)
        )

    def _joined(self, result: str, registration: str | None, answer: Sequence[str]) -> str:
        return self.delimiter.join([result, registration or "", self._day, *answer])

    def _answer(self, record: Record, contradictions: Mapping[str, Contradicted]) -> list[str]:
        """Return the cells of a known plate, in the order of the columns."""
        judgement, period = judge(record, self._day), self._period
        insurance = insurance_answer(record, self._day)
        if period is not None:
            insurance.lastUpdated = clock.iso_utc(newest_update(record))
        against = contradictions[record.registration]
        answer = _AnsweredPlate(record, insurance, judgement, self._text, self._day, against)
        cells = [cell(answer) for cell in _ANSWERED.values()]
        outcomes: dict[str, Verdict | Judgement | Outcome[Any]] = {
            "insured": judgement.insurance,
            "motValid": judgement.mot,
            "roadTaxPaid": judgement.tax,
            "noOutstandingFines": judgement.fines,
            "compliant": judgement,
        }
        if period is not None:
            insured = judge_period(record, period, judge_insurance)
            compliant = judge_period(record, period, judge)
            cells += _of_period(period, insured, compliant)
            outcomes |= {"insuredThroughout": insured, "compliantThroughout": compliant}
        if self._tells_unknown:
            cells.append(" ".join(name for name, each in outcomes.items() if not each.is_known))
        return cells
