"""Verifies a trail: compares every segment with the chain, and names what is wrong (D116)."""

import os
import stat
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from app.audit import faults
from app.audit.chain import Seal, number_of, read_chain
from app.audit.chain_check import CheckedChain, check_chain
from app.audit.faults import Fault, segment_fault
from app.audit.index import list_index_files
from app.audit.index_check import index_faults
from app.audit.lines import line_groups
from app.audit.record import decode_record
from app.audit.seal import Digest, digest_file
from app.audit.segments import CHAIN, INDEX, SUFFIX, Segment, unchanged


class Verdict(NamedTuple):
    """The result of a verification."""

    faults: list[Fault]
    segments: int
    """Sealed segments that are there."""
    records: int
    """Records in them, as the chain says."""
    pruned: int
    pruned_before: str
    """All records that were removed by age are older than this time; empty if none were."""
    unsealed: int
    """Segments that are not sealed yet."""
    unsealed_records: int
    digest: str
    """The latest digest of the chain; empty if nothing was ever sealed."""


def verify(directory: Path, digest: str | None = None) -> Verdict:
    """Compare a trail with its chain, and the chain with a digest that was kept elsewhere.

    Args:
        digest: a digest that `seal` printed.

    Raises OSError.
    """
    with unchanged(directory):
        lines = read_chain(directory)
        chain = check_chain(lines)
        found = list(chain.faults)
        names = {name for name in os.listdir(directory) if name.endswith(SUFFIX)} - {CHAIN}
        files = {name.removesuffix(SUFFIX) for name in names}
        obstacles = _obstacles(directory, files)
        found += (segment_fault(faults.UNREADABLE, *each) for each in sorted(obstacles.items()))
        files -= obstacles.keys()
        found += _segment_faults(directory, chain, files, obstacles)
        newest = max(map(number_of, chain.seals.values()), default=0)
        unsealed = sorted(name for name in files if _number(name) > newest)
        records, more = _unsealed(directory, unsealed, newest)
        found += more
        found += _digest_faults(directory, chain, digest)
        kept = [seal for name, seal in chain.seals.items() if name not in chain.pruned]
        found += index_faults(directory, kept)
    present = [seal for name, seal in chain.seals.items() if name in files]
    return Verdict(
        faults=found,
        segments=len(present),
        records=sum(seal.records for seal in present),
        pruned=len(chain.pruned),
        pruned_before=max((line.before for line in chain.pruned.values()), default=""),
        unsealed=len(unsealed),
        unsealed_records=records,
        digest=chain.digests[-1] if chain.digests else "",
    )


def _obstacles(directory: Path, names: Iterable[str]) -> dict[str, str]:
    """Return why segments cannot be read, by name: the others must be verified all the same."""
    found = {}
    for name in names:
        path = directory / f"{name}{SUFFIX}"
        # A pipe would never end, and what a link leads to can change at any time.
        if not stat.S_ISREG(path.lstat().st_mode):
            found[name] = "is not a regular file"
        elif not os.access(path, os.R_OK):
            found[name] = f"cannot be read by user {os.geteuid()}"
    return found


def _segment_faults(
    directory: Path, chain: CheckedChain, files: set[str], obstacles: Collection[str]
) -> Iterator[Fault]:
    """Yield the faults of all segments that are sealed, or should be.

    Args:
        files: the segments that can be read.
        obstacles: those that are there, but cannot be read.
    """
    wanted = {name: seal for name, seal in chain.seals.items() if name not in chain.pruned}
    found = {name: digest_file(directory / f"{name}{SUFFIX}") for name in files & wanted.keys()}
    newest = max(map(number_of, chain.seals.values()), default=0)
    strangers = {
        name: digest_file(directory / f"{name}{SUFFIX}")
        for name in files - wanted.keys()
        if name in chain.pruned or not newest < _number(name)
    }
    # Copies may also have been given a number that is still to come.
    strangers |= {
        name: digest
        for name in files - wanted.keys() - strangers.keys()
        if (digest := digest_file(directory / f"{name}{SUFFIX}")).records
        and digest.sha256 in {seal.sha256 for seal in chain.seals.values()}
    }
    contents = {seal.sha256: name for name, seal in chain.seals.items() if seal.records}
    renamed: set[str] = set()
    for name, digest in sorted(strangers.items()):
        origin = contents.get(digest.sha256, "")
        yield _stranger(name, digest, origin, chain, is_there=origin in found)
        if origin in wanted and origin not in found and name not in chain.pruned:
            renamed.add(origin)
    for name, seal in wanted.items():
        if name in found:
            yield from _content_fault(name, seal, found, contents)
        elif name not in renamed and name not in obstacles:
            yield segment_fault(faults.REMOVED, name, "was removed")


def _stranger(
    name: str, digest: Digest, origin: str, chain: CheckedChain, *, is_there: bool
) -> Fault:
    """Return the fault of a file that should not be there.

    Args:
        origin: the segment that was sealed with this content; empty if none was.
    """
    if name in chain.pruned:
        what = 'was removed by age, but is there; run "verifyd audit prune" to remove it'
        if name in chain.seals and digest.sha256 != chain.seals[name].sha256:
            what += "; its content was changed"
        return segment_fault(faults.RESTORED, name, what)
    if origin in chain.pruned:
        return segment_fault(faults.RESTORED, name, f"is a copy of {origin}, which was removed")
    if origin and is_there:
        return segment_fault(faults.DUPLICATED, name, f"was added: it is a copy of {origin}")
    if origin:
        return segment_fault(faults.RENAMED, origin, f"was renamed to {name}")
    return segment_fault(faults.ADDED, name, "was added: it was never sealed")


def _content_fault(
    name: str, seal: Seal, found: dict[str, Digest], contents: dict[str, str]
) -> Iterator[Fault]:
    """Yield the fault of a segment whose content is not what was sealed."""
    digest = found[name]
    if digest.sha256 == seal.sha256:
        if (digest.records, digest.bytes) != (seal.records, seal.bytes):
            yield segment_fault(
                faults.COUNT,
                name,
                f"has {digest.records:,} records and {digest.bytes:,} bytes, but the chain says "
                f"{seal.records:,} and {seal.bytes:,}",
            )
        return
    origin = contents.get(digest.sha256, "")
    if origin and origin in found and found[origin].sha256 == seal.sha256:
        yield segment_fault(faults.SWAPPED, name, f"was swapped with {origin}")
    elif origin:
        yield segment_fault(faults.DUPLICATED, name, f"was replaced by a copy of {origin}")
    elif digest.bytes < seal.bytes:
        what = f"was shortened: {digest.bytes:,} bytes instead of {seal.bytes:,}"
        yield segment_fault(faults.SHORTENED, name, what)
    elif digest.bytes > seal.bytes:
        what = f"was extended: {digest.bytes:,} bytes instead of {seal.bytes:,}"
        yield segment_fault(faults.EXTENDED, name, what)
    else:
        yield segment_fault(faults.CHANGED, name, "was changed: its digest does not fit")


def _unsealed(directory: Path, names: list[str], newest: int) -> tuple[int, list[Fault]]:
    """Return how many records are not sealed yet, and what is wrong with their segments."""
    found: list[Fault] = []
    records = 0
    for name in names:
        number = _number(name)
        if number > newest + 1:
            what = f"follows number {newest}: the segments between them were removed"
            found.append(segment_fault(faults.REMOVED, name, what))
        elif number == newest:
            found.append(segment_fault(faults.ADDED, name, "has the number of another one"))
        newest = number
        unreadable = 0
        for _, lines in line_groups(directory / f"{name}{SUFFIX}"):
            records += len(lines)
            unreadable += sum(not _is_record(line) for line in lines)
        if unreadable:
            what = f"has lines that are no records: {unreadable:,}"
            found.append(segment_fault(faults.UNREADABLE, name, what))
    return records, found


def _digest_faults(directory: Path, chain: CheckedChain, digest: str | None) -> Iterator[Fault]:
    if digest is not None and digest.lower() not in chain.digests:
        yield Fault(
            faults.DIGEST,
            "chain",
            "the chain does not contain the digest that you kept: its end was removed, or the "
            "chain was replaced",
        )
    # The index is made after the line of the chain.
    indexed = max((file.last for file in list_index_files(directory / INDEX)), default=0)
    if indexed > max(map(number_of, chain.seals.values()), default=0):
        yield Fault(
            faults.CHAIN_CUT,
            "chain",
            f"the chain ends before segment {indexed:08}, which was sealed: its end was removed",
        )


def _number(name: str) -> int:
    segment = Segment.parse(f"{name}{SUFFIX}")
    return segment.number if segment else 0


def _is_record(line: bytes) -> bool:
    try:
        decode_record(line)
    except msgspec.DecodeError:
        return False
    return True
