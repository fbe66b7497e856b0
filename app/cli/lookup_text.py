"""The text of `verifyd lookup` for people: wrapped at a terminal, unwrapped in a file."""

import shutil
import textwrap
from collections.abc import Iterator, Sequence

from app.vehicles.explanation_document import Document

_UNWRAPPED = 100_000
_SENTENCE_MIN = 32
"""With less room than this for the reasons, each begins on a new line."""
_GAP = "  "


def print_for_people(document: Document) -> None:
    """Print the answer for each plate, what decided it, and what each register holds."""
    # NOTE: a pipe or a file has no width, so its lines are not wrapped.
    width = shutil.get_terminal_size((_UNWRAPPED, 0)).columns
    for place, plate in enumerate(document["plates"]):
        if place:
            print()
        for line in _plate(plate, document, width):
            print(printable(line).rstrip())


def _plate(plate: Document, document: Document, width: int) -> Iterator[str]:
    asked, registration = plate["asked"], plate["registration"]
    also = f' (asked for as "{asked}")' if asked != registration else ""
    if "error" in plate:
        yield f"{registration or asked}{also if registration else ''}: {plate['error']}"
        if registration:
            names = ", ".join(document["registers"])
            yield (
                f"{_GAP}No register mentions it: {names}"
                if names
                else f"{_GAP}No register is loaded"
            )
        return
    yield f"{registration}{also} on {document['asOf']}"
    yield from _table(_summary(plate), width)
    yield from ("", "Decided by")
    rows = [
        (each["column"], _shown(each["value"]), ", ".join(each["registers"]) or "-", each["why"])
        for each in plate["decidedBy"]
    ]
    yield from _table(rows, width)
    yield from ("", "What each register says")
    for holding in plate["registers"]:
        yield f"{_GAP}{holding['register']}"
        yield from _table(_holding(holding), width, indent=2 * _GAP)


def _summary(plate: Document) -> list[tuple[str, str]]:
    insurance, compliance = plate["insurance"], plate["compliance"]
    reasons = compliance["reasons"]
    insured = f"{_shown(insurance['insured'])} ({reasons['insuranceValid']})"
    failed = [
        f"{name}: {reasons[name]}" for name, holds in compliance["checks"].items() if not holds
    ]
    compliant = _shown(compliance["compliant"])
    return [
        ("insured", insured),
        ("compliant", f"{compliant} ({', '.join(failed)})" if failed else compliant),
    ]


def _holding(holding: Document) -> list[tuple[str, str]]:
    rows = [("vehicle", _members(holding["vehicle"]))] if holding["vehicle"] else []
    rows += [("policy", _members(each)) for each in holding["policies"]]
    rows += [("fine", _members(each)) for each in holding["fines"]]
    # NOTE: the same width in all registers, so that their columns are aligned.
    return [(f"{what:7}", text) for what, text in rows] or [("-", "nothing")]


def _members(members: Document) -> str:
    known = [f"{name} {_shown(value)}" for name, value in members.items() if value is not None]
    return ", ".join(known)


def _table(rows: Sequence[tuple[str, ...]], width: int, indent: str = _GAP) -> Iterator[str]:
    """Yield aligned rows; the last cell of each is wrapped to the rest of the width."""
    widths = [max(map(len, cells)) for cells in list(zip(*rows, strict=True))[:-1]]
    taken = len(indent) + sum(widths) + len(_GAP) * len(widths)
    for *cells, last in rows:
        if width - taken >= _SENTENCE_MIN:
            aligned = [f"{cell:{size}}{_GAP}" for cell, size in zip(cells, widths, strict=True)]
            yield from textwrap.wrap(
                last, width, initial_indent=indent + "".join(aligned), subsequent_indent=" " * taken
            )
        else:
            further = indent + 2 * _GAP
            yield from textwrap.wrap(_GAP.join(cells), width, initial_indent=indent)
            yield from textwrap.wrap(
                last,
                max(width, len(further) + 1),
                initial_indent=further,
                subsequent_indent=further,
            )


def _shown(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def printable(text: str) -> str:
    """Return a text without control characters, which could move the cursor."""
    # SEC: others wrote the texts of a register, and plates as they were given.
    return "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in text)
