"""An independent model of watches, written from the text of D184 and D185.

It keeps what each account was told, asks a function what is so on a day, and lists the events.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from math import inf
from typing import Any, NamedTuple

from tests.unit.periods_model import PeriodModel

CHECKS = {
    "insurance": "insuranceValid",
    "mot": "motValid",
    "tax": "roadTaxPaid",
    "fines": "noOutstandingFines",
}
POLICIES_MAX = 100
HELD_SHARE = 0.05
HELD_MIN = 20
SLACK = 1
"""By how many days a last day may move back without being a change by a load."""


class Fact(NamedTuple):
    """The verdict of a check on a day, and the last day on which it holds, if one is known."""

    valid: bool
    reason: str
    last_day: str | None

    def answer(self) -> dict[str, Any]:
        """Return what an answer has."""
        return {"valid": self.valid, "reason": self.reason, "lastDay": self.last_day}

    def ends_within(self, day: str, leads: Sequence[int]) -> int | None:
        """Return the smallest number of next days throughout which the check does not hold."""
        if self.last_day is None:
            return None
        begun = [lead for lead in leads if self.last_day < _shifted(day, lead)]
        return min(begun, default=None)


Facts = dict[str, Fact] | None
"""The facts of all checks by name; None if no register mentions the plate."""
Judge = Callable[[str, str], Facts]
"""Says what is so about a plate on a day."""


def facts_of(model: PeriodModel, plate: str, day: str) -> Facts:
    """Return what the registers of a model say about a plate on a day."""
    if not model.knows(plate):
        return None
    model = model.on(day)
    said = model.says(plate)["compliance"]
    ends: list[float | None] = [*model.ends(plate), None]
    if model.later_policies(plate) > POLICIES_MAX:
        ends[0] = None
    return {
        name: Fact(said["checks"][long], said["reasons"][long], _day(end))
        for (name, long), end in zip(CHECKS.items(), ends, strict=True)
    }


class Told(NamedTuple):
    """What an account was told about a check."""

    fact: Fact
    day: str
    """The day that it was true on."""
    later: int = 0
    """By how many days a last day may be later than the one that was reported, and count as it."""
    reported: tuple[str, int] | None = None
    """The last day that was reported as near, and the smallest lead day."""

    def changed(self, now: Fact) -> bool:
        """Tell whether the verdict is another one."""
        return now.valid != self.fact.valid

    def ending(self, now: Fact, day: str, leads: Sequence[int]) -> int | None:
        """Return the lead day that is reached and was not yet reported."""
        lead = now.ends_within(day, leads)
        if lead is None or self.reported is None or self.reported[1] > lead:
            return lead
        same = {_shifted(self.reported[0], days) for days in range(-SLACK, self.later + 1)}
        return None if str(now.last_day) in same else lead

    def is_due(self, now: Fact, day: str, leads: Sequence[int]) -> bool:
        """Tell whether there is something to report."""
        return self.changed(now) or self.ending(now, day, leads) is not None

    def is_shortened(self, now: Fact) -> bool:
        """Tell whether the check held and holds, and its last day is earlier, or no longer open."""
        ends = [each.last_day or "open" for each in (now, self.fact)]
        return self.fact.valid and now.valid and ends[0] < ends[1]

    def was_changed_by_load(self, then: Fact, leads: Sequence[int]) -> bool:
        """Tell whether something differs on the day of the last report.

        A lead day that is due for a last day that was told before is not due because of a load.
        """
        if self.changed(then) or self.is_shortened(then):
            return True
        is_new = then.last_day != self.fact.last_day
        return is_new and self.ending(then, self.day, leads) is not None


class Event(NamedTuple):
    """An event without its number and time."""

    type: str
    registration: str
    reference: str | None
    before: Any
    after: Any


@dataclass
class ModelWatch:
    """A watch, and what its account was told."""

    plate: str
    leads: Sequence[int]
    reference: str | None
    until: str | None
    day: str
    told: dict[str, Told] | None = None

    def state(self) -> Any:
        """Return what an answer about the watch has."""
        return self.told and {name: each.fact.answer() for name, each in self.told.items()}

    def is_changed_by_load(self, judge: Judge, today: str) -> bool:
        """Tell whether something is due or will be earlier, and a load has changed that."""
        now = judge(self.plate, today)
        if now is None or self.told is None:
            return (now is None) != (self.told is None)
        return any(self._waits(name, judge, now, today) for name in CHECKS)

    def _waits(self, name: str, judge: Judge, now: dict[str, Fact], today: str) -> bool:
        assert self.told
        told = self.told[name]
        if told.fact.last_day:
            day_before = _shifted(told.fact.last_day, -SLACK)
            before = judge(self.plate, day_before)
            if before and before[name].last_day == day_before:
                return False
        then = judge(self.plate, told.day)
        assert then
        is_due = told.is_due(now[name], today, self.leads) or told.is_shortened(now[name])
        return is_due and told.was_changed_by_load(then[name], self.leads)

    def tell(self, judge: Judge, today: str, *, holds: bool) -> list[Event]:
        """Return what is due, except what waits; from then on it was told."""
        now = judge(self.plate, today)
        self.day = today
        if now is None or self.told is None:
            if (now is None) == (self.told is None) or holds:
                return []
            before = self.state()
            self.told = _told(now, today)
            type_ = "vehicle.known" if now else "vehicle.unknown"
            return [Event(type_, self.plate, self.reference, before, self.state())]
        events = []
        for name in CHECKS:
            if not (holds and self._waits(name, judge, now, today)):
                events += self._tell_check(name, now[name], today)
        return events

    def _tell_check(self, name: str, now: Fact, today: str) -> list[Event]:
        assert self.told
        told = self.told[name]
        lead = told.ending(now, today, self.leads)
        due = ["changed"] * told.changed(now) + ["ending"] * (lead is not None)
        reported = told.reported if lead is None else (str(now.last_day), lead)
        self.told[name] = Told(now, today, told.later, reported)
        answers = told.fact.answer(), now.answer()
        return [Event(f"{name}.{each}", self.plate, self.reference, *answers) for each in due]


@dataclass
class ModelAccount:
    """The watches of an account."""

    watches: dict[str, ModelWatch] = field(default_factory=dict)

    def put(
        self, judge: Judge, today: str, plate: str, leads: Sequence[int], *terms: str | None
    ) -> None:
        """Create or replace a watch. A replaced one keeps what was told."""
        reference, until = terms
        kept = self.watches.get(plate)
        if kept is not None:
            kept.leads, kept.reference, kept.until = leads, reference, until
            return
        watch = self.watches[plate] = ModelWatch(plate, leads, reference, until, today)
        watch.told = _told(judge(plate, today), today)

    def sweep(self, judge: Judge, today: str, *, accepts: bool = False) -> tuple[list[Event], int]:
        """Return the events of a sweep, and how many watches have changes that are held back."""
        total = len(self.watches)
        events = []
        for watch in list(self.watches.values()):
            if watch.until is not None and watch.until < today:
                del self.watches[watch.plate]
                ended = "watch.ended", watch.plate, watch.reference, watch.state(), None
                events.append(Event(*ended))
        watches = self.watches.values()
        waiting = sum(each.is_changed_by_load(judge, max(today, each.day)) for each in watches)
        holds = not accepts and waiting >= HELD_MIN and waiting > HELD_SHARE * total
        for watch in watches:
            events += watch.tell(judge, max(today, watch.day), holds=holds)
        return events, waiting if holds else 0


def _told(facts: Facts, day: str) -> dict[str, Told] | None:
    if facts is None:
        return None
    later = {"mot": SLACK, "tax": SLACK}
    return {name: Told(fact, day, later.get(name, 0)) for name, fact in facts.items()}


def _shifted(day: str, days: int) -> str:
    return (date.fromisoformat(day) + timedelta(days)).isoformat()


def _day(end: float | None) -> str | None:
    return None if end in (None, inf) else date.fromordinal(int(end or 0)).isoformat()
