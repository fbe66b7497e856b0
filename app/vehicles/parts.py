"""What the rows of one kind say about a plate, and the answer that the parts make together.

The answer about a plate depends on nothing but the three parts. So a change of one kind matters
only if it changes that kind's part.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from app.setting_values import EVERY_REGISTER
from app.vehicles.compliance import judge_insurance, judge_mot, judge_tax
from app.vehicles.facts import FineFacts, PolicyFacts, Record, VehicleFacts


class Answer(NamedTuple):
    """The answer about a plate: whether it is known, passes each check, and passes all of them."""

    known: bool
    insured: bool
    mot: bool
    tax: bool
    fines: bool
    compliant: bool


class Part(NamedTuple):
    """What the rows of one kind, in all registers, say about a plate; by itself: about any."""

    known: bool = False
    insured: bool = False
    mot: bool = False
    tax: bool = False
    fines: bool = True
    """Whether nothing is owed."""
    insurer: str | None = None
    """The insurer that covers the plate; None if it is not insured, or by no policy."""

    @property
    def answer(self) -> Answer:
        """What is answered if nothing else is known of the plate."""
        return Answer(*self[:5], compliant=all(self[1:5]))


UNKNOWN = Part(fines=False)
"""The answer about a plate that no register knows: it passes no check."""
NOTHING = Part()
"""The part of a kind of which no register has a row."""


def joined(vehicles: Part, policies: Part, fines: Part) -> Part:
    """Return the answer about a plate."""
    if not (vehicles.known or policies.known or fines.known):
        return UNKNOWN
    insurance = policies if policies.known else vehicles
    return Part(
        known=True,
        insured=insurance.insured,
        mot=vehicles.mot,
        tax=vehicles.tax,
        fines=fines.fines,
        insurer=insurance.insurer,
    )


def part_of_vehicles(
    held: Sequence[tuple[str, VehicleFacts]], day: str, mot_first_years: Mapping[str, int]
) -> Part:
    """Return the part of vehicle rows.

    Args:
        held: the registers that have a row, in the order of precedence.
        day: ISO date to judge by.
        mot_first_years: years after first registration before an MOT is due, by register (D154).
    """
    if not held:
        return NOTHING
    register = next((name for name, row in held if row.first_registered), "")
    years = mot_first_years.get(register, mot_first_years.get(EVERY_REGISTER, 0))
    facts = held[0][1] if len(held) == 1 else _merged([row for _, row in held])
    record = Record(
        registration="",
        insured=facts.insured,
        updated=facts.updated,
        policy=None,
        mot_expiry=facts.mot_expiry,
        mot_exempt=facts.mot_exempt,
        first_registered=facts.first_registered,
        tax_status=facts.tax_status,
        tax_due=facts.tax_due,
        mot_first_years=years,
    )
    return Part(
        known=True,
        insured=judge_insurance(record, day).is_good,
        mot=judge_mot(record, day).is_good,
        tax=judge_tax(record, day).is_good,
    )


def _merged(rows: Sequence[VehicleFacts]) -> VehicleFacts:
    """Merge the rows of a vehicle as the statement of a look-up does."""
    first: dict[str, Any] = {
        name: next((value for row in rows if (value := getattr(row, name)) is not None), None)
        for name in ("insured", "first_registered")
    }
    taxed = next((row for row in rows if row.tax_status is not None), rows[0])
    return rows[0]._replace(
        **first,
        mot_expiry=max((row.mot_expiry for row in rows if row.mot_expiry), default=None),
        mot_exempt=any(row.mot_exempt for row in rows),
        tax_status=taxed.tax_status,
        tax_due=taxed.tax_due,
    )


def part_of_policies(held: Iterable[Iterable[PolicyFacts]], day: str) -> Part:
    """Return the part of the policies of each register, in the order of precedence."""
    best: PolicyFacts | None = None
    rank: Any = None
    for policies in held:
        # Among equals the first register decides, within a register the insurer's name (D20).
        for policy in sorted(policies, key=_insurer):
            its = policy.rank(day)
            if best is None or its > rank:
                best, rank = policy, its
    if best is None:
        return NOTHING
    is_insured = best.is_in_force(day)
    return Part(known=True, insured=is_insured, insurer=best.insurer if is_insured else None)


def _insurer(policy: PolicyFacts) -> str:
    return policy.insurer


def part_of_fines(held: Iterable[Iterable[FineFacts]]) -> Part:
    """Return the part of the fines of each register."""
    settled = [fine.settled for fines in held for fine in fines]
    return Part(known=bool(settled), fines=all(settled))
