"""Compares what an account was told about a vehicle with what the registers say now (D184).

A difference on the day that was told comes from a load; what is different only today, from the
calendar. Loads can be bad, so their changes can be held back. The calendar's are always reported.
"""

from collections.abc import Sequence
from datetime import date
from typing import NamedTuple

import msgspec

from app.clock import shifted_day
from app.watches.told import Check, Checks, Seen, ToldChecks

_SLACK_DAYS = 1
"""Agencies write the first day without (D100), which 1.0.0 stored, and a mapping can say so of any
file. A rollback brings it back. So a last day that is a day sooner is no change by a load."""
_OF_AGENCIES = ("mot", "tax")
"""The checks of which a last day that is a day later may come from a rollback as well. An insurance
that is extended day by day ends later each time."""


class NewEvent(NamedTuple):
    """One event."""

    type: str
    """Such as `mot.changed`."""
    before: Check | ToldChecks
    after: Check | ToldChecks


class WatchComparison(NamedTuple):
    """What a comparison found."""

    told: ToldChecks
    """What the account will have been told after these events."""
    changes: Sequence[NewEvent] = ()
    is_held: bool = False
    """Whether a load changed something that is not among the events."""


def compare(
    told: ToldChecks,
    day: str,
    lead_days: Sequence[int],
    seen: Seen,
    today: str,
    *,
    reports_loads: bool,
) -> WatchComparison:
    """Compare the state that was told last with today.

    Args:
        day: ISO date that it was judged on, not after `today`.
        lead_days: how many days before a check fails that is reported, the greatest first.
        seen: what the registers say from the day of the oldest check on.
        reports_loads: whether what a load has changed is reported, too.
    """
    now = seen.on(today)
    if told is None or now is None:
        if told is now or not reports_loads:
            held = None if told is None else Checks(*(_judged_on(each, day) for each in told))
            return WatchComparison(held, is_held=told is not now)
        kind = "vehicle.known" if told is None else "vehicle.unknown"
        return WatchComparison(now, [NewEvent(kind, told, now)])
    checks, changes, is_held = [], [], False
    for place, (name, former, current) in enumerate(zip(Checks._fields, told, now, strict=True)):
        has_changed = former.valid != current.valid
        later_days = _SLACK_DAYS if name in _OF_AGENCIES else 0
        lead = _lead_due(former, current, today, lead_days, later_days)
        is_due = has_changed or lead is not None or _is_shortened(former, current)
        if (
            is_due
            and not reports_loads
            and _is_by_load(former, seen, place, former.day or day, lead_days, later_days)
        ):
            is_held = True
            checks.append(_judged_on(former, day))
            continue
        if has_changed:
            changes.append(NewEvent(f"{name}.changed", former, current))
        if lead is not None:
            changes.append(NewEvent(f"{name}.ending", former, current))
        reported = former.reported if lead is None else (str(current.last_day), lead)
        # PERF: a sweep takes 5 % less; most checks are far from their last day.
        as_told = reported and msgspec.structs.replace(current, reported=reported)
        checks.append(as_told or current)
    return WatchComparison(Checks(*checks), changes, is_held)


def _ends_a_day_sooner(told: Check, seen: Seen, place: int) -> bool:
    """Tell whether the last day of a check is now the day before the one that was told."""
    if told.last_day is None:
        return False
    day_before = shifted_day(told.last_day, -1)
    checks = seen.on(day_before)
    return checks is not None and checks[place].last_day == day_before


def _is_by_load(
    told: Check, seen: Seen, place: int, since: str, lead_days: Sequence[int], later_days: int
) -> bool:
    """Tell whether something differs on the day that a check was told for.

    A lead day can be due on that day without a load, after the watch was created or replaced.
    """
    if _ends_a_day_sooner(told, seen, place):
        return False
    checks = seen.on(since)
    then = checks and checks[place]
    if then is None or then.valid != told.valid or _is_shortened(told, then):
        return True
    is_moved = then.last_day != told.last_day
    return is_moved and _lead_due(told, then, since, lead_days, later_days) is not None


def _is_shortened(told: Check, now: Check) -> bool:
    """Tell whether a check that passed has an earlier last day, or one for the first time."""
    last_day = now.last_day
    return last_day is not None and told.valid and not (told.last_day and told.last_day <= last_day)


def _lead_due(
    told: Check, now: Check, day: str, lead_days: Sequence[int], later_days: int
) -> int | None:
    """Return the smallest lead day that is reached, unless it was reported for this last day.

    Args:
        later_days: by how many days this last day may be later than the one that was reported.
    """
    lead = None if now.last_day is None else _reached(now.last_day, day, lead_days)
    if lead is None or told.reported is None or told.reported[1] > lead:
        return lead
    apart = date.fromisoformat(told.reported[0]) - date.fromisoformat(str(now.last_day))
    return None if -later_days <= apart.days <= _SLACK_DAYS else lead


def _reached(last_day: str, day: str, lead_days: Sequence[int]) -> int | None:
    """Return the smallest lead day N such that the check fails within N days after a day."""
    for lead in reversed(lead_days):
        if last_day < shifted_day(day, lead):
            return lead
    return None


def _judged_on(check: Check, day: str) -> Check:
    """Return a check that is held back: it keeps the day that it was judged on."""
    return check if check.day else msgspec.structs.replace(check, day=day)
