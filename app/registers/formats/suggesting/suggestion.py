"""Finds which column of a CSV file is which member, and what only a person can tell (D99)."""

from collections import Counter
from collections.abc import Container, Mapping, Sequence
from functools import cache
from itertools import chain
from operator import itemgetter
from typing import NamedTuple

from app.registers.formats.columns import Column as Native
from app.registers.formats.columns import Presence
from app.registers.formats.native import LAYOUTS
from app.registers.formats.suggesting.names import CERTAIN, OTHER, PART, WITHOUT
from app.registers.formats.suggesting.sample import Column, Sample
from app.storage.tables import Kind

PLATE = "registration"
_BEGINS_MAX = 4


class Suggestion(NamedTuple):
    """What is settled, and what is asked."""

    sample: Sample
    kind: Kind
    is_kind_sure: bool
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
    ranks: Counter[str] = Counter()
    for each in columns:
        ranks |= Counter(each.means)  # The surest rank of each member.
    # A key that is named tells more than another member.
    points = {
        each: sum(ranks[m] for m in [*own_members(each), *missing_members(each, [PLATE])])
        for each in Kind
    }
    best = kind or max(Kind, key=lambda each: points[each])
    is_alone = [*points.values()].count(points[best]) == 1
    is_certain = any(ranks[member] == CERTAIN for member in own_members(best))
    is_sure = kind is not None or (is_alone and is_certain)
    settled, open_ = {}, {}
    for member, native in members_of(best).items():
        candidates = _candidates(native, columns, is_needed=member in missing_members(best, []))
        if _is_settled(native, candidates):
            settled[member] = candidates[0]
        else:
            open_[member] = candidates
    needed = missing_members(best, settled)
    questions = {each: open_[each] for each in open_ if open_[each] or each in needed}
    return Suggestion(sample, best, is_sure, settled, questions)


@cache
def members_of(kind: Kind) -> Mapping[str, Native]:
    """Return the columns of the native layout of a kind, by member."""
    return {each.label: each for each in LAYOUTS[kind]().columns}


def own_members(kind: Kind) -> list[str]:
    """Return the members that no other kind has."""
    return [each for each in members_of(kind) if each not in (PLATE, "lastUpdated")]


def missing_members(kind: Kind, found: Container[str]) -> list[str]:
    """Return the members that every row of a kind needs, without those in `found`."""
    members = members_of(kind)
    needed = [each for each in members if members[each].presence == Presence.REQUIRED]
    if kind == Kind.FINES and "settledOn" not in found:
        needed.append("amount")
    return [each for each in needed if each not in found]


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
    return native.label != PLATE or is_alone
