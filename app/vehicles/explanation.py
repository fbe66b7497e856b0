"""Why a plate is answered as it is: which register decided what, and which policy was chosen.

The rules stand here a second time, in words: `records` asks the database for the answer, and this
module finds in the rows of each register where it comes from (D20 to D26, D33). The tests hold
the two against each other.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from app.storage.engine import Engine
from app.storage.registers import in_precedence
from app.vehicles.choice import Choice, choose_policy
from app.vehicles.compliance import judge
from app.vehicles.holdings import Holding, holdings_of
from app.vehicles.insurance import is_insured, policy_reason
from app.vehicles.reader import Found, VehicleReader, with_current_registers
from app.vehicles.records import Record


class Decision(NamedTuple):
    """Where one column of the answer comes from."""

    column: str
    """The name of the member that the API answers with."""
    value: Any
    registers: tuple[str, ...]
    """Those that decided it, in the order of precedence; none if no register knows it."""
    why: str


class Explanation(NamedTuple):
    """One plate: its answer, what each register holds, and what led from these to that."""

    found: Found
    holdings: tuple[Holding, ...]
    choice: Choice | None
    decisions: tuple[Decision, ...]


class Explained(NamedTuple):
    """Explanations of one moment."""

    registers: tuple[str, ...]
    """All that were asked, in the order of precedence."""
    plates: list[Explanation]


def explain(
    engine: Engine,
    reader: VehicleReader,
    order: tuple[str, ...],
    asked: Sequence[str],
    day: str,
) -> Explained:
    """Look plates up and explain each answer; all from one state of the registers.

    Args:
        order: names of registers, the one that is believed first in front (D26).
        asked: plates as they were given.
        day: ISO date to judge by.

    Raises peewee.PeeweeException if a register cannot be read.
    """

    def read(state: str) -> Explained:
        registers = in_precedence(state, order)
        engine.attach_registers(registers)
        with engine.consistent_read():
            found = reader.look_up(state, asked, day)
            known = [each.registration for each in found if each.registration and each.record]
            held = holdings_of(engine, registers, known)
        plates = [_explanation(each, held, day, reader.mot_first_years) for each in found]
        return Explained(tuple(ref.name for ref in registers), plates)

    return with_current_registers(engine, read)


def _explanation(
    found: Found, holdings: Mapping[str, tuple[Holding, ...]], day: str, mot_first_years: int
) -> Explanation:
    if found.registration is None or found.record is None:
        return Explanation(found, (), None, ())
    held = holdings[found.registration]
    choice = choose_policy(held, day)
    return Explanation(
        found, held, choice, tuple(_decisions(found.record, held, choice, day, mot_first_years))
    )


def _decisions(
    record: Record,
    held: Sequence[Holding],
    choice: Choice | None,
    day: str,
    mot_first_years: int,
) -> Iterable[Decision]:
    yield _insured(record, held, choice, day)
    if choice is None:
        yield Decision("policy", None, (), "no register knows a policy")
    else:
        yield Decision("policy", choice.policy.number, (choice.register,), choice.why)
    for column in ("make", "model", "year", "color"):
        yield _first_known(held, column, column, getattr(record, column))
    yield _last_updated(record, held, choice)
    judgement = judge(record, day, mot_first_years)
    yield _mot(record, held, judgement.mot, mot_first_years)
    yield _tax(record, held, judgement.tax)
    yield _fines(held)


def _insured(record: Record, held: Sequence[Holding], choice: Choice | None, day: str) -> Decision:
    value = is_insured(record, day)
    if choice is not None:
        policy = choice.policy._asdict() | {"day": day}
        state = _STATES[policy_reason(choice.policy, day)].format(**policy)
        why = f"policy {choice.policy.number} of {choice.register} {state}"
        return Decision("insured", value, (choice.register,), why)
    flag = _first_known(held, "insured", "insured", value)
    if not flag.registers:
        return flag._replace(why="no register knows a policy or says whether it is insured")
    word = "insured" if value else "not insured"
    return flag._replace(why=f"{flag.registers[0]} says {word}, and no policy is known")


_STATES = {
    "valid": "is in force on {day}",
    "expired": "ended on {valid_to}",
    "cancelled": "was cancelled on {cancelled_on}",
    "future": "begins on {valid_from}",
}


def _first_known(held: Sequence[Holding], column: str, field: str, value: object) -> Decision:
    """Explain a column that the first register with a value decides (D26)."""
    known = [
        each.register
        for each in held
        if each.vehicle is not None and getattr(each.vehicle, field) is not None
    ]
    if not known:
        return Decision(column, value, (), "no register knows it")
    first, *others = known
    if not others:
        return Decision(column, value, (first,), f"only {first} knows it")
    why = f"{first} comes before {', '.join(others)} in the order of registers"
    return Decision(column, value, (first,), why)


def _last_updated(record: Record, held: Sequence[Holding], choice: Choice | None) -> Decision:
    """Explain the newest change among the vehicle rows and the policy answered (D21, D33)."""
    times = [(each.register, each.vehicle.updated) for each in held if each.vehicle is not None]
    what = "a vehicle row or the policy"
    if choice is not None:
        times.append((choice.register, choice.policy.updated))
    if not times:
        times = [(each.register, fine.updated) for each in held for fine in each.fines]
        what = "a fine, since nothing else is known"
    newest = {register for register, updated in times if updated == record.updated}
    registers = tuple(each.register for each in held if each.register in newest)
    return Decision("lastUpdated", record.updated, registers, f"the newest change of {what}")


def _mot(record: Record, held: Sequence[Holding], reason: str, first_years: int) -> Decision:
    """Explain the MOT: any exemption, else the latest expiry, else the first years (D22)."""
    is_valid = reason in ("valid", "exempt", "not_due")
    if reason == "unknown":
        return Decision("motValid", is_valid, (), "no register knows an expiry")
    if reason == "exempt":
        registers = _registers_with(held, "mot_exempt", True)
        return Decision("motValid", is_valid, registers, "any register can say exempt")
    if reason == "not_due":
        first = _first_known(held, "motValid", "first_registered", is_valid)
        years = f"{first_years} {'year' if first_years == 1 else 'years'}"
        why = f"first registered on {record.first_registered}, and no MOT is due for {years}"
        return first._replace(why=why)
    registers = _registers_with(held, "mot_expiry", record.mot_expiry)
    why = f"expiry {record.mot_expiry}, the latest that any register knows"
    return Decision("motValid", is_valid, registers, why)


def _registers_with(held: Sequence[Holding], field: str, value: object) -> tuple[str, ...]:
    return tuple(
        each.register
        for each in held
        if each.vehicle is not None and getattr(each.vehicle, field) == value
    )


def _tax(record: Record, held: Sequence[Holding], reason: str) -> Decision:
    """Explain the tax: status and due date of the first register that knows a status (D26)."""
    tax = _first_known(held, "roadTaxPaid", "tax_status", reason in ("valid", "exempt"))
    if not tax.registers:
        return tax._replace(why="no register knows a tax status")
    due = f", due {record.tax_due}" if record.tax_due else ""
    return tax._replace(why=f"{record.tax_status}{due}; {tax.why}")


def _fines(held: Sequence[Holding]) -> Decision:
    """Explain fines: one that is owed in any register is enough (D22)."""
    owed = [(each.register, fine) for each in held for fine in each.fines if not fine.settled]
    if not owed:
        return Decision("noOutstandingFines", True, (), "no register knows a fine that is owed")
    registers = tuple(dict.fromkeys(register for register, _ in owed))
    why = "one fine is owed" if len(owed) == 1 else f"{len(owed)} fines are owed"
    return Decision("noOutstandingFines", False, registers, why)
