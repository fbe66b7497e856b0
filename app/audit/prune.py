"""Removes old segments. Their digests stay, so that the chain still verifies (D119)."""

from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from app import clock
from app.audit.chain import Chain, Prune, kept_seals_of, pruned_of, with_digest
from app.audit.index import drop_from_index
from app.audit.owner import require_host
from app.audit.record import time_of
from app.audit.seal import update_summary
from app.audit.segments import INDEX, SUFFIX, changing, segment_number
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

    The chain notes them first, so that `verify` does not take them for segments that were removed
    by hand. The next run completes one that was killed.

    Args:
        before: the time, as records have it.

    Raises AuditError if there is no trail of this host or its chain was changed, and OSError.
    """
    require_host(directory)
    with changing(directory):
        chain = Chain(directory)
        kept = kept_seals_of(chain.lines).values()
        old = [seal for seal in kept if (seal.last or seal.time) < before]
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
        records=sum(seal.records for seal in old),
        bytes=sum(seal.bytes for seal in old),
        digest=chain.digest,
    )


def _remove(directory: Path, names: set[str]) -> None:
    """Remove all segments that the chain has noted, also those of a run that was killed."""
    for name in names:
        with suppress(FileNotFoundError):
            (directory / f"{name}{SUFFIX}").unlink()
    # SEC: hashes of plates can be guessed.
    drop_from_index(directory, {number for name in names if (number := segment_number(name))})
    sync(directory / INDEX)
    sync(directory)
