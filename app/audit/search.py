"""Finds the records of a plate, an account or a user (D117)."""

import os
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import msgspec

from app.audit.chain import Seal, pruned_of, read_chain, seals_of
from app.audit.index import (
    BLOCK_BYTES,
    IndexReader,
    key_of,
    keys_in,
    list_index_files,
)
from app.audit.lines import line_groups, lines_beginning_in
from app.audit.period import Period
from app.audit.record import AuditError, Record, decode_record
from app.audit.rows import Row, row_of
from app.audit.segments import INDEX, Segment, list_segments

_PLANS_MAX = 5
"""How often a search begins again because `seal` merged files of the index meanwhile."""


class Query(NamedTuple):
    """What a search asks for."""

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

    Of a record that was found by a plate, only the entries of this plate are yielded: the others
    are other people's vehicles.

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
        lines = [each.line for each in read_chain(directory) if each.line is not None]
        seals, pruned = seals_of(lines), pruned_of(lines)
        segments = [
            segment
            for segment in list_segments(directory)
            if segment.name not in pruned
            and (segment.name not in seals or query.period.overlaps(seals[segment.name]))
        ]
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
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        for block in part.blocks:
            start = block * BLOCK_BYTES
            found = lines_beginning_in(descriptor, start, start + BLOCK_BYTES)
            yield from (line for line in found if needle in line)
    finally:
        os.close(descriptor)


def _matching(line: bytes, query: Query) -> Record | None:
    try:
        record = decode_record(line)
    except msgspec.DecodeError:
        return None
    if not query.period.has(record.time) or (query.kind, query.value) not in keys_in(record):
        return None
    if query.kind == "plate":
        record.plates = [each for each in record.plates if each.plate == query.value]
    return record
