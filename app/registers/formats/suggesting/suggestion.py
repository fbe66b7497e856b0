"""Finds which column of a CSV file is which member, and what only a person can tell (D99)."""

from collections import Counter
from collections.abc import Container, Sequence
from itertools import chain
from operator import itemgetter
from typing import NamedTuple

from app.registers.formats.columns import Column as Native
from app.registers.formats.columns import Presence
from app.registers.formats.native import LAYOUTS, SHAPES
from app.registers.formats.suggesting.names import CERTAIN, OTHER, PART, WITHOUT
from app.registers.formats.suggesting.sample import Column, Sample
from app.storage.tables import COLUMNS, Kind, Shape

_BEGINS_MAX = 4


class Suggestion(NamedTuple):
    """What is settled, and what is asked."""

    sample: Sample
    kind: Kind
    is_kind_sure: bool
    members: dict[str, Native]
    """The columns of the native layout of the kind."""
    settled: dict[str, Column]
    questions: dict[str, list[Column]]
    """The candidates of members, the most likely first."""

    @property
    def likely(self) -> dict[str, Column]:
        """The members with their columns, or with the most likely candidates."""
        return self.settled | {member: each[0] for member, each in self.questions.items() if each}

    @property
    def unused(self) -> list[Column]:
        """The columns that are neither settled nor candidates."""
        used = {*self.settled.values(), *chain(*self.questions.values())}
        return [each for each in self.sample.columns if each not in used]


def suggest(sample: Sample, kind: Kind | None = None) -> Suggestion:
    """Return what the names of columns settle, and the questions that are left.

    A name that is certain for one member settles it, if no other column has one and the values do
    not contradict it. Values rank candidates, and never settle a member.

    Args:
        kind: the kind of the rows, if the operator names it.
    """
    columns = sample.named
    begins = [each for each in columns if "validFrom" in each.means][:_BEGINS_MAX]
    for end in columns:
        if "validTo" in end.means and any(map(end.is_day_after, begins)):
            end.means[WITHOUT] = PART
    best, is_sure = (kind, True) if kind else _likely_kind(columns)
    members = {each.label: each for each in LAYOUTS[best]().columns}
    settled, asked = {}, {}
    for member, native in members.items():
        candidates = _candidates(native, columns, is_needed=member in missing_members(best, []))
        if _is_settled(native, candidates):
            settled[member] = candidates[0]
        else:
            asked[member] = candidates
    needed = missing_members(best, settled)
    questions = {each: asked[each] for each in asked if asked[each] or each in needed}
    return Suggestion(sample, best, is_sure, members, settled, questions)


def missing_members(kind: Kind, found: Container[str]) -> list[str]:
    """Return the members that every row of a kind needs, without those in `found`."""
    columns = LAYOUTS[kind]().columns
    needed = [each.label for each in columns if each.presence == Presence.REQUIRED]
    if kind == Kind.FINES and "settledOn" not in found:
        needed.append("amount")
    return [each for each in needed if each not in found]


def _likely_kind(columns: Sequence[Column]) -> tuple[Kind, bool]:
    """Return the kind whose own members the names mean, and whether one of them is certain."""
    ranks: Counter[str] = Counter()
    for column in columns:
        ranks |= Counter(column.means)  # The surest rank of each member.
    own = {
        kind: [each.name for each in COLUMNS[kind] if each.shape not in (Shape.PLATE, Shape.TIME)]
        for kind in Kind
    }
    # A key that is named tells more than another member.
    keys = {kind: missing_members(kind, ["registration"]) for kind in Kind}
    points = {kind: sum(ranks[each] for each in [*own[kind], *keys[kind]]) for kind in Kind}
    best = max(Kind, key=lambda kind: points[kind])
    is_alone = [*points.values()].count(points[best]) == 1
    return best, is_alone and any(ranks[each] == CERTAIN for each in own[best])


def _candidates(native: Native, columns: Sequence[Column], *, is_needed: bool) -> list[Column]:
    """Return the columns that a member can be by their names, or by their values if it is a key.

    First come those whose values fit, then those with surer names; names of others come last.
    """
    ranked = []
    for each in columns:
        rank = each.means.get(native.label, 0)
        is_other = OTHER in each.means or CERTAIN in each.means.values()
        if rank or (is_needed and not is_other and each.can_be_key(native)):
            is_misfit = not each.fits(native)
            if rank > PART or not is_misfit:
                order = (is_misfit, -rank, bool(each.means.keys() - {WITHOUT}))
                ranked.append((order, each))
    return [each for _, each in sorted(ranked, key=itemgetter(0))]


def _is_settled(native: Native, candidates: Sequence[Column]) -> bool:
    """Tell whether only one name is certain for a member, and nothing speaks against it."""
    certain = [each for each in candidates if each.means.get(native.label) == CERTAIN]
    if len(certain) != 1 or WITHOUT in certain[0].means or not certain[0].fits(native):
        return False
    # A council's licence plates, and a fleet's own numbers, can look like registrations.
    rivals = (each for each in candidates if native.label in each.means and each not in certain)
    is_alone = certain[0].are_distinct and not any(each.can_be_key(native) for each in rivals)
    return is_alone or SHAPES[native.label] != Shape.PLATE
