"""What the last run of `seal` found, in a small file for those who ask often (D127).

It is never evidence: only the chain is. Nobody has to list or read the segments for it.
"""

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from app import clock
from app.audit.chain import Line, pruned_of, seals_of
from app.audit.segments import OPEN_MODE, OWNER

_SUMMARY = "summary.json"


class Summary(msgspec.Struct, frozen=True):
    """The state of a trail after the last run of `seal`, or of `prune` after that."""

    sealed_at: int
    """When `seal` last succeeded, in Unix seconds, also if there was nothing to seal."""
    segments: int
    """Sealed segments that were not removed."""
    records: int
    bytes: int


def write_summary(directory: Path, lines: Sequence[Line]) -> None:
    """Write the summary of a trail at the end of a successful `seal`. Raises OSError."""
    _write(directory, clock.now(), lines)


def update_summary(directory: Path, lines: Sequence[Line]) -> None:
    """Write the summary of a trail after `prune`, if there is one. Raises OSError."""
    former = _read(directory)
    if former is not None:
        _write(directory, former.sealed_at, lines)


def find_summary(directory: Path) -> Summary | None:
    """Return the summary of a trail; None if there is no trail.

    Before the first run of `seal` it is that of an empty trail that was sealed when it began.
    Raises OSError.
    """
    found = _read(directory)
    if found is not None:
        return found
    try:
        began = (directory / OWNER).stat().st_mtime
    except (FileNotFoundError, NotADirectoryError):
        return None
    return Summary(int(began), 0, 0, 0)


def _read(directory: Path) -> Summary | None:
    # The next run writes a damaged one again.
    with suppress(FileNotFoundError, NotADirectoryError, msgspec.DecodeError):
        return msgspec.json.decode((directory / _SUMMARY).read_bytes(), type=Summary)
    return None


def _write(directory: Path, sealed_at: int, lines: Sequence[Line]) -> None:
    pruned = pruned_of(lines)
    seals = [seal for name, seal in seals_of(lines).items() if name not in pruned]
    summary = Summary(
        sealed_at=sealed_at,
        segments=len(seals),
        records=sum(seal.records for seal in seals),
        bytes=sum(seal.bytes for seal in seals),
    )
    new = directory / f".{_SUMMARY}.new"
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, OPEN_MODE)
    with open(descriptor, "wb") as file:
        file.write(msgspec.json.encode(summary) + b"\n")
    os.replace(new, directory / _SUMMARY)
