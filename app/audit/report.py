"""Summarises a period of the trail, for whoever supervises it."""

from collections.abc import Sequence
from datetime import UTC, timedelta
from pathlib import Path

import msgspec

from app import clock
from app.audit.chain import Prune, Seal, read_chain
from app.audit.export import records_in
from app.audit.faults import Fault
from app.audit.period import Period
from app.audit.record import Record, time_of
from app.audit.search import Query, search
from app.audit.segments import list_segments
from app.audit.tallies import Peak, Tallies, Tally, Users, frequent_plates
from app.audit.verify import Verdict, verify

_USES = ("search", "export", "report")
"""Operations that look into the trail."""
REPORTED_DAYS = 30
_PLATES_SHOWN = 20
_PEAKS_SHOWN = 50
_NONE = "(none)"


class Requested(msgspec.Struct):
    """How often a plate was asked for."""

    plate: str
    times: int


class Refusal(msgspec.Struct):
    """How many look-ups of an account were not answered. The trail does not have them."""

    account: str
    refused: int
    """4xx without 429: unknown plates, too."""
    limited: int
    """429."""
    failed: int
    """5xx."""


class Held(msgspec.Struct):
    """What the trail of one host holds, and whether it verifies."""

    directory: str
    oldest: str
    """The earliest time of a sealed record; empty if there is none."""
    removed_before: str
    """Records older than this time were removed by age; empty if none were."""
    removed_segments: int
    segments: int
    records: int
    unsealed_records: int
    size_bytes: int
    digest: str
    faults: list[Fault]


class Report(msgspec.Struct):
    """A report. Members of the same name are those of its JSON."""

    generated_at: str
    since: str = msgspec.field(name="from")
    until: str = msgspec.field(name="to")
    look_ups: int
    plates: int
    not_found: int
    """Plates that no register mentions."""
    invalid: int
    """Texts that are no registrations."""
    by_account: list[Tally]
    by_reason: list[Tally]
    by_operation: list[Tally]
    by_day: list[Tally]
    top_plates: list[Requested]
    """The most requested first."""
    users_above_usual: list[Peak]
    are_all_users_compared: bool
    refusals: list[Refusal] | None
    """None if the database could not be read."""
    trails: list[Held]


def first_reported_day() -> str:
    """Return the day (UTC) from which a report counts, unless it is given another one."""
    return (clock.today(UTC) - timedelta(days=REPORTED_DAYS)).isoformat()


def report(
    directories: Sequence[Path], period: Period, refusals: list[Refusal] | None = None
) -> Report:
    """Read and verify the trails, and summarise the look-ups of a period.

    Args:
        refusals: those of the period; None if they are not known.

    Raises AuditError if a segment was removed meanwhile, and OSError.
    """
    counted = _Counted()
    for directory in directories:
        for _, record in records_in(directory, period):
            if record is not None:
                counted.add(record)
    return Report(
        generated_at=time_of(clock.now_ns()),
        since=period.since,
        until=period.until,
        look_ups=counted.look_ups,
        plates=counted.plates_asked,
        not_found=counted.not_found,
        invalid=counted.invalid,
        by_account=counted.accounts.most(),
        by_reason=counted.reasons.most(),
        by_operation=counted.operations.most(),
        by_day=counted.days.by_name(),
        top_plates=_top_plates(counted, directories, period),
        users_above_usual=counted.users.peaks()[:_PEAKS_SHOWN],
        are_all_users_compared=counted.users.are_all,
        refusals=refusals,
        trails=[_held(directory) for directory in directories],
    )


class _Counted:
    """What one pass over the records counts."""

    def __init__(self) -> None:
        self.look_ups = self.plates_asked = self.not_found = self.invalid = 0
        self.accounts, self.reasons = Tallies(), Tallies()
        self.operations, self.days = Tallies(), Tallies()
        self.plates, self.users = frequent_plates(), Users()

    def add(self, record: Record) -> None:
        plates = len(record.plates)
        self.operations.add(record.operation, plates)
        if record.operation in _USES:
            return
        self.look_ups += 1
        self.plates_asked += plates
        self.accounts.add(record.account or _NONE, plates)
        self.reasons.add(record.reason or _NONE, plates)
        self.days.add(record.time[: len("YYYY-MM-DD")], plates)
        self.users.add(record)
        for each in record.plates:
            self.invalid += each.invalid
            self.not_found += each.found is False
            self.plates.add(each.plate)


def _top_plates(counted: _Counted, directories: Sequence[Path], period: Period) -> list[Requested]:
    """Return the most requested plates. If there are too many plates, search for these again."""
    top = [Requested(plate, times) for plate, times in counted.plates.top(_PLATES_SHOWN)]
    if not counted.plates.is_exact:
        for each in top:
            query = Query("plate", each.plate, period)
            each.times = sum(_times(directory, query) for directory in directories)
    return sorted(top, key=lambda each: -each.times)


def _times(directory: Path, query: Query) -> int:
    found = search(directory, query)
    return sum(len(record.plates) for record in found if record.operation not in _USES)


def _held(directory: Path) -> Held:
    verdict: Verdict = verify(directory)
    lines = [each.line for each in read_chain(directory) if each.line is not None]
    pruned = {name for line in lines if isinstance(line, Prune) for name in line.segments}
    seals = [line for line in lines if isinstance(line, Seal) and line.segment not in pruned]
    return Held(
        directory=str(directory),
        oldest=min((seal.first for seal in seals if seal.first), default=""),
        removed_before=max((line.before for line in lines if isinstance(line, Prune)), default=""),
        removed_segments=verdict.pruned,
        segments=verdict.segments,
        records=verdict.records,
        unsealed_records=verdict.unsealed_records,
        size_bytes=sum(
            (directory / segment.file_name).stat().st_size for segment in list_segments(directory)
        ),
        digest=verdict.digest,
        faults=verdict.faults,
    )
