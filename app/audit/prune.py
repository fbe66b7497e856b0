"""Removes old segments. Their digests stay, so that the chain still verifies (D119).

What cannot be taken back waits for a person if the clock jumped, or if it is much (D164).
"""

from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from app import clock
from app.actions import Session
from app.audit.chain import (
    Chain,
    Prune,
    Seal,
    kept_seals_of,
    pruned_of,
    read_chain,
    seals_of,
    with_digest,
)
from app.audit.index import drop_from_index
from app.audit.owner import require_host
from app.audit.record import AuditError, Record, Upkeep, time_of
from app.audit.seal import seal, update_summary
from app.audit.search import time_before
from app.audit.segments import SUFFIX, changing, segment_number
from app.audit.trail import durable
from app.audit.upkeep import PRUNE, acknowledged_steps, carried, read_upkeep, times_of
from app.storage.files import sync

CLOCK: Final = "clock"
AMOUNT: Final = "amount"
_UNKNOWN: Final = Session(None, None)
HOURS_MAX = 7 * 24
"""How many hours of records a run removes unless more are accepted. A nightly run removes 24."""


class PruneRefused(AuditError):
    """Records are not removed unless somebody accepts that. The message has no data."""


class Pruned(NamedTuple):
    """The result of a run."""

    segments: list[str]
    records: int
    bytes: int
    digest: str
    """The latest digest of the chain."""
    before: str
    """All records that were removed are older than this time."""


def prune(
    directory: Path,
    keep: str,
    *,
    setting: str = "",
    before: str = "",
    accepted: Collection[str] = (),
    jump: str = "",
    by: Session = _UNKNOWN,
    noted: Callable[[Upkeep], object] | None = None,
) -> Pruned:
    """Remove the sealed segments that are older than an age.

    A record of the run is sealed first. Then the chain notes the segments, so that `verify` does
    not take them for some that were removed by hand. The next run completes one that was killed.

    Args:
        keep: the age that is kept, such as `24m`.
        setting: the age that was kept before a record stated one; by default, the same.
        before: a time; only what is older than it is removed. By default, the age decides.
        accepted: `clock` to trust a clock that jumped, `amount` to remove more than usual.
        jump: why the clock is not trusted; empty if it is.
        by: who asks for it.
        noted: called before anything is removed, once the trail has its record of the run.

    Raises PruneRefused; AuditError if there is no trail of this host or its chain was changed; and
    OSError.
    """
    owner = require_host(directory)
    before = before or time_before(keep, time_of(clock.now_ns()))
    with changing(directory):
        chain = Chain(directory)
        old = _old(directory, chain, before)
    upkeep = read_upkeep(directory)
    stated = upkeep.prunes[-1][1].upkeep if upkeep.prunes else None
    former = (stated and stated.keep) or setting or keep
    if old:
        _require_accepted(old, accepted, jump)
    if old or keep != former:
        note = Upkeep(keep=keep, before=before, segments=len(old), accepted=sorted(accepted))
        record = Record(
            time=time_of(clock.now_ns()),
            operation=PRUNE,
            unverified=True,
            upkeep=note,
            **by._asdict(),
        )
        removed_numbers = {each.number for each in old}
        lost = upkeep.acknowledgements_in(removed_numbers, read_chain(directory))
        with durable(directory, owner) as trail:
            trail.append(record, *map(carried, lost))
        seal(directory, current=True)
        if noted is not None:
            noted(note)
    with changing(directory):
        chain = Chain(directory)
        removed = [each for each in _old(directory, chain, before) if each in old]
        if removed:
            line = Prune(
                time=time_of(clock.now_ns()),
                before=before,
                segments=[seal.segment for seal in removed],
                previous=chain.digest,
            )
            chain.add(with_digest(line))
        _remove(directory, pruned_of(chain.lines))
        update_summary(directory, chain.lines)
    return Pruned(
        segments=[seal.segment for seal in removed],
        records=sum(seal.records for seal in removed),
        bytes=sum(seal.bytes for seal in removed),
        digest=chain.digest,
        before=before,
    )


def _old(directory: Path, chain: Chain, before: str) -> list[Seal]:
    """Return the kept segments that are older than a time."""
    seals = list(seals_of(chain.lines).values())
    times = times_of(seals, acknowledged_steps(seals, read_upkeep(directory)))
    return [seal for seal in kept_seals_of(chain.lines).values() if times[seal.segment] < before]


def _require_accepted(old: list[Seal], accepted: Collection[str], jump: str) -> None:
    """Raise PruneRefused if a person must look first."""
    if jump and CLOCK not in accepted:
        raise PruneRefused(
            f"nothing was removed, because {jump}. If the clock is right now, run "
            '"verifyd audit prune --accept-clock" once'
        )
    hours = len({seal.segment.partition("-")[2] for seal in old})
    if hours > HOURS_MAX and AMOUNT not in accepted:
        raise PruneRefused(
            f"nothing was removed, because that would be {hours:,} hours of records, more than "
            f'{HOURS_MAX}. If they shall go, run "verifyd audit prune --accept-amount" once'
        )


def _remove(directory: Path, names: set[str]) -> None:
    """Remove all segments that the chain has noted, also those of a run that was killed."""
    # SEC: a forged line can name any file.
    numbers = {name: number for name in names if (number := segment_number(name))}
    for name in numbers:
        with suppress(FileNotFoundError):
            (directory / f"{name}{SUFFIX}").unlink()
    # SEC: hashes of plates can be guessed.
    drop_from_index(directory, {*numbers.values()})
    sync(directory)
