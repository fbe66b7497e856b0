"""Explains the answer for a plate: which register decided what, and which policy was chosen.

This module finds in the rows of each register where every value of the answer comes from.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from app import clock
from app.storage.engine import Engine
from app.storage.registers import with_current_registers
from app.vehicles.compliance import Verdict, judge
from app.vehicles.contradictions import Contradicted, contradicted, opposite_in_words
from app.vehicles.deciding import LoadTimes, mot_decided_by
from app.vehicles.facts import DESCRIPTION, Basis, Record
from app.vehicles.periods import Period, newest_update
from app.vehicles.policies import Choice, PolicyState, explain_choice, policy_state
from app.vehicles.reader import FoundPlate, VehicleReader
from app.vehicles.records import Read
from app.vehicles.suggestions import suggestions


class Decision(NamedTuple):
    """Where one member of the answer comes from."""

    column: str
    """The name of the member in the API."""
    value: str | int | bool | None
    """As the API answers it."""
    registers: tuple[str, ...]
    """The registers that decided it, in the order of precedence; none if no register knows it."""
    why: str
    contradicted_by: tuple[str, ...] = ()
    """The registers that say the opposite of a check, in the order of precedence."""
    is_known: bool = True
    """Whether the registers know the outcome of a check (D198)."""


class Explanation(NamedTuple):
    """One plate: its answer, and the reason for each member."""

    found: FoundPlate
    choice: Choice | None
    decisions: tuple[Decision, ...]
    contradicted: Contradicted = Contradicted()
    suggested: Sequence[Record] = ()
    """Known plates that this one may be a misreading of, if it is not known."""


class Explained(NamedTuple):
    """Explanations of plates, all from the same state of the registers."""

    registers: Read
    """All registers, in the order of precedence."""
    plates: list[Explanation]
    times: LoadTimes
    """When the registers were loaded."""


def explain(
    engine: Engine,
    reader: VehicleReader,
    asked: Sequence[str],
    day: str,
    period: Period | None = None,
    changes_max: int = 1,
) -> Explained:
    """Look plates up and explain each answer; all from the same state of the registers.

    Args:
        asked: plates as they were given.
        day: ISO date to judge by.
        period: begins on this day, if the answers are about one.
        changes_max: how many confusable characters suggestions may change.

    Raises peewee.PeeweeException if a register cannot be read.
    """

    def explained(state: str) -> Explained:
        read = reader.attach(engine, state)
        with engine.consistent_read():
            found = reader.look_up_held(engine, state, asked, day)
            suggested = suggestions(
                [each.registration for each in found if each.registration and not each.record],
                changes_max,
                lambda plates: reader.look_up(state, plates, day, DESCRIPTION)[0],
            )
        plates = [_explanation(each, suggested, day, period, read) for each in found]
        return Explained(read, plates, reader.load_times(state))

    return with_current_registers(engine, explained)


def _explanation(
    found: FoundPlate,
    suggested: Mapping[str, Sequence[Record]],
    day: str,
    period: Period | None,
    registers: Read,
) -> Explanation:
    if found.registration is None:
        return Explanation(found, None, ())
    if found.record is None:
        return Explanation(found, None, (), suggested=suggested[found.registration])
    record = found.record
    choice = explain_choice(record.rows.policies, day)
    judgement = judge(record, day)
    decisions = (
        _insured(record, choice, judgement.insurance, day, registers),
        _policy(choice),
        *(_described(record, column) for column in ("make", "model", "year", "color")),
        _last_updated(record, choice, period, registers),
        _mot(record, judgement.mot, day),
        _tax(record, judgement.tax, day),
        _fines(record, judgement.fines),
    )
    against = contradicted(record, day, registers)
    by_column = dict(zip(_CHECKS, against, strict=True))
    decisions = tuple(_with_opposite(each, by_column.get(each.column, ())) for each in decisions)
    return Explanation(found, choice, decisions, against)


_CHECKS = ("insured", "motValid", "roadTaxPaid", "noOutstandingFines")
"""The columns of the decisions about the four checks."""


def _with_opposite(decision: Decision, registers: tuple[str, ...]) -> Decision:
    """Return a decision with the registers that say the opposite."""
    if not registers:
        return decision
    why = f"{decision.why}; {opposite_in_words(registers)}"
    return decision._replace(why=why, contradicted_by=registers)


def _insured(
    record: Record, choice: Choice | None, verdict: Verdict, day: str, order: Read
) -> Decision:
    """Explain the insurance: the chosen policy decides, else the first known yes or no.

    With a basis, only a policy in force decides alone (D198).
    """
    registers, _ = _first_that_knows(record, "insured")
    said = ""
    if registers:
        said = f"{registers[0]} says {'insured' if record.insured else 'not insured'}"
    why = "no policy is known" if said else _NO_INSURANCE
    if choice is not None:
        state = _STATES[policy_state(choice.policy, day)]
        state = state.format(day=day, **choice.policy._asdict())
        registers = (choice.register,)
        why = f"policy {choice.policy.number} of {choice.register} {state}"
    elif said and (record.basis is None or verdict.reason in ("flag", "none")):
        why = f"{said}, and no policy is known"
        return Decision("insured", verdict.is_good, registers, why)
    else:
        registers = ()
    if record.basis is not None and not verdict.is_good:
        deciding, reasons = _without_cover(record, day, record.basis, said, order)
        registers = tuple(dict.fromkeys((*registers, *deciding)))
        why = "; ".join((why, *reasons))
    return Decision("insured", verdict.is_good, registers, why, is_known=verdict.is_known)


_NO_INSURANCE = "no register knows a policy or says whether it is insured"


def _without_cover(
    record: Record, day: str, basis: Basis, said: str, order: Read
) -> tuple[tuple[str, ...], list[str]]:
    """Return the registers that decide about a vehicle without cover, if any can, and the reasons.

    Args:
        said: what the first register with a yes or no says; empty if none has one.
    """
    reasons = []
    flags = ((name, row) for name, row in record.rows.vehicles if row.insured is not None)
    if flag := next(flags, None):
        name, row = flag
        if basis.was_known(row.updated, day):
            return (name,), [said]
        reasons.append(f"{said} since {basis.first_day(row.updated)}, not known for {day}")
    complete = tuple(name for name in order if name in basis.complete)
    if not complete:
        return (), [*reasons, "no register is known to hold every policy"]
    hold = f"{' and '.join(complete)} {'holds' if len(complete) == 1 else 'hold'}"
    if record.insured:
        return (), [*reasons, f"that contradicts that {hold} every policy"]
    if day >= basis.today:
        return complete, [*reasons, f"{hold} every policy"]
    begins = dict[str, str]()
    for name, policy in record.rows.policies:
        begins[name] = min(policy.valid_from, begins.get(name, policy.valid_from))
    begun = tuple(name for name in complete if name in begins and begins[name] <= day)
    if not begun:
        reasons.append(f"{hold} no policy that began by {day}, and may have removed earlier ones")
    for name in begun:
        reasons.append(f"{name} holds every policy, of this vehicle since {begins[name]}")
    return begun, reasons


_STATES: dict[PolicyState, str] = {
    "valid": "is in force on {day}",
    "expired": "ended on {valid_to}",
    "cancelled": "was cancelled on {cancelled_on}",
    "future": "begins on {valid_from}",
}


def _policy(choice: Choice | None) -> Decision:
    if choice is None:
        return Decision("policy", None, (), "no register knows a policy")
    return Decision("policy", choice.policy.number, (choice.register,), choice.why)


def _described(record: Record, column: str) -> Decision:
    registers, why = _first_that_knows(record, column)
    return Decision(column, getattr(record, column), registers, why)


def _first_that_knows(record: Record, column: str) -> tuple[tuple[str, ...], str]:
    """Return the first register that knows a column of the vehicle, and why it decides."""
    known = [name for name, row in record.rows.vehicles if getattr(row, column) is not None]
    if not known:
        return (), "no register knows it"
    first, *others = known
    if not others:
        return (first,), f"only {first} knows it"
    return (first,), f"{first} comes before {', '.join(others)} in the order of registers"


def _last_updated(
    record: Record, choice: Choice | None, period: Period | None, order: Read
) -> Decision:
    """Explain the time: the newest change of the vehicle rows, and of the policies used (D172)."""
    updated = record.updated if period is None else newest_update(record)
    vehicles, policies, fines = record.rows
    times = [(name, row.updated) for name, row in vehicles]
    what = "a vehicle row or the policy"
    if choice is not None:
        times.append((choice.register, choice.policy.updated))
    if period is not None:
        what = "a vehicle row, the policy, or one that ends in the period or later"
        times += [(name, each.updated) for name, each in policies if each.end >= period.first]
    if not times:
        times = [(name, fine.updated) for name, fine in fines]
        what = "a fine, since nothing else is known"
    newest = {register for register, time in times if time == updated}
    registers = tuple(name for name in order if name in newest)
    why = f"the newest change of {what}"
    return Decision("lastUpdated", clock.iso_utc(updated), registers, why)


def _mot(record: Record, verdict: Verdict, day: str) -> Decision:
    """Explain the MOT: any exemption, else the latest expiry, else the first years.

    With a basis, values count for the days for which they were known (D198).
    """
    basis, registers = record.basis, tuple(mot_decided_by(record, verdict, day))
    match verdict.reason:
        case "exempt":
            why = "any register can say exempt"
        case "not_due":
            count = record.mot_first_years
            years = f"{count} {'year' if count == 1 else 'years'}"
            why = f"first registered on {record.first_registered}, and no MOT is due for {years}"
        case "unknown":
            why = "no register knows an expiry"
        case "valid" | "not_known_then" if basis is not None and day != basis.today:
            registers, why = _papers_then(record, verdict, day, basis)
        case _:
            why = f"expiry {record.mot_expiry}, the latest that any register knows"
    return Decision("motValid", verdict.is_good, registers, why, is_known=verdict.is_known)


def _papers_then(
    record: Record, verdict: Verdict, day: str, basis: Basis
) -> tuple[tuple[str, ...], str]:
    """Return the registers whose expiry covers another day than today, and since when it is known.

    If none does, return none, and since when what they say is known.
    """
    covering, said = [], []
    for name, row in record.rows.vehicles:
        since = basis.first_day(row.updated)
        if row.mot_exempt:
            said.append(f"{name} says exempt since {since}")
        if row.mot_expiry:
            said.append(f"{name} says expiry {row.mot_expiry} since {since}")
            if since <= day <= row.mot_expiry:
                covering.append((name, said[-1]))
    if not verdict.is_good:
        return (), f"{', '.join(said)}: not known for {day}"
    return tuple(name for name, _ in covering), ", ".join(each for _, each in covering)


def _tax(record: Record, verdict: Verdict, day: str) -> Decision:
    """Explain the tax: status and last paid day of the first register that knows a status."""
    registers, why = _first_that_knows(record, "tax_status")
    if registers:
        due = f", paid until {record.tax_due}" if record.tax_due else ""
        then = ""
        if record.basis is not None and verdict.reason == "not_known_then":
            updated = dict(record.rows.vehicles)[registers[0]].updated
            then = f" since {record.basis.first_day(updated)}, not known for {day}"
        why = f"{record.tax_status}{due}{then}; {why}"
    else:
        why = "no register knows a tax status"
    return Decision("roadTaxPaid", verdict.is_good, registers, why, is_known=verdict.is_known)


def _fines(record: Record, verdict: Verdict) -> Decision:
    """Explain the fines: one that is owed in any register is enough."""
    owed = [name for name, fine in record.rows.fines if not fine.settled]
    if not verdict.is_known:
        why = "no register has fines"
    elif not owed:
        why = "no register knows a fine that is owed now"
    else:
        fines = "one fine is" if len(owed) == 1 else f"{len(owed)} fines are"
        why = f"{fines} owed now, whatever the day"
    registers = tuple(dict.fromkeys(owed))
    return Decision(
        "noOutstandingFines", verdict.is_good, registers, why, is_known=verdict.is_known
    )
