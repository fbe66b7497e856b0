"""The index: in which parts of sealed segments a plate, an account or a user appears (D117).

The index is never evidence. It may be missing or damaged: then segments are read instead, and the
next `seal` builds it again. The chain has a digest of each segment's entries, so that `verify`
finds one that was changed, and would hide a record from searches (D140).

An index file is a header and sorted entries of 16 bytes: a hash of the key, the number of a
segment, and the number of a block of 64 KiB in it in which a record with this key begins. The
search reads these blocks, so that a key with an equal hash does no harm.
"""

import hashlib
import os
import re
import struct
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Self

from app.audit.record import Record

HEADER = b"verifyd index 1\n"
BLOCK_BYTES = 64 * 1024
ENTRY = struct.Struct(">8sII")
_NAME = re.compile(r"(?P<first>\d{8})-(?P<last>\d{8})\.(?P<level>\d)", re.ASCII)


class IndexFile(NamedTuple):
    """A file that covers all sealed segments from one number to another."""

    first: int
    last: int
    level: int
    """How many times its entries were merged."""

    @property
    def name(self) -> str:
        """The name of the file."""
        return f"{self.first:08}-{self.last:08}.{self.level}"

    def covers(self, number: int) -> bool:
        """Tell whether the file has the entries of a segment."""
        return self.first <= number <= self.last

    @classmethod
    def parse(cls, name: str) -> Self | None:
        """Return the index file of this name; None if it is none."""
        found = _NAME.fullmatch(name)
        return cls(*(int(part) for part in found.groups())) if found else None


class IndexReader:
    """An index file that is searched; `with` closes it.

    Raises OSError; ValueError if the file is damaged.
    """

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        size = os.fstat(self._descriptor).st_size
        self._entries, rest = divmod(size - len(HEADER), ENTRY.size)
        if rest or os.pread(self._descriptor, len(HEADER), 0) != HEADER:
            os.close(self._descriptor)
            raise ValueError("no index")
        self.reads = 0
        """How many entries were read."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        os.close(self._descriptor)

    def find(self, key: bytes) -> Iterator[tuple[int, int]]:
        """Yield the segments and blocks of a key, as `key_of` returns it, in order."""
        place = bisect_left(range(self._entries), key, key=self._key_at)
        while place < self._entries:
            found, number, block = ENTRY.unpack(self._entry_at(place))
            if found != key:
                return
            yield number, block
            place += 1

    def _key_at(self, place: int) -> bytes:
        return self._entry_at(place)[: len(b"12345678")]

    def _entry_at(self, place: int) -> bytes:
        self.reads += 1
        return os.pread(self._descriptor, ENTRY.size, len(HEADER) + place * ENTRY.size)


def list_index_files(directory: Path) -> list[IndexFile]:
    """Return the files of the index by their first segment, without those that others cover."""
    names: list[str] = []
    with suppress(FileNotFoundError, NotADirectoryError):
        names = os.listdir(directory)
    chosen: list[IndexFile] = []
    # A file that covers more comes first.
    for each in sorted(
        filter(None, map(IndexFile.parse, names)), key=lambda each: (each.first, -each.last)
    ):
        if not chosen or each.last > chosen[-1].last:
            chosen.append(each)
    return chosen


def key_of(kind: str, value: str) -> bytes:
    """Return the hash of a plate, an account or a user."""
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
    if record.criteria is not None:
        # Whoever asks who looked at a plate also learns of those who searched the trail for it.
        for kind in ("plate", "account", "user"):
            value = getattr(record.criteria, kind)
            if value is not None:
                yield kind, value
