"""What an account was told about a watched vehicle: the verdict of each check (D184)."""

from collections.abc import Callable, Iterable, Mapping
from hashlib import blake2b
from typing import Final, NamedTuple

import msgspec
from msgspec import UNSET

from app.vehicles.compliance import Verdict, judge, judge_insurance, judge_mot, judge_tax
from app.vehicles.facts import Record
from app.vehicles.periods import good_until, has_too_many_policies, record_on
from app.vehicles.reader import FoundPlate


class Check(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The verdict of one check as an account was told it."""

    valid: bool
    reason: str
    last_day: str | None = None
    """The last day on which the check passes; None if it fails, or if no end is known."""
    reported: tuple[str, int] | None = None
    """The last day that was reported as near, and its smallest lead day that was; it stays when
    the last day moves, because a load can move it there and back."""
    day: str | None = None
    """The day that it was judged on, while it is held back; None for the day of its watch."""


class Checks(NamedTuple):
    """The four checks of a known vehicle."""

    insurance: Check
    mot: Check
    tax: Check
    fines: Check


ToldChecks = Checks | None
"""None for a vehicle that no register mentions."""
_with_last_day: Final[Mapping[str, Callable[[Record, str], Verdict]]] = {
    "insurance": judge_insurance,
    "mot": judge_mot,
    "tax": judge_tax,
}
encode = msgspec.json.Encoder().encode
decode: Callable[[str], ToldChecks] = msgspec.json.Decoder(ToldChecks).decode


class Seen:
    """What the registers say about one vehicle now, judged on any day from the first one.

    Args:
        record: of a look-up for `first_day` that asked for dates; None for an unknown vehicle.
        find: looks the same plate up for another day. It is needed if the vehicle has more policies
            than a look-up reads.
    """

    def __init__(
        self, record: Record | None, first_day: str, find: Callable[[str], Record | None]
    ) -> None:
        self._record = record
        self._first_day = first_day
        self._find = find
        self._judged: dict[str, ToldChecks] = {}

    def on(self, day: str) -> ToldChecks:
        """Return the verdicts of a day, as look-ups give them."""
        if day not in self._judged:
            self._judged[day] = self._judge(day)
        return self._judged[day]

    def _judge(self, day: str) -> ToldChecks:
        record = self._record
        if record is not None and day != self._first_day:
            is_whole = not has_too_many_policies(record)
            record = record_on(record, day) if is_whole else self._find(day)
        return None if record is None else checks_of(record, day)


def checks_of(record: Record, day: str) -> Checks:
    """Return the verdicts of a day.

    Args:
        record: of a look-up for this day, or an earlier one, that asked for dates.
    """
    found = judge(record, day)
    verdicts = zip(Checks._fields, found, strict=True)
    return Checks(*(_check(record, day, name, verdict) for name, verdict in verdicts))


def told_by_plate(found: Iterable[FoundPlate], day: str) -> dict[str, ToldChecks]:
    """Return the verdicts of a day for plates that are registrations, as they were asked for.

    Args:
        found: of a look-up for this day that asked for dates.
    """
    return {
        each.asked: None if each.record is None else checks_of(each.record, day) for each in found
    }


def _check(record: Record, day: str, name: str, verdict: Verdict) -> Check:
    judge_one = _with_last_day.get(name)
    is_countable = name != "insurance" or not has_too_many_policies(record)
    last_day = None
    if verdict.is_good and judge_one is not None and is_countable:
        until = good_until(record, day, judge_one)
        last_day = None if until is UNSET else until
    return Check(verdict.is_good, verdict.reason, last_day)


class CheckBody(msgspec.Struct, frozen=True, gc=False):
    """A check in an answer."""

    valid: bool
    reason: str
    lastDay: str | None  # noqa: N815 - the wire's spelling


def body_of(state: Check | ToldChecks) -> str:
    """Return a check, or all of them by name, as the JSON of answers; null for none."""
    return encode(answer_of(state)).decode()


def digest_of(told: ToldChecks) -> str:
    """Return a digest of what answers show of a state; the database has that of the trail's."""
    return blake2b(encode(answer_of(told)), digest_size=8).hexdigest()


def answer_of(state: Check | ToldChecks) -> CheckBody | Mapping[str, CheckBody] | None:
    """Return a check, or all of them by name, as answers have it; None for an unknown vehicle."""
    if state is None:
        return None
    if isinstance(state, Check):
        return CheckBody(state.valid, state.reason, state.last_day)
    return {
        name: CheckBody(each.valid, each.reason, each.last_day)
        for name, each in state._asdict().items()
    }
