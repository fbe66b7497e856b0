"""The rules that a load must keep: each limits a kind of damage (D157).

Every rule has a name, by which an operator can accept that one load breaks it.
A rule compares counts of the load with what was there before. The first load of a kind has nothing
to compare with, so it breaks none.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import attrgetter, itemgetter
from typing import NamedTuple

from app.errors import OperatorError
from app.registers.applying.answers import Turned
from app.registers.applying.counts import FAR_YEARS, MEMBERS, VALUES_MAX
from app.registers.baseline import Baseline
from app.registers.change import LoadChange, MemberChange
from app.registers.request import ACCEPTED, LOSS, SHRINK, LoadRequest
from app.storage.tables import Kind
from app.text import counted

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
    "variety": "a member would have half as many different values as before, or fewer, in at "
    f"least {VARIETY_ROWS_MIN} rows",
    "dates": f"in over {ROWS_CHANGED_PERCENT} % of the rows, motExpiry, taxDue or validTo would "
    f"move back, or be more than {FAR_YEARS} years away",
    "identity": f"over {ROWS_CHANGED_PERCENT} % of the vehicles would have another make, year or "
    "first registration",
    "numbers": f"over {ROWS_CHANGED_PERCENT} % of the policies or fines would move to other plates",
    "insured": f"over {ANSWERS_PERCENT} % of the plates would lose their cover",
    "insurers": f"over {INSURERS_PERCENT} % of the plates of one insurer would lose their cover",
    "mot": f"over {ANSWERS_PERCENT} % of the vehicles would lose their MOT",
    "tax": f"over {ANSWERS_PERCENT} % of the vehicles would lose their road tax",
    "fines": f"over {ANSWERS_PERCENT} % of the vehicles would fail because of fines",
    "spreadsheet": "in the first load of a kind, at least half of the registrations are days, or "
    "of the numbers, insurers or references have exponents",
}
"""By name: what breaks the rule."""
_UNVARIED = frozenset("validFrom validTo motExpiry taxDue cancelledOn issuedOn".split())
"""Days: they are rightly the same if all policies are renewed at once."""
_IDENTITY = ("make", "year", "firstRegistered")
_WORSENING = {
    Kind.POLICIES: ("cancelledOn", ("rows", "insured", "insurers")),
    Kind.FINES: ("settledOn", ("rows",)),
    Kind.VEHICLES: ("taxDue", ("tax",)),
}
"""By kind a member that ends what was in force. If no row knew it before, these rules excuse as
many rows as know it now, up to half of the register."""


class Facts(NamedTuple):
    """What rules judge."""

    kind: Kind
    is_replace: bool
    change: LoadChange
    baseline: Baseline
    rows: int
    """How many rows the files have."""
    day_before: frozenset[str]
    """The members whose dates in the files are the first day without."""
    altered: Mapping[str, int]
    """By member: how many values of the files a spreadsheet has changed."""
    request: LoadRequest
    insured_by: Callable[[Sequence[str]], Mapping[str, int]]
    """Returns how many rows in force each of these insurers had before."""
    count_known: Callable[[str], int]
    """Returns how many rows of the register knew a member before."""
    count_vehicles: Callable[[], int]
    """Returns how many vehicles the largest register has."""

    def former(self, rule: str, word: str) -> Iterator[LoadChange]:
        """Yield the changes of earlier loads whose losses add up to those of this one.

        Args:
            rule: those before it was last accepted do not count.
            word: another word by which it is accepted.
        """
        for accepted, change in self.baseline.former:
            if {f"{ACCEPTED}{rule}", word}.intersection(accepted):
                return
            yield change

    def added_up(
        self, rule: str, counts_of: Callable[[LoadChange], tuple[int, int]], word: str = ""
    ) -> int:
        """Return the losses of this load and of earlier ones, less what came back in later loads.

        Fewer than ten do not add up: somebody corrects a row of a small register again and again.

        Args:
            rule, word: see `former`.
            counts_of: returns how much a load lost, and how much it brought.
        """
        total = 0
        for change in (*reversed(list(self.former(rule, word))), self.change):
            lost, gained = counts_of(change)
            total = max(0, total - gained) + lost
        return total if total >= _MANY else counts_of(self.change)[0]

    def lost(self, rule: str, counts_of: Callable[[LoadChange], tuple[int, int]]) -> int:
        """Return the losses of a load; those of merges add up."""
        return counts_of(self.change)[0] if self.is_replace else self.added_up(rule, counts_of)

    def excused(self, rule: str) -> int:
        """Return how many rows or plates a rule excuses, because it is known now why they end."""
        member, rules = _WORSENING[self.kind]
        known = self.change.member(member).known[1] if rule in rules else 0
        return min(known, self.change.held[0] // 2) if known and not self.count_known(member) else 0


def broken_rules(facts: Facts) -> dict[str, str]:
    """Return the rules that a load breaks, each with its explanation in numbers, without values."""
    change = facts.change
    if not change.held[0]:
        nothing = facts.is_replace and not change.held[1]
        if nothing:
            return {"rows": f"the files hold no {facts.kind}"}
        altered = altered_by_spreadsheet(facts)
        return {"spreadsheet": ", ".join(altered)} if altered else {}
    broken = {name: told for name, judge in _JUDGES.items() if (told := judge(facts))}
    return broken | dict(_answers(facts))


def altered_by_spreadsheet(facts: Facts) -> list[str]:
    """Return the reasons for members of which a spreadsheet has changed at least half."""
    rows = facts.rows
    told = []
    for member, many in facts.altered.items():
        if rows >= _MANY and 2 * many >= rows:
            what = (
                "are days such as 9999-99-99, perhaps made of plates such as 11-12-13"
                if member == "registration"
                else "have an exponent such as 9.99E+99, and have lost their last digits"
            )
            told.append(
                f"{many:,} of {rows:,} values of {member} {what}: make the column text in the "
                "spreadsheet before the values are entered or imported, and export it again"
            )
    return told


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
    return is_some(count, facts.change.held[0]) and 100 * count > percent * base


def is_some(count: int, held: int) -> bool:
    """Tell whether these are so many rows or plates of a register that a rule can be broken."""
    return count >= _MANY or (count > _FEW and 2 * count > held)


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
        gone = facts.added_up("rows", _rows_lost, SHRINK)
    # A fine usually leaves the file because it was paid.
    many = max(gone, change.left if kind != Kind.FINES else 0)
    if _is_many(facts, many, base, ROWS_PERCENT):
        many -= facts.excused("rows")
    if not _is_many(facts, many, base, ROWS_PERCENT):
        return None
    return f"{many:,} of {base:,} {kind} in force would be gone{since}, over {ROWS_PERCENT} %"


def _rows_lost(change: LoadChange) -> tuple[int, int]:
    before, after = change.in_force
    return max(0, before - after), max(0, after - before)


def _values(facts: Facts) -> str | None:
    told = []
    for name, member in facts.change.members.items():
        if name in facts.request.allow_loss:
            continue
        lost, had = _lost(facts, name, member)
        if _is_many(facts, lost, had, facts.request.loss_max):
            told.append(f"{lost:,} of {counted(had, 'row')} would lose {name}")
    return ", ".join(told) or None


def _lost(facts: Facts, name: str, member: MemberChange) -> tuple[int, int]:
    """Return how many rows lose a member, less what came back since, and how many had it."""

    def counts_of(change: LoadChange) -> tuple[int, int]:
        found = change.member(name)
        return found.lost, found.gained

    lost = facts.added_up("values", counts_of, f"{LOSS}{name}")
    if not facts.is_replace:
        return lost, _had(facts, name, lost, "values", f"{LOSS}{name}")
    change, (before, after) = facts.change, member.known
    if 2 * (change.held[0] - change.removed) >= change.held[0] or 2 * before < change.held[0]:
        return lost, member.had
    # Most keys are new: the rows with them have as large a share of values, unless it is lost.
    return round(before * change.held[1] / change.held[0]) - after, before


def _had(facts: Facts, name: str, many: int, rule: str, word: str = "") -> int:
    """Return how many of the rows that merges touched had a member, each counted once.

    Args:
        many: how many break the rule; the register is read only if they are some.
    """
    former = [each.member(name) for each in facts.former(rule, word)]
    had = sum(each.had for each in (facts.change.member(name), *former))
    if many < _MANY or not former:
        return had
    # Merges of whole files touch the same rows every night.
    return min(had, facts.count_known(name) + sum(each.lost for each in former))


def _variety(facts: Facts) -> str | None:
    change, told = facts.change, []
    if min(change.held) < VARIETY_ROWS_MIN:
        return None
    flags = {member.name for member in MEMBERS[facts.kind] if member.is_flag}
    exchanged = max(change.added, change.removed)
    for name, member in change.members.items():
        if not facts.is_replace and 2 * max(member.known) < change.held[0]:
            continue  # The rows of a small merge are often alike.
        before, after = member.values
        if name in flags and member.known[1] == change.held[1] > member.known[0]:
            before += 1  # Of a flag, no value is one, too.
        touched = member.changed + member.gained
        if before > 2:
            touched += exchanged
        # The rule about values judges members that all rows lose.
        is_poorer = before > 1 and 2 * after <= before and (after or not member.lost)
        if (
            name not in _UNVARIED
            and is_poorer
            and _is_many(facts, touched, member.known[0], ROWS_CHANGED_PERCENT)
        ):
            most = "over " if before == VALUES_MAX else ""
            values = "value" if after == 1 else "different values"
            told.append(f"{name} would have {after:,} {values}, before {most}{before:,}")
    return ", ".join(told) or None


def _dates(facts: Facts) -> str | None:
    names = [member.name for member in MEMBERS[facts.kind] if member.is_expiry]
    # Agencies write the first day without; of policies only a mapping says so.
    may_be_sooner = facts.kind == Kind.VEHICLES or facts.day_before.issuperset(names)

    def count_of(member: MemberChange) -> int:
        return member.misplaced + (0 if may_be_sooner else member.day_sooner)

    what = f"would have a date that moved back, or is over {FAR_YEARS} years away"
    return _of_rows(facts, "dates", names, count_of, what)


def _identity(facts: Facts) -> str | None:
    what = "would have another make, year or first registration"
    return _of_rows(facts, "identity", _IDENTITY, attrgetter("changed"), what)


def _of_rows(
    facts: Facts,
    rule: str,
    names: Sequence[str],
    count_of: Callable[[MemberChange], int],
    what: str,
) -> str | None:
    """Return an explanation if one of the members is wrong in too many of the rows that had one."""

    def count(name: str) -> int:
        return facts.lost(rule, lambda change: (count_of(change.member(name)), 0))

    many, name = max(((count(name), name) for name in names), default=(0, ""))
    members = facts.change.members.values()
    repeated = max((each.had for each in members), default=0)
    if not facts.is_replace:
        repeated = max(repeated, _had(facts, name, many, rule))
    if not _is_many(facts, many, repeated, ROWS_CHANGED_PERCENT):
        return None
    return f"{many:,} of {repeated:,} {facts.kind} {what}, over {ROWS_CHANGED_PERCENT} %"


def _numbers(facts: Facts) -> str | None:
    moved, held = facts.change.moved, facts.change.held[0]
    if not _is_many(facts, moved, held, ROWS_CHANGED_PERCENT):
        return None
    return f"{moved:,} of {held:,} {facts.kind} would move to other plates"


def _insurers(facts: Facts) -> str | None:
    def count(name: str) -> int:
        def counts_of(change: LoadChange) -> tuple[int, int]:
            turned = change.insurers.get(name, Turned())
            return turned.lost, turned.gained

        return facts.lost("insurers", counts_of)

    names = [name for name, each in facts.change.insurers.items() if name and each.lost]
    lost = {name: many for name in names if (many := count(name)) > 1}
    if not lost:
        return None
    had, excused = facts.insured_by(list(lost)), facts.excused("insurers")
    worst = [
        f"{many:,} of {had.get(name, many):,}"
        for name, many in sorted(lost.items(), key=itemgetter(1), reverse=True)
        if _is_many(facts, many - excused, had.get(name, many), INSURERS_PERCENT)
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
    change, kind = facts.change, facts.kind
    base = change.in_force[0] if kind == Kind.POLICIES and facts.is_replace else change.held[0]
    if kind == Kind.FINES and change.turned("fines").lost:
        base = max(base, facts.count_vehicles())
    for name, what in _CHECKS.items():
        lost = _lost_answers(facts, name)
        if _is_many(facts, lost, base, ANSWERS_PERCENT):
            lost -= facts.excused(name)
        if _is_many(facts, lost, base, ANSWERS_PERCENT):
            told = f"{lost:,} plates would {what}, over {ANSWERS_PERCENT} % of {base:,}"
            yield name, told


def _lost_answers(facts: Facts, name: str) -> int:
    """Return for how many plates an answer gets worse."""

    def counts_of(change: LoadChange) -> tuple[int, int]:
        turned = change.turned(name)
        # The rule about rows judges vehicles that leave.
        gone = change.turned("known").lost if facts.kind == Kind.VEHICLES else 0
        return max(0, turned.lost - gone - change.day_sooner.get(name, 0)), turned.gained

    if name == "fines" and facts.kind != Kind.FINES:
        return 0
    return facts.lost(name, counts_of)


_CHECKS = {
    "insured": "lose their cover",
    "mot": "lose their MOT",
    "tax": "lose their road tax",
    "fines": "fail because of fines",
}
"""By rule and answer what happens to plates."""
