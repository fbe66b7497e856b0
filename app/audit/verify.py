"""Verifies a trail: compares every segment with the chain, and names what is wrong (D116)."""

import hashlib
import os
import stat
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from app.audit import chain
from app.audit import chain as faults
from app.audit.chain import (
    NO_DIGEST,
    ChainLine,
    Fault,
    Prune,
    Seal,
    chain_fault,
    number_of,
    read_chain,
    segment_fault,
)
from app.audit.index import ENTRY, HEADER, list_index_files
from app.audit.record import decode_record
from app.audit.seal import Digest, digest_file
from app.audit.segments import CHAIN, INDEX, SUFFIX, Segment, chunks, line_groups, unchanged

# Checks that no line of the chain was changed, removed, added or moved (D116).


class CheckedChain(NamedTuple):
    """What the lines of a chain say, as far as they can be read."""

    faults: list[Fault]
    seals: dict[str, Seal]
    """By name of the segment."""
    pruned: dict[str, Prune]
    """By name of the segment."""
    digests: list[str]
    """Those of all lines, oldest first."""


def check_chain(lines: Sequence[ChainLine]) -> CheckedChain:
    """Return what the chain says, and what is wrong with it."""
    found = list(_line_faults(lines))
    read = [each.line for each in lines if each.line is not None]
    seals: dict[str, Seal] = {}
    pruned: dict[str, Prune] = {}
    for line in read:
        if isinstance(line, Seal):
            seals.setdefault(line.segment, line)
        else:
            pruned |= dict.fromkeys(line.segments, line)
    found += _prune_faults(pruned, seals)
    return CheckedChain(found, seals, pruned, [line.digest for line in read])


def _line_faults(lines: Sequence[ChainLine]) -> Iterator[Fault]:
    places = {each.line.digest: each.number for each in lines if each.line is not None}
    # Both digests of the line before: the one it has, and the one it should have.
    before = {NO_DIGEST}
    newest = 0
    for each in lines:
        line = each.line
        if line is None:
            yield chain_fault(chain.CHAIN_CHANGED, each.number, "cannot be read: it was changed")
            before = set()
            continue
        about = f" (segment {line.segment})" if isinstance(line, Seal) else ""
        if line.digest != each.digest:
            yield chain_fault(
                chain.CHAIN_CHANGED, each.number, f"was changed{about}: its digest does not fit"
            )
        elif before and line.previous not in before:
            yield chain_fault(
                chain.CHAIN_BROKEN,
                each.number,
                f"does not continue the line before it{about}: "
                + _cause(line, places, each.number, newest),
            )
        elif isinstance(line, Seal) and number_of(line) > newest + 1:
            yield _gap(newest + 1, number_of(line) - 1)
        before = {line.digest, each.digest}
        newest = max(newest, number_of(line)) if isinstance(line, Seal) else newest


def _gap(first: int, last: int) -> Fault:
    numbers = f"segment {first:08}" if first == last else f"segments {first:08} to {last:08}"
    return Fault(chain.REMOVED, f"{first:08}", f"{numbers}: removed before being sealed")


def _cause(line: Seal | Prune, places: dict[str, int], number: int, newest: int) -> str:
    """Return the most probable reason why a line does not continue the one before."""
    if line.previous in places:
        return f"it follows line {places[line.previous]}, so lines were moved or duplicated"
    if isinstance(line, Seal) and number_of(line) > newest + 1:
        missing = [str(n) for n in range(newest + 1, number_of(line))][:3]
        return f"the lines of segments from {missing[0]} to {number_of(line) - 1} were removed"
    if number == 1:
        return "lines before it were removed"
    return "a line between them was removed, or the line before was replaced"


def _prune_faults(pruned: dict[str, Prune], seals: dict[str, Seal]) -> Iterator[Fault]:
    for name, line in pruned.items():
        seal = seals.get(name)
        if seal is not None and seal.last >= line.before:
            yield chain.segment_fault(
                chain.PRUNED_EARLY,
                name,
                f"was removed as older than {line.before}, but has records of {seal.last}",
            )


# Checks that the index leads to every record that was sealed (D140).

_NUMBER = slice(8, 12)
"""Where an entry has the number of its segment."""


def index_faults(directory: Path, seals: Iterable[Seal]) -> Iterator[Fault]:
    """Yield the files of the index by which a search may miss a record.

    A file that is missing does no harm: its segments are read. Entries of segments that were
    removed do none either.

    Args:
        seals: those of all segments that were not removed by age.
    """
    digests = {number_of(seal): seal.index for seal in seals}
    for file in list_index_files(directory / INDEX):
        wanted = {number: digest for number, digest in digests.items() if file.covers(number)}
        path = directory / INDEX / file.name
        if wanted and not _leads_to_all(path, wanted):
            yield Fault(
                chain.INDEX,
                f"index:{file.name}",
                f"the index file {path} was changed, so searches may miss records: use --scan; "
                'to build it again, remove it and run "verifyd audit seal"',
            )


def _leads_to_all(path: Path, wanted: Mapping[int, str]) -> bool:
    """Tell whether an index file is sorted, and has the entries of segments that were sealed.

    Args:
        wanted: the digest of the entries of each segment, by its number.
    """
    sha256 = {number.to_bytes(4, "big"): hashlib.sha256() for number in wanted}
    latest = b""
    try:
        for entries in _batches(path):
            if entries != sorted(entries) or entries[0] < latest:
                return False
            latest = entries[-1]
            # PERF: a merged file has the entries of thousands of segments in turns.
            parts: dict[bytes, list[bytes]] = defaultdict(list)
            for entry in entries:
                parts[entry[_NUMBER]].append(entry)
            for number in parts.keys() & sha256.keys():
                sha256[number].update(b"".join(parts[number]))
    except (OSError, ValueError):
        return False
    return all(
        sha256[number.to_bytes(4, "big")].hexdigest() == digest for number, digest in wanted.items()
    )


def _batches(path: Path) -> Iterator[list[bytes]]:
    """Yield the entries of an index file. Raises OSError; ValueError if it is damaged."""
    rest, header = b"", HEADER
    for piece in chunks(path):
        if header and not piece.startswith(header):
            raise ValueError("no index")
        data = rest + piece[len(header) :]
        header = b""
        end = len(data) - len(data) % ENTRY.size
        rest = data[end:]
        if end:
            yield [data[at : at + ENTRY.size] for at in range(0, end, ENTRY.size)]
    if rest or header:
        raise ValueError("no index")


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
