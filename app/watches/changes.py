"""Compares what an account was told about a vehicle with what the registers say now (D184).

A difference on the day that was told comes from a load; what is different only today, from the
calendar. Loads can be bad, so their changes can be held back. The calendar's are always reported.
"""

from collections.abc import Sequence
from datetime import date
from typing import NamedTuple

import msgspec

from app.watches.told import Check, Checks, Seen, Told


class Change(NamedTuple):
    """One event."""

    type: str
    """Such as `mot.changed`."""
    before: Check | Told
    after: Check | Told


class Compared(NamedTuple):
    """What a comparison found."""

    told: Told
    """What the account will have been told after these events."""
    changes: Sequence[Change] = ()
    is_held: bool = False
    """Whether a load changed something that is not among the events."""


def compare(
    told: Told,
    day: str,
    lead_days: Sequence[int],
    seen: Seen,
    today: str,
    *,
    reports_loads: bool,
) -> Compared:
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
            return Compared(held, is_held=told is not now)
        kind = "vehicle.known" if told is None else "vehicle.unknown"
        return Compared(now, [Change(kind, told, now)])
    checks, changes, is_held = [], [], False
    for place, (name, former, current) in enumerate(zip(Checks._fields, told, now, strict=True)):
        since = former.day or day
        then = seen.on(since)
        one = _Check(name, former, since, then[place] if then else None, current, today)
        found = one.changes(lead_days)
        if found.comes_from_load and not reports_loads:
            is_held = True
            checks.append(_judged_on(former, day))
        else:
            changes += found.changes
            checks.append(msgspec.structs.replace(current, lead=found.lead))
    return Compared(Checks(*checks), changes, is_held)


class _Found(NamedTuple):
    changes: list[Change]
    lead: int | None
    comes_from_load: bool


class _Check(NamedTuple):
    """One check at three times."""

    name: str
    told: Check
    since: str
    """The day that `told` was judged on."""
    then: Check | None
    """What the registers of today say about that day."""
    now: Check
    today: str

    def changes(self, lead_days: Sequence[int]) -> _Found:
        told, then, now = self.told, self.then, self.now
        changes, comes_from_load = [], False
        if told.valid != now.valid:
            changes.append(Change(f"{self.name}.changed", told, now))
            comes_from_load = then is None or then.valid != told.valid
        lead = told.lead if told.last_day == now.last_day else None
        reached = _reached(now.last_day, self.today, lead_days)
        if reached is not None and (lead is None or reached < lead):
            changes.append(Change(f"{self.name}.ending", told, now))
            lead = reached
            comes_from_load = comes_from_load or self._was_ending(reached, lead_days)
        return _Found(changes, lead, comes_from_load)

    def _was_ending(self, lead: int, lead_days: Sequence[int]) -> bool:
        """Tell whether a load has moved the last day, so that the lead day was reached before."""
        then = self.then
        if then is None or then.last_day == self.told.last_day:
            return False
        is_same = then.last_day == self.now.last_day
        return is_same and _reached(then.last_day, self.since, lead_days) == lead


def _reached(last_day: str | None, day: str, lead_days: Sequence[int]) -> int | None:
    """Return the smallest lead day N such that the check fails within N days after a day."""
    if last_day is None:
        return None
    left = (date.fromisoformat(last_day) - date.fromisoformat(day)).days
    return min((each for each in lead_days if left < each), default=None)


def _judged_on(check: Check, day: str) -> Check:
    """Return a check that is held back: it keeps the day that it was judged on."""
    return check if check.day else msgspec.structs.replace(check, day=day)
