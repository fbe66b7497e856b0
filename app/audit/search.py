"""Finds the records of a plate, an account or a user."""

import os
import re
from calendar import monthrange
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import msgspec

from app import clock
from app.audit.chain import Seal, pruned_of, readable_lines, seals_of
from app.audit.index import (
    BLOCK_BYTES,
    IndexReader,
    key_of,
    keys_in,
    list_index_files,
)
from app.audit.record import AuditError, Record, Row, find_record, row_of, time_of
from app.audit.segments import INDEX, Segment, line_groups, lines_beginning_in, list_segments
from app.storage.files import opened

_KEEP = re.compile(r"(?P<number>[1-9]\d{0,4})(?P<unit>[dmy])", re.ASCII)
_MONTHS = {"m": 1, "y": 12}
_LATEST = "9999"


class Period(NamedTuple):
    """From a time to a later one, both included, as records have them."""

    since: str = ""
    until: str = _LATEST

    def has(self, time: str) -> bool:
        """Tell whether a record of this time is in the period."""
        return self.since <= time <= self.until

    def overlaps(self, seal: Seal) -> bool:
        """Tell whether a sealed segment can have records of the period."""
        return seal.first <= self.until and seal.last >= self.since


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
    # NOTE: isoformat() leaves microseconds out if they are zero.
    return f"{moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec='microseconds')}Z"


def until_now(since: str | None, until: str | None) -> Period:
    """Return the period between two times, but not beyond now.

    Later records, such as that of the search itself, are not in the period.

    Args:
        since, until: as records have them; None for no limit.
    """
    now = time_of(clock.now_ns())
    return Period(since or "", min(until or now, now))


def time_before(keep: str) -> str:
    """Return the time that is an age such as `24m`, `730d` or `2y` ago, as records have it.

    Months and years are those of the calendar. Raises ValueError.
    """
    found = _KEEP.fullmatch(keep)
    if found is None:
        raise ValueError("must be a number of days, months or years, such as 730d, 24m or 2y")
    number, unit = int(found["number"]), found["unit"]
    today = clock.today(UTC)
    try:
        if unit == "d":
            return first_moment((today - timedelta(days=number)).isoformat())
        years, month = divmod(today.year * 12 + today.month - 1 - number * _MONTHS[unit], 12)
        day = min(today.day, monthrange(years, month + 1)[1])
        return first_moment(date(years, month + 1, day).isoformat())
    except (OverflowError, ValueError):
        return first_moment(date.min.isoformat())


def segments_in(directory: Path, period: Period) -> tuple[list[Segment], dict[str, Seal]]:
    """Return the segments that can have records of a period by number, and all seals by name.

    Raises OSError.
    """
    lines = readable_lines(directory)
    seals, pruned = seals_of(lines), pruned_of(lines)
    segments = [
        segment
        for segment in list_segments(directory)
        if segment.name not in pruned
        and (segment.name not in seals or period.overlaps(seals[segment.name]))
    ]
    return segments, seals


_PLANS_MAX = 5
"""How often a search begins again because `seal` merged files of the index meanwhile."""


class Query(NamedTuple):
    """The criteria of a search."""

    kind: str
    """`plate`, `account` or `user`."""
    value: str
    period: Period = Period()


class Part(NamedTuple):
    """A segment that has to be read."""

    segment: Segment
    blocks: list[int] | None
    """The blocks in which matching records may begin; None for all."""


def search(directory: Path, query: Query, *, scan: bool = False) -> Iterator[Record]:
    """Yield the records that match, in the order of the trail.

    A record that was found by a plate has only the entries of this plate: the others are other
    people's vehicles.

    Args:
        scan: read all records, in place of the index.

    Raises AuditError if a segment was removed meanwhile, and OSError.
    """
    for part in plan(directory, query, scan=scan):
        yield from _found_in(directory, part, query)


def newest(directory: Path, query: Query, most: int) -> tuple[list[Row], bool]:
    """Return the newest rows that match, latest first, and whether these are all.

    Memory is bounded by `most`, however large the records are. Raises as `search` does.
    """
    rows: list[Row] = []
    for part in reversed(plan(directory, query, scan=False)):
        room = most + 1 - len(rows)
        latest = deque(map(row_of, _found_in(directory, part, query)), maxlen=room)
        rows += reversed(latest)
        if len(rows) > most:
            return rows[:most], False
    return rows, True


def _found_in(directory: Path, part: Part, query: Query) -> Iterator[Record]:
    path = directory / part.segment.file_name
    try:
        yield from filter(None, (_matching(line, query) for line in _lines(path, part, query)))
    except FileNotFoundError as error:
        raise AuditError(f"{path} was removed meanwhile; search again") from error


def plan(directory: Path, query: Query, *, scan: bool) -> list[Part]:
    """Return the segments to read, oldest first. Raises AuditError, OSError."""
    for _ in range(_PLANS_MAX):
        segments, seals = segments_in(directory, query.period)
        try:
            blocks = {} if scan else _indexed(directory, query, segments, seals)
        except FileNotFoundError:
            continue  # It was merged into another file.
        return [
            Part(segment, blocks.get(segment.number))
            for segment in segments
            if blocks.get(segment.number) != []
        ]
    raise AuditError(f"the index of {directory} changes all the time; search again")


def _indexed(
    directory: Path, query: Query, segments: list[Segment], seals: Mapping[str, Seal]
) -> dict[int, list[int]]:
    """Return the blocks to read, by number of each sealed segment that the index covers."""
    wanted = {segment.number for segment in segments if segment.name in seals}
    key = key_of(query.kind, query.value)
    blocks: dict[int, list[int]] = {}
    for file in list_index_files(directory / INDEX):
        covered = wanted.intersection(range(file.first, file.last + 1))
        if not covered:
            continue
        with ExitStack() as opened:
            try:
                reader = opened.enter_context(IndexReader(directory / INDEX / file.name))
            except ValueError:
                continue  # It is damaged: the segments are read.
            blocks |= {number: [] for number in covered}
            for number, block in reader.find(key):
                if number in covered:
                    blocks[number].append(block)
    return blocks


def _lines(path: Path, part: Part, query: Query) -> Iterator[bytes]:
    """Yield the lines of a segment that can match."""
    # As it is in a record. PERF: decoding a line takes ten times as long as finding this in it.
    needle = msgspec.json.encode(query.value.encode(errors="replace").decode())
    if part.blocks is None:
        for _, lines in line_groups(path):
            yield from (line for line in lines if needle in line)
        return
    with opened(path, os.O_RDONLY | os.O_NOFOLLOW) as descriptor:
        for block in part.blocks:
            start = block * BLOCK_BYTES
            found = lines_beginning_in(descriptor, start, start + BLOCK_BYTES)
            yield from (line for line in found if needle in line)


def _matching(line: bytes, query: Query) -> Record | None:
    record = find_record(line)
    if record is None or not query.period.has(record.time):
        return None
    if (query.kind, query.value) not in keys_in(record):
        return None
    if query.kind == "plate":
        record.plates = [each for each in record.plates if each.plate == query.value]
    return record
