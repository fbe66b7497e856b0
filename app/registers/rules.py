"""The rules that a load must keep: each limits a kind of damage (D157).

Every rule has a name, by which an operator can accept that one load breaks it.
A rule compares counts of the load with what was there before. The first load of a kind has nothing
to compare with, so it breaks none.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from app.errors import OperatorError
from app.registers.applying.answers import Turned
from app.registers.applying.counts import FAR_YEARS, VALUES_MAX
from app.registers.baseline import Baseline
from app.registers.change import Change, MemberChange
from app.registers.request import ACCEPTED, LOSS, SHRINK, LoadRequest
from app.storage.tables import Kind

ROWS_PERCENT = 10
ANSWERS_PERCENT = 4
INSURERS_PERCENT = 10
ROWS_CHANGED_PERCENT = 5
VARIETY_ROWS_MIN = 500
"""The rows of a smaller register are often alike."""
_MANY = 10
"""Fewer rows or plates may always change, unless they are most of the register."""
_FEW = 2
"""So many may change even then: somebody tries the program out, or has two cars."""

RULES: Mapping[str, str] = {
    "rows": f"over {ROWS_PERCENT} % of the rows in force would be gone, or all rows",
    "values": "rows would lose a member, in more than VERIFYD_LOSS_MAX % of those that had it",
    "variety": "a member would have half as many different values as before, or fewer, in a "
    f"replace of at least {VARIETY_ROWS_MIN} rows",
    "dates": f"in over {ROWS_CHANGED_PERCENT} % of the rows, motExpiry, taxDue or validTo would "
    f"move back, or be more than {FAR_YEARS} years away",
    "identity": f"over {ROWS_CHANGED_PERCENT} % of the vehicles would have another make, year or "
    "first registration",
    "numbers": f"over {ROWS_CHANGED_PERCENT} % of the policies or fines would move to other plates",
    "insured": f"over {ANSWERS_PERCENT} % of the plates would lose their cover",
    "insurers": f"over {INSURERS_PERCENT} % of the plates of one insurer would lose their cover",
    "mot": f"over {ANSWERS_PERCENT} % of the vehicles would lose their MOT",
    "tax": f"over {ANSWERS_PERCENT} % of the vehicles would lose their road tax",
}
"""By name: what breaks the rule."""
_UNVARIED = frozenset("validFrom validTo motExpiry taxDue cancelledOn issuedOn".split())
"""Days: they are rightly the same if all policies are renewed at once."""
_IDENTITY = ("make", "year", "firstRegistered")
_FIRST_KNOWN = {
    "cancelledOn": ("rows", "insured", "insurers"),
    "settledOn": ("rows",),
    "taxDue": ("tax",),
}
"""Members that make answers worse; once they become known, these rules do not apply."""


class Facts(NamedTuple):
    """What rules judge."""

    kind: Kind
    is_replace: bool
    change: Change
    baseline: Baseline
    request: LoadRequest
    insured_by: Callable[[Sequence[str]], Mapping[str, int]]
    """Returns how many rows in force each of these insurers had before."""
    is_new: Callable[[str], bool]
    """Tells whether no row of the register knew a member before."""

    def former(self, rule: str, word: str) -> Iterator[Change]:
        """Yield the changes of earlier loads whose losses add up to those of this one.

        Args:
            rule: those before it was last accepted do not count.
            word: another word by which it is accepted.
        """
        for accepted, change in self.baseline.former:
            if {f"{ACCEPTED}{rule}", word}.intersection(accepted):
                return
            yield change


def broken_rules(facts: Facts) -> dict[str, str]:
    """Return the rules that a load breaks, each with its explanation in numbers, without values."""
    change = facts.change
    if not change.held[0]:
        nothing = facts.is_replace and not change.held[1]
        return {"rows": f"the files hold no {facts.kind}"} if nothing else {}
    broken = {name: told for name, judge in _JUDGES.items() if (told := judge(facts))}
    broken |= dict(_answers(facts))
    for member, rules in _FIRST_KNOWN.items():
        is_known = change.members.get(member, MemberChange()).known[1] > 0
        if is_known and broken.keys() & set(rules) and facts.is_new(member):
            broken = {name: told for name, told in broken.items() if name not in rules}
    return broken


def require_rules(facts: Facts) -> list[str]:
    """Raise RulesBroken if a load breaks rules that are not accepted.

    Returns a note on each broken rule that is accepted.
    """
    broken = broken_rules(facts)
    refused = {name: told for name, told in broken.items() if not facts.request.accepts(name)}
    if refused:
        raise RulesBroken(refused)
    return [f"accepted {name}: {told}" for name, told in broken.items()]


class RulesBroken(OperatorError):
    """A load breaks rules, so nothing was changed.

    Args:
        broken: by the name of the rule its explanation, which quotes no value.
    """

    def __init__(self, broken: Mapping[str, str]) -> None:
        self.broken = broken
        told = "; ".join(f"{name}: {told}" for name, told in broken.items())
        options = " ".join(f"--accept {name}" for name in broken)
        what = "a rule" if len(broken) == 1 else "rules"
        super().__init__(
            f"the load breaks {what}: {told}; if that is right, repeat the load with {options}"
        )


def _is_many(facts: Facts, count: int, base: int, percent: float) -> bool:
    """Tell whether a part of what a load affects is too large.

    Args:
        base: of how many; of a merge often only of those that it touches.
    """
    is_some = count >= _MANY or (count > _FEW and 2 * count > facts.change.held[0])
    return is_some and 100 * count > percent * base


def _rows(facts: Facts) -> str | None:
    change, kind = facts.change, facts.kind
    if not change.held[1] and (facts.is_replace or change.held[0] > _FEW):
        return f"no {kind} would be left of {change.held[0]:,}"
    before, after = change.in_force
    gone, base, since = before - after, change.held[0], ""
    if facts.is_replace:
        most = max(before, facts.baseline.in_force)
        since = f" since load {facts.baseline.load_id}" if most > before else ""
        gone, base = most - after, most
    else:
        former = facts.former("rows", SHRINK)
        gone += sum(each.in_force[0] - each.in_force[1] for each in former)
    # A fine usually leaves the file because it was paid.
    many = max(gone, change.left if kind != Kind.FINES else 0)
    if not _is_many(facts, many, base, ROWS_PERCENT):
        return None
    return f"{many:,} of {base:,} {kind} in force would be gone{since}, over {ROWS_PERCENT} %"


def _values(facts: Facts) -> str | None:
    told = []
    for name, member in facts.change.members.items():
        if name in facts.request.allow_loss:
            continue
        lost, had = _lost(facts, name, member)
        if _is_many(facts, lost, had, facts.request.loss_max):
            told.append(f"{lost:,} of {had:,} rows would lose {name}")
    return ", ".join(told) or None


def _lost(facts: Facts, name: str, member: MemberChange) -> tuple[int, int]:
    """Return how many rows lose a member, net of what came back since, and how many had it."""
    former = [
        each.members.get(name, MemberChange()) for each in facts.former("values", f"{LOSS}{name}")
    ]
    net = sum(each.lost - each.gained for each in (member, *former))
    if not facts.is_replace:
        return net, sum(each.had for each in (member, *former))
    change, (before, after) = facts.change, member.known
    if 2 * (change.held[0] - change.removed) >= change.held[0] or 2 * before < change.held[0]:
        return max(member.lost, net), member.had
    # Most keys are new: the rows with them have as large a share of values, unless it is lost.
    return round(before * change.held[1] / change.held[0]) - after, before


def _variety(facts: Facts) -> str | None:
    if not facts.is_replace or min(facts.change.held) < VARIETY_ROWS_MIN:
        return None
    change, told = facts.change, []
    exchanged = max(change.added, change.removed)
    for name, member in change.members.items():
        before, after = member.values
        touched = member.changed + exchanged
        # The rule about values judges members that all rows lose.
        is_poorer = before > 1 and 2 * after <= before and (after or not member.lost)
        if (
            name not in _UNVARIED
            and is_poorer
            and _is_many(facts, touched, member.known[0], ROWS_CHANGED_PERCENT)
        ):
            most = "over " if before == VALUES_MAX else ""
            told.append(f"{name} would have {after:,} different values, before {most}{before:,}")
    return ", ".join(told) or None


def _dates(facts: Facts) -> str | None:
    many = max((each.misplaced for each in facts.change.members.values()), default=0)
    return _of_rows(
        facts, many, f"would end earlier than before, or be over {FAR_YEARS} years away"
    )


def _identity(facts: Facts) -> str | None:
    members = facts.change.members
    many = max(members.get(name, MemberChange()).changed for name in _IDENTITY)
    return _of_rows(facts, many, "would have another make, year or first registration")


def _of_rows(facts: Facts, many: int, what: str) -> str | None:
    repeated = max((each.had for each in facts.change.members.values()), default=0)
    if not _is_many(facts, many, repeated, ROWS_CHANGED_PERCENT):
        return None
    return f"{many:,} of {repeated:,} {facts.kind} {what}, over {ROWS_CHANGED_PERCENT} %"


def _numbers(facts: Facts) -> str | None:
    moved, held = facts.change.moved, facts.change.held[0]
    if not _is_many(facts, moved, held, ROWS_CHANGED_PERCENT):
        return None
    return f"{moved:,} of {held:,} {facts.kind} would move to other plates"


def _insurers(facts: Facts) -> str | None:
    lost = {
        name: each.lost for name, each in facts.change.insurers.items() if name and each.lost > 1
    }
    if not lost:
        return None
    had = facts.insured_by(list(lost))
    worst = [
        f"{many:,} of {had.get(name, many):,}"
        for name, many in lost.items()
        if _is_many(facts, many, had.get(name, many), INSURERS_PERCENT)
    ]
    if not worst:
        return None
    one = "an insurer's" if len(worst) == 1 else f"{len(worst)} insurers'"
    return f"{one} plates would lose their cover: {', '.join(worst[:3])}"


_JUDGES: Mapping[str, Callable[[Facts], str | None]] = {
    "rows": _rows,
    "values": _values,
    "variety": _variety,
    "dates": _dates,
    "identity": _identity,
    "numbers": _numbers,
    "insurers": _insurers,
}


def _answers(facts: Facts) -> Iterator[tuple[str, str]]:
    """Yield the rules about checks that a load breaks."""
    change = facts.change
    base = (
        change.in_force[0] if facts.kind == Kind.POLICIES and facts.is_replace else change.held[0]
    )
    for name, what in (("insured", "cover"), ("mot", "MOT"), ("tax", "road tax")):
        lost = change.answers.get(name, Turned()).lost
        if _is_many(facts, lost, base, ANSWERS_PERCENT):
            yield (
                name,
                f"{lost:,} plates would lose their {what}, over {ANSWERS_PERCENT} % of {base:,}",
            )
