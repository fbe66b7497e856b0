"""The answers for a list of plates in short, sorted by what lapses next (D174)."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from typing import NamedTuple

from app.vehicles.answers import NOT_FOUND, failure_answer
from app.vehicles.compliance import Judgement, Verdict, judge, judge_insurance
from app.vehicles.facts import POLICIES_MAX, Record
from app.vehicles.periods import (
    Outcome,
    Period,
    has_too_many_policies,
    judge_period,
    next_lapse,
)
from app.vehicles.reader import Found

_CHECKS = ("insurance", "MOT", "road tax", "fines")
"""The checks of a Judgement in their order."""
_NOT_JUDGED = f"not judged: more than {POLICIES_MAX} policies"
_NO_END = "no end is known"
_NOTHING_LEFT = "nothing is left to lapse"
_NO_LAPSE = (_NOT_JUDGED, _NO_END, _NOTHING_LEFT)
"""Why nothing lapses next, in the order of the rows."""
SOON_DAYS = 30
_WORDS = {"future": "not begun", "sorn": "SORN", "flag": "a register says insured"}
"""Reasons that people would not understand as the API gives them."""


def reason_in_words(reason: str) -> str:
    """Return the reason of a check as people read it."""
    return _WORDS.get(reason) or reason.replace("_", " ")


class Lapse(NamedTuple):
    """The first thing to lapse of what is in order on the day."""

    last_day: str
    checks: str
    days: int
    """From the day to the last day."""

    @property
    def is_soon(self) -> bool:
        """Whether it lapses within 30 days."""
        return self.days <= SOON_DAYS


class Answer(NamedTuple):
    """The answer for a plate in short."""

    insured: Outcome[Verdict]
    """On the day, or throughout the period."""
    compliant: Outcome[Judgement]
    failed: str
    """The checks that fail, each with its reason: on the day, or on the first failing one of the
    period."""
    lapse: Lapse | str
    """What lapses next, or why nothing does."""
    vehicle: str
    """Make, model and year, as far as they are known."""


class Row(NamedTuple):
    """A plate of a list."""

    place: int
    """Its place in the list that was asked for, from 1."""
    plate: str
    """In its canonical form, or as it was given if it is no registration."""
    error: str
    """Why there is no answer; empty if there is one."""
    answer: Answer | None

    def order(self) -> tuple[int, str]:
        """Return a key to sort by what lapses next: what has no date follows, by its kind."""
        if self.answer is None:
            return 1 + len(_NO_LAPSE), ""
        lapse = self.answer.lapse
        return (0, lapse.last_day) if isinstance(lapse, Lapse) else (1 + _NO_LAPSE.index(lapse), "")


def rows_of(found: Iterable[Found], day: str, period: Period | None) -> list[Row]:
    """Return the rows of a list, the next lapse first.

    Args:
        found: of look-ups that asked for dates.
        day: ISO date to judge by; the first day of the period, if there is one.
    """
    rows = [_row(place, each, day, period) for place, each in enumerate(found, 1)]
    return sorted(rows, key=Row.order)


def _row(place: int, found: Found, day: str, period: Period | None) -> Row:
    plate = found.registration or found.asked
    if found.record is None:
        return Row(place, plate, failure_answer(found).error, None)
    return Row(place, plate, "", _answer(found.record, day, period))


def _answer(record: Record, day: str, period: Period | None) -> Answer:
    judgement = judge(record, day)
    insured: Outcome[Verdict] = Outcome(judgement.insurance.is_good, None)
    compliant: Outcome[Judgement] = Outcome(judgement.is_compliant, None)
    if period is not None:
        insured = judge_period(record, period, judge_insurance)
        compliant = judge_period(record, period, judge)
        if compliant.failure is not None:
            judgement = compliant.failure.verdict
    failed = [
        f"{name}: {reason_in_words(verdict.reason)}"
        for name, verdict in zip(_CHECKS, judgement, strict=True)
        if not verdict.is_good
    ]
    known = (record.make, record.model, record.year)
    return Answer(
        insured,
        compliant,
        ", ".join(failed),
        _lapse(record, day),
        " ".join(str(each) for each in known if each is not None),
    )


def _lapse(record: Record, day: str) -> Lapse | str:
    if has_too_many_policies(record):
        return _NOT_JUDGED
    now, lapse = judge(record, day), next_lapse(record, day)
    if lapse is None:
        insurance, mot, tax, _ = now
        return _NO_END if insurance.is_good or mot.is_good or tax.is_good else _NOTHING_LEFT
    last_day, after = lapse
    verdicts = zip(_CHECKS, now, after, strict=True)
    checks = [name for name, before, then in verdicts if before.is_good and not then.is_good]
    days = (date.fromisoformat(last_day) - date.fromisoformat(day)).days
    return Lapse(last_day, ", ".join(checks), days)


def counts_of(rows: Sequence[Row]) -> Mapping[str, int]:
    """Return how many plates have which answer."""
    answers = [row.answer for row in rows if row.answer is not None]
    errors = Counter(row.error for row in rows if row.answer is None)
    unknown = errors.pop(NOT_FOUND, 0)
    return {
        "found": len(answers),
        "unknown": unknown,
        "invalid": errors.total(),
        "insured": sum(each.insured.is_valid is True for each in answers),
        "compliant": sum(each.compliant.is_valid is True for each in answers),
        "soon": sum(isinstance(each.lapse, Lapse) and each.lapse.is_soon for each in answers),
    }
