"""The answers for a list of plates in short, in order and in groups.

Each group has its own first rows, so that none hides another.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from itertools import takewhile
from operator import attrgetter
from typing import NamedTuple, TypeVar

from app.clock import shifted_day
from app.console import look_up_texts as texts
from app.console.look_up_missing import missing_on
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
from app.vehicles.reader import FoundPlate

_NO_LAPSE = (texts.ROW_TOO_MANY_POLICIES, texts.NO_END, texts.NOTHING_LEFT)
"""Why nothing lapses next, in the order of the rows."""
SOON_DAYS = 30
_J = TypeVar("_J", Verdict, Judgement)


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


class ShortAnswer(NamedTuple):
    """The answer for a plate in short."""

    insured: Outcome[Verdict]
    """On the day, or throughout the period."""
    compliant: Outcome[Judgement]
    failed: str
    """The checks that fail for certain, each with its reason: on the day, or on the first failing
    one of the period."""
    missing: Sequence[str]
    """The checks whose outcome is not known, each with what is missing."""
    contradicted: Sequence[str]
    """The checks of which registers say the opposite on the day, each with these registers."""
    lapse: Lapse | str
    """What lapses next, or why nothing does."""
    later: Sequence[Lapse]
    """What lapses after that, within 30 days of the day."""
    vehicle: str
    """Make, model and year, as far as they are known."""


class ListRow(NamedTuple):
    """A plate of a list."""

    place: int
    """Its place in the list that was asked for, from 1."""
    plate: str
    """In its canonical form, or as it was given if it is no registration."""
    error: str
    """Why there is no answer; empty if there is one."""
    answer: ShortAnswer | None

    @property
    def is_known(self) -> bool:
        """Whether it is known if the vehicle passes, on the day or throughout the period."""
        if self.answer is None:
            return False
        compliant = self.answer.compliant
        return compliant.is_known and compliant.is_valid is not None

    @property
    def fails(self) -> bool:
        """Whether the vehicle fails a check for certain, on the day or on one of the period."""
        return self.answer is not None and self.is_known and not self.answer.compliant.is_valid

    @property
    def lapses_soon(self) -> bool:
        """Whether a check that is in order on the day lapses within 30 days."""
        lapse = self.answer and self.answer.lapse
        return isinstance(lapse, Lapse) and lapse.is_soon

    def order(self) -> tuple[bool, bool, int, str]:
        """Return a key to sort by: what fails comes first, then what lapses next.

        Then comes what is not known, and last what has no answer.
        """
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
    has: Callable[[ListRow], bool]


_FIRST = (
    Group("failing", texts.FAILING, lambda row: row.fails),
    Group("lapsing", texts.LAPSING, lambda row: row.lapses_soon),
)
_ALL = Group("all", texts.ALL, lambda _: True)
GROUPS = (*_FIRST, Group("unknown", texts.NOT_KNOWN, lambda row: not row.is_known), _ALL)
GROUPS_UNKNOWN = (
    *_FIRST,
    Group("unknown", texts.NOT_KNOWN, lambda row: row.answer is not None and not row.is_known),
    Group("unfound", texts.NO_PLATE_FOUND, lambda row: row.answer is None),
    _ALL,
)
"""The groups if answers tell what is not known (D198)."""


class ListPart(NamedTuple):
    """The rows of a group."""

    group: Group
    total: int
    rows: Sequence[ListRow]
    """The first of them."""


def parts_of(
    rows: Sequence[ListRow], rows_max: int, *, tells_unknown: bool = False
) -> list[ListPart]:
    """Return the first rows of each group, at most `rows_max` of each, in their order."""
    groups = GROUPS_UNKNOWN if tells_unknown else GROUPS
    members = {group: list(filter(group.has, rows)) for group in groups}
    return [ListPart(group, len(its), its[:rows_max]) for group, its in members.items()]


def rows_of(
    found: Iterable[FoundPlate],
    contradictions: Mapping[str, Contradicted],
    day: str,
    period: Period | None,
) -> list[ListRow]:
    """Return the rows of a list, in the order of `Row.order`.

    Args:
        found: of look-ups that asked for dates.
        contradictions: of these look-ups, by plate.
        day: ISO date to judge by; the first day of the period, if there is one.
    """
    rows = [_row(place, each, contradictions, day, period) for place, each in enumerate(found, 1)]
    return sorted(rows, key=ListRow.order)


def _row(
    place: int,
    found: FoundPlate,
    contradictions: Mapping[str, Contradicted],
    day: str,
    period: Period | None,
) -> ListRow:
    plate = found.registration or found.asked
    if found.record is None:
        return ListRow(place, plate, failure_answer(found).error, None)
    return ListRow(place, plate, "", _answer(found.record, contradictions[plate], day, period))


def _answer(record: Record, against: Contradicted, day: str, period: Period | None) -> ShortAnswer:
    judgement, judged_day = judge(record, day), day
    insured = _outcome(judgement.insurance)
    compliant = _outcome(judgement)
    if period is not None:
        insured = judge_period(record, period, judge_insurance)
        compliant = judge_period(record, period, judge)
        if compliant.failure is not None:
            judged_day, judgement = compliant.failure
    missing = dict(missing_on(record, judged_day))
    if insured.failure is not None and not insured.is_known:
        missing |= {_INSURANCE: missing_on(record, insured.failure.day)[_INSURANCE]}
    failed = [
        f"{name}: {texts.reason_in_words(verdict.reason)}"
        for name, verdict in zip(texts.ROW_CHECKS, judgement, strict=True)
        if verdict.fails
    ]
    lapse, later = _lapses(record, day)
    return ShortAnswer(
        insured,
        compliant,
        ", ".join(failed),
        [
            texts.check_not_known(check, missing[check])
            for check in texts.CHECKS
            if check in missing
        ],
        [
            f"{name}: {opposite_in_words(registers)}"
            for name, registers in zip(texts.ROW_CHECKS, against, strict=True)
            if registers
        ],
        lapse,
        later,
        texts.vehicle_in_words(record.make, record.model, record.year),
    )


_INSURANCE = next(iter(texts.CHECKS))


def _outcome(verdict: _J) -> Outcome[_J]:
    """Return the outcome of a single day."""
    return Outcome(verdict.is_good, None, verdict.is_known)


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
    # All of them are named: whoever renews the insurance must not miss the MOT.
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


def counts_of(rows: Sequence[ListRow], *, tells_unknown: bool = False) -> Mapping[str, int]:
    """Return how many plates have which answer."""
    answers = [row.answer for row in rows if row.answer is not None]
    errors = Counter(row.error for row in rows if row.answer is None)
    not_found = errors.pop(NOT_FOUND, 0)
    counts = {
        "found": len(answers),
        "not_found": not_found,
        "invalid": errors.total(),
        "insured": sum(each.insured.is_valid is True for each in answers),
        "compliant": sum(each.compliant.is_valid is True for each in answers),
        "failing": sum(row.fails for row in rows),
        "soon": sum(row.lapses_soon for row in rows),
    }
    if tells_unknown:
        counts["not_known"] = len(answers) - sum(row.is_known for row in rows)
    return counts
