"""Removes old segments. Their digests stay, so that the chain still verifies (D119)."""

from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from app import clock
from app.audit.chain import Chain, Prune, Seal, pruned_of, seals_of, with_digest
from app.audit.index import drop_from_index
from app.audit.owner import require_host
from app.audit.record import time_of
from app.audit.seal import update_summary
from app.audit.segments import INDEX, SUFFIX, Segment, changing
from app.storage.files import sync


class Pruned(NamedTuple):
    """The result of a run."""

    segments: list[str]
    records: int
    bytes: int
    digest: str
    """The latest digest of the chain."""


def prune(directory: Path, before: str) -> Pruned:
    """Remove the sealed segments whose records are all older than a time.

    The chain notes them first, so that they can be told from segments that somebody removed. A run
    that was killed is completed by the next one.

    Args:
        before: the time, as records have it.

    Raises AuditError if there is no trail of this host or its chain was changed, and OSError.
    """
    require_host(directory)
    with changing(directory):
        chain = Chain(directory)
        known = pruned_of(chain.lines)
        old = [
            seal
            for name, seal in seals_of(chain.lines).items()
            if name not in known and (seal.last or seal.time) < before
        ]
        if old:
            line = Prune(
                time=time_of(clock.now_ns()),
                before=before,
                segments=[seal.segment for seal in old],
                previous=chain.digest,
            )
            chain.add(with_digest(line))
        _remove(directory, pruned_of(chain.lines))
        update_summary(directory, chain.lines)
    return Pruned(
        segments=[seal.segment for seal in old],
        records=_total(old, "records"),
        bytes=_total(old, "bytes"),
        digest=chain.digest,
    )


def _remove(directory: Path, names: set[str]) -> None:
    """Remove all segments that the chain has noted, also those of a run that was killed."""
    for name in names:
        with suppress(FileNotFoundError):
            (directory / f"{name}{SUFFIX}").unlink()
    segments = (Segment.parse(f"{name}{SUFFIX}") for name in names)
    # SEC: hashes of plates can be guessed.
    drop_from_index(directory, {segment.number for segment in segments if segment})
    sync(directory / INDEX)
    sync(directory)


def _total(seals: list[Seal], member: str) -> int:
    return sum(getattr(seal, member) for seal in seals)
