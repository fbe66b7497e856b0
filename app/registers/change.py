"""What a load changed, as the history of loads keeps it and as people read it."""

from collections.abc import Mapping
from typing import Any

import msgspec

from app.registers.applying.answers import Turned
from app.registers.applying.counts import VALUES_MAX, Counts

INSURERS_MAX = 100
"""The insurers that the history names."""


class MemberChange(msgspec.Struct, omit_defaults=True):
    """How one member changed. Pairs are before and after the load.

    Of a merge only the rows count that it touched. If its keys are mostly new, the rows before are
    also those of its plates, and the values before are also those of the last row of each plate.
    """

    known: tuple[int, int] = (0, 0)
    """Rows that have a value."""
    values: tuple[int, int] = (0, 0)
    """Different values; 1,000 also stands for more."""
    had: int = 0
    """Rows with a value before that the load has, too. Of these:"""
    lost: int = 0
    """they have none now,"""
    changed: int = 0
    """they have another one,"""
    misplaced: int = 0
    """and it is an expiry that moved back, or is over 20 years away;"""
    day_sooner: int = 0
    """or it is an agency's, and moved back by one day only, which breaks no rule."""
    gained: int = 0
    """Rows of the load that had no value before, and have one now."""


class LoadChange(msgspec.Struct, omit_defaults=True):
    """How a load changed the rows of its kind, and with them the answers of all registers."""

    day: str = ""
    """ISO date on which the load began; both sides are judged by it."""
    held: tuple[int, int] = (0, 0)
    """Rows that the register holds, before and after."""
    in_force: tuple[int, int] = (0, 0)
    """Rows in force on the day of the load; of a merge only those that it touched."""
    added: int = 0
    removed: int = 0
    updated: int = 0
    plates: int = 0
    """Plates whose rows changed so that answers may differ."""
    left: int = 0
    """Plates that had a row in force in this register, and have none now."""
    moved: int = 0
    """Numbers of policies, or references of fines, that moved to another plate."""
    answers: dict[str, Turned] = {}
    """For each of `app.registers.applying.answers.ANSWERS` that changed, how many plates."""
    day_sooner: dict[str, int] = {}
    """By answer: of the plates that lost it, those that did so only because an agency's last day is
    a day sooner, which breaks no rule."""
    insurers: dict[str, Turned] = {}
    """By insurer: plates that it covers now, and plates of its that are without cover now. All but
    100 insurers are counted together, with an empty name."""
    members: dict[str, MemberChange] = {}
    """By the name of the member; those whose values changed."""

    def member(self, name: str) -> MemberChange:
        """Return how a member changed."""
        return self.members.get(name, MemberChange())

    def turned(self, answer: str) -> Turned:
        """Return how many plates have another answer now."""
        return self.answers.get(answer, Turned())


def change_by(counts: Counts) -> LoadChange:
    """Return what the rows of a load changed, from its complete counts."""
    before = counts.known_before + counts.gone
    after, same, answers = counts.known, counts.known_before, counts.answers
    known, values = before.known, before.values
    if counts.latest.rows > same.rows:
        # Damaged numbers make every key of a policy new. A register keeps the numbers of all years,
        # so only the last year's are compared with those of the load.
        known, values = (before + counts.beside).known, (before + counts.latest).values
    members = {}
    lost, gained, changed, misplaced, day_sooner = counts.differences.to_tuple()
    for at, member in enumerate(before.members):
        members[member.name] = MemberChange(
            known=(known[at], after.known[at]),
            values=(min(len(values[at]), VALUES_MAX), min(len(after.values[at]), VALUES_MAX)),
            had=same.known[at],
            lost=lost[at],
            gained=gained[at],
            changed=changed[at],
            misplaced=misplaced[at],
            day_sooner=day_sooner[at],
        )
    return LoadChange(
        day=counts.day,
        held=(counts.held_before, counts.held),
        in_force=(before.live, after.live),
        added=counts.added.rows,
        removed=counts.removed,
        updated=counts.updated.rows,
        plates=answers.plates,
        left=answers.left,
        moved=answers.moves.count,
        answers={name: each for name, each in answers.answers.items() if any(each)},
        day_sooner=dict(answers.day_sooner),
        insurers=_worst(answers.insurers),
        members=members,
    )


def _worst(insurers: Mapping[str, Turned]) -> dict[str, Turned]:
    """Return the insurers that lose most by name, and the sum of all others without one."""
    order = sorted(insurers, key=lambda name: (bool(name), *insurers[name][::-1]), reverse=True)
    worst = {name: insurers[name] for name in order[:INSURERS_MAX] if name}
    others = [each for name, each in insurers.items() if name not in worst]
    rest = Turned(sum(each.gained for each in others), sum(each.lost for each in others))
    return worst | ({"": rest} if any(rest) else {})


def change_of(load: Any) -> LoadChange | None:
    """Return what a load changed, from its history line; None if that was not counted."""
    return msgspec.json.decode(load.change, type=LoadChange) if load.change else None
