"""The answers for a list of plates in short, in order and in groups (D174)."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from itertools import takewhile
from operator import attrgetter
from typing import NamedTuple

from app.clock import shifted_day
from app.console import look_up_texts as texts
from app.vehicles.answers import NOT_FOUND, failure_answer
from app.vehicles.compliance import Judgement, Verdict, judge, judge_insurance
from app.vehicles.contradictions import Contradicted, opposite_in_words
from app.vehicles.facts import Record
from app.vehicles.periods import (
    Outcome,
    Period,
    has_too_many_policies,
    judge_period,
    next_lapse,
    record_on,
)
from app.vehicles.reader import Found

_NO_LAPSE = (texts.ROW_TOO_MANY_POLICIES, texts.NO_END, texts.NOTHING_LEFT)
"""Why nothing lapses next, in the order of the rows."""
SOON_DAYS = 30


class Lapse(NamedTuple):
    """Checks that are in order on the day, and lapse together."""

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
    contradicted: Sequence[str]
    """The checks of which registers say the opposite on the day, each with these registers."""
    lapse: Lapse | str
    """What lapses next, or why nothing does."""
    later: Sequence[Lapse]
    """What lapses after that, within 30 days of the day."""
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

    @property
    def is_known(self) -> bool:
        """Whether it is known if the vehicle passes, on the day or throughout the period."""
        return self.answer is not None and self.answer.compliant.is_valid is not None

    @property
    def fails(self) -> bool:
        """Whether the vehicle fails a check on the day, or on a day of the period."""
        return self.answer is not None and self.answer.compliant.is_valid is False

    @property
    def lapses_soon(self) -> bool:
        """Whether a check that is in order on the day lapses within 30 days."""
        lapse = self.answer and self.answer.lapse
        return isinstance(lapse, Lapse) and lapse.is_soon

    def order(self) -> tuple[bool, bool, int, str]:
        """Return a key to sort by: what fails comes first, then what lapses next."""
        place, last_day = 1 + len(_NO_LAPSE), ""
        if self.answer and isinstance(self.answer.lapse, Lapse):
            place, last_day = 0, self.answer.lapse.last_day
        elif self.answer:
            place = 1 + _NO_LAPSE.index(self.answer.lapse)
        return not self.fails, not self.is_known, place, last_day


class Group(NamedTuple):
    """A part of a list that a person asks for."""

    name: str
    title: str
    has: Callable[[Row], bool]


GROUPS = (
    Group("failing", texts.FAILING, lambda row: row.fails),
    Group("lapsing", texts.LAPSING, lambda row: row.lapses_soon),
    Group("unknown", texts.UNKNOWN, lambda row: not row.is_known),
    Group("all", texts.ALL, lambda _: True),
)


class Part(NamedTuple):
    """The rows of a group."""

    group: Group
    total: int
    rows: Sequence[Row]
    """The first of them."""


def parts_of(rows: Sequence[Row], rows_max: int) -> list[Part]:
    """Return the first rows of each group, at most `rows_max` of each, in their order."""
    members = {group: list(filter(group.has, rows)) for group in GROUPS}
    return [Part(group, len(its), its[:rows_max]) for group, its in members.items()]


def rows_of(
    found: Iterable[Found],
    contradictions: Mapping[str, Contradicted],
    day: str,
    period: Period | None,
) -> list[Row]:
    """Return the rows of a list, in the order of `Row.order`.

    Args:
        found: of look-ups that asked for dates.
        contradictions: of these look-ups, by plate.
        day: ISO date to judge by; the first day of the period, if there is one.
    """
    rows = [_row(place, each, contradictions, day, period) for place, each in enumerate(found, 1)]
    return sorted(rows, key=Row.order)


def _row(
    place: int,
    found: Found,
    contradictions: Mapping[str, Contradicted],
    day: str,
    period: Period | None,
) -> Row:
    plate = found.registration or found.asked
    if found.record is None:
        return Row(place, plate, failure_answer(found).error, None)
    return Row(place, plate, "", _answer(found.record, contradictions[plate], day, period))


def _answer(record: Record, against: Contradicted, day: str, period: Period | None) -> Answer:
    judgement = judge(record, day)
    insured: Outcome[Verdict] = Outcome(judgement.insurance.is_good, None)
    compliant: Outcome[Judgement] = Outcome(judgement.is_compliant, None)
    if period is not None:
        insured = judge_period(record, period, judge_insurance)
        compliant = judge_period(record, period, judge)
        if compliant.failure is not None:
            judgement = compliant.failure.verdict
    failed = [
        f"{name}: {texts.reason_in_words(verdict.reason)}"
        for name, verdict in zip(texts.ROW_CHECKS, judgement, strict=True)
        if not verdict.is_good
    ]
    lapse, later = _lapses(record, day)
    return Answer(
        insured,
        compliant,
        ", ".join(failed),
        [
            f"{name}: {opposite_in_words(registers)}"
            for name, registers in zip(texts.ROW_CHECKS, against, strict=True)
            if registers
        ],
        lapse,
        later,
        texts.vehicle_in_words(record.make, record.model, record.year),
    )


def _lapses(record: Record, day: str) -> tuple[Lapse | str, list[Lapse]]:
    """Return what lapses next, or why nothing does, and what lapses later within 30 days."""
    if has_too_many_policies(record):
        return texts.ROW_TOO_MANY_POLICIES, []
    verdicts = zip(texts.ROW_CHECKS, judge(record, day), strict=True)
    # Fines do not lapse: whether one is owed now counts for every day.
    good = [name for name, verdict in verdicts if verdict.is_good and name != "fines"]
    coming = _coming_lapses(record, day, good)
    lapse = next(coming, None)
    if lapse is None:
        return (texts.NO_END if good else texts.NOTHING_LEFT), []
    # PERF: most vehicles have no lapse soon, so that no later one is searched.
    later = list(takewhile(attrgetter("is_soon"), coming)) if lapse.is_soon else []
    return lapse, later


def _coming_lapses(record: Record, day: str, good: Sequence[str]) -> Iterator[Lapse]:
    """Yield what lapses of the checks that are good on the day, each once."""
    start, later = day, record.without_basis()
    while good and (found := next_lapse(record_on(later, start), start)):
        last_day, after = found
        verdicts = zip(texts.ROW_CHECKS, after, strict=True)
        lapsed = [name for name, verdict in verdicts if name in good and not verdict.is_good]
        if lapsed:
            days = (date.fromisoformat(last_day) - date.fromisoformat(day)).days
            yield Lapse(last_day, ", ".join(lapsed), days)
            good = [name for name in good if name not in lapsed]
        start = shifted_day(last_day, 1)


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
        "failing": sum(row.fails for row in rows),
        "soon": sum(row.lapses_soon for row in rows),
    }
