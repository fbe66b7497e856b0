"""Seals segments: closes them, and adds their digests to the chain (D116)."""

import hashlib
import os
from pathlib import Path
from typing import NamedTuple

from app import clock
from app.audit.chain import Chain, Seal, number_of, pruned_of, seals_of, with_digest
from app.audit.indexing import add_index, complete_index, gather
from app.audit.lines import chunks
from app.audit.open_segment import open_segment
from app.audit.owner import require_host
from app.audit.record import time_of
from app.audit.segments import INDEX, Segment, changing, hour_of, is_open, list_segments
from app.audit.summary import write_summary
from app.storage.files import sync


class Digest(NamedTuple):
    """What one pass over the bytes of a segment found."""

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
        newest = max(map(number_of, seals_of(chain.lines).values()), default=0)
        # One with a lower number was added by somebody else: `verify` names it.
        unsealed = [each for each in list_segments(directory) if each.number > newest]
        # Only the last can still be appended to. All before it are due, also if the clock was set
        # back into their hour: the chain must not go on without them.
        if unsealed and not _is_due(directory, unsealed[-1], current=current):
            unsealed.pop()
        added = [_seal_one(directory, segment, chain) for segment in unsealed]
        pruned = pruned_of(chain.lines)
        complete_index(
            directory,
            [
                segment
                for name in seals_of(chain.lines).keys() - pruned
                if (segment := Segment.parse(f"{name}.ndjson"))
                and (directory / segment.file_name).exists()
            ],
        )
        write_summary(directory, chain.lines)
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
    gathered = gather(path, segment.number, directory / INDEX)
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
    add_index(directory / INDEX, segment, gathered.entries)
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
