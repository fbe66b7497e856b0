"""What is read of trails: each as it was at one moment, and what copies share only once.

A view ends where the trail ended then, whatever the clock says: records that were made while the
clock was ahead are in it, and what is appended later is not, such as the record of the search
(D160). A trail and its copy have segments of the same names, which begin with the same records
(D161).
"""

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from app.audit.chain import Seal, pruned_of, readable_lines, seals_of
from app.audit.index import BLOCK_BYTES
from app.audit.record import AuditError
from app.audit.segments import (
    Segment,
    lines_beginning_in,
    list_segments,
    opened_regular,
    whole_bytes,
)


class Stretch(NamedTuple):
    """A segment as far as it belongs to a view."""

    directory: Path
    segment: Segment
    seal: Seal | None
    """None if it was not sealed then."""
    end: int
    """How many of its bytes belong to the view, at most: whole lines."""
    copies: "tuple[Stretch, ...]" = ()
    """The segments of the same name in the trails that were given before this one."""

    @property
    def path(self) -> Path:
        return self.directory / self.segment.file_name

    def every_block(self) -> Sequence[int]:
        """Return the blocks of BLOCK_BYTES that it has. Raises OSError."""
        return range(-(-min(self.end, self.path.stat().st_size) // BLOCK_BYTES))

    def lines(
        self,
        blocks: Sequence[int] | None = None,
        needle: bytes = b"",
        *,
        newest_first: bool = False,
    ) -> Iterator[bytes]:
        """Yield the lines that no copy before this one has, without line ends.

        Args:
            blocks: those of BLOCK_BYTES in which the lines begin; None for all.
            needle: what each line contains.

        Raises AuditError if the segment or a copy was removed meanwhile, and OSError.
        """
        try:
            start = max(map(self._shared_bytes, self.copies), default=0)
            yield from self._lines(start, blocks, needle, newest_first=newest_first)
        except FileNotFoundError as error:
            raise _removed(error) from error

    def _shared_bytes(self, copy: "Stretch") -> int:
        """Return how many of the first bytes, as whole lines, a copy has, too."""
        shared = 0
        for mine, other in zip(self._lines(), copy._lines(), strict=False):
            if mine != other:
                break
            shared += len(mine) + 1
        return shared

    def _lines(
        self,
        start: int = 0,
        blocks: Sequence[int] | None = None,
        needle: bytes = b"",
        *,
        newest_first: bool = False,
    ) -> Iterator[bytes]:
        with opened_regular(self.path) as descriptor:
            end = min(self.end, os.fstat(descriptor).st_size)
            chosen = self.every_block() if blocks is None else blocks
            for block in reversed(chosen) if newest_first else chosen:
                first, last = max(start, block * BLOCK_BYTES), min(end, (block + 1) * BLOCK_BYTES)
                if first < last:
                    found = lines_beginning_in(descriptor, first, last, needle)
                    yield from reversed([*found]) if newest_first else found


class View(NamedTuple):
    """A trail as it was at one moment."""

    directory: Path
    stretches: list[Stretch]
    """By number."""


def views_of(directories: Iterable[Path]) -> list[View]:
    """Return what trails hold now, without segments that an earlier one has with the same digest.

    Raises AuditError if a segment is removed meanwhile, and OSError.
    """
    views: list[View] = []
    known: dict[Segment, tuple[Stretch, ...]] = {}
    for directory in directories:
        try:
            view = View(directory, list(_stretches(directory, known)))
        except FileNotFoundError as error:
            raise _removed(error) from error
        views.append(view)
        for stretch in view.stretches:
            known[stretch.segment] = (*known.get(stretch.segment, ()), stretch)
    return views


def view_of(directory: Path) -> View:
    """Return what one trail holds now. Raises as `views_of` does."""
    (view,) = views_of([directory])
    return view


def _stretches(directory: Path, known: Mapping[Segment, tuple[Stretch, ...]]) -> Iterator[Stretch]:
    lines = readable_lines(directory)
    seals, pruned = seals_of(lines), pruned_of(lines)
    for segment in list_segments(directory):
        name, copies = segment.name, known.get(segment, ())
        seal = seals.get(name)
        if name not in pruned and not any(_is_sealed_alike(copy, seal) for copy in copies):
            end = sys.maxsize if seal else _whole_bytes(directory / segment.file_name)
            yield Stretch(directory, segment, seal, end, copies)


def _is_sealed_alike(copy: Stretch, seal: Seal | None) -> bool:
    """Tell whether a copy is what was sealed, without reading it."""
    if copy.seal is None or seal is None or copy.seal.sha256 != seal.sha256:
        return False
    # SEC: a record that somebody removed from the copy is read here.
    return copy.path.stat().st_size == seal.bytes


def _whole_bytes(path: Path) -> int:
    with suppress(OSError), opened_regular(path) as descriptor:
        return whole_bytes(descriptor, os.fstat(descriptor).st_size)
    return sys.maxsize  # Whoever reads it gets the error.


def _removed(error: FileNotFoundError) -> AuditError:
    return AuditError(f"{error.filename} was removed meanwhile; try again")
