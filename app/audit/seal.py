"""Seals segments: closes them, and adds their digests to the chain."""

import hashlib
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

from app import clock
from app.audit.chain import Chain, Line, Seal, kept_seals_of, newest_number, seals_of, with_digest
from app.audit.index import add_index, complete_index, gather
from app.audit.open_segment import open_segment
from app.audit.owner import require_host
from app.audit.record import time_of
from app.audit.segments import (
    OWNER,
    Segment,
    changing,
    chunks,
    hour_of,
    is_open,
    list_segments,
)
from app.storage.files import read_bytes, replace, sync

_SUMMARY = "summary.json"


class Summary(msgspec.Struct, frozen=True):
    """The state of a trail after the last run of `seal`, or of `prune` after that.

    A small file holds it, so that frequent readers need not list the segments. It is no evidence:
    only the chain is.
    """

    sealed_at: int
    """When `seal` last succeeded, in Unix seconds, also if there was nothing to seal."""
    segments: int
    """Sealed segments that were not removed."""
    records: int
    bytes: int


def update_summary(directory: Path, lines: Sequence[Line]) -> None:
    """Write the summary of a trail after `prune`, if there is one. Raises OSError."""
    former = _read(directory)
    if former is not None:
        _write(directory, former.sealed_at, lines)


def find_summary(directory: Path) -> Summary | None:
    """Return the summary of a trail; None if there is no trail.

    Before the first run of `seal`, it says that an empty trail was sealed when the trail began.
    Raises OSError.
    """
    found = _read(directory)
    if found is not None:
        return found
    try:
        began = (directory / OWNER).stat().st_mtime
    except (FileNotFoundError, NotADirectoryError):
        return None
    return Summary(int(began), 0, 0, 0)


def _read(directory: Path) -> Summary | None:
    # The next run writes a damaged one again.
    with suppress(FileNotFoundError, NotADirectoryError, msgspec.DecodeError):
        return msgspec.json.decode(read_bytes(directory / _SUMMARY), type=Summary)
    return None


def _write(directory: Path, sealed_at: int, lines: Sequence[Line]) -> None:
    """Write the summary of a trail. Raises OSError."""
    seals = kept_seals_of(lines).values()
    summary = Summary(
        sealed_at=sealed_at,
        segments=len(seals),
        records=sum(seal.records for seal in seals),
        bytes=sum(seal.bytes for seal in seals),
    )
    replace(directory / _SUMMARY, msgspec.json.encode(summary) + b"\n")


class Digest(NamedTuple):
    """The size, the lines and the SHA-256 of a segment."""

    bytes: int
    records: int
    """How many lines it has."""
    sha256: str


class Sealed(NamedTuple):
    """The result of a run."""

    seals: list[Seal]
    """The lines that were added."""
    digest: str
    """The latest digest of the chain."""


def seal(directory: Path, *, current: bool) -> Sealed:
    """Seal every segment whose hour is over.

    A run that was killed is completed by the next one.

    Args:
        current: seal the segment of this hour, too. The next record begins another one.

    Raises AuditError if there is no trail of this host or its chain was changed, and OSError.
    """
    require_host(directory)
    with changing(directory):
        chain = Chain(directory)
        newest = newest_number(seals_of(chain.lines).values())
        # A segment with a lower number was added by hand: `verify` names it.
        unsealed = [each for each in list_segments(directory) if each.number > newest]
        # Only the last can still be appended to. All before it are due, even if the clock was set
        # back into their hour: the chain must not skip them.
        if unsealed and not _is_due(directory, unsealed[-1], current=current):
            unsealed.pop()
        added = [_seal_one(directory, segment, chain) for segment in unsealed]
        kept = kept_seals_of(chain.lines)
        there = [each for each in list_segments(directory) if each.name in kept]
        complete_index(directory, there)
        _write(directory, clock.now(), chain.lines)
    return Sealed(added, chain.digest)


def digest_file(path: Path) -> Digest:
    """Return the digest of a file, and how many lines it has. Raises OSError."""
    sha256, size, records = hashlib.sha256(), 0, 0
    for piece in chunks(path):
        sha256.update(piece)
        size += len(piece)
        records += piece.count(b"\n")
    return Digest(size, records, sha256.hexdigest())


def _is_due(directory: Path, segment: Segment, *, current: bool) -> bool:
    found = (directory / segment.file_name).stat()
    # A segment of an hour that is still to come was begun before the clock was set back.
    if segment.hour != hour_of(clock.now_ns()) or not is_open(found.st_mode):
        return True
    return current and found.st_size > 0


def _seal_one(directory: Path, segment: Segment, chain: Chain) -> Seal:
    path = directory / segment.file_name
    _close(directory, segment)
    digest = digest_file(path)
    gathered = gather(path, segment.number, directory)
    line = with_digest(
        Seal(
            time=time_of(clock.now_ns()),
            segment=segment.name,
            records=digest.records,
            bytes=digest.bytes,
            first=gathered.first,
            last=gathered.last,
            sha256=digest.sha256,
            index=gathered.entries.digest(),
            previous=chain.digest,
        )
    )
    chain.add(line)
    add_index(directory, segment, gathered.entries)
    return line


def _close(directory: Path, segment: Segment) -> None:
    """Close a segment for all processes, and sync it."""
    path = directory / segment.file_name
    if is_open(path.stat().st_mode):
        opened = open_segment(directory, segment)
        try:
            opened.close_for_all()
        finally:
            os.close(opened.descriptor)
    sync(path)
