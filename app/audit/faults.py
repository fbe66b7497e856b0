"""What can be wrong with a trail, and the check of the chain's lines among themselves."""

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

import msgspec

from app.audit.chain import NO_DIGEST, ChainLine, Line, Prune, Seal, newest_number, seals_of

FaultKind = Literal[
    "changed",
    "shortened",
    "extended",
    "removed",
    "added",
    "duplicated",
    "swapped",
    "renamed",
    "restored",
    "unreadable",
    "chain_changed",
    "chain_broken",
    "chain_cut",
    "count",
    "pruned_early",
    "ahead",
    "age",
    "gap",
    "digest",
    "index",
]


class Fault(msgspec.Struct, frozen=True):
    """One thing that is wrong with a trail."""

    kind: str
    """A `FaultKind`, for programs."""
    subject: str
    """A segment or a line of the chain."""
    sentence: str
    """What is wrong, for a person."""


def segment_fault(kind: FaultKind, name: str, what: str) -> Fault:
    """Return a fault of a segment, as in `segment 00000002-20261122T15 was removed`."""
    return Fault(kind, name, f"segment {name} {what}")


def chain_fault(kind: FaultKind, number: int, what: str) -> Fault:
    """Return a fault of a line of the chain."""
    return Fault(kind, f"chain:{number}", f"line {number} of the chain {what}")


class CheckedChain(NamedTuple):
    """The content of a chain, as far as its lines can be read."""

    faults: list[Fault]
    seals: dict[str, Seal]
    """By name of the segment."""
    pruned: dict[str, Prune]
    """By name of the segment."""
    digests: list[str]
    """Those of all lines, oldest first."""

    @property
    def kept(self) -> dict[str, Seal]:
        """The seals of segments that were not removed because of their age, by name."""
        return {name: seal for name, seal in self.seals.items() if name not in self.pruned}

    @property
    def newest(self) -> int:
        """The number of the newest sealed segment; 0 if there is none."""
        return newest_number(self.seals.values())


def check_chain(lines: Sequence[ChainLine]) -> CheckedChain:
    """Return the content of a chain, and which lines were changed, removed, added or moved."""
    readable = [each.line for each in lines if each.line is not None]
    prunes = (line for line in readable if isinstance(line, Prune))
    return CheckedChain(
        faults=list(_line_faults(lines)),
        seals=seals_of(readable),
        pruned={name: line for line in prunes for name in line.segments},
        digests=[line.digest for line in readable],
    )


def _line_faults(lines: Sequence[ChainLine]) -> Iterator[Fault]:
    numbers = {each.line.digest: each.number for each in lines if each.line is not None}
    # The digest that the line before has, and the one that it should have.
    expected = {NO_DIGEST}
    newest = 0
    for each in lines:
        line = each.line
        if line is None:
            yield chain_fault("chain_changed", each.number, "cannot be read: it was changed")
            expected = set()
            continue
        about = f" (segment {line.segment})" if isinstance(line, Seal) else ""
        if line.digest != each.digest:
            yield chain_fault(
                "chain_changed", each.number, f"was changed{about}: its digest does not fit"
            )
        elif expected and line.previous not in expected:
            yield chain_fault(
                "chain_broken",
                each.number,
                f"does not continue the line before it{about}: "
                + _cause(line, numbers, each.number, newest),
            )
        elif isinstance(line, Seal) and line.number > newest + 1:
            yield _gap(newest + 1, line.number - 1)
        elif isinstance(line, Seal) and line.number <= newest:
            # SEC: `seal` never does that. Such a line could hide what the first one says.
            yield chain_fault(
                "chain_broken", each.number, f"was added{about}: its number was sealed before"
            )
        expected = {line.digest, each.digest}
        newest = max(newest, line.number) if isinstance(line, Seal) else newest


def _gap(first: int, last: int) -> Fault:
    numbers = f"segment {first:08}" if first == last else f"segments {first:08} to {last:08}"
    return Fault("removed", f"{first:08}", f"{numbers}: removed before being sealed")


def _cause(line: Line, numbers: dict[str, int], number: int, newest: int) -> str:
    """Return the most probable reason why a line does not continue the one before.

    Args:
        numbers: the number of each line by its digest.
        number: that of the line.
        newest: the highest number of a segment that was sealed before.
    """
    if line.previous in numbers:
        return f"it follows line {numbers[line.previous]}, so lines were moved or duplicated"
    if isinstance(line, Seal) and line.number > newest + 1:
        return f"the lines of segments from {newest + 1} to {line.number - 1} were removed"
    if number == 1:
        return "lines before it were removed"
    return "a line between them was removed, or the line before was replaced"
