"""Checks that no line of the chain was changed, removed, added or moved (D116)."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from app.audit import faults
from app.audit.chain import NO_DIGEST, ChainLine, Prune, Seal, number_of
from app.audit.faults import Fault, chain_fault


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
            yield chain_fault(faults.CHAIN_CHANGED, each.number, "cannot be read: it was changed")
            before = set()
            continue
        about = f" (segment {line.segment})" if isinstance(line, Seal) else ""
        if line.digest != each.digest:
            yield chain_fault(
                faults.CHAIN_CHANGED, each.number, f"was changed{about}: its digest does not fit"
            )
        elif before and line.previous not in before:
            yield chain_fault(
                faults.CHAIN_BROKEN,
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
    return Fault(faults.REMOVED, f"{first:08}", f"{numbers}: removed before being sealed")


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
            yield faults.segment_fault(
                faults.PRUNED_EARLY,
                name,
                f"was removed as older than {line.before}, but has records of {seal.last}",
            )
