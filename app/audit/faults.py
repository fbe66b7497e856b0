"""What can be wrong with a trail, each with its name (D116)."""

import msgspec


class Fault(msgspec.Struct, frozen=True):
    """One thing that is wrong."""

    kind: str
    """One of the words below, for programs."""
    subject: str
    """A segment or a line of the chain."""
    sentence: str
    """What is wrong, for a person."""


CHANGED = "changed"
SHORTENED = "shortened"
EXTENDED = "extended"
REMOVED = "removed"
ADDED = "added"
DUPLICATED = "duplicated"
SWAPPED = "swapped"
RENAMED = "renamed"
RESTORED = "restored"
UNREADABLE = "unreadable"
CHAIN_CHANGED = "chain_changed"
CHAIN_BROKEN = "chain_broken"
CHAIN_CUT = "chain_cut"
COUNT = "count"
PRUNED_EARLY = "pruned_early"
DIGEST = "digest"
INDEX = "index"


def segment_fault(kind: str, name: str, what: str) -> Fault:
    """Return a fault of a segment, as in `segment 00000002-20261122T15 was removed`."""
    return Fault(kind, name, f"segment {name} {what}")


def chain_fault(kind: str, number: int, what: str) -> Fault:
    """Return a fault of a line of the chain."""
    return Fault(kind, f"chain:{number}", f"line {number} of the chain {what}")
