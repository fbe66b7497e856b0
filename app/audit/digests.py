"""Digests that leave the host, as lines that can be found again in any text (D168).

`verifyd-audit TRAIL SEGMENT COUNT DIGEST`: the `trail` of owner.json, the newest segment that was
sealed, the number of lines of the chain, and the digest of the last of them.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from app.audit.chain import ChainLine, Fault, Seal, read_chain
from app.audit.owner import find_owner
from app.audit.record import AuditError

LINES_MAX = 1_000_000
_NAMES_MAX = 5
_NAME = b"verifyd-audit"
_BEGIN = re.compile(rb"(?<![\w-])verifyd-audit\s")
# Mail programs may break the line between two words.
_FORM = re.compile(
    rb"(?<![\w-])verifyd-audit\s{1,9}([0-9a-f]{32})\s{1,9}(\d{8}-\d{8}t\d\d)\s{1,9}(\d{1,12})"
    rb"\s{1,9}([0-9a-f]{64})(?!\w)"
)
_FORM_BYTES = 256
"""More than a line of this form has."""


class Kept(NamedTuple):
    """What one line says."""

    trail: str
    segment: str
    length: int
    """How many lines the chain had."""
    digest: str

    def __str__(self) -> str:
        """Return the line."""
        return " ".join(["verifyd-audit", *map(str, self)])


class KeptDigests(NamedTuple):
    """The lines of a text."""

    by_trail: dict[str, set[Kept]]
    incomplete: int
    """How many begin like one, and are cut or changed."""


def latest(directory: Path) -> Kept | None:
    """Return what to keep of a trail now; None if nothing was sealed. Raises AuditError, OSError.

    The chain is taken as it is: `verify` tells whether it was changed.
    """
    owner, lines = find_owner(directory), read_chain(directory)
    segment, last = _segment_at(lines, len(lines)), lines[-1].line if lines else None
    if owner is None or last is None or not segment:
        return None
    return Kept(owner.trail, segment, len(lines), last.digest)


def find_digests(pieces: Iterable[bytes]) -> KeptDigests:
    """Return the lines of this form in a text, in upper or lower case, among anything else.

    Quoted-printable and UTF-16 are read, base64 is not. Raises AuditError if there are too many.
    """
    by_trail: dict[str, set[Kept]] = defaultdict(set)
    begun = whole = different = 0
    for text, end in _windows(pieces):
        # PERF: to find nothing in a text takes a tenth of the time of the expressions.
        if _NAME not in text:
            continue
        begun += sum(0 < found.start() < end for found in _BEGIN.finditer(text))
        for found in _FORM.finditer(text):
            if 0 < found.start() < end:
                trail, segment, length, digest = (each.decode() for each in found.groups())
                kept = Kept(trail, segment.upper(), int(length), digest)
                different += kept not in by_trail[kept.trail]
                by_trail[kept.trail].add(kept)
                whole += 1
        if different > LINES_MAX:
            raise AuditError(f"the text has more than {LINES_MAX:,} digests; give a part of it")
    return KeptDigests(dict(by_trail), begun - whole)


def _windows(pieces: Iterable[bytes]) -> Iterator[tuple[bytes, int]]:
    """Yield parts of a text, in lower case, that overlap, each with the end of what begins in it.

    Each begins with the character before, by which a word is known to begin.
    """
    rest = b" "
    for piece in pieces:
        # UTF-16 has zeros between the characters, and quoted-printable breaks long lines.
        text = (rest + piece).translate(None, b"\0").replace(b"=\r\n", b"").replace(b"=\n", b"")
        text = text.lower()
        end = max(1, len(text) - _FORM_BYTES)
        yield text, end
        rest = text[end - 1 :]
    yield rest, len(rest)


def _segment_at(lines: Sequence[ChainLine], length: int) -> str:
    """Return the newest segment that was sealed in the first lines; empty if none was."""
    before = (lines[at].line for at in range(length - 1, -1, -1))
    return next((line.segment for line in before if isinstance(line, Seal)), "")


class Compared(NamedTuple):
    """The lines of a text beside a chain."""

    used: int
    """How many different ones the chain was compared with."""
    faults: list[Fault]
    notes: list[Fault]


def compare(
    directory: Path, lines: Sequence[ChainLine], kept: KeptDigests, known: Collection[str]
) -> Compared:
    """Compare a chain with the lines of a text that are of its trail.

    If a line of another trail fits, all of that trail must: this one had that name before.

    Args:
        known: other trails, to which the text is compared as well.

    Raises AuditError if owner.json is damaged.
    """
    trail = trail_of(directory)
    own, others = [*kept.by_trail.get(trail, ())], []
    for name, found in sorted(kept.by_trail.items()):
        # SEC: a trail that got another name does not lose what was kept under the former one.
        if name not in (trail, *known) and any(_fits(each, lines) for each in found):
            own += found
        elif name not in (trail, *known):
            others.append(name)
    wrong = sorted((each for each in own if not _fits(each, lines)), key=lambda each: each.length)
    notes = []
    if others:
        count = sum(len(kept.by_trail[name]) for name in others)
        names = ", ".join(others[:_NAMES_MAX]) + (" and more" if others[_NAMES_MAX:] else "")
        what = f"{count:,} digests are of other trails, and not used: {names}"
        notes.append(Fault("digest", "trails", what))
    if kept.incomplete:
        what = f"{kept.incomplete:,} lines that begin like a digest are cut or changed"
        notes.append(Fault("digest", "text", what))
    faults = [_misfit(wrong, len(own), len(lines))] if wrong else []
    if not own:
        what = f"the text has no digest of this trail ({trail or 'it has no owner.json'})"
        faults.append(Fault("digest", "chain", what))
    return Compared(len(own), faults, notes)


def trail_of(directory: Path) -> str:
    """Return the name of a trail; empty if its owner.json is gone. Raises AuditError."""
    owner = find_owner(directory)
    return owner.trail if owner else ""


def _fits(kept: Kept, lines: Sequence[ChainLine]) -> bool:
    if not 0 < kept.length <= len(lines):
        return False
    line = lines[kept.length - 1].line
    is_same = line is not None and line.digest == kept.digest
    return is_same and _segment_at(lines, kept.length) == kept.segment


def _misfit(wrong: Sequence[Kept], used: int, there: int) -> Fault:
    first = wrong[0]
    found = f"has only {there:,}" if first.length > there else "has another one there"
    return Fault(
        "digest",
        f"chain:{first.length}",
        f"{len(wrong):,} of {used:,} kept digests do not fit: the first is of line "
        f"{first.length:,} and segment {first.segment}, but the chain {found}: its end was "
        "removed, it was replaced, or the digest was never this trail's",
    )
