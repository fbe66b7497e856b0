"""Judges a vehicle on many days: throughout a period, and until when (D172).

Days are judged with the functions that judge one day. A vehicle that passes can begin to fail only
on a few days, such as the day after a policy ends. So the first day and these days are judged.
"""

from collections.abc import Callable, Iterator
from datetime import date
from typing import Final, Generic, NamedTuple, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from app.clock import shifted_day
from app.vehicles.compliance import Judgement, Verdict, first_mot_day, judge
from app.vehicles.facts import POLICIES_MAX, Basis, PolicyFacts, Record
from app.vehicles.policies import choose_policy

DAYS_MAX = 400
"""Days of a period, both ends included."""
SHOWN_POLICIES_MAX = 20
_LAST_DAY = date.max.isoformat()
_GOOD: Final = Verdict(True, "")

Until = str | UnsetType | None
"""The last day on which a vehicle passes: UNSET if it fails on the first day; None if no end is
known."""
_J = TypeVar("_J", Verdict, Judgement)
_Judge = Callable[[Record, str], _J]
"""Judges a vehicle on a day (ISO date)."""


class Period(NamedTuple):
    """The days from the first to the last one (ISO dates), both included."""

    first: str
    last: str


class Question(NamedTuple):
    """What a request asks besides today's answer."""

    as_of: str | None = None
    period: Period | None = None
    """Asked in place of `as_of`."""
    explain: bool = False
    """Whether to add the reasons."""
    details: bool = False
    """Whether to add dates; in a bulk, the vehicle too."""
    policies: bool = False
    """Whether to add all policies in force."""

    @property
    def named_day(self) -> str | None:
        """The ISO date that the request wants a vehicle judged on; None for today."""
        return self.as_of if self.period is None else self.period.first

    @property
    def asks_more(self) -> bool:
        """Whether the answer has members that need more than the policy to answer with."""
        return self.details or self.policies or self.period is not None


class Failure(NamedTuple, Generic[_J]):
    """The first day on which a vehicle fails, and the verdict on it."""

    day: str
    verdict: _J


class Outcome(NamedTuple, Generic[_J]):
    """Whether a vehicle passes on every day of a period."""

    is_valid: bool | None
    """None if later days cannot be judged."""
    failure: Failure[_J] | None
    """On the first day that fails for certain; if there is none, on the first that is not known."""
    is_known: bool = True
    """Whether the registers know the outcome. If not, it is not valid."""


def period_fault(
    as_of: str | None,
    first: str | None,
    last: str | None,
    names: tuple[str, str, str] = ("asOf", "from", "to"),
) -> tuple[str, str] | None:
    """Return what is wrong with the days that a request names; None if they fit together.

    Args:
        as_of, first, last: ISO dates of days that exist; None if not given.
        names: what the three are called.

    Returns the name of one of them, and the end of a sentence about it.
    """
    named_day, begin, end = names
    if first is None or last is None:
        if first is last:
            return None
        given, missing = (end, begin) if first is None else (begin, end)
        return given, f"is not allowed without {missing}"
    if as_of is not None:
        return named_day, f"is not allowed with {begin} and {end}"
    if last < first:
        return end, f"must not be before {begin}"
    count = (date.fromisoformat(last) - date.fromisoformat(first)).days + 1
    if count > DAYS_MAX:
        return end, f"makes a period of {count:,} days; at most {DAYS_MAX} are allowed"
    return None


def has_too_many_policies(record: Record) -> bool:
    """Tell whether later days cannot be judged, because not all policies were read."""
    return len(record.policies) > POLICIES_MAX


def first_failure(record: Record, day: str, last: str, judge: _Judge[_J]) -> Failure[_J] | None:
    """Return the first day from `day` to `last` on which a vehicle fails, and the verdict on it.

    What is known on the first day counts for the others.

    Args:
        record: of a look-up for `day` that asked for dates.
        judge: `judge_insurance`, or `judge` of all checks.

    Returns None if the vehicle passes on all days.
    """
    then, later = record, record.without_basis()
    while (verdict := judge(then, day)).is_good:
        following = _next_change(then, day, last)
        if following is None:
            return None
        day, then = following, record_on(later, following)
    return Failure(day, verdict)


def good_until(record: Record, day: str, judge: _Judge[_J]) -> Until:
    """Return the last of the days from `day` on, without a gap, on which a vehicle passes."""
    failure = first_failure(record, day, _LAST_DAY, judge)
    if failure is None:
        return None
    return UNSET if failure.day == day else shifted_day(failure.day, -1)


def judge_period(record: Record, period: Period, judge: _Judge[_J]) -> Outcome[_J]:
    """Judge a vehicle on every day of a period."""
    if has_too_many_policies(record):
        return Outcome(None, None)
    if record.basis is not None:
        return _judge_each(record, period, judge, record.basis)
    failure = first_failure(record, *period, judge)
    return Outcome(failure is None, failure)


def _judge_each(record: Record, period: Period, judge: _Judge[_J], basis: Basis) -> Outcome[_J]:
    """Judge a vehicle on each day on which the outcome can change."""
    unknown = None
    for day in sorted({period.first, *_changes(record, period, basis)}):
        verdict = judge(record_on(record, day), day)
        if verdict.fails:
            return Outcome(False, Failure(day, verdict))
        if not verdict.is_good and unknown is None:
            unknown = Failure(day, verdict)
    return Outcome(unknown is None, unknown, unknown is None)


def _changes(record: Record, period: Period, basis: Basis) -> Iterator[str]:
    """Yield the days of a period, after its first one, on which a check can change."""
    vehicles, policies, _ = record.rows
    begins: list[str | None] = [basis.today, first_mot_day(record)]
    ends: list[str | None] = [basis.today]
    for _, vehicle in vehicles:
        begins.append(basis.first_day(vehicle.updated))
        ends += vehicle.mot_expiry, vehicle.tax_due
    for _, policy in policies:
        begins += policy.valid_from, policy.cancelled_on
        ends.append(policy.valid_to)
    yield from (day for day in begins if day and period.first < day <= period.last)
    yield from (shifted_day(day, 1) for day in ends if day and period.first <= day < period.last)


def next_lapse(record: Record, day: str) -> tuple[str, Judgement] | None:
    """Return the last day before a check fails that passes on `day`; None if no end is known.

    Also returns the judgement of the day after.
    """
    passed = [verdict.is_good for verdict in judge(record, day)]

    def judge_passed(then: Record, each: str) -> Verdict:
        verdicts = zip(passed, judge(then, each), strict=True)
        return next((found for before, found in verdicts if before and not found.is_good), _GOOD)

    failure = first_failure(record, day, _LAST_DAY, judge_passed)
    if failure is None:
        return None
    return shifted_day(failure.day, -1), judge(record_on(record, failure.day), failure.day)


def record_on(record: Record, day: str) -> Record:
    """Return the record with the policy to answer with on a later day (D20)."""
    if not record.policies:
        return record
    best = choose_policy(record.policies, day)
    return record if best == record.policy else msgspec.structs.replace(record, policy=best)


def newest_update(record: Record) -> int:
    """Return the newest change among all rows that later days are judged by, in Unix seconds."""
    return max((record.updated, *(policy.updated for policy in record.policies)))


def _next_change(record: Record, day: str, last: str) -> str | None:
    """Return the next day, at most `last`, on which a check can begin to fail that does not yet.

    Args:
        record: of `day`, on which the vehicle passes.
    """
    policy = record.policy
    soonest = last
    for end in (record.mot_expiry, record.tax_due, policy and policy.valid_to):
        if end is not None and day <= end < soonest:
            soonest = end
    change = shifted_day(soonest, 1) if soonest < last else None
    for begin in (first_mot_day(record), policy and policy.cancelled_on):
        if begin is not None and day < begin <= (change or last):
            change = begin
    return change


def policies_in_force(record: Record, day: str) -> tuple[list[PolicyFacts], bool]:
    """Return the policies in force on the day that the look-up asked for, and if there are more.

    The one to answer with comes first, then those that end later. Policies with the same insurer,
    number and first day are one, taken from the first register; there are at most 20.
    """
    answered = record.policy
    if answered is None or not answered.is_in_force(day):
        return [], False
    in_force = [policy for policy in record.policies if policy.is_in_force(day)]
    different = {answered.identity: answered}
    for policy in in_force:
        different.setdefault(policy.identity, policy)
    _, *others = different.values()
    others.sort(key=lambda policy: policy.rank(day), reverse=True)
    has_more = len(different) > SHOWN_POLICIES_MAX or len(in_force) > POLICIES_MAX
    return [answered, *others][:SHOWN_POLICIES_MAX], has_more
