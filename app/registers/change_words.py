"""The words for what a load changed, in short and in full."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from app.registers.applying.answers import ANSWERS, Turned
from app.registers.applying.counts import VALUES_MAX
from app.registers.change import LoadChange, MemberChange
from app.registers.history import MERGE
from app.registers.rules import ANSWERS_PERCENT, is_some
from app.text import printable

_TURNS: Mapping[str, tuple[str, str]] = {
    "known": ("become known", "become unknown"),
    "insured": ("gain cover", "lose cover"),
    "mot": ("gain MOT", "lose MOT"),
    "tax": ("gain tax", "lose tax"),
    "fines": ("pass on fines", "fail on fines"),
    "compliant": ("become compliant", "stop being compliant"),
}
"""What plates do whose answer becomes good, and whose answer becomes bad."""
if set(_TURNS) != set(ANSWERS):
    raise TypeError(f"_TURNS must have the keys {', '.join(ANSWERS)}")
_BRIEF = ("insured", "mot", "tax", "fines")
"""Answers that the short form names; being compliant follows from them."""
_BRIEF_PERCENT = 1


class Brief(NamedTuple):
    """A change in the fewest words; as a text such as `-960, 960 lose cover`."""

    rows: str
    """Such as `+12 -320, 8,000 changed` or `no change`."""
    effects: tuple[str, ...] = ()
    """At most the two largest effects on answers, such as `960 lose cover`. A usual night has none:
    each concerns over 1 % of the rows that the register held. What is always there is not read."""
    gains: tuple[str, ...] = ()
    """Those of the effects that are good news."""
    is_bad: bool = False
    """Whether over 4 % became worse; a load that does that is refused, or was accepted."""

    def __str__(self) -> str:
        return ", ".join((self.rows, *self.effects))


def brief(*changes: LoadChange) -> Brief:
    """Return what one or more loads changed, in the fewest words.

    SEC: only numbers and names of checks.
    """
    counts = (("+", sum(each.added for each in changes)), ("-", sum(e.removed for e in changes)))
    signed = " ".join(f"{sign}{count:,}" for sign, count in counts if count)
    updated = sum(each.updated for each in changes)
    rows = ", ".join(filter(None, (signed, f"{updated:,} changed" if updated else "")))
    found = [each for change in changes for each in _effects(change)]
    found.sort(key=lambda each: -each[0])
    effects = tuple(f"{count:,} {what}" for count, what, _ in found[:2])
    gains = {title for title, _ in _TURNS.values()}
    good = tuple(f"{count:,} {what}" for count, what, _ in found[:2] if what in gains)
    return Brief(rows or "no change", effects, good, any(is_bad for *_, is_bad in found))


def _effects(change: LoadChange) -> Iterator[tuple[int, str, bool]]:
    """Yield how many plates do what, and whether that is bad, if it is unusual."""
    turns = {name: change.turned(name) for name in _BRIEF}
    # A plate that becomes unknown passes no check, but nobody says that it has fines.
    known, fines = change.turned("known"), turns["fines"]
    turns["fines"] = fines.plus(-known.gained, -known.lost)
    # What rules excuse is no disaster.
    worse = [
        (turned.lost, _TURNS[name][1], turned.lost - change.day_sooner.get(name, 0))
        for name, turned in turns.items()
    ]
    better = [(turned.gained, _TURNS[name][0], 0) for name, turned in turns.items()]
    # All answers about the plates of a first load are new.
    held = change.held[0]
    for count, what, bad in (*worse, (change.moved, "numbers moved", change.moved), *better):
        if _is_many(count, held, _BRIEF_PERCENT):
            yield count, what, _is_many(bad, held, ANSWERS_PERCENT)


def _is_many(count: int, held: int, percent: float) -> bool:
    return bool(held) and is_some(count, held) and 100 * count > percent * held


class Section(NamedTuple):
    """A part of the full list: pairs of what is counted, and the counts in words."""

    title: str
    lines: list[tuple[str, str]]


def sections(change: LoadChange, mode: object = None) -> list[Section]:
    """Return every count of a change in words.

    Args:
        mode: the mode of the load: of a merge, some counts are only of the rows that it touched.

    SEC: names of insurers are values of a register, so alerts and logs must not show this.
    """
    rows = "touched rows" if mode == MERGE else "rows"
    found = [
        Section("Rows", list(_rows(change, rows))),
        Section("Answers", list(_answers(change))),
        Section("Insurers", list(_insurers(change.insurers))),
        Section("Members", list(_members(change.members, rows))),
    ]
    return [each for each in found if each.lines]


def lines(change: LoadChange, mode: object = None) -> list[str]:
    """Return the full list as lines of text, after the short form."""
    told = [f"{what}: {text}" for each in sections(change, mode) for what, text in each.lines]
    return [str(brief(change)), *told]


def _rows(change: LoadChange, rows: str) -> Iterator[tuple[str, str]]:
    before, after = change.held
    changed = f"{change.added:,} added, {change.removed:,} removed, {change.updated:,} changed"
    yield "rows", f"{after:,}, before {before:,}: {changed}"
    if not before and after:
        yield "rules", "none applies, because there is nothing to compare with: check this load"
    if any(change.in_force):
        before, after = change.in_force
        in_force = "in force" if rows == "rows" else f"{rows} in force"
        yield (
            f"{in_force} on {change.day}" if change.day else in_force,
            f"{after:,}, before {before:,}",
        )
    if change.plates:
        yield "plates", f"{change.plates:,} with other rows, on which answers depend"
    if change.left:
        yield "plates that left", f"{change.left:,} without a row in force here any more"
    if change.moved:
        yield "numbers moved", f"{change.moved:,} to another plate"


def _answers(change: LoadChange) -> Iterator[tuple[str, str]]:
    for name in ANSWERS:
        turned = change.turned(name)
        if any(turned):
            good, bad = _TURNS[name]
            yield name, f"{turned.gained:,} {good}, {turned.lost:,} {bad}"
    if not change.answers:
        yield "answers", "none changes"


def _insurers(insurers: Mapping[str, Turned]) -> Iterator[tuple[str, str]]:
    """Yield the insurers, first those that most plates lost."""
    for name, turned in sorted(insurers.items(), key=lambda each: (-each[1].lost, each[0])):
        insurer = f"insurer {printable(name)}" if name else "other or unknown insurers"
        yield insurer, f"plates: {turned.gained:,} gained, {turned.lost:,} without cover now"


def _members(members: Mapping[str, MemberChange], rows: str) -> Iterator[tuple[str, str]]:
    """Yield the members that are not as they were."""
    for name, member in members.items():
        differs = len({*member.known}) > 1 or len({*member.values}) > 1
        if differs or member.lost or member.gained or member.changed:
            yield name, _member(member, rows)


def _member(member: MemberChange, rows: str) -> str:
    (known, knows), (values, has) = member.known, member.values
    parts = {
        "lost": member.lost,
        "gained": member.gained,
        "changed": member.changed,
        "moved back, or over 20 years away": member.misplaced,
        "moved back by one day": member.day_sooner,
    }
    return "; ".join(
        [
            f"{rows} with a value: {knows:,}, before {known:,}",
            f"different values: {count_of(has)}, before {count_of(values)}",
            *(f"{count:,} {what}" for what, count in parts.items() if count),
        ]
    )


def count_of(values: int) -> str:
    """Return a count of different values, which ends at VALUES_MAX, in words."""
    return f"{values:,} or more" if values == VALUES_MAX else f"{values:,}"
