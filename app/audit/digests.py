"""Digests that leave the host, as lines that can be found again in any text (D168).

`verifyd-audit TRAIL SEGMENT COUNT DIGEST`: the `trail` of owner.json, the newest segment that was
sealed, the number of lines of the chain, and the digest of the last of them.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from app.audit.chain import ChainLine, Seal, read_chain
from app.audit.faults import Fault
from app.audit.owner import find_owner
from app.audit.record import AuditError

LINES_MAX = 250_000
"""Those of a host in 28 years. They take 100 MB."""
_NAMES_MAX = 5
_NAME = b"verifyd-audit"
_BEGIN = re.compile(rb"(?<![\w-])verifyd-audit[\s>]")
# Mail programs break lines between two words, and quote them. No other texts of 64 digits are
# searched for: those are common.
_WORDS = _NAME, rb"([0-9a-f]{32})", rb"(\d{8}-\d{8}t\d\d)", rb"(\d{1,12})", rb"([0-9a-f]{64})"
_FORM = re.compile(rb"(?<![\w-])" + rb"[\s>]{1,9}".join(_WORDS) + rb"(?!\w)")
_FORM_BYTES = 256
"""More than a line of this form has."""


class DigestLine(NamedTuple):
    """What a line says."""

    trail: str
    segment: str
    length: int
    """How many lines the chain had."""
    digest: str

    def __str__(self) -> str:
        return " ".join(["verifyd-audit", *map(str, self)])


class KeptDigests(NamedTuple):
    """The lines of a text."""

    lines: set[DigestLine]
    incomplete: int
    """How many begin like one, and are cut or changed."""


def latest(directory: Path) -> DigestLine | None:
    """Return what to keep of a trail now; None if nothing was sealed. Raises AuditError, OSError.

    The chain is taken as it is: `verify` tells whether it was changed.
    """
    owner, lines = find_owner(directory), read_chain(directory)
    segment, last = _segment_at(lines, len(lines)), lines[-1].line if lines else None
    if owner is None or last is None or not segment:
        return None
    return DigestLine(owner.trail, segment, len(lines), last.digest)


def find_digests(pieces: Iterable[bytes]) -> KeptDigests:
    """Return the lines of this form in a text, in upper or lower case, among anything else.

    Quoted-printable and UTF-16 are read, base64 is not. Raises AuditError if there are too many.
    """
    lines: set[DigestLine] = set()
    begun = whole = 0
    for text, end in _windows(pieces):
        # PERF: to find nothing in a text takes a tenth of the time of the expressions.
        if _NAME not in text:
            continue
        begun += sum(0 < found.start() < end for found in _BEGIN.finditer(text))
        for found in _FORM.finditer(text):
            if 0 < found.start() < end:
                trail, segment, length, digest = (each.decode() for each in found.groups())
                lines.add(DigestLine(trail, segment.upper(), int(length), digest))
                whole += 1
        if len(lines) > LINES_MAX:
            raise AuditError(f"the text has more than {LINES_MAX:,} digests; give a part of it")
    return KeptDigests(lines, begun - whole)


def _windows(pieces: Iterable[bytes]) -> Iterator[tuple[bytes, int]]:
    """Yield parts of a text, in lower case, that overlap, each with the end of what begins in it.

    Each begins with the character before, by which a word is known to begin.
    """
    rest = b" "
    for piece in pieces:
        # UTF-16 has zeros between the characters.
        text = (rest + piece).translate(None, b"\0").lower()
        # Quoted-printable breaks long lines, and writes the space at the end of others so.
        for former, text_form in ((b"=\r\n", b""), (b"=\n", b""), (b"=20", b" ")):
            text = text.replace(former, text_form)
        end = max(1, len(text) - _FORM_BYTES)
        yield text, end
        rest = text[end - 1 :]
    yield rest, len(rest)


def _segment_at(lines: Sequence[ChainLine], length: int) -> str:
    """Return the newest segment that was sealed in the first lines; empty if none was."""
    before = (lines[at].line for at in range(length - 1, -1, -1))
    return next((line.segment for line in before if isinstance(line, Seal)), "")


class DigestComparison(NamedTuple):
    """The lines of a text beside a chain."""

    used: int
    """How many different ones the chain was compared with."""
    faults: list[Fault]
    notes: list[Fault]


def compare(
    directory: Path, lines: Sequence[ChainLine], kept: KeptDigests, known: Collection[str]
) -> DigestComparison:
    """Compare a chain with the lines of a text that are of its trail.

    If a line of another trail fits, all of that trail must: this one had that name before.

    Args:
        known: other trails, to which the text is compared as well.

    Raises AuditError if owner.json is damaged.
    """
    trail = trail_of(directory)
    by_trail = defaultdict[str, list[DigestLine]](list)
    for each in kept.lines:
        by_trail[each.trail].append(each)
    own = by_trail.pop(trail, [])
    others = {name: found for name, found in by_trail.items() if name not in known}
    for name, found in by_trail.items():
        # SEC: a trail that got another name does not lose what was kept under the former one.
        if name in others and any(_fits(each, lines) for each in found):
            own += others.pop(name)
    return DigestComparison(len(own), [*_misfits(trail, own, lines)], [*_unused(kept, others)])


def _misfits(trail: str, own: Sequence[DigestLine], lines: Sequence[ChainLine]) -> Iterator[Fault]:
    wrong = [each for each in own if not _fits(each, lines)]
    if wrong:
        first = min(wrong, key=lambda each: each.length)
        is_missing = first.length > len(lines)
        yield Fault(
            "digest",
            f"chain:{first.length}",
            f"{len(wrong):,} of {len(own):,} kept digests do not fit: the first is of line "
            f"{first.length:,} and segment {first.segment}, but the chain "
            + (f"has only {len(lines):,}" if is_missing else "has another one there")
            + ": its end was removed, it was replaced, it is an older copy, or the digest was "
            "never this trail's",
        )
    if not own:
        what = f"the text has no digest of this trail ({trail or 'it has no owner.json'})"
        yield Fault("digest", "chain", what)


def _unused(kept: KeptDigests, others: Mapping[str, Sequence[DigestLine]]) -> Iterator[Fault]:
    if others:
        count = sum(map(len, others.values()))
        names = sorted(others)[:_NAMES_MAX] + ["more"] * (len(others) > _NAMES_MAX)
        what = f"digests of other trails, which are not used: {count:,} of {', '.join(names)}"
        yield Fault("digest", "trails", what)
    if kept.incomplete:
        what = f"lines that begin like a digest, but are cut or changed: {kept.incomplete:,}"
        yield Fault("digest", "text", what)


def trail_of(directory: Path) -> str:
    """Return the name of a trail; empty if its owner.json is gone. Raises AuditError."""
    owner = find_owner(directory)
    return owner.trail if owner else ""


def _fits(kept: DigestLine, lines: Sequence[ChainLine]) -> bool:
    if not 0 < kept.length <= len(lines):
        return False
    line = lines[kept.length - 1].line
    is_same = line is not None and line.digest == kept.digest
    return is_same and _segment_at(lines, kept.length) == kept.segment
