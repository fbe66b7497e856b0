"""The chain: a line for each sealed segment, which contains the digest of the line before (D116).

The digest of a line is the SHA-256 of the line without its last member, `digest`. One
known digest proves everything that was sealed before.
"""

import hashlib
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from app.audit.record import AuditError
from app.audit.segments import (
    CHAIN,
    OPEN_MODE,
    chunks,
    cut_incomplete,
    open_regular,
    segment_number,
    write_whole,
)
from app.errors import BAD_JSON
from app.storage.files import opened, sync

NO_DIGEST = "0" * 64
"""The digest `previous` of the first line."""
_TAIL_BYTES = 64 * 1024
_APPENDING = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW
_DIGEST = re.compile(r"[0-9a-f]{64}", re.ASCII)


class Seal(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="seal"
):
    """The line of a sealed segment."""

    time: str
    """When it was sealed."""
    segment: str
    records: int
    bytes: int
    first: str
    """The earliest time of its records; empty if it has none."""
    last: str
    sha256: str
    """The digest of its bytes."""
    index: str
    """The digest of its entries in the index."""
    previous: str
    digest: str = ""

    @property
    def number(self) -> int:
        """The number of the segment; 0 if its name was changed into something else."""
        return segment_number(self.segment)


class Prune(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="prune"
):
    """The line that is written before segments are removed because of their age."""

    time: str
    before: str
    """All records of the segments are older than this time."""
    segments: list[str]
    previous: str
    digest: str = ""


Line = Seal | Prune
_L = TypeVar("_L", Seal, Prune)
_decode = msgspec.json.Decoder(Line).decode


class ChainLine(msgspec.Struct, frozen=True):
    """A line as it is in the file."""

    number: int
    """From 1."""
    text: bytes
    """Without its line end."""
    line: Line | None
    """None if it cannot be read."""
    digest: str
    """The digest that it should have; empty if it cannot be read."""


def with_digest(line: _L) -> _L:
    return msgspec.structs.replace(line, digest=digest_of(line))


def digest_of(line: Line) -> str:
    """Return the digest that a line should have."""
    text = msgspec.json.encode(msgspec.structs.replace(line, digest=""))
    return hashlib.sha256(text).hexdigest()


def read_chain(directory: Path) -> list[ChainLine]:
    """Return the complete lines of the chain; none if there is no chain. Raises OSError."""
    return [_parsed(number, text) for number, text in enumerate(_texts(directory), 1)]


def _texts(directory: Path) -> list[bytes]:
    try:
        return b"".join(chunks(directory / CHAIN)).split(b"\n")[:-1]
    except FileNotFoundError:
        return []


def _find_line(text: bytes) -> Line | None:
    try:
        line: Line = _decode(text)
    except BAD_JSON:
        return None
    return line


def _parsed(number: int, text: bytes) -> ChainLine:
    line = _find_line(text)
    if line is None:
        return ChainLine(number, text, None, "")
    # A line that this program would write differently was changed.
    digest = digest_of(line) if msgspec.json.encode(line) == text else ""
    return ChainLine(number, text, line, digest)


class Chain:
    """The chain, opened to append to it. The trail must be locked.

    Raises AuditError if a line was changed, and OSError.
    """

    def __init__(self, directory: Path) -> None:
        self._path = directory / CHAIN
        with opened(self._path, _APPENDING | os.O_CREAT, OPEN_MODE) as descriptor:
            # A process was killed while it wrote this line; its segment is sealed again.
            cut_incomplete(descriptor, os.fstat(descriptor).st_size)
        sync(directory)
        self.lines: list[Line] = []
        for each in read_chain(directory):
            if each.line is None or each.line.digest != each.digest:
                raise AuditError(
                    f"line {each.number} of {self._path} was changed, so nothing can be sealed; "
                    'run "verifyd audit verify" to see what else was, and restore a backup of it'
                )
            self.lines.append(each.line)

    @property
    def digest(self) -> str:
        """The latest digest."""
        return self.lines[-1].digest if self.lines else NO_DIGEST

    def add(self, line: Line) -> None:
        """Append a line durably. Raises OSError."""
        with opened(self._path, _APPENDING) as descriptor:
            write_whole(descriptor, msgspec.json.encode(line) + b"\n", os.fstat(descriptor).st_size)
            os.fsync(descriptor)
        self.lines.append(line)


def readable_lines(directory: Path) -> list[Line]:
    """Return the lines of the chain that can be read, oldest first. Raises OSError.

    PERF: without digests the lines of two years take a fifth of the time: 40 ms.
    """
    return [line for line in map(_find_line, _texts(directory)) if line is not None]


def seals_of(lines: Sequence[Line]) -> dict[str, Seal]:
    """Return the lines of sealed segments by the name of the segment, oldest first.

    SEC: if a segment has several, the first counts. `seal` never adds another one, so it is forged.
    """
    seals: dict[str, Seal] = {}
    for line in lines:
        if isinstance(line, Seal):
            seals.setdefault(line.segment, line)
    return seals


def pruned_of(lines: Sequence[Line]) -> set[str]:
    """Return the names of all segments that were removed because of their age."""
    return {name for line in lines if isinstance(line, Prune) for name in line.segments}


def kept_seals_of(lines: Sequence[Line]) -> dict[str, Seal]:
    """Return the lines of sealed segments that were not removed because of their age, by name."""
    pruned = pruned_of(lines)
    return {name: seal for name, seal in seals_of(lines).items() if name not in pruned}


def last_sealed_number(directory: Path) -> int:
    """Return the number of the newest sealed segment; 0 if there is none. Raises OSError.

    PERF: it nearly always reads only the end of the chain, because a look-up waits for the result.
    """
    for line in map(_find_line, reversed(_last_texts(directory))):
        if isinstance(line, Seal):
            return line.number
    return newest_number(seals_of(readable_lines(directory)).values())


def last_digest(directory: Path) -> str:
    """Return the latest digest of the chain; empty if there is none. Raises OSError.

    PERF: it nearly always reads only the end of the chain, because a page waits for the result.
    """
    texts = _last_texts(directory)[:-1]  # What follows the last line end is not complete.
    if len(texts) < 2:  # A prune of many segments has a longer line, of which this is the end.
        texts = _texts(directory)
    line = _find_line(texts[-1]) if texts else None
    return line.digest if line else ""


def _last_texts(directory: Path) -> list[bytes]:
    """Return the last lines of the chain; the first and the last one may be incomplete."""
    try:
        with open(directory / CHAIN, "rb", opener=open_regular) as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _TAIL_BYTES))
            return file.read().split(b"\n")
    except FileNotFoundError:
        return []


def parsed_digest(text: str) -> str:
    """Return a digest as the chain has it. Raises ValueError if the text is none."""
    if not _DIGEST.fullmatch(text.lower()):
        raise ValueError("must be 64 hexadecimal digits, as seal prints them")
    if text == NO_DIGEST:
        raise ValueError(
            "is that of a trail without records, which proves nothing; give a later one"
        )
    return text.lower()


def newest_number(seals: Iterable[Seal]) -> int:
    """Return the highest number of sealed segments; 0 if there are none."""
    return max((seal.number for seal in seals), default=0)
