"""Finds the records of a plate, an account or a user."""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import NamedTuple, Self

import msgspec

from app import clock
from app.audit.chain import Seal
from app.audit.index import IndexReader, key_of, keys_in, list_index_files
from app.audit.record import AuditError, Record, find_record, time_of_moment
from app.audit.view import Stretch, View

_LATEST = chr(sys.maxunicode)
"""Later than any text."""


class TimeSpan(NamedTuple):
    """From a time to a later one, both included, as records have them."""

    since: str = ""
    until: str = _LATEST

    @classmethod
    def of(cls, since: str | None, until: str | None) -> Self:
        """Return the period between two times; None is no limit."""
        return cls(since or "", until or _LATEST)

    def has(self, time: str) -> bool:
        """Tell whether a record of this time is in the period."""
        return self.since <= time <= self.until

    def overlaps(self, seal: Seal | None) -> bool:
        """Tell whether a segment can have records of the period; it can if it is not sealed."""
        return seal is None or (seal.first <= self.until and seal.last >= self.since)


def first_moment(text: str) -> str:
    """Return when a day (UTC) or a time such as `2026-11-22T15:00Z` begins. Raises ValueError."""
    return _moment(text, timedelta())


def last_moment(text: str) -> str:
    """Return when a day (UTC) ends, or a time. Raises ValueError."""
    return _moment(text, timedelta(days=1, microseconds=-1))


def _moment(text: str, added: timedelta) -> str:
    day = clock.parse_iso_date(text)
    if day is not None:
        moment = datetime(day.year, day.month, day.day, tzinfo=UTC) + added
    else:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            raise ValueError("a time needs its offset, such as Z")
    try:
        return time_of_moment(moment.astimezone(UTC))
    except OverflowError as error:
        raise ValueError("a time must be in the years 1 to 9999 in UTC, too") from error


def time_before(age: str, time: str) -> str:
    """Return the beginning of the day (UTC) that is an age before a time, as records have it.

    Raises ValueError if the age or the time is none.
    """
    day = date.fromisoformat(time[: len("YYYY-MM-DD")])
    return first_moment(clock.date_before(age, day).isoformat())


_PLANS_MAX = 5
"""How often a search begins again because `seal` merged files of the index meanwhile."""


class Query(NamedTuple):
    """The criteria of a search."""

    kind: str
    """`plate`, `account` or `user`; or `operation`, for records of upkeep."""
    value: str
    period: TimeSpan = TimeSpan()


class SegmentPart(NamedTuple):
    """A segment that has to be read."""

    stretch: Stretch
    blocks: list[int] | None
    """The blocks in which matching records may begin; None for all."""

    def every_block(self) -> Sequence[int]:
        """Return all blocks that are read."""
        return self.stretch.every_block() if self.blocks is None else self.blocks


def search(
    view: View, query: Query, *, scan: bool = False, newest_first: bool = False
) -> Iterator[Record]:
    """Yield the records of a trail that match, in the order of the trail or in the opposite one.

    A record that was found by a plate has only the entries of this plate: the others are other
    people's vehicles.

    Args:
        scan: read all records, in place of the index.

    Raises AuditError if a segment was removed meanwhile, and OSError.
    """
    parts = plan(view, query, scan=scan)
    for part in reversed(parts) if newest_first else parts:
        yield from _found_in(part, query, part.blocks, newest_first=newest_first)


def _found_in(
    part: SegmentPart, query: Query, blocks: list[int] | None, *, newest_first: bool = False
) -> Iterator[Record]:
    # As it is in a record. PERF: decoding a line takes ten times as long as finding this in it.
    needle = msgspec.json.encode(query.value.encode(errors="replace").decode())
    for line in part.stretch.lines(blocks, needle, newest_first=newest_first):
        record = find_record(line)
        if record is None or not query.period.has(record.time):
            continue
        if (query.kind, query.value) in keys_in(record):
            if query.kind == "plate":
                record.plates = [each for each in record.plates if each.plate == query.value]
            yield record


class Estimate(NamedTuple):
    """What a search for everything would find."""

    records: int
    """Of these only the first two digits are meant."""
    seconds: float


_SAMPLE_BLOCKS = 16


def estimate(view: View, query: Query, use: Callable[[Record], object]) -> Estimate:
    """Estimate a search for everything from blocks in equal distances, which are read and used.

    Args:
        use: what is done with each record.

    Raises as `search` does.
    """
    began_ns = clock.monotonic_ns()
    blocks = [(part, part.every_block()) for part in plan(view, query, scan=False)]
    planned_ns = clock.monotonic_ns()
    total = sum(len(each) for _, each in blocks)
    step = max(1, total // _SAMPLE_BLOCKS)
    every = ((part, block) for part, each in blocks for block in each)
    records = read = 0
    for part, block in islice(every, step // 2, None, step):
        for record in _found_in(part, query, [block]):
            use(record)
            records += 1
        read += 1
    ended_ns = clock.monotonic_ns()
    factor = total / max(1, read)
    took_ns = planned_ns - began_ns + (ended_ns - planned_ns) * factor
    return Estimate(int(float(f"{records * factor:.1e}")), took_ns / 10**9)


def operations(view: View, name: str) -> Iterator[tuple[int, Record]]:
    """Yield the records of an operation of upkeep, each with the number of its segment.

    Segments that cannot be read are left out: `verify` names them. Raises as `plan` does.
    """
    query = Query("operation", name)
    for part in plan(view, query, scan=False):
        with suppress(OSError, AuditError):
            for record in _found_in(part, query, part.blocks):
                yield part.stretch.segment.number, record


def plan(view: View, query: Query, *, scan: bool) -> list[SegmentPart]:
    """Return the segments to read, oldest first. Raises AuditError, OSError."""
    stretches = [each for each in view.stretches if query.period.overlaps(each.seal)]
    for _ in range(_PLANS_MAX):
        try:
            blocks = {} if scan else _indexed(view.directory, query, stretches)
        except FileNotFoundError:
            continue  # It was merged into another file.
        return [
            SegmentPart(stretch, found)
            for stretch in stretches
            if (found := blocks.get(stretch.segment.number)) != []
        ]
    raise AuditError(f"the index of {view.directory} changes all the time; search again")


def _indexed(directory: Path, query: Query, stretches: Iterable[Stretch]) -> dict[int, list[int]]:
    """Return the blocks to read, by number of each sealed segment that the index covers."""
    wanted = {stretch.segment.number for stretch in stretches if stretch.seal is not None}
    key = key_of(query.kind, query.value)
    blocks: dict[int, list[int]] = {}
    for file in list_index_files(directory):
        covered = wanted.intersection(range(file.first, file.last + 1))
        if not covered:
            continue
        found: dict[int, list[int]] = {number: [] for number in covered}
        try:
            with IndexReader(file.path_in(directory)) as reader:
                for number, block in reader.find(key):
                    if number in covered:
                        found[number].append(block)
        except FileNotFoundError:
            raise
        except (OSError, ValueError):
            continue  # It is damaged, or no file: the segments are read.
        blocks |= found
    return blocks
