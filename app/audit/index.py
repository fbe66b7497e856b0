"""The index: in which parts of sealed segments a plate, an account or a user appears (D117).

The index is never evidence. It may be missing or damaged: then segments are read instead, and the
next `seal` builds it again. The chain has a digest of each segment's entries, so that `verify`
finds one that was changed, and would hide a record from searches (D140).

An index file is a header and sorted entries of 16 bytes: a hash of the key, the number of a
segment, and the number of a block of 64 KiB in it in which a record with this key begins. The
search reads these blocks, so that a key with an equal hash does no harm.
"""

import hashlib
import heapq
import logging
import os
import re
import struct
import tempfile
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import BinaryIO, NamedTuple, Self

from app.audit.record import Record, decode_record
from app.audit.segments import OPEN_MODE, Segment, line_groups, open_regular
from app.errors import BAD_JSON
from app.storage.files import sync

BLOCK_BYTES = 64 * 1024
_DIRECTORY = "index"
"""Below that of the trail."""
_HEADER = b"verifyd index 1\n"
_ENTRY = struct.Struct(">8sII")
_FOUND_ENTRIES = 1_024
_MERGED_ENTRIES = 4_096
"""How many entries of each file are in memory while files are merged."""
_NAME = re.compile(r"(?P<first>\d{8})-(?P<last>\d{8})\.(?P<level>\d)", re.ASCII)


class IndexFile(NamedTuple):
    """A file that covers all sealed segments from one number to another."""

    first: int
    last: int
    level: int
    """How many times its entries were merged."""

    @property
    def name(self) -> str:
        return f"{self.first:08}-{self.last:08}.{self.level}"

    def path_in(self, trail: Path) -> Path:
        """Return its path in the directory of a trail."""
        return trail / _DIRECTORY / self.name

    def covers(self, number: int) -> bool:
        """Tell whether the file has the entries of a segment."""
        return self.first <= number <= self.last

    @classmethod
    def parse(cls, name: str) -> Self | None:
        """Return the index file of this name; None if it is none."""
        found = _NAME.fullmatch(name)
        return cls(*(int(part) for part in found.groups())) if found else None


class IndexReader:
    """An index file that is searched, or read whole; `with` closes it.

    Raises OSError, also if it is no file; ValueError if the file is damaged.
    """

    def __init__(self, path: Path) -> None:
        self._descriptor = open_regular(path, os.O_RDONLY | os.O_CLOEXEC)
        size = os.fstat(self._descriptor).st_size
        self._entries, rest = divmod(size - len(_HEADER), _ENTRY.size)
        if rest or os.pread(self._descriptor, len(_HEADER), 0) != _HEADER:
            os.close(self._descriptor)
            raise ValueError("no index")
        self.reads = 0
        """How many entries were read to find the first one of a key."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        os.close(self._descriptor)

    def find(self, key: bytes) -> Iterator[tuple[int, int]]:
        """Yield the segments and blocks of a key, as `key_of` returns it, in order."""
        place = bisect_left(range(self._entries), key, key=self._key_at)
        # PERF: an account has an entry for nearly every block, 50,000 in ten million records.
        while entries := self._read(place, _FOUND_ENTRIES):
            for found, number, block in _ENTRY.iter_unpack(entries):
                if found != key:
                    return
                yield number, block
            place += _FOUND_ENTRIES

    def batches(self, number: int) -> Iterator[list[bytes]]:
        """Yield all entries in the order of the file, in lists of so many."""
        place = 0
        while entries := self._read(place, number):
            yield _split(entries)
            place += number

    def _key_at(self, place: int) -> bytes:
        self.reads += 1
        return self._read(place, 1)[: len(b"12345678")]

    def _read(self, place: int, number: int) -> bytes:
        return os.pread(self._descriptor, _ENTRY.size * number, len(_HEADER) + place * _ENTRY.size)


def list_index_files(trail: Path) -> list[IndexFile]:
    """Return the files of the index by their first segment, without those that others cover."""
    names: list[str] = []
    with suppress(FileNotFoundError, NotADirectoryError):
        names = os.listdir(trail / _DIRECTORY)
    chosen: list[IndexFile] = []
    # A file that covers more comes first.
    for each in sorted(
        filter(None, map(IndexFile.parse, names)), key=lambda each: (each.first, -each.last)
    ):
        if not chosen or each.last > chosen[-1].last:
            chosen.append(each)
    return chosen


def key_of(kind: str, value: str) -> bytes:
    """Return the hash of a plate, an account, a user or an operation of upkeep."""
    text = f"{kind}:{value}".encode(errors="surrogatepass")
    return hashlib.blake2b(text, digest_size=8).digest()


def keys_in(record: Record) -> Iterator[tuple[str, str]]:
    """Yield kind and value of everything by which a record is found."""
    for kind in ("account", "user"):
        value = getattr(record, kind)
        if value is not None:
            yield kind, value
    for plate in record.plates:
        yield "plate", plate.plate
    if record.upkeep is not None:
        yield "operation", record.operation
    if record.criteria is not None:
        # Whoever asks who looked at a plate also learns of those who searched the trail for it.
        for kind in ("plate", "account", "user"):
            value = getattr(record.criteria, kind)
            if value is not None:
                yield kind, value


# Builds the index of sealed segments, and merges its files so that they stay few (D117).

_FAN_IN = 16
"""How many files of one level are merged into one. Two years of hours are some 40 files."""
_RUN_ENTRIES = 100_000
"""How many entries are sorted in memory. They take 10 MB."""
_WRITE_ENTRIES = 16_384
_TEMPORARY = ".new"
_log = logging.getLogger("verifyd.trail")


class Gathered(NamedTuple):
    """What one pass over the records of a segment found."""

    first: str
    """The earliest time; empty if there is no record."""
    last: str
    entries: "Entries"


class Entries:
    """Sorts any number of entries in bounded memory.

    Args:
        directory: where temporary files are, which have no names.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._latest: list[bytes] = []
        self._runs: list[BinaryIO] = []

    def add(self, entries: Iterable[bytes]) -> None:
        """Add entries in any order. Raises OSError."""
        self._latest += entries
        if len(self._latest) >= _RUN_ENTRIES:
            self._latest.sort()
            self._runs.append(self._new_file())
            self._runs[-1].write(b"".join(self._latest))
            self._latest = []

    def _new_file(self) -> BinaryIO:
        return tempfile.TemporaryFile(dir=self._directory)

    def digest(self) -> str:
        """Return the SHA-256 of all entries in order (D140)."""
        sha256 = hashlib.sha256()
        for batch in _joined(self._merged()):
            sha256.update(batch)
        return sha256.hexdigest()

    def sorted(self) -> Iterator[bytes]:
        """Yield all entries in order, once."""
        yield from self._merged()
        for run in self._runs:
            run.close()

    def _merged(self) -> Iterator[bytes]:
        self._latest.sort()
        return heapq.merge(self._latest, *map(_entries_of_run, self._runs))


def gather(path: Path, number: int, trail: Path) -> Gathered:
    """Read the records of a closed segment of a trail. Raises OSError."""
    entries = Entries(_made(trail))
    first, last, unreadable = "", "", 0
    block, seen = -1, set[tuple[str, str]]()
    for offset, lines in line_groups(path):
        for line in lines:
            if offset // BLOCK_BYTES != block:
                block, seen = offset // BLOCK_BYTES, set()
            offset += len(line) + 1
            try:
                record = decode_record(line)
            except BAD_JSON:
                unreadable += 1
                continue
            first = min(first or record.time, record.time)
            last = max(last, record.time)
            new = set(keys_in(record)) - seen
            seen |= new
            entries.add([_ENTRY.pack(key_of(*key), number, block) for key in new])
    if unreadable:
        _log.warning("%s has lines that are no records: %d", path, unreadable)
    return Gathered(first, last, entries)


def _made(trail: Path) -> Path:
    """Return the directory of the index, which is created if it is missing."""
    directory = trail / _DIRECTORY
    directory.mkdir(mode=0o700, exist_ok=True)
    return directory


def write_index(trail: Path, file: IndexFile, entries: Iterable[bytes]) -> None:
    """Write an index file, which gets its name when it is complete. Raises OSError.

    Args:
        entries: sorted.
    """
    path = file.path_in(trail)
    new = path.with_name(f"{file.name}{_TEMPORARY}")
    with open(new, "wb", opener=_private) as written:
        written.write(_HEADER)
        written.writelines(_joined(entries))
        written.flush()
        os.fsync(written.fileno())
    new.replace(path)


def complete_index(trail: Path, sealed: Iterable[Segment]) -> None:
    """Build what is missing in the index of a trail, and merge its files. Raises OSError.

    Args:
        sealed: all segments that are sealed and were not removed.
    """
    _remove_rests(trail)
    files = list_index_files(trail)
    for segment in sealed:
        if not any(file.covers(segment.number) for file in files):
            gathered = gather(trail / segment.file_name, segment.number, trail)
            add_index(trail, segment, gathered.entries)
    _merge(trail)
    sync(trail / _DIRECTORY)


def add_index(trail: Path, segment: Segment, entries: Entries) -> None:
    """Write the index file of one segment. Raises OSError."""
    write_index(trail, IndexFile(segment.number, segment.number, 0), entries.sorted())


def drop_from_index(trail: Path, numbers: set[int]) -> None:
    """Remove the entries of segments that were removed, durably. Raises OSError."""
    _remove_rests(trail)
    for file in list_index_files(trail):
        if not any(map(file.covers, numbers)):
            continue
        kept = [n for n in range(file.first, file.last + 1) if n not in numbers]
        if kept:
            entries = _entries(file.path_in(trail))
            wanted = (each for each in entries if _ENTRY.unpack(each)[1] not in numbers)
            write_index(trail, IndexFile(kept[0], kept[-1], file.level), wanted)
        if not kept or (kept[0], kept[-1]) != (file.first, file.last):
            file.path_in(trail).unlink()
    sync(trail / _DIRECTORY)


def _merge(trail: Path) -> None:
    """Merge the files of each level as long as there are enough of them side by side."""
    while (group := _mergeable(list_index_files(trail))) is not None:
        merged = IndexFile(group[0].first, group[-1].last, group[0].level + 1)
        runs = [_entries(file.path_in(trail)) for file in group]
        write_index(trail, merged, heapq.merge(*runs))
        sync(trail / _DIRECTORY)
        for file in group:
            file.path_in(trail).unlink()


def _mergeable(files: list[IndexFile]) -> list[IndexFile] | None:
    group: list[IndexFile] = []
    for file in files:
        if group and file.level != group[-1].level:
            group = []
        group.append(file)
        if len(group) == _FAN_IN:
            return group
    return None


def _remove_rests(trail: Path) -> None:
    """Remove what a killed process left: files without their name, and merged or damaged ones."""
    wanted = {file.name for file in list_index_files(trail)}
    for path in _made(trail).iterdir():
        if path.name not in wanted or not _is_sound(path):
            path.unlink()


def _is_sound(path: Path) -> bool:
    try:
        with IndexReader(path):
            return True
    except (OSError, ValueError):  # Also a pipe or a link, which would stop each seal.
        return False


def _joined(entries: Iterable[bytes]) -> Iterator[bytes]:
    """Yield entries in larger pieces."""
    remaining = iter(entries)
    while batch := b"".join(islice(remaining, _WRITE_ENTRIES)):
        yield batch


def _private(path: str, flags: int) -> int:
    # SEC: the hash of a plate can be guessed.
    return os.open(path, flags | os.O_CLOEXEC, OPEN_MODE)


def _entries(path: Path) -> Iterator[bytes]:
    with IndexReader(path) as reader:
        for batch in reader.batches(_MERGED_ENTRIES):
            yield from batch


def _entries_of_run(file: BinaryIO) -> Iterator[bytes]:
    file.seek(0)
    while data := file.read(_ENTRY.size * _MERGED_ENTRIES):
        yield from _split(data)


def _split(data: bytes) -> list[bytes]:
    """Return the entries of a part of a file."""
    return [data[at : at + _ENTRY.size] for at in range(0, len(data), _ENTRY.size)]
