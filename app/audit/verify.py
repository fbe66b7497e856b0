"""Verifies a trail: compares every segment with the chain, and names what is wrong."""

import hashlib
import os
import stat
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from app.audit.chain import ChainLine, Seal, read_chain
from app.audit.digests import KeptDigests, compare
from app.audit.faults import CheckedChain, Fault, FaultKind, check_chain, segment_fault
from app.audit.index import IndexReader, list_index_files
from app.audit.record import find_record
from app.audit.seal import Digest, digest_file
from app.audit.segments import CHAIN, SUFFIX, line_groups, segment_number, unchanged
from app.audit.upkeep import (
    UpkeepRecords,
    age_notes,
    by_whom,
    gap_notes,
    prune_faults,
    read_upkeep,
    steps_back,
)
from app.audit.verified import Verified
from app.text import counted, printable

KEEP = "24m"
"""The age that is kept by default."""
_NUMBER = slice(8, 12)
"""Where an entry of the index has the number of its segment."""
_BATCH_ENTRIES = 65_536


class Verdict(NamedTuple):
    """The result of a verification."""

    faults: list[Fault]
    notes: list[Fault]
    """What is no fault, but should be known: where the time went back, changes of the age that is
    kept, and faults that somebody acknowledged."""
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
    kept: int = 0
    """How many digests of a text the chain was compared with."""


class _Files(NamedTuple):
    """The segments that a directory holds, by name."""

    digests: dict[str, Digest]
    """Those of the segments that can be read."""
    obstacles: dict[str, str]
    """Why the others cannot be read."""


def verify(
    directory: Path,
    digest: str | None = None,
    keep: str = KEEP,
    verified: Verified | None = None,
    kept: KeptDigests | None = None,
    known: Collection[str] = (),
) -> Verdict:
    """Compare a trail with its chain, and the chain with a digest that was kept elsewhere.

    Args:
        digest: a digest that `seal` printed.
        keep: the age by which to judge what was removed, where no record states one.
        verified: files that were sound before, which are read only if they changed or in their
            turn. By default all are read.
        kept: digests that were found in a text.
        known: other trails that the text may have digests of.

    Raises OSError, and AuditError if a segment is removed meanwhile.
    """
    with unchanged(directory):
        lines = read_chain(directory)
        chain, upkeep = check_chain(lines), read_upkeep(directory)
        compared = compare(directory, lines, kept, known) if kept else None
        verified = verified or Verified()
        files = _read_files(directory, chain.kept, verified)
        unsealed, unsealed_records, unsealed_faults = _read_unsealed(directory, files, chain.newest)
        faults = [
            *chain.faults,
            *prune_faults(lines, upkeep, keep),
            *(segment_fault("unreadable", *each) for each in sorted(files.obstacles.items())),
            *_segment_faults(chain, files),
            *unsealed_faults,
            *_kept_digest_faults(chain, digest),
            *(compared.faults if compared else ()),
            *_cut_faults(directory, chain),
            *_index_faults(directory, chain.kept.values(), verified),
        ]
    present = [seal for name, seal in chain.seals.items() if name in files.digests]
    # Nobody can accept that a segment was changed.
    accepted = [
        each
        for each in faults
        if each.kind == "pruned_early" and upkeep.find_acknowledged(each.subject, lines)
    ]
    steps = [step.note() for step in steps_back([*chain.seals.values()])]
    notes = [*age_notes(upkeep), *gap_notes(upkeep)]
    notes += [_acknowledged(each, lines, upkeep) for each in [*steps, *accepted]]
    notes += compared.notes if compared else ()
    return Verdict(
        faults=[each for each in faults if each not in accepted],
        notes=notes,
        segments=len(present),
        records=sum(seal.records for seal in present),
        pruned=len(chain.pruned),
        pruned_before=max((line.before for line in chain.pruned.values()), default=""),
        unsealed=unsealed,
        unsealed_records=unsealed_records,
        digest=chain.digests[-1] if chain.digests else "",
        kept=compared.used if compared else 0,
    )


def _acknowledged(fault: Fault, lines: Sequence[ChainLine], upkeep: UpkeepRecords) -> Fault:
    """Return a fault or note that also says who acknowledged it."""
    record = upkeep.find_acknowledged(fault.subject, lines)
    if record is None:
        return fault
    why = f": {record.reason}" if record.reason else ""
    since = (record.upkeep and record.upkeep.since) or record.time
    said = f"{fault.sentence}; acknowledged on {since}{by_whom(record)}{why}"
    return msgspec.structs.replace(fault, sentence=said)


def _read_files(directory: Path, kept: Mapping[str, Seal], verified: Verified) -> _Files:
    """Return the digest of each file that has the name of a segment, or why it has none.

    Args:
        kept: the seals of segments by name. A file that is not due counts as what was sealed.
    """
    files = _Files({}, {})
    for file_name in os.listdir(directory):
        if file_name.endswith(SUFFIX) and file_name != CHAIN:
            # SEC: a name that is no UTF-8 must not stop the answer that names it.
            path, name = directory / file_name, printable(file_name.removesuffix(SUFFIX))
            if obstacle := _obstacle(path):
                files.obstacles[name] = obstacle
            else:
                files.digests[name] = _digest_of(path, kept.get(name), verified)
    return files


def _digest_of(path: Path, seal: Seal | None, verified: Verified) -> Digest:
    """Return the digest of a segment, or what was sealed if it need not be read."""
    if seal is None or path.stat().st_size != seal.bytes:
        return digest_file(path)
    sealed = Digest(seal.bytes, seal.records, seal.sha256)
    if not verified.is_due(path, str(sealed)):
        return sealed
    found = digest_file(path)
    if found == sealed:
        verified.note_sound(path)
    return found


def _obstacle(path: Path) -> str:
    """Return why a segment cannot be read; empty if it can be."""
    # A pipe would never end, and what a link leads to can change at any time.
    if not stat.S_ISREG(path.lstat().st_mode):
        return "is not a regular file"
    if not os.access(path, os.R_OK):
        return f"cannot be read by user {os.geteuid()}"
    return ""


def _segment_faults(chain: CheckedChain, files: _Files) -> Iterator[Fault]:
    """Yield the faults of files that should not be there, then those of sealed segments."""
    kept = chain.kept
    sealed = {name: files.digests[name] for name in kept.keys() & files.digests.keys()}
    origins = {seal.sha256: name for name, seal in chain.seals.items() if seal.records}
    renamed = set()
    for name in sorted(_unexpected(chain, files)):
        digest = files.digests[name]
        origin = origins.get(digest.sha256, "")
        yield _unexpected_file(name, digest, origin, chain, is_there=origin in sealed)
        if origin in kept and origin not in sealed and name not in chain.pruned:
            renamed.add(origin)
    for name, seal in kept.items():
        if name in sealed:
            yield from _content_faults(name, seal, sealed, origins)
        elif name not in renamed and name not in files.obstacles:
            yield segment_fault("removed", name, "was removed")


def _unexpected(chain: CheckedChain, files: _Files) -> Iterator[str]:
    """Yield the names of files that are neither sealed nor waiting to be sealed."""
    kept, newest = chain.kept.keys(), chain.newest
    contents = {seal.sha256 for seal in chain.seals.values()}
    for name, digest in files.digests.items():
        # A copy may also have a number that is still to come.
        is_copy = digest.records > 0 and digest.sha256 in contents
        is_old = name in chain.pruned or segment_number(name) <= newest
        if name not in kept and (is_old or is_copy):
            yield name


def _unexpected_file(
    name: str, digest: Digest, origin: str, chain: CheckedChain, *, is_there: bool
) -> Fault:
    """Return the fault of a file that should not be there.

    Args:
        origin: the segment that was sealed with this content; empty if none was.
        is_there: whether that segment is still there.
    """
    if name in chain.pruned:
        what = 'was removed by age, but is there; run "verifyd audit prune" to remove it'
        if name in chain.seals and digest.sha256 != chain.seals[name].sha256:
            what += "; its content was changed"
        return segment_fault("restored", name, what)
    if origin in chain.pruned:
        return segment_fault("restored", name, f"is a copy of {origin}, which was removed")
    if origin and is_there:
        return segment_fault("duplicated", name, f"was added: it is a copy of {origin}")
    if origin:
        return segment_fault("renamed", origin, f"was renamed to {name}")
    return segment_fault("added", name, "was added: it was never sealed")


def _content_faults(
    name: str, seal: Seal, sealed: Mapping[str, Digest], origins: Mapping[str, str]
) -> Iterator[Fault]:
    """Yield the fault of a segment whose content is not what was sealed.

    Args:
        sealed: the digests of the sealed segments that are there.
        origins: the segment that was sealed with a content, by SHA-256.
    """
    digest = sealed[name]
    if digest.sha256 == seal.sha256:
        if (digest.records, digest.bytes) != (seal.records, seal.bytes):
            yield segment_fault(
                "count",
                name,
                f"has {counted(digest.records, 'record')} and {digest.bytes:,} bytes, but "
                f"the chain says {seal.records:,} and {seal.bytes:,}",
            )
        return
    origin = origins.get(digest.sha256, "")
    if origin and origin in sealed and sealed[origin].sha256 == seal.sha256:
        yield segment_fault("swapped", name, f"was swapped with {origin}")
    elif origin:
        yield segment_fault("duplicated", name, f"was replaced by a copy of {origin}")
    elif digest.bytes != seal.bytes:
        kind: FaultKind = "shortened" if digest.bytes < seal.bytes else "extended"
        what = f"was {kind}: {digest.bytes:,} bytes instead of {seal.bytes:,}"
        yield segment_fault(kind, name, what)
    else:
        yield segment_fault("changed", name, "was changed: its digest does not fit")


def _read_unsealed(
    directory: Path, files: _Files, newest_sealed: int
) -> tuple[int, int, list[Fault]]:
    """Return how many segments and records are not sealed yet, and what is wrong with them."""
    names = sorted(name for name in files.digests if segment_number(name) > newest_sealed)
    faults: list[Fault] = []
    records = 0
    number_before = newest_sealed
    for name in names:
        number = segment_number(name)
        if number > number_before + 1:
            what = f"follows number {number_before}: the segments between them were removed"
            faults.append(segment_fault("removed", name, what))
        elif number == number_before:
            faults.append(segment_fault("added", name, "has the number of another one"))
        number_before = number
        unreadable = 0
        for _, lines in line_groups(directory / f"{name}{SUFFIX}"):
            records += len(lines)
            unreadable += sum(find_record(line) is None for line in lines)
        if unreadable:
            what = f"has lines that are no records: {unreadable:,}"
            faults.append(segment_fault("unreadable", name, what))
    return len(names), records, faults


def _kept_digest_faults(chain: CheckedChain, digest: str | None) -> Iterator[Fault]:
    if digest is not None and digest.lower() not in chain.digests:
        yield Fault(
            "digest",
            "chain",
            "the chain does not contain the digest that you kept: its end was removed, or the "
            "chain was replaced",
        )


def _cut_faults(directory: Path, chain: CheckedChain) -> Iterator[Fault]:
    # A segment gets its line in the chain before its entries in the index.
    indexed = max((file.last for file in list_index_files(directory)), default=0)
    if indexed > chain.newest:
        yield Fault(
            "chain_cut",
            "chain",
            f"the chain ends before segment {indexed:08}, which was sealed: its end was removed",
        )


def _index_faults(directory: Path, seals: Iterable[Seal], verified: Verified) -> Iterator[Fault]:
    """Yield the files of the index by which a search may miss a record.

    A missing file does no harm, because its segments are read. Entries of removed segments do none
    either.

    Args:
        seals: those of all segments that were not removed because of their age.
    """
    digests = {seal.number: seal.index for seal in seals}
    for file in list_index_files(directory):
        wanted = {number: digest for number, digest in digests.items() if file.covers(number)}
        path = file.path_in(directory)
        if not wanted or not verified.is_due(path, " ".join(wanted.values())):
            continue
        if _leads_to_all(path, wanted):
            verified.note_sound(path)
        else:
            yield Fault(
                "index",
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
        with IndexReader(path) as reader:
            for entries in reader.batches(_BATCH_ENTRIES):
                if entries != sorted(entries) or entries[0] < latest:
                    return False
                latest = entries[-1]
                # PERF: a merged file has the entries of thousands of segments in any order.
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
