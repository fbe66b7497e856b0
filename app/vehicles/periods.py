"""Judges a vehicle on many days: throughout a period, and until when (D172).

Days are judged with the functions that judge one day. A vehicle that passes can begin to fail only
on a few days, such as the day after a policy ends. So the first day and these days are judged.
"""

from collections.abc import Callable, Iterator
from datetime import date, timedelta
from typing import NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from app.vehicles.compliance import Judgement, first_mot_day, judge, judge_insurance
from app.vehicles.facts import POLICIES_MAX, PolicyFacts, Record

DAYS_MAX = 400
"""Days of a period, both ends included."""
SHOWN_POLICIES_MAX = 20
_LAST_DAY = date.max.isoformat()

Until = str | UnsetType | None
"""The last day on which a vehicle passes: UNSET if it fails on the first day; None if no end is
known."""
Passes = Callable[[Record, str], bool]
"""Tells whether a vehicle passes on a day (ISO date)."""


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
    def needs_dates(self) -> bool:
        """Whether the answer tells more than today's record of a plate has."""
        return self.details or self.policies or self.period is not None


class Failure(NamedTuple):
    """The first day on which a vehicle fails, and its record with the policy of that day."""

    day: str
    record: Record


class Outcome(NamedTuple):
    """Whether a vehicle passes on every day of a period."""

    is_valid: bool | None
    """None if later days cannot be judged."""
    failure: Failure | None


def period_fault(
    as_of: str | None,
    first: str | None,
    last: str | None,
    names: tuple[str, str, str] = ("asOf", "from", "to"),
) -> tuple[str, str] | None:
    """Return what is wrong with the days that a request names; None if they fit together.

    Args: existing days, and what they are called.

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


def is_insured(record: Record, day: str) -> bool:
    """Tell whether a vehicle is insured on the day that its record is about."""
    return judge_insurance(record, day).is_good


def is_compliant(record: Record, day: str) -> bool:
    """Tell whether a vehicle is road-legal on the day that its record is about."""
    return judge(record, day).is_compliant


def has_too_many_policies(record: Record) -> bool:
    """Tell whether later days cannot be judged, because not all policies were read."""
    return len(record.policies) > POLICIES_MAX


def first_failure(record: Record, day: str, last: str, passes: Passes) -> Failure | None:
    """Return the first day from `day` to `last` on which a vehicle fails; None if it passes on all.

    Args:
        record: of a look-up for `day` that asked for dates.
        passes: `is_insured` or `is_compliant`.
    """
    for each, then in _judged_days(record, day, last):
        if not passes(then, each):
            return Failure(each, then)
    return None


def passes_until(record: Record, day: str, passes: Passes) -> Until:
    """Return the last of the days from `day` on, without a gap, on which a vehicle passes."""
    failure = first_failure(record, day, _LAST_DAY, passes)
    if failure is None:
        return None
    return UNSET if failure.day == day else _shifted(failure.day, -1)


def judge_period(record: Record, period: Period, passes: Passes) -> Outcome:
    """Judge a vehicle on every day of a period."""
    if has_too_many_policies(record):
        return Outcome(None, None)
    failure = first_failure(record, *period, passes)
    return Outcome(failure is None, failure)


def next_lapse(record: Record, day: str) -> tuple[str, Judgement] | None:
    """Return the last day before a check fails that passes on `day`; None if no end is known.

    Also returns the judgement of the day after.
    """
    passed = [verdict.is_good for verdict in judge(record, day)]

    def none_lapses(then: Record, each: str) -> bool:
        verdicts = zip(passed, judge(then, each), strict=True)
        return not any(before and not verdict.is_good for before, verdict in verdicts)

    failure = first_failure(record, day, _LAST_DAY, none_lapses)
    return failure and (_shifted(failure.day, -1), judge(failure.record, failure.day))


def _judged_days(record: Record, day: str, last: str) -> Iterator[tuple[str, Record]]:
    """Yield the first day, then each on which a check can begin to fail, with the record then."""
    following: str | None = day
    while following is not None:
        then = record_on(record, following)
        yield following, then
        following = _next_change(then, following, last)


def record_on(record: Record, day: str) -> Record:
    """Return the record with the policy to answer with on a later day (D20)."""
    if not record.policies:
        return record
    best = max(record.policies, key=lambda policy: policy.rank(day))
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
    ends = (record.mot_expiry, record.tax_due, policy and policy.valid_to)
    changes = [_shifted(end, 1) for end in ends if end is not None and day <= end < last]
    begins = (first_mot_day(record), policy and policy.cancelled_on)
    changes += [begin for begin in begins if begin is not None and day < begin <= last]
    return min(changes, default=None)


def _shifted(day: str, days: int) -> str:
    return (date.fromisoformat(day) + timedelta(days)).isoformat()


def policies_in_force(record: Record, day: str) -> tuple[list[PolicyFacts], bool]:
    """Return the policies in force on the day that the look-up asked for, and if there are more.

    The one to answer with comes first, then those that end later. Policies with the same insurer,
    number and first day are one, taken from the first register; there are at most 20.
    """
    answered = record.policy
    if answered is None or not answered.is_in_force(day):
        return [], False
    in_force = [policy for policy in record.policies if policy.is_in_force(day)]
    different = {_identity(answered): answered}
    for policy in in_force:
        different.setdefault(_identity(policy), policy)
    _, *others = different.values()
    others.sort(key=lambda policy: policy.rank(day), reverse=True)
    has_more = len(different) > SHOWN_POLICIES_MAX or len(in_force) > POLICIES_MAX
    return [answered, *others][:SHOWN_POLICIES_MAX], has_more


def _identity(policy: PolicyFacts) -> tuple[str, str, str]:
    return policy.insurer, policy.number, policy.valid_from
