"""Checks that the index leads to every record that was sealed (D140)."""

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from app.audit import faults
from app.audit.chain import Seal, number_of
from app.audit.faults import Fault
from app.audit.index import ENTRY, HEADER, list_index_files
from app.audit.lines import chunks
from app.audit.segments import INDEX

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
                faults.INDEX,
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
