"""What a trail says about itself: how old its segments are, and which prunes were in order (D164).

A clock can be wrong, so no single time is trusted: a segment is as old as the latest of its
records, its seal and all earlier seals. Where the time went back, `verify` notes it. An operator
who knows that the clock was ahead before acknowledges that, and too late times no longer count.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from app import clock
from app.actions import Session
from app.audit.chain import ChainLine, Prune, Seal, newest_number, read_chain
from app.audit.faults import Fault, chain_fault, segment_fault
from app.audit.owner import require_host
from app.audit.record import AuditError, Record, Upkeep, time_of, time_of_moment
from app.audit.search import operations, time_before
from app.audit.segments import segment_number
from app.audit.trail import record_use
from app.audit.view import view_of
from app.settings import values
from app.text import counted

PRUNE: Final = "prune"
ACKNOWLEDGE: Final = "acknowledge"
GAP: Final = "gap"
NEVER = "9999"
"""The time of a segment of which nothing says how old it is."""
_TOLERANCE = timedelta(seconds=5)
"""So far apart the clocks of a record and its seal can be, as after a correction by NTP."""


class Step(NamedTuple):
    """A place in the chain where the time went back."""

    seal: Seal
    """The seal before it: its records or its time are later than what follows."""
    back_to: str
    is_ahead: bool
    """Whether the clock may have been ahead before. One that went back to a time before the trail
    was behind afterwards, as on a host that boots in 1970."""

    @property
    def limit(self) -> str:
        """The latest time that is not too late."""
        return _later(self.back_to)

    def note(self) -> Fault:
        """Return the note of `verify`."""
        what = f"ends at {_latest(self.seal)}, and then the time went back to {self.back_to}"
        return segment_fault("ahead", self.seal.segment, what)


class UpkeepRecords(NamedTuple):
    """The records of a trail about itself."""

    prunes: list[tuple[int, Record]]
    """With the number of the segment that each is in."""
    acknowledgements: list[tuple[int, Record]]
    """With the number of the segment that each is in."""
    gaps: list[Record]
    """Times without the trail."""

    def find_acknowledged(self, subject: str, lines: Sequence[ChainLine] = ()) -> Record | None:
        """Return the first record that accepts a fault or note; None if there is none.

        Args:
            subject: a segment, or a line such as `chain:57`.
            lines: the chain, for the fault of a line.
        """
        return next((record for _, record in self._acknowledging(subject, lines)), None)

    def acknowledgements_in(self, segments: set[int], lines: Sequence[ChainLine]) -> list[Record]:
        """Return the records that nothing would be accepted without if these segments went."""
        subjects = dict.fromkeys(r.upkeep.fault or "" for _, r in self.acknowledgements if r.upkeep)
        found = []
        for subject in subjects:
            accepting = [*self._acknowledging(subject, lines)]
            if accepting and segments.issuperset(each for each, _ in accepting):
                found.append(accepting[0][1])
        return found

    def _acknowledging(
        self, subject: str, lines: Sequence[ChainLine]
    ) -> Iterator[tuple[int, Record]]:
        """Yield the records that accept a fault or note, with the numbers of their segments."""
        kind, _, number = subject.partition(":")
        before = lines[: int(number)] if kind == "chain" and number.isdecimal() else ()
        seals = [each.line for each in before if isinstance(each.line, Seal)]
        # SEC: what was sealed before was forged: nobody could know of the fault.
        newest = max(segment_number(subject), newest_number(seals))
        for place, record in self.acknowledgements:
            if place > newest and record.upkeep and record.upkeep.fault == subject:
                yield place, record

    def find_prune(self, line: Prune, newest: int) -> Record | None:
        """Return the record of a line of the chain; None if it has none.

        Args:
            newest: the number of the newest segment that was sealed before the line.
        """
        return next(
            (
                record
                for number, record in reversed(self.prunes)
                if number <= newest and record.upkeep and record.upkeep.before == line.before
            ),
            None,
        )


def read_upkeep(directory: Path) -> UpkeepRecords:
    """Return what a trail says about itself. Raises AuditError, OSError."""
    view = view_of(directory)
    return UpkeepRecords(
        [*operations(view, PRUNE)],
        [*operations(view, ACKNOWLEDGE)],
        [record for _, record in operations(view, GAP)],
    )


def steps_back(seals: Sequence[Seal]) -> list[Step]:
    """Return where the time went back by more than 5 s, in the order of the chain."""
    nexts = [each.time for each in seals[1:]] + [NEVER]
    steps = []
    for seal, following in zip(seals, nexts, strict=False):
        back_to = min(seal.time, following)
        steps.append(Step(seal, back_to, is_ahead=back_to >= seals[0].time))
    return [step for step in steps if _latest(step.seal) > step.limit]


def times_of(seals: Sequence[Seal], acknowledged: Sequence[Step]) -> dict[str, str]:
    """Return the time that each segment is at least as old as, by its name.

    Args:
        seals: all of the chain, in its order.
        acknowledged: where the clock was ahead until then.
    """
    limits = {step.seal.segment: step.limit for step in acknowledged}
    limit, sound = NEVER, list[tuple[Seal, list[str]]]()
    for seal in reversed(seals):
        limit = min(limit, limits.get(seal.segment, NEVER))
        sound.append((seal, [each for each in (seal.last, seal.time) if each <= limit]))
    # What was sealed with a wrong time is not younger than the next seal with a right one.
    following, latest = NEVER, dict[str, str]()
    for seal, times in sound:
        following = seal.time if seal.time in times else following
        latest[seal.segment] = max([following, *times])
    reached, found = "", dict[str, str]()
    for seal, times in reversed(sound):
        reached = max([reached, *times])
        found[seal.segment] = max(reached, latest[seal.segment])
    return found


def _run_fault(
    line: Prune,
    record: Record | None,
    keep: str,
    latest: str,
    times: Mapping[str, str],
    *,
    needs_record: bool,
) -> str:
    """Return what is wrong with a run that removed segments, as a clause; empty if nothing is.

    Args:
        record: None if an earlier release did it, if it was removed by age, or if it was forged.
        keep: the age that the run had to keep; empty if nothing says so any more.
        latest: the time of what followed it in the chain, or now if that is earlier.
        times: how old the segments are that were there.
    """
    missing = [name for name in line.segments if name not in times]
    if missing:
        return f"names {missing[0]}, which was not there"
    if line.time > _later(latest):
        return f"of {line.time} was dated ahead"
    try:
        limit = time_before(keep, line.time) if keep else line.time
    except ValueError:
        return f"of {line.time} has no valid time"
    if line.before > limit:
        kept = f"{keep} must be kept" if keep else "that was still to come"
        return f"of {line.time} removed what was before {line.before}, but {kept}"
    young = [name for name in line.segments if times[name] >= line.before]
    if young:
        return f"removed what was before {line.before}, but {young[0]} is younger"
    return "has no record of who ran it" if needs_record and not record else ""


def prune_faults(lines: Sequence[ChainLine], upkeep: UpkeepRecords, keep: str) -> Iterator[Fault]:
    """Yield a fault for each run that removed what it must not remove.

    Args:
        keep: the age to judge by where no record states one.
    """
    readable = [(each.number, each.line) for each in lines if each.line is not None]
    seals = [line for _, line in readable if isinstance(line, Seal)]
    sound = times_of(seals, acknowledged_steps(seals, upkeep))
    last = {seal.segment: seal.last for seal in seals}
    removed_by = {
        name: n for n, line in readable if isinstance(line, Prune) for name in line.segments
    }
    first = next(iter(upkeep.prunes), None)
    now = time_of(clock.now_ns())
    nexts = [line.time for _, line in readable[1:]] + [now]
    newest: Seal | None = None
    there = set[str]()
    for (number, line), following in zip(readable, nexts, strict=False):
        if isinstance(line, Seal):
            newest = line
            there.add(line.segment)
            continue
        sealed = 0 if newest is None else newest.number
        record = upkeep.find_prune(line, sealed)
        # Its record was removed by age since, or would have been.
        is_old = newest is not None and removed_by.get(newest.segment, 0) > number
        stated = _keep_of(record or (None if is_old else first and first[1]))
        times = sound if record else last
        what = _run_fault(
            line,
            record,
            stated or ("" if is_old else keep),
            # SEC: a seal that was dated ahead, too, may follow.
            min(following, now),
            {name: times[name] for name in there.intersection(line.segments)},
            needs_record=not is_old and first is not None and first[0] <= sealed,
        )
        if what:
            count = counted(len(line.segments), "segment")
            yield chain_fault("pruned_early", number, f"removed {count}: the run {what}")
        there.difference_update(line.segments)


def acknowledge(directory: Path, keep: str, subject: str, by: Session, reason: str | None) -> Fault:
    """Record that somebody accepts a fault of a prune, or that the clock was ahead; return it.

    Args:
        keep: as for `prune_faults`.
        subject: a line such as `chain:57`, or a segment, as `verify` names them.

    Raises AuditError if there is nothing to accept, and OSError.
    """
    owner = require_host(directory)
    lines, upkeep = read_chain(directory), read_upkeep(directory)
    seals = [each.line for each in lines if isinstance(each.line, Seal)]
    steps = {step.seal.segment: step for step in steps_back(seals)}
    faults = {each.subject: each for each in prune_faults(lines, upkeep, keep)}
    if subject in steps and not steps[subject].is_ahead:
        raise AuditError(
            f"the clock was not ahead in {subject}: it was behind afterwards, so nothing is wrong "
            "with its times"
        )
    found = steps[subject].note() if subject in steps else faults.get(subject)
    if found is not None and (former := upkeep.find_acknowledged(subject, lines)):
        raise AuditError(f"{subject} was acknowledged before{by_whom(former)}")
    if found is None:
        raise AuditError(
            f'{subject} has no fault that can be acknowledged; "verifyd audit verify" names them'
        )
    record = Record(
        time=time_of(clock.now_ns()),
        operation=ACKNOWLEDGE,
        unverified=True,
        upkeep=Upkeep(fault=subject),
        reason=reason,
        **by._asdict(),
    )
    record_use(directory, owner, record)
    return found


def carried(record: Record) -> Record:
    """Return an acknowledgement as it is written again, with the time at which it was made."""
    accepted = record.upkeep or Upkeep()
    kept = msgspec.structs.replace(accepted, since=accepted.since or record.time)
    return msgspec.structs.replace(record, time=time_of(clock.now_ns()), upkeep=kept)


def acknowledged_steps(seals: Sequence[Seal], upkeep: UpkeepRecords) -> list[Step]:
    """Return where an operator has acknowledged that the clock was ahead."""
    steps = steps_back(seals)
    return [each for each in steps if each.is_ahead and upkeep.find_acknowledged(each.seal.segment)]


def _keep_of(record: Record | None) -> str:
    """Return the age that a record states; empty if it states none, or something else."""
    keep = record and record.upkeep and record.upkeep.keep
    with suppress(ValueError):
        return values.calendar_age(keep or "")
    return ""


def age_notes(upkeep: UpkeepRecords) -> Iterator[Fault]:
    """Yield a note for each change of the age that is kept."""
    for (_, before), (number, after) in pairwise(upkeep.prunes):
        was, is_now = (each.upkeep.keep if each.upkeep else None for each in (before, after))
        if was != is_now:
            what = f"since {after.time} {is_now} are kept instead of {was}{by_whom(after)}"
            yield Fault("age", f"{number:08}", what)


def gap_notes(upkeep: UpkeepRecords) -> Iterator[Fault]:
    """Yield a note for each time in which an operator had switched the trail off (D166)."""
    for record in upkeep.gaps:
        gap = record.upkeep or Upkeep()
        why = f": {record.reason}" if record.reason else ""
        what = f"look-ups could go unrecorded from {gap.since} to {gap.until}"
        yield Fault("gap", gap.since or "", f"{what}{by_whom(record)}{why}")


def by_whom(record: Record) -> str:
    """Return who a record is of, as a clause; empty if it does not say so."""
    who = record.sudo_user or record.user or record.login
    return f" ({who})" if who else ""


def _latest(seal: Seal) -> str:
    return max(seal.last, seal.time)


def _later(time: str) -> str:
    """Return the time until which another one is taken for the same."""
    try:
        return time_of_moment(datetime.fromisoformat(time) + _TOLERANCE)
    except (ValueError, OverflowError):
        return time
